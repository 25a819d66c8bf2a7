"""What the terminal at hand can take, and the last gate before it."""

import os
import termios
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from tokenbench.text import visible

SMALLEST: Final = (60, 16)
"""Columns and rows below which a screen says what it needs instead of its layout."""
GLYPHS: Final[dict[str, str]] = {
    "▸": ">",
    "█": "#",
    "▌": "=",
    "▒": "#",
    "│": "|",
    "─": "-",
    "━": "-",
    "…": "~",
    "·": "-",
    "×": "x",
    "÷": "/",
    "≥": ">",
    "≤": "<",
    "±": "+",
    "–": "-",
    "—": "-",
    "’": "'",
    "‘": "'",
    "“": '"',
    "”": '"',
    "→": ">",
    "←": "<",
    "↑": "^",
    "↓": "v",
    "▁": "_",
    "▂": "_",
    "▃": "-",
    "▄": "-",
    "▅": "=",
    "▆": "=",
    "▇": "#",
    "▎": "|",
    "▍": "|",
    "▊": "|",
    "▏": "|",
    "▕": "|",
    "╭": "+",
    "╮": "+",
    "╰": "+",
    "╯": "+",
    "┌": "+",
    "┐": "+",
    "└": "+",
    "┘": "+",
}
"""The ASCII glyph set: each sign has the width of what it stands for."""


def is_there() -> bool:
    """Whether the terminal on standard input still answers; a dropped line does not always send a signal."""
    try:
        termios.tcgetattr(0)
    except termios.error:
        return False
    return True


def first_environment() -> Mapping[str, str]:
    """The environment that this process was started with.

    Python sets LC_CTYPE=C.UTF-8 for itself in a C locale (PEP 538), which says nothing of the terminal.
    """
    try:
        raw = Path("/proc/self/environ").read_bytes()
    except OSError:
        return os.environ
    pairs = (item.partition("=") for item in raw.decode(errors="surrogateescape").split("\0") if "=" in item)
    return {name: value for name, _, value in pairs}


def wants_ascii(environment: Mapping[str, str]) -> bool:
    """Whether only ASCII may be written: TOKENBENCH_ASCII=1, or a locale that is not UTF-8."""
    chosen = environment.get("TOKENBENCH_ASCII", "")
    if chosen:
        return chosen not in ("0", "no", "false")
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        value = environment.get(name, "")
        if value:
            return "utf8" not in value.lower().replace("-", "")
    return True


@lru_cache(4096)
def _ascii_sign(character: str) -> str:
    if character in GLYPHS:
        return GLYPHS[character]
    size = cell_len(character)
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return plain if len(plain) == size and plain.isprintable() else "?" * size


def to_ascii(text: str) -> str:
    """The text in ASCII, as wide as it was."""
    return text if text.isascii() else "".join(c if c.isascii() else _ascii_sign(c) for c in text)


class Gate(LineFilter):
    """Whatever a widget drew passes here last: no control reaches the terminal, and where asked nothing but ASCII.

    Screens clean each field before they join it; this gate is for what a toolkit widget or a mistake would let pass.
    """

    def __init__(self, *, ascii_only: bool) -> None:
        super().__init__()
        self._ascii_only = ascii_only

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Transform the segments of a line, keeping its width."""
        del background
        return [self._passed(segment) for segment in segments]

    def _passed(self, segment: Segment) -> Segment:
        text, style, control = segment
        if control or (text.isascii() and text.isprintable()):
            return segment
        clean = text if text.isprintable() else "".join(map(_one_cell, text))
        if self._ascii_only:
            clean = to_ascii(clean)
        return segment if clean == text else Segment(clean, style, control)


def _one_cell(character: str) -> str:
    """A sign of the same width for a character that may not be written."""
    if character in "\t\n":
        return " "
    shown = visible(character)
    if shown == character:
        return character
    size = cell_len(character)
    return shown if cell_len(shown) == size else "?" * size
