"""The one analyser: text to tokens, for documents and queries alike, whatever engine indexes them.

An identifier is kept whole and also split where its case, its underscores and its digits say so, and only then
folded to lower case: folding first would make `getUserById` one opaque word. Scripts that are written without spaces
become pairs of neighbouring characters. Engines index these tokens as they are, so they hold letters, digits,
combining marks of their script and `_`, and nothing else.
"""

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
from typing import Final

ANALYSER_VERSION: Final = 1
"""Goes into the template's hash: an index made by another analyser is stale."""
SENTINEL: Final = "tokenbench_empty_field"
"""Stands in a field that has no token. Engines count empty fields differently; with it they score alike. No text
gives this token."""
MAX_TOKEN: Final = 128
"""Characters. A longer run of letters and digits is data (a hash, base64), not a name, and gives no token."""
_MAX_PARTS: Final = 24
"""A piece that changes its case or kind more often than this is data; it is kept whole only."""

_RUN: Final = re.compile("[0-9A-Za-z_\u0080-\U0010ffff]+")
_ASCII_PARTS: Final = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_IGNORABLE: Final = dict.fromkeys(
    (0xAD, 0x34F, *range(0x180B, 0x1810), 0x200C, 0x200D, *range(0x2060, 0x2065), *range(0xFE00, 0xFE10), 0xFEFF)
)
"""Characters that join, hint or select a form; they are no part of a word. (Tables, because compiling a pattern of such
ranges costs each `xq` more than its search.)"""
_DIACRITICS: Final = dict.fromkeys(
    (
        *range(0x300, 0x370),
        *range(0x1AB0, 0x1B00),
        *range(0x1DC0, 0x1E00),
        *range(0x20D0, 0x2100),
        *range(0xFE20, 0xFE30),
    )
)
"""Marks that may be left out of a word without making it another one, unlike the vowel signs of Indic scripts."""
_WITHOUT_DECOMPOSITION: Final = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th"}
)
_SPACELESS: Final = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1100, 0x11FF),  # Hangul jamo
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),  # CJK radicals
    (0x3005, 0x3007),  # ideographic iteration mark, closing mark, zero
    (0x3021, 0x3029),  # Hangzhou numerals
    (0x3031, 0x318F),  # kana, Bopomofo, Hangul compatibility jamo
    (0x31A0, 0x31FF),  # Bopomofo and katakana extensions
    (0x3400, 0x4DBF),  # Han extension A
    (0x4E00, 0x9FFF),  # Han
    (0xA960, 0xA97F),  # Hangul jamo extended A
    (0xAC00, 0xD7FF),  # Hangul
    (0xF900, 0xFAFF),  # Han compatibility
    (0x1AFF0, 0x1B16F),  # kana supplements
    (0x20000, 0x323AF),  # Han extensions B to H
)


def tokens(text: str) -> list[str]:
    """The tokens of a text, in its order and as often as they occur; within one identifier each stands once.

    Never raises. Each token gives itself again: `t in tokens(t)`.

    Args:
        text: Anything: code, prose, a query; lone surrogates and controls separate words.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).translate(_IGNORABLE)
    found: list[str] = []
    for run in _RUN.findall(text):
        found.extend(_of_ascii(run) if run.isascii() else _of_any(run))
    return found


def indexed(text: str) -> str:
    """What an engine is given for a field: the tokens with spaces between them, or the sentinel."""
    return " ".join(tokens(text)) or SENTINEL


def fold(word: str) -> str:
    """A word in lower case and without diacritics; folding it again changes nothing."""
    if word.isascii():
        return word.lower()
    while True:
        bare = unicodedata.normalize("NFKD", word.casefold()).translate(_DIACRITICS)
        folded = unicodedata.normalize("NFKC", bare).translate(_WITHOUT_DECOMPOSITION)
        if folded == word:
            return folded
        word = folded


@lru_cache(maxsize=1 << 16)
def _of_ascii(run: str) -> tuple[str, ...]:
    found = _Identifier()
    found.add(run)
    for piece in run.split("_"):
        if len(piece) <= MAX_TOKEN:
            found.add(piece)
            found.add_parts(_ASCII_PARTS.findall(piece))
    return found.tokens()


@lru_cache(maxsize=1 << 16)
def _of_any(run: str) -> tuple[str, ...]:
    """The tokens of a run that holds other characters than ASCII: letters of any script, or signs that separate."""
    found: list[str] = []
    for clusters in _words(run):
        identifier = _Identifier()
        pieces = _pieces(clusters)
        if not (len(pieces) == 1 and _kind(pieces[0][0]) == "spaceless"):
            identifier.add("".join(clusters))
        for piece in pieces:
            if _kind(piece[0]) == "spaceless":
                identifier.add_pairs(piece)
            elif len(word := "".join(piece)) <= MAX_TOKEN:
                identifier.add(word)
                identifier.add_parts(_parts(piece))
        found.extend(identifier.tokens())
    return tuple(found)


class _Identifier:
    """Collects the tokens of one identifier, each once."""

    def __init__(self) -> None:
        self._tokens: dict[str, None] = {}

    def add(self, word: str) -> None:
        folded = fold(word)
        if len(folded) <= MAX_TOKEN and folded.strip("_") and folded != SENTINEL:
            self._tokens[folded] = None

    def add_parts(self, parts: list[str]) -> None:
        """Words and numbers of a piece, and each word with the number behind it: `oauth2` of `oauth2Client`."""
        if not 1 < len(parts) <= _MAX_PARTS:
            return
        for part, following in zip(parts, [*parts[1:], ""], strict=True):
            self.add(part)
            if following[:1].isdigit() and not part[:1].isdigit():
                self.add(part + following)

    def add_pairs(self, clusters: list[str]) -> None:
        if len(clusters) == 1:
            self.add(clusters[0])
        for first, second in pairwise(clusters):
            self.add(first + second)

    def tokens(self) -> tuple[str, ...]:
        return tuple(self._tokens)


def _kind(cluster: str) -> str:
    """What a character (with its marks) is within a word: `_`, digit, spaceless, upper, lower, or "" for none."""
    character = cluster[0]
    if character == "_":
        return "_"
    if not character.isalnum():
        return ""
    if character.isdigit():
        return "digit"
    code = ord(character)
    if any(first <= code <= last for first, last in _SPACELESS):
        return "spaceless"
    return "upper" if character.isupper() or character.istitle() else "lower"


def _words(run: str) -> list[list[str]]:
    """Words of a run, each a list of characters with the combining marks that belong to them."""
    words: list[list[str]] = [[]]
    for character in run:
        if unicodedata.category(character)[0] == "M":
            if words[-1] and words[-1][-1] != "_":
                words[-1][-1] += character
        elif _kind(character):
            words[-1].append(character)
        elif words[-1]:
            words.append([])
    return [word for word in words if word]


def _pieces(word: list[str]) -> list[list[str]]:
    """A word cut at underscores, and where a spaceless script begins or ends."""
    pieces: list[list[str]] = []
    previous = "_"
    for cluster in word:
        kind = _kind(cluster)
        if kind != "_":
            if previous == "_" or (kind == "spaceless") != (previous == "spaceless"):
                pieces.append([])
            pieces[-1].append(cluster)
        previous = kind
    return pieces


def _parts(piece: list[str]) -> list[str]:
    """A piece cut where its case or kind changes: an upper-case letter before a lower-case one begins a part."""
    kinds = [_kind(cluster) for cluster in piece]
    parts = [piece[0]]
    for index in range(1, len(piece)):
        before, here, after = kinds[index - 1], kinds[index], kinds[index + 1 : index + 2]
        begins = (
            (here == "digit") != (before == "digit")
            or (here == "upper" and before == "lower")
            or (here == "upper" and before == "upper" and after == ["lower"])
        )
        if begins:
            parts.append(piece[index])
        else:
            parts[-1] += piece[index]
    return parts
