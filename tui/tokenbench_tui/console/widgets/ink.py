"""Lines of text with named inks: what every screen is made of, before there is a terminal.

An ink names what a piece of text means; `theme.py` says how it looks. Nothing here parses markup, so text from a model
is text. Widths are in terminal cells.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from rich.cells import cell_len, set_cell_size

from tokenbench.text import visible

Ink = Literal["plain", "quiet", "strong", "good", "warn", "bad", "loud", "accent", "key", "bar"]
"""quiet: labels; strong: what one came to see; loud: a refusal or a banner; key: a key to press."""
INKS: Final[tuple[Ink, ...]] = ("plain", "quiet", "strong", "good", "warn", "bad", "loud", "accent", "key", "bar")

Span = tuple[str, Ink]
Line = tuple[Span, ...]
Align = Literal["left", "right"]

EMPTY: Final[Line] = ()
LONGEST: Final = 200_000
"""Characters of one text that are wrapped for the screen; what is cut is said."""


@dataclass(frozen=True, slots=True)
class Page:
    """Lines for one width, and what can be chosen among them."""

    lines: tuple[Line, ...] = ()
    keys: Mapping[int, object] = field(default_factory=dict[int, object])
    """What choosing a line means, by its index."""


class Pages:
    """Builds a page line by line."""

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self._keys: dict[int, object] = {}

    def add(self, *lines: Line, key: object | None = None) -> None:
        """Add lines; with a key, the first of them can be chosen."""
        if key is not None and lines:
            self._keys[len(self._lines)] = key
        self._lines.extend(lines)

    def done(self) -> Page:
        """The page."""
        return Page(tuple(self._lines), dict(self._keys))


def line(*parts: str | Span) -> Line:
    """A line of spans; a bare string is plain."""
    return tuple((part, "plain") if isinstance(part, str) else part for part in parts if part != "")


def width(spans: Line) -> int:
    """Cells that a line takes."""
    return sum(cell_len(text) for text, _ in spans)


def fit(text: str, cells: int, align: Align = "left") -> str:
    """The text in exactly that many cells: padded, or cut with a mark."""
    if cells <= 0:
        return ""
    length = cell_len(text)
    if length > cells:
        return fit(_cut(text, cells), cells)
    blank = " " * (cells - length)
    return blank + text if align == "right" else text + blank


def clip(spans: Line, cells: int) -> Line:
    """The line in at most that many cells, cut with a mark."""
    if width(spans) <= cells:
        return spans
    kept: list[Span] = []
    left = cells
    for text, ink in spans:
        length = cell_len(text)
        if length >= left:
            if left > 0:
                kept.append((_cut(text, left), ink))
            break
        kept.append((text, ink))
        left -= length
    return tuple(kept)


def merged(spans: Line) -> Line:
    """The line with as few spans as look the same: a span costs some thirty bytes on the way to the terminal.

    Blanks have no ink of their own, so they go with what stands before them.
    """
    kept: list[Span] = []
    for text, ink in spans:
        if kept and (ink == kept[-1][1] or text.isspace()):
            kept[-1] = (kept[-1][0] + text, kept[-1][1])
        elif kept and kept[-1][0].isspace():
            kept[-1] = (kept[-1][0] + text, ink)
        else:
            kept.append((text, ink))
    return tuple(kept)


def _cut(text: str, cells: int) -> str:
    """The beginning of the text and a mark. Half a number is another number: one that is cut goes as a whole."""
    if cells <= 1:
        return "…"
    kept = set_cell_size(text, cells - 1)
    if _IN_NUMBER.match(text[len(kept) :]):
        kept = _NUMBER_AT_END.sub("", kept)
    return kept.rstrip() + "…"


_NUMBER_AT_END: Final = re.compile(r"(?<![\w.,])[≥$-]*\d[\d.,]*$")
_IN_NUMBER: Final = re.compile(r"[.,]?\d")


def spread(left: Line, right: Line, cells: int) -> Line:
    """Two lines in one: the left one is cut where they do not both fit."""
    taken = width(right)
    if taken == 0:
        return clip(left, cells)
    room = cells - taken - 2
    if room < 8:
        return clip(left, cells)
    shown = clip(left, room)
    return (*shown, (" " * (cells - taken - width(shown)), "plain"), *right)


def join(parts: Iterable[Line], between: str = "  ") -> Line:
    """Lines in a row, with the empty ones left out."""
    spans: list[Span] = []
    for part in parts:
        if not part:
            continue
        if spans:
            spans.append((between, "plain"))
        spans.extend(part)
    return tuple(spans)


def wrap(text: str, cells: int, *, taken: int = 0) -> list[str]:
    """Hostile text as lines of at most that many cells: words are kept whole where they fit, nothing is swallowed.

    Args:
        text: As it came.
        cells: Width of a line.
        taken: Cells of the first line that something else has.
    """
    cells = max(2, cells)
    cut = len(text) - LONGEST
    shown = visible(text[:LONGEST])
    lines: list[str] = []
    for one in shown.split("\n"):
        lines.extend(_wrap_paragraph(one.expandtabs(4), cells, 0 if lines else min(taken, cells)))
    if cut > 0:
        lines.append(fit(f"({cut:,} more characters are in the transcript)", cells).rstrip())
    return lines


def _wrap_paragraph(text: str, cells: int, taken: int) -> list[str]:
    if cell_len(text) + taken <= cells:
        return [text]
    lines: list[str] = []
    current, used = "", taken
    for word in _pieces(text):
        size = cell_len(word)
        if used + size <= cells:
            current, used = current + word, used + size
            continue
        if word.isspace():
            lines.append(current)
            current, used = "", 0
            continue
        if current or used:
            lines.append(current.rstrip(" "))
            current, used = "", 0
        *full, current = _fold(word, cells)
        lines.extend(full)
        used = cell_len(current)
    if current or not lines:
        lines.append(current)
    return lines


def _pieces(text: str) -> list[str]:
    """Words and the blanks between them, in turn."""
    pieces: list[str] = []
    start = 0
    for index in range(1, len(text) + 1):
        if index == len(text) or (text[index] == " ") != (text[start] == " "):
            pieces.append(text[start:index])
            start = index
    return pieces


def _fold(word: str, cells: int) -> list[str]:
    parts: list[str] = []
    current, used = "", 0
    for character in word:
        size = cell_len(character)
        if used + size > cells:
            parts.append(current)
            current, used = "", 0
        current, used = current + character, used + size
    parts.append(current)
    return parts


def paragraph(label: Sequence[Span], text: str, cells: int, *, indent: int, ink: Ink = "plain") -> list[Line]:
    """Wrapped hostile text with a label before its first line and every further line indented below it."""
    taken = width(tuple(label)) - indent
    lines = wrap(text, cells - indent, taken=max(0, taken))
    head: Line = (*label, (" " * max(0, -taken), "plain"), (lines[0], ink))
    return [head, *(((" " * indent, "plain"), (rest, ink)) for rest in lines[1:])]
