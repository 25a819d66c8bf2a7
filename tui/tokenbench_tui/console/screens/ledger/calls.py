"""The table of a run's calls."""

from collections.abc import Callable, Sequence
from typing import Final

from tokenbench.ledger.model import CallRow
from tokenbench.text import one_line
from tokenbench_tui.console.widgets.ink import Line, Pages, Span, clip, fit, line


def _output(row: CallRow) -> str:
    return f"≥{row.tokens.output:,}" if row.output_is_partial else f"{row.tokens.output:,}"


Column = tuple[str, int, Callable[[CallRow], str]]
"""Title, cells, and what stands there."""
WRITE_5M: Final[Column] = ("write 5m", 9, lambda row: f"{row.tokens.cache_write_5m:,}")
WRITE_1H: Final[Column] = ("write 1h", 9, lambda row: f"{row.tokens.cache_write_1h:,}")
COLUMNS: Final[tuple[Column, ...]] = (
    ("call", 5, lambda row: str(row.number)),
    ("prompt", 10, lambda row: f"{row.tokens.billed_input:,}"),
    ("fresh", 8, lambda row: f"{row.tokens.input:,}"),
    WRITE_5M,
    WRITE_1H,
    ("read", 10, lambda row: f"{row.tokens.cache_read:,}"),
    ("out", 7, _output),
)
ROOM: Final = 74
"""Cells that all columns want, the names of tools included."""


def columns(rows: Sequence[CallRow], cells: int) -> tuple[Column, ...]:
    """The columns for that many cells: where they are few, a kind of cache write that no call made is left out."""
    unused = {
        column[0]
        for column, used in (
            (WRITE_5M, any(row.tokens.cache_write_5m for row in rows)),
            (WRITE_1H, any(row.tokens.cache_write_1h for row in rows)),
        )
        if not used and cells < ROOM
    }
    return tuple(column for column in COLUMNS if column[0] not in unused)


def add_calls(pages: Pages, rows: Sequence[CallRow], cells: int) -> None:
    """Add the table; each call can be chosen."""
    shown = columns(rows, cells)
    heads = "".join(fit(title, size, "right") for title, size, _ in shown)
    pages.add(clip(line((f" {heads}  then", "quiet")), cells))
    for row in rows:
        pages.add(_call_line(row, shown, cells), key=row.message_id)


def _call_line(row: CallRow, shown: Sequence[Column], cells: int) -> Line:
    values = "".join(fit(text(row), size, "right") for _, size, text in shown)
    then = ", ".join(one_line(name, 40) for name in row.then) or "answer"
    whose: Span = ("  in a subagent", "quiet") if row.parent is not None else ("", "plain")
    return clip(line(f" {values}  {then}", whose), cells)
