"""The table of a run's calls."""

from collections.abc import Callable, Sequence
from typing import Final

from tokenbench.ledger.model import CallRow
from tokenbench.ledger.warmth import Warmth, of_calls
from tokenbench.text import one_line
from tokenbench_tui.console import amounts
from tokenbench_tui.console.widgets.ink import Line, Pages, Span, clip, fit, line


def _output(row: CallRow) -> str:
    return f"≥{row.tokens.output:,}" if row.output_is_partial else f"{row.tokens.output:,}"


SECTION: Final = "section calls"
PREFIX: Final = "prefix"
"""Title of the column that says how warm the prefix of a call was."""
Column = tuple[str, Callable[[CallRow], str]]
"""Title, and what stands there."""
WRITE_5M: Final[Column] = ("write 5m", lambda row: f"{row.tokens.cache_write_5m:,}")
WRITE_1H: Final[Column] = ("write 1h", lambda row: f"{row.tokens.cache_write_1h:,}")
COLUMNS: Final[tuple[Column, ...]] = (
    ("call", lambda row: str(row.number)),
    ("prompt", lambda row: f"{row.tokens.billed_input:,}"),
    ("fresh", lambda row: f"{row.tokens.input:,}"),
    WRITE_5M,
    WRITE_1H,
    ("read", lambda row: f"{row.tokens.cache_read:,}"),
    ("out", _output),
)
ROOM: Final = 100
"""Cells from which on every column is shown."""


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
    if not rows:
        return
    shown = columns(rows, cells)
    values = [
        [text(row) for _, text in shown] + [_prefix(warm)] for row, warm in zip(rows, of_calls(rows), strict=True)
    ]
    titles = [*(title for title, _ in shown), PREFIX]
    sizes = [2 + max(len(title), *(len(row[place]) for row in values)) for place, title in enumerate(titles)]
    sizes[0] -= 1
    heads = "".join(fit(title, size, "right") for title, size in zip(titles, sizes, strict=True))
    pages.add(clip(line((f" {heads}  then", "quiet")), cells), key=SECTION)
    for row, texts in zip(rows, values, strict=True):
        cells_of_row = "".join(fit(text, size, "right") for text, size in zip(texts, sizes, strict=True))
        pages.add(_call_line(row, cells_of_row, cells), key=row.message_id)


def _prefix(warm: Warmth) -> str:
    """A word, or the share where it is neither."""
    if warm.word is None or warm.share is None:
        return amounts.UNKNOWN
    return amounts.percent(warm.share) if warm.word == "part" else warm.word


def _call_line(row: CallRow, values: str, cells: int) -> Line:
    then = ", ".join(one_line(name, 40) for name in row.then) or "answer"
    whose: Span = ("  in a subagent", "quiet") if row.parent is not None else ("", "plain")
    return clip(line(f" {values}  {then}", whose), cells)
