"""The numbers that an answer states, read as numbers.

`1256` is not 256, and neither are `256.5` and `0x256`; `1,256` may be read two ways; `1 << 8`, `two hundred and
fifty-six` and `16 K` may mean a number that is not written out. So there are three sets: what is stated beyond doubt,
what may be meant, and line numbers of citations.
"""

import bisect
import re
import unicodedata
from fractions import Fraction
from typing import Final, NamedTuple

LONGEST: Final = 40
"""Digits of the longest number that is compared."""


class Numbers(NamedTuple):
    """The numbers of one text."""

    stated: frozenset[Fraction]
    """Written out in digits, as the text's own statement."""
    possible: frozenset[Fraction]
    """Another reading: words, expressions, separators, units, parts of names."""
    cited: frozenset[Fraction]
    """Lines of citations: `core.py:1108-1120`, `lines 25-29`."""


_CHUNK: Final = re.compile(r"(?:(?<=\d[eE])[+-](?=\d)|[\w.,'])+")
_PLAIN: Final = re.compile(
    r"(?:\d+(?:_\d+)*|\d{1,3}(?:,\d{3})+)(?:\.\d+)?(?:[eE][+-]?\d{1,3})?[fFdDlLuU]{0,3}|\.\d+[fFdD]?"
)
_VALUE: Final = re.compile(r"(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d{1,3})?")
_BASED: Final = re.compile(r"0(?:[xX][0-9a-fA-F_]+|[bB][01_]+|[oO][0-7_]+)")
_WITH_LETTERS: Final = re.compile(r"(\d+(?:\.\d+)?)([^\W\d_]+)")
_LEADING: Final = re.compile(r"(\d+)\.[^\W\d_]")
_CITATION: Final = re.compile(
    r"[\w/-]\.[A-Za-z]\w{0,9}[`*]?[:#]L?\d+(?:-L?\d+)?(?:,\s?\d+(?:-\d+)?)*"
    r"|\b[Ll]ines?\s{1,3}\d+(?:\s?(?:-|,|to|and|through)\s?\d+)*"
)
_DIGITS: Final = re.compile(r"\d+")
_EXPRESSION: Final = re.compile(
    r"(?<![\w.,])\d+(?:[._]\d+)?"
    r"(?:\s{0,3}(?:<<|\*\*|[\^*/+×·-]|x(?=\s)|to the (?:power of )?)\s{0,3}\d+(?:[._]\d+)?){1,8}"
)
_PART: Final = re.compile(r"(<<|\*\*|[\^*/+×·x-]|to the)|(\d+(?:[._]\d+)?)")
_SCALED: Final = re.compile(
    r"(?<![\w.,])(\d+(?:\.\d+)?)[\s-]?(k|m|g|t|thousand|million|billion|trillion)(?:i?b|bytes)?\b", re.IGNORECASE
)
_SPACED: Final = re.compile(r"(?<![\w.,'])\d{1,3}(?:[ ']\d{3})+(?![\w])")
_DOTTED: Final = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+")
_PERCENT: Final = re.compile(r"(?<![\w.,])(\d+(?:\.\d+)?)\s?(?:%|percent\b)")

_UNITS: Final = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS: Final = (
    *("ten", "eleven", "twelve", "thirteen", "fourteen"),
    *("fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS: Final = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_WORDS: Final = {word: value for value, word in enumerate((*_UNITS, *_TEENS))} | {
    word: 10 * value for value, word in enumerate(_TENS, 2)
}
_GAP: Final = r"[\s-]{1,3}"
_UNIT: Final = f"(?:{'|'.join(_UNITS)})"
_SMALL: Final = f"(?:(?:{'|'.join(_TENS)})(?:{_GAP}{_UNIT})?|{'|'.join(_TEENS)}|{_UNIT})"
_BELOW_1000: Final = f"(?:(?:{_SMALL}|a){_GAP}hundred(?:{_GAP}(?:and{_GAP})?{_SMALL})?|{_SMALL})"
_SPOKEN: Final = re.compile(
    rf"\b(?:(?:{_BELOW_1000}|a){_GAP}thousand(?:{_GAP}(?:and{_GAP})?{_BELOW_1000})?|{_BELOW_1000})\b", re.IGNORECASE
)
_SCALES: Final[dict[str, tuple[int, ...]]] = {
    "k": (10**3, 2**10),
    "m": (10**6, 2**20),
    "g": (10**9, 2**30),
    "t": (10**12, 2**40),
    "thousand": (10**3,),
    "million": (10**6,),
    "billion": (10**9,),
    "trillion": (10**12,),
}


def spread(text: str) -> str:
    """Text in which NFKC glues no digits together: 2⁸ becomes 2^8 and not 28, 1½ not 11/2."""
    if text.isascii():
        return text
    return "".join(_spread(char) if unicodedata.category(char) == "No" else char for char in text)


def _spread(char: str) -> str:
    plain = unicodedata.normalize("NFKC", char)
    return "^" + plain if unicodedata.decomposition(char).startswith("<super>") else f" {plain} "


class _Reader:
    """Sorts the numbers of one text into the three sets."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.stated: set[Fraction] = set()
        self.possible: set[Fraction] = set()
        self.cited: set[Fraction] = set()
        self.citations = [match.span() for match in _CITATION.finditer(text)]
        self.grouped = [match.span() for match in _SPACED.finditer(text)]

    def read(self) -> Numbers:
        for start, end in self.citations:
            self.cited.update(_values(_DIGITS.findall(self.text, start, end)))
        for match in _CHUNK.finditer(self.text):
            if any(char.isdigit() for char in match.group()) and not _within(match.span(), self.citations):
                self._chunk(match.start(), match.group())
        for start, end in self.grouped:
            self.possible.update(_values([re.sub("[ ']", "", self.text[start:end])]))
        for match in _EXPRESSION.finditer(self.text):
            self.possible.update(_evaluated(match.group()))
        for match in _SCALED.finditer(self.text):
            self.possible.update(v * f for v in _values([match[1]]) for f in _SCALES[match[2].lower()])
        for match in _PERCENT.finditer(self.text):
            self.possible.update(v / 100 for v in _values([match[1]]))
        self.possible.update(_spoken(match.group()) for match in _SPOKEN.finditer(self.text))
        stated = frozenset(self.stated)
        return Numbers(stated, frozenset(self.possible) - stated, frozenset(self.cited) - stated)

    def _chunk(self, at: int, chunk: str) -> None:
        """One run of letters, digits and what may stand between digits; `at` is where it begins in the text."""
        trimmed = chunk.rstrip(".,'_")
        body = trimmed.lstrip(".,'_" if trimmed.startswith("..") else ",'_")
        at += len(trimmed) - len(body)
        if _PLAIN.fullmatch(body):
            self._plain(at, body, doubtful=trimmed[: -len(body)].endswith("_"))
        elif _BASED.fullmatch(body):
            digits = body.replace("_", "")
            if 2 < len(digits) <= LONGEST:
                self.stated.add(Fraction(int(digits, 0)))
        elif len(pieces := re.split(r"([,']|\.{2,})", body)) > 1:
            for piece in pieces:
                if any(char.isdigit() for char in piece):
                    self._chunk(at, piece)
                at += len(piece)
            self.possible.update(_values([body.replace("'", "").replace(",", ""), body.replace(",", ".")]))
        elif _DOTTED.fullmatch(body):
            self.possible.update(_values([body.replace(".", "")]))
        elif found := _WITH_LETTERS.fullmatch(body) or _LEADING.match(body):
            self.possible.update(_values([found[1]]))

    def _plain(self, at: int, body: str, *, doubtful: bool) -> None:
        """A number as such, with what stands before it: a minus sign, or a name such as `UTF-8` that it is part of."""
        readings = _values([body])
        before = self.text[max(0, at - 2) : at]
        beside = self.text[max(0, at - 1) : at] + self.text[at + len(body) : at + len(body) + 1]
        if before.endswith("-") and before[:1].isalpha():
            self.possible.update(sign * value for value in readings for sign in (1, -1))
        elif before.endswith("-") and not (before[0].isdigit() or before[0] in ")]_" or before == "--"):
            self.stated.update(-value for value in readings)
            self.possible.update(readings)
        elif doubtful or "\u2044" in beside or _within((at, at + len(body)), self.grouped):
            self.possible.update(readings)
        else:
            self.stated.update(readings)
        if "," in body:
            self.possible.update(_values([*body.split(","), body.replace(",", ".", 1)]))
        if _DOTTED.fullmatch(body):
            self.possible.update(_values([body.replace(".", "")]))


def numbers_in(text: str) -> Numbers:
    """The numbers of a text that has gone through `spread` and NFKC, and whose dashes are plain ones."""
    return _Reader(text).read()


def _within(span: tuple[int, int], spans: list[tuple[int, int]]) -> bool:
    """Whether the span overlaps one of these, which are in order and apart."""
    place = bisect.bisect_left(spans, span[1], key=lambda other: other[0]) - 1
    return place >= 0 and spans[place][1] > span[0]


def _values(texts: list[str]) -> list[Fraction]:
    """Those of the texts that are numbers, and not longer than can be compared."""
    values: list[Fraction] = []
    for text in texts:
        cleaned = text.replace(",", "").replace("_", "").rstrip("fFdDlLuU")
        if len(cleaned) <= LONGEST and _VALUE.fullmatch(cleaned):
            values.append(Fraction(cleaned))
    return values


def _evaluated(expression: str) -> list[Fraction]:
    """The values of a chain of operations, read from left to right, after each step."""
    values: list[Fraction] = []
    operator = ""
    for match in _PART.finditer(expression):
        if match[1]:
            operator = match[1]
            continue
        number = next(iter(_values([match[2]])), None)
        if number is None:
            break
        if not operator:
            values.append(number)
            continue
        result = _applied(operator, values[-1], number)
        if result is None:
            break
        values.append(result)
    return values[1:]


def _applied(operator: str, left: Fraction, right: Fraction) -> Fraction | None:
    whole = left.denominator == right.denominator == 1 and 0 <= right <= 64 and abs(left) < 10**6
    match operator:
        case "<<":
            return Fraction(int(left) << int(right)) if whole else None
        case "**" | "^" | "to the":
            return Fraction(int(left) ** int(right)) if whole else None
        case "*" | "×" | "·" | "x":
            return left * right
        case "/":
            return left / right if right else None
        case "+":
            return left + right
        case _:
            return left - right


def _spoken(words: str) -> Fraction:
    total = current = 0
    for word in re.findall(r"[a-z]+", words.lower()):
        if word == "hundred":
            current *= 100
        elif word == "thousand":
            total, current = current * 1000, 0
        elif word == "a":
            current = 1
        elif word != "and":
            current += _WORDS[word]
    return Fraction(total + current)
