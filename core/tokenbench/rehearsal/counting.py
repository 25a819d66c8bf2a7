"""How many tokens a text is, by a stated rule that shares nothing with a rate of characters per token.

The rule `pieces-1`, line by line, so that a text costs the sum of its lines and their line breaks:

- a line is *code* when it is indented by four columns or more, or when it holds at least one sign of code
  (`_(){}[]=<>/\\|&^%$@+*#;~`) for every eight letters; every other line is *prose*;
- a word is cut into pieces: in prose of up to 7 letters, in code first at changes of case and then of up to 4 letters;
- letters of other alphabets cost one token a pair, ideographs one each;
- digits cost one token for every three, every other sign one each;
- one blank is free, a longer run of blanks costs one token for every eight begun; tabs and line breaks cost one each.

Images cost (width × height) / 750, after they have been scaled to at most 1,568 pixels a side, as the API documents it;
an image whose size cannot be read costs 1,600.
"""

import base64
import binascii
import re
import struct
from math import ceil
from typing import Final, Protocol

_CODE_SIGNS: Final = re.compile(r"[_(){}\[\]=<>/\\|&^%$@+*#;~]")
_LETTERS: Final = re.compile(r"[^\W\d_]")
_CASES: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[A-Z]")
_PARTS: Final = re.compile(
    r"(?P<word>[A-Za-z]+)|(?P<digits>\d+)|(?P<blanks> +)|(?P<ideographs>[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+)"
    r"|(?P<letters>[^\W\d_A-Za-z]+)|(?P<sign>[\s\S])"
)
PROSE_PIECE: Final = 7
"""Letters that a piece of a word in prose has at most."""
CODE_PIECE: Final = 4
"""Letters that a piece of a word in code has at most."""
INDENT_OF_CODE: Final = 4
LETTERS_PER_SIGN: Final = 8
IMAGE_PIXELS_PER_TOKEN: Final = 750
IMAGE_LONGEST_SIDE: Final = 1568
IMAGE_OF_UNKNOWN_SIZE: Final = 1600


class Counter(Protocol):
    """Counts the tokens of a text; tests put a real tokenizer here."""

    @property
    def rule_name(self) -> str:
        """The name that the log gives the rule."""
        ...

    def text(self, text: str) -> int:
        """Tokens of a text, at least 0; the same text always costs the same."""
        ...


class PieceCounter:
    """The stated rule `pieces-1`."""

    @property
    def rule_name(self) -> str:
        return "pieces-1"

    def text(self, text: str) -> int:
        lines = text.split("\n")
        return len(lines) - 1 + sum(map(_line, lines))


def is_code(line: str) -> bool:
    """Whether a line without its line break is counted as code."""
    if len(line.expandtabs(INDENT_OF_CODE)) - len(line.expandtabs(INDENT_OF_CODE).lstrip(" ")) >= INDENT_OF_CODE:
        return True
    signs = len(_CODE_SIGNS.findall(line))
    return signs > 0 and signs * LETTERS_PER_SIGN >= len(_LETTERS.findall(line))


def _line(line: str) -> int:
    code = is_code(line)
    total = 0
    for part in _PARTS.finditer(line):
        text = part.group()
        match part.lastgroup:
            case "word" if code:
                total += sum(ceil(len(piece) / CODE_PIECE) for piece in _CASES.findall(text))
            case "word":
                total += ceil(len(text) / PROSE_PIECE)
            case "digits":
                total += ceil(len(text) / 3)
            case "blanks":
                total += 0 if len(text) == 1 else ceil(len(text) / 8)
            case "letters":
                total += ceil(len(text) / 2)
            case "ideographs":
                total += len(text)
            case _:
                total += 1
    return total


def image_tokens(data: str) -> int:
    """Tokens of an image by its size, which is read from its first bytes.

    Args:
        data: The image in base64: PNG, GIF, JPEG or WebP.
    """
    size = _image_size(data)
    if size is None:
        return IMAGE_OF_UNKNOWN_SIZE
    width, height = size
    shrink = min(1.0, IMAGE_LONGEST_SIDE / max(width, height, 1))
    return max(1, ceil(width * shrink * height * shrink / IMAGE_PIXELS_PER_TOKEN))


def _image_size(data: str) -> tuple[int, int] | None:
    """Width and height in pixels."""
    try:
        head = base64.b64decode(data[: 4 * 32768], validate=True)
    except (binascii.Error, ValueError):
        return None
    try:
        if head.startswith(b"\x89PNG\r\n\x1a\n"):
            return _pair(">II", head, 16)
        if head[:6] in {b"GIF87a", b"GIF89a"}:
            return _pair("<HH", head, 6)
        if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
            return _webp_size(head)
        if head.startswith(b"\xff\xd8"):
            return _jpeg_size(head)
    except (struct.error, IndexError):
        return None
    return None


def _pair(form: str, head: bytes, at: int) -> tuple[int, int]:
    first, second = struct.unpack_from(form, head, at)
    return int(first), int(second)


def _webp_size(head: bytes) -> tuple[int, int] | None:
    if head[12:16] == b"VP8 ":
        width, height = _pair("<HH", head, 26)
        return width & 0x3FFF, height & 0x3FFF
    if head[12:16] == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if head[12:16] == b"VP8X":
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    return None


def _jpeg_size(head: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 < len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            height, width = _pair(">HH", head, at + 5)
            return width, height
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return None
