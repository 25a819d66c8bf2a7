"""One row a cell: what stands in each column, and which columns a width has room for."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tokenbench.ledger import warmth as heat
from tokenbench.runner.rows import Row
from tokenbench.text import one_line
from tokenbench_tui.console import amounts
from tokenbench_tui.console.codes import MONEY
from tokenbench_tui.console.widgets.ink import Align, Ink, Line, Span, fit

OUTCOMES: Final = {"max_turns": "max turns", "max_budget": "max USD", "time_limit": "time limit"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table."""

    title: str
    cells: int
    align: Align
    needs: int
    """Width of the table from which on the column is shown."""
    text: Callable[[Row, float], Span]
    """From a row and the time (seconds since the epoch)."""


def warmth(share: float | None) -> str:
    """How warm the cache was at the first call: a word, or the share that was read from it."""
    word, part = heat.warmth(share)
    return amounts.percent(part) if word == "part" and part is not None else word or ""


def state(row: Row, now: float) -> Span:
    """A word and an ink for the state of a cell."""
    match row.state:
        case "running":
            return f"▸ {one_line(row.doing, 20)}", "accent"
        case "retry":
            wait = max(0.0, row.retry_at - now) if row.retry_at is not None else 0.0
            return f"retry {amounts.seconds(wait)}", "warn"
        case "ok":
            return "ok", "good"
        case "refused":
            return "REFUSED", "loud"
        case "quarantined":
            return "QUARANTINED", "loud"
        case "failed":
            return OUTCOMES.get(row.outcome or "", "failed"), "bad"
        case "cancelled":
            return "cancelled", "warn"
        case "infrastructure":
            return "gave up", "bad"
        case "waits":
            return ("again" if row.attempt else "waits"), "quiet"


def elapsed(row: Row, now: float) -> Span:
    """Wall time of the run."""
    if row.state == "running" and row.started is not None:
        return amounts.seconds(now - row.started), "plain"
    return (amounts.seconds(row.seconds), "plain") if row.done else ("", "plain")


def _billed(row: Row, _: float) -> Span:
    if row.tokens is None:
        return "", "plain"
    return amounts.tokens(row.tokens.billed_input, at_least=row.done and row.lower_bound), "plain"


def _output(row: Row, _: float) -> Span:
    if row.tokens is None:
        return "", "plain"
    # Streamed output counts are placeholders: only a reconciled run has one.
    return (amounts.UNKNOWN, "quiet") if row.lower_bound else (amounts.tokens(row.tokens.output), "plain")


def _cost(row: Row, _: float) -> Span:
    if row.tokens is None:
        return "", "plain"
    return (amounts.usd(row.cost_usd), "plain") if row.done else (amounts.UNKNOWN, "quiet")


def _why(row: Row, _: float) -> Span:
    codes = [code for code in row.codes if code not in MONEY]
    if codes:
        return one_line(" ".join(codes), 200), "bad"
    return one_line(row.reason or " ".join(row.codes), 200), "quiet"


def _flexible(title: str, text: Callable[[Row, float], Span], needs: int = 0) -> Column:
    return Column(title, 0, "left", needs, text)


COLUMNS: Final = (
    Column("arm", 11, "left", 0, lambda row, _: (one_line(row.arm, 40), "plain")),
    _flexible("question", lambda row, _: (one_line(row.question, 80), "plain")),
    Column("r", 2, "right", 0, lambda row, _: (str(row.repeat) if row.repeat else "", "plain")),
    Column("state", 11, "left", 0, state),
    Column("turns", 5, "right", 70, lambda row, _: ("" if row.turns is None else str(row.turns), "plain")),
    Column("billed in", 9, "right", 0, _billed),
    Column("out", 6, "right", 0, _output),
    Column("cost", 6, "right", 66, _cost),
    Column("cache", 5, "right", 76, lambda row, _: (warmth(row.read_share), "quiet")),
    Column(
        "prompt", 7, "right", 110, lambda row, _: ("" if row.prompt is None else amounts.tokens(row.prompt), "plain")
    ),
    Column("time", 6, "right", 96, elapsed),
    Column("try", 3, "right", 104, lambda row, _: (str(row.attempt) if row.attempt > 1 else "", "warn")),
    _flexible("why", _why, needs=120),
)


@lru_cache(64)
def layout(cells: int) -> tuple[tuple[Column, int], ...]:
    """The columns that this width has room for, each with its own width; what is left goes to the flexible ones."""
    shown = [column for column in COLUMNS if column.needs <= cells]
    flexible = [column for column in shown if column.cells == 0]
    room = cells - 2 - sum(column.cells for column in shown) - (len(shown) - 1)
    widths: list[tuple[Column, int]] = []
    for column in shown:
        size = column.cells
        if size == 0:
            share = (
                room // len(flexible)
                if column is not flexible[0]
                else room - room // len(flexible) * (len(flexible) - 1)
            )
            size = max(4, share)
        widths.append((column, size))
    return tuple(widths)


def row_line(row: Row, now: float, cells: int) -> Line:
    """A row for that many cells."""
    spans: list[Span] = [(" ", "plain")]
    for column, size in layout(cells):
        text, ink = column.text(row, now)
        if row.state == "waits" and ink == "plain":
            ink = "quiet"
        spans.append((fit(text, size, column.align) + " ", ink))
    return tuple(spans)


def heading(cells: int) -> Line:
    """The titles of the columns."""
    return ((" ", "quiet"), *((fit(column.title, size, column.align) + " ", _QUIET) for column, size in layout(cells)))


_QUIET: Final[Ink] = "quiet"
