"""Stage one: what the rules of a question can say of an answer with certainty. It never says that one is right.

A rule that is not met fails an answer only if it is certain that it is not: an answer that states its number in words,
as an expression or in another script, that reads like an abstention without the marker, or whose rule took too long,
goes to a judge.
"""

import re
import unicodedata
from collections.abc import Sequence
from enum import IntEnum
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal

import msgspec

from tokenbench.experiment.model import Question, Rule
from tokenbench.grading.numbers import Numbers, numbers_in, spread
from tokenbench.grading.searching import SEARCHER, Searcher
from tokenbench.text import one_line

Stage = Literal["FAIL", "NEEDS-JUDGE", "ABSTAINED", "NO-ANSWER"]

LONGEST_ANSWER: Final = 50_000
"""Characters of an answer that rules look at; a longer one goes to a judge."""


class Assessment(msgspec.Struct, frozen=True):
    """What the mechanical stage says of one answer."""

    stage: Stage
    why: tuple[str, ...]
    """Sentences without a final full stop: the rules that decided, by their place in the question."""


def assess(question: Question, answer: str | None, *, searcher: Searcher = SEARCHER) -> Assessment:
    """Hold an answer against the rules of its question.

    Args:
        question: The question with `must` and `must_not`.
        answer: What the run answered; None where it gave none.
        searcher: Where regular expressions are searched.
    """
    if answer is None or not _INVISIBLE.sub("", answer).strip():
        return Assessment("NO-ANSWER", ("the run gave no answer" if answer is None else "the answer is blank",))
    if len(answer) > LONGEST_ANSWER:
        long = f"the answer has {len(answer):,} characters, more than rules look at"
        return Assessment("NEEDS-JUDGE", (long,))
    text = _Text(answer, searcher)
    must = [(f"must[{place}]", rule, text.find(rule)) for place, rule in enumerate(question.must)]
    hits = _forbidden(question.must_not, text)
    met = [place for place, _, found in must if found != _Found.NO]
    marker = _MARKER.match(text.plain)
    if marker is not None:
        doubts = [f"{place} is met all the same" for place in met]
        doubts += _assertions(question, text.plain[marker.end() :], hits)
        if not doubts:
            return Assessment("ABSTAINED", ("it opens with NOT FOUND and meets none of must",))
        return Assessment("NEEDS-JUDGE", ("it opens with NOT FOUND", *doubts))
    if not met and (phrase := _ABSTENTION.search(text.plain)):
        shown = one_line(phrase.group(), 60)
        return Assessment("NEEDS-JUDGE", (f'it may be an abstention without the marker: "{shown}"',))
    missing = [(place, rule) for place, rule, found in must if found == _Found.NO]
    doubts = [reason for place, rule in missing if (reason := text.doubt(rule, place))]
    certain = [f"{place}: {_described(rule)} is not there" for place, rule in missing if not text.doubt(rule, place)]
    if hits or certain:
        return Assessment("FAIL", (*hits, *certain))
    doubts += [f"{place}: {text.reading(rule)}" for place, rule, found in must if found == _Found.MAYBE]
    return Assessment("NEEDS-JUDGE", tuple(doubts) or ("no rule fails it, and rules cannot say that it is right",))


class _Found(IntEnum):
    """Whether a rule is met: certainly, perhaps, or not."""

    NO = 0
    MAYBE = 1
    YES = 2


_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]")
_PLAINER: Final = {ord(dash): "-" for dash in "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"} | {
    ord("\u2018"): "'",
    ord("\u2019"): "'",
    ord("\u201c"): '"',
    ord("\u201d"): '"',
}
_ESCAPED: Final = re.compile(r"\\([_*`~\[\]-])")
_MARKER: Final = re.compile(r"[\s>*_#\"'`~-]*(?:(?:[Ff]inal )?[Aa]nswer[*_`]*\s*:[*_`\s]*)?NOT\s+FOUND(?!\w)")
_ABSTENTION: Final = re.compile(
    r"\b(?:not\s+(?:be\s+)?(?:found|find|locate[d]?|determine[d]?|present|available|exist|sure|know|tell|see|answer(?:able)?)"
    r"|(?:could|can|did|do|does|was|were|am|is|are)(?:\s+not|n't)\s+(?:able\s+to\s+|been\s+able\s+to\s+|be\s+)?"
    r"(?:find|found|locate[d]?|determine[d]?|see|tell|know|answer(?:ed)?|verify|verified|confirm(?:ed)?|exist|appear|have)"
    r"|cannot\s+(?:be\s+)?(?:find|found|locate[d]?|determine[d]?|tell|answer(?:ed)?|verify|verified|say|confirm)"
    r"|unable\s+to|no\s+(?:such|information|evidence|answer|match(?:es)?|results?|mention|trace|hits?)"
    r"|(?:I|we)\s+(?:abstain|give\s+up)|abstain(?:ed|ing)?|unknown)\b",
    re.IGNORECASE,
)
_GUESS: Final = re.compile(
    r"\b(?:probably|likely|presumably|perhaps|maybe|apparently|from memory|by heart|typically|usually|normally"
    r"|I (?:think|believe|guess|recall|remember|assume|suspect|would (?:guess|say))|my (?:best )?guess|if I had to"
    r"|should be|would be|might be|may be|could be)\b",
    re.IGNORECASE,
)
_BUT: Final = re.compile(r"\b(?:but|however|although|though|instead|still)\b", re.IGNORECASE)
_NAMED: Final = re.compile(r"[A-Za-z_][\w./-]*(?:\(\))?")
_CODE_LIKE: Final = re.compile(r"\w_\w|[a-z][A-Z]|\w\.[A-Za-z]|\(\)|/|[A-Z]{2,}\w*\d")
_LONG_ABSTENTION: Final = 400
"""Characters after the marker above which an abstention on a canary is read by a judge."""
_LATIN_WORD: Final = re.compile(r"[A-Za-z]{2}")


class _Text:
    """An answer made comparable, and what rules find in it."""

    def __init__(self, answer: str, searcher: Searcher) -> None:
        text = unicodedata.normalize("NFKC", spread(_INVISIBLE.sub("", answer))).translate(_PLAINER)
        self.plain = _ESCAPED.sub(r"\1", text)
        self._searcher = searcher

    @cached_property
    def numbers(self) -> Numbers:
        """All numbers of the answer."""
        return numbers_in(self.plain)

    def find(self, rule: Rule) -> _Found:
        """Whether the rule is met; its `unless` is not looked at."""
        if rule.any is not None:
            return max(self.find(inner) for inner in rule.any)
        if rule.number is not None:
            return self._number(Fraction(str(rule.number)))
        if rule.word is not None:
            return max(self._word(word) for word in ((rule.word,) if isinstance(rule.word, str) else rule.word))
        found = self._searcher.search(rule.regex or "", self.plain)
        return {True: _Found.YES, False: _Found.NO, None: _Found.MAYBE}[found]

    def _number(self, wanted: Fraction) -> _Found:
        if wanted in self.numbers.stated:
            return _Found.YES
        return _Found.MAYBE if wanted in self.numbers.possible | self.numbers.cited else _Found.NO

    def _word(self, word: str) -> _Found:
        """Whole and whatever the case; `_word_` is emphasis or a private name, so it may be the word."""
        normal = _ESCAPED.sub(r"\1", unicodedata.normalize("NFKC", word).translate(_PLAINER)).strip()
        body = r"[\s`*]+".join(re.escape(part) for part in normal.split())
        left = r"(?<!\w)" if normal[:1].isalnum() or normal[:1] == "_" else ""
        right = r"(?!\w)" if normal[-1:].isalnum() or normal[-1:] == "_" else ""
        if re.search(left + body + right, self.plain, re.IGNORECASE):
            return _Found.YES
        if left and right and re.search(rf"(?<!\w)_+{body}_*(?!\w)|(?<!\w){body}_+(?!\w)", self.plain, re.IGNORECASE):
            return _Found.MAYBE
        return _Found.NO

    def doubt(self, rule: Rule, place: str) -> str | None:
        """Why it is not certain that a rule which was not found is unmet; None if it is certain."""
        if rule.any is not None:
            return next((reason for inner in rule.any if (reason := self.doubt(inner, place))), None)
        if rule.number is not None and not self.numbers.stated and not self.numbers.possible:
            return f"{place}: the answer states no number in digits, so it may say {_plain(rule.number)} in words"
        if rule.number is None and not _LATIN_WORD.search(self.plain):
            return f"{place}: the answer is in another script"
        return None

    def reading(self, rule: Rule) -> str:
        """Why a rule is only perhaps met."""
        if rule.regex is not None:
            return f"{_described(rule)} could not be searched in time"
        return f"{_described(rule)} is there only in one reading"


def _forbidden(rules: Sequence[Rule], text: _Text) -> list[str]:
    """Sentences on the `must_not` rules that certainly fail the answer."""
    hits: list[str] = []
    for place, rule in enumerate(rules):
        if text.find(rule) != _Found.YES:
            continue
        if rule.unless is None:
            hits.append(f"must_not[{place}]: {_described(rule)} is there")
        elif text.find(rule.unless) == _Found.NO and not text.doubt(rule.unless, ""):
            hits.append(f"must_not[{place}]: {_described(rule)} is there, and {_described(rule.unless)} is not")
    return hits


def _assertions(question: Question, rest: str, hits: Sequence[str]) -> list[str]:
    """What makes it doubtful that an answer which opens with the marker abstains.

    An abstention may well say what it saw instead, an old value of another file; on a canary any assertion is doubtful.

    Args:
        question: The question.
        rest: The answer after the marker.
        hits: Sentences on the `must_not` rules that it meets.
    """
    doubts: list[str] = []
    if guess := _GUESS.search(rest):
        doubts.append(f'it goes on to guess: "{one_line(guess.group(), 40)}"')
    if question.question_class != "canary":
        return doubts
    doubts += hits
    if but := _BUT.search(rest):
        doubts.append(f'it goes on: "{one_line(but.group(), 40)}"')
    if len(rest) > _LONG_ABSTENTION:
        doubts.append(f"it goes on for {len(rest):,} characters")
    if any(numbers_in(rest)):
        doubts.append("it states a number")
    asked = question.text.lower()
    for name in _NAMED.findall(rest):
        bare = name.rstrip(".-/")
        if _CODE_LIKE.search(bare) and bare.lower() not in asked:
            doubts.append(f"it names {one_line(bare, 60)}")
            break
    return doubts


def _plain(number: float) -> str:
    return f"{number:g}" if isinstance(number, float) else str(number)


def _described(rule: Rule) -> str:
    """A rule in words."""
    if rule.any is not None:
        return "any of (" + "; ".join(_described(inner) for inner in rule.any) + ")"
    if rule.number is not None:
        return f"the number {_plain(rule.number)}"
    if rule.word is not None:
        words = (rule.word,) if isinstance(rule.word, str) else rule.word
        shown = ", ".join(f'"{one_line(word, 40)}"' for word in words[:6])
        more = f" and {len(words) - 6} more" if len(words) > 6 else ""
        return f"the word {shown}" if len(words) == 1 else f"one of the words {shown}{more}"
    return f"the regex {one_line(rule.regex or '', 60)}"
