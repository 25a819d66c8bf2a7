"""Text from a model, a tool or a file is hostile: nothing here reaches a terminal raw.

Controls are shown, never deleted: `256<BS><BS><BS>128` must not be read as `256128`.
"""

import re
from typing import Final

_PICTURES: Final = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "\u2421"}
_ASCII: Final = {code: f"<{code:02X}>" for code in (*range(0x20), *range(0x7F, 0xA0))}
_INVISIBLE: Final = (
    "\u00ad\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e"
    "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\u206a\u206b\u206c\u206d\u206e\u206f\ufeff\ufff9\ufffa\ufffb"
)
_HOSTILE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f" + _INVISIBLE + "\ud800-\udfff\ue000-\uf8ff\U000e0000-\U000e0fff]"
)
_CR_LF: Final = re.compile("\r\n")


def _shown(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code in _PICTURES:
        return _PICTURES[code]
    return _ASCII.get(code) or f"<{code:04X}>"


def visible(text: str) -> str:
    """Text that may be written to a terminal: tab and newline stay, every other control is shown as a sign."""
    return _HOSTILE.sub(_shown, _CR_LF.sub("\n", text))


def one_line(text: str, limit: int | None = None) -> str:
    """Text for one line of a table: controls shown, white space folded, cut at `limit` characters with a mark."""
    if limit is not None:
        text = text[: 4 * limit + 64]
    folded = " ".join(visible(text).split())
    if limit is None or len(folded) <= limit:
        return folded
    return folded[: max(0, limit - 1)] + "…"
