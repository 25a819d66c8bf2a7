"""What is published of an experiment, and its JSON (`results --json`, `runs/results.json`; docs/results.md).

Every number that could be doubted is a `Figure` or a `Refusal`. The bytes are a function of the experiment's files: no
time, no path of the machine and no dictionary order of chance is in them.
"""

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Literal, TypeVar, cast

import msgspec

from tokenbench.experiment.composition import Composition
from tokenbench.experiment.model import QuestionClass
from tokenbench.figures import Code, Figure, Published, Refusal
from tokenbench.ledger.model import Tokens

T = TypeVar("T")
Reading = Literal["fewer", "more", "not distinguishable"]
"""What an interval of a ratio says: below 1, above 1, or spanning it."""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What the figures are about."""

    name: str
    models: tuple[str, ...]
    """Models asked for, each once."""
    arms: tuple[str, ...]
    """In the order in which they are to be shown: baseline first, headline arm second."""
    baseline: str
    headline_arm: str
    questions: int
    classes: Mapping[QuestionClass, int]
    """Questions of each class."""
    repeats: int
    cells: int
    counted: int
    """Cells that have a run that counts."""
    corpus: str
    """Where it comes from: `click==8.1.8`, or the folder's name."""
    composition: Composition | None
    """None where it was never measured."""
    opened: bool
    """Whether the mapping was opened, so that grades may be shown."""
    judges: tuple[str, ...]


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """An arm against the baseline."""

    tokens_per_correct: Published
    reading: Reading | None
    """None where the ratio is refused."""
    both_correct: Published
    """Mean tokens of right answers, over the questions that both got right at least once."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Answers by what they are worth; canaries are not among them."""

    runs: int
    correct: int
    wrong: int
    abstained: int
    no_answer: int
    """Runs that reached a limit or ended without an answer: they count as not correct."""
    unknown: int
    unjudged: int


class Accuracy(msgspec.Struct, frozen=True, kw_only=True):
    """Three shares that never share a denominator."""

    correct_of_all: Published
    """Of all answerable runs; unknown ones stand in neither number, their bounds are in the interval."""
    correct_of_answered: Published
    """Of those that committed to an answer."""
    abstained_of_all: Published
    counts: Counts | None
    """None while the mapping is closed."""


class Breakdown(msgspec.Struct, frozen=True, kw_only=True):
    """One arm on one class or question. Descriptive: too few questions for an interval."""

    tokens_per_correct: Published
    ratio: Published | None
    """To the baseline; None for the baseline itself."""
    median_tokens: Published
    correct: Published
    """Correct answers."""
    runs: int


class Medians(msgspec.Struct, frozen=True, kw_only=True):
    """The middle run of an arm."""

    tokens: Published
    seconds: Published
    turns: Published


class Effort(msgspec.Struct, frozen=True, kw_only=True):
    """What is not tokens."""

    turns: Published
    """Mean model calls of the main loop a run."""
    seconds_per_correct: Published
    """Wall time of all counted runs over correct answers."""


class Apart(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts that infrastructure or an operator ended: shown, and never counted."""

    attempts: int
    tokens: Published
    """Of the attempts; an estimate where one could not be reconciled or read: what was seen, a lower bound."""
    tokens_per_correct: Published
    """The headline with the attempts' tokens on top."""


class Dollars(msgspec.Struct, frozen=True, kw_only=True):
    """USD, as the agent CLI reckons it, and what that would be with other caches: sidecars left out."""

    total: Published
    per_correct: Published
    cache_neutral: Published
    """All input at the price of fresh input; search fees are in it."""
    cold: Published
    """Each run replayed from an empty cache."""
    warm: Published
    """Each run replayed from the cache that it leaves itself."""


class Abstention(msgspec.Struct, frozen=True, kw_only=True):
    """What an arm does when it should not answer."""

    k: int
    score: Published
    """+1 a correct answer, -k a wrong one, 0 an abstention or no answer, -k a canary that was attempted."""
    canary_violations: Published
    """Of the canary runs: any attempt, right or wrong."""
    canary_abstained: Published


class JudgeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One judge."""

    name: str
    model: str | None
    scripted: bool
    verdicts: int
    not_blind: int
    stale: int
    tokens: Published | None
    """What a model judge cost, apart from every arm; None for a person."""


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """How far the judges agree."""

    judges: tuple[JudgeRow, ...]
    raw: Published
    """Share of the answers with several verdicts on which all are the same."""
    disputed: tuple[str, ...] | None
    """Cells whose judges are split; None while the mapping is closed."""
    problems: tuple[str, ...]
    """Lines of verdict files that could not be used."""


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """One counted run."""

    cell: str
    outcome: str
    token_reconciled: bool | None
    cost_reconciled: bool | None
    tokens: Tokens | None
    """None where refused."""
    lower_bound: Tokens
    turns: int
    seconds: float
    cost_usd: Decimal | None
    codes: tuple[str, ...]
    """Of the run's refusals."""
    result: str | None
    """What the answer is worth; None while the mapping is closed, or unjudged."""
    stage: str | None
    """What the mechanical stage said; None while the mapping is closed."""
    by: str | None


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """All that is published of an experiment."""

    experiment: Subject
    seal: str | None
    """sha256 of seal.json; None where there is none."""
    banners: tuple[Refusal, ...]
    """What a reader has to know beside every figure; SCRIPTED-MODEL stands first."""
    headline: Mapping[str, Published]
    """Tokens per correct answer, by arm."""
    ratios: Mapping[str, Ratio]
    """To the baseline, by arm; the baseline itself is not here."""
    accuracy: Mapping[str, Accuracy]
    medians: Mapping[str, Medians]
    effort: Mapping[str, Effort]
    by_class: Mapping[QuestionClass, Mapping[str, Breakdown]]
    by_question: Mapping[str, Mapping[str, Breakdown]]
    shares: Mapping[str, Published]
    """By arm: of the median run's billed input, what results of searching, reading, listing and retrieval are. An
    estimate; its interval is the bound of the estimate, not a confidence interval."""
    parts: Mapping[str, Mapping[str, Published]]
    """By arm and group of parts (`findings.shares.GROUPS`), likewise."""
    cost: Mapping[str, Dollars]
    abstention: Mapping[str, Abstention]
    apart: Mapping[str, Apart]
    agreement: Agreement
    hypotheses: tuple[Any, ...]
    """None can be written into tokenbench.toml yet, so there are none."""
    runs: tuple[RunRow, ...]

    def banner(self, code: str) -> Refusal | None:
        """The first banner of this code."""
        return next((banner for banner in self.banners if banner.code == code), None)


_CODED_ONLY: Final = "refused"


def plain(value: object) -> Any:
    """A value as JSON types: figures and refusals in their public shapes, money as text, infinity as `"inf"`."""
    match value:
        case Figure():
            return {
                "value": plain(value.value),
                "unit": value.unit,
                "basis": value.basis,
                "interval": None if value.interval is None else [plain(bound) for bound in value.interval],
                "runs": list(value.runs),
                **({"codes": [str(code) for code in value.codes]} if value.codes else {}),
            }
        case Refusal():
            return {_CODED_ONLY: {name: plain(getattr(value, name)) for name in value.__struct_fields__}}
        case msgspec.Struct():
            return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
        case Decimal():
            return format(value, "f")
        case Enum():
            return value.value
        case float() if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        case Mapping():
            return {str(key): plain(item) for key, item in cast("Mapping[object, object]", value).items()}
        case tuple() | list():
            return [plain(item) for item in cast("tuple[object, ...]", value)]
        case _:
            return value


def marked(value: T, code: Code, cells: frozenset[str]) -> T:
    """The same, with this code on every figure that comes from one of these cells."""
    return cast("T", _marked(value, code, cells))


def _marked(value: object, code: Code, cells: frozenset[str]) -> object:
    match value:
        case Figure():
            return value if cells.isdisjoint(value.runs) else msgspec.structs.replace(value, codes=(*value.codes, code))
        case Refusal():
            return value
        case msgspec.Struct():
            fields = {name: _marked(getattr(value, name), code, cells) for name in value.__struct_fields__}
            return msgspec.structs.replace(value, **fields)
        case Mapping():
            return {key: _marked(item, code, cells) for key, item in cast("Mapping[object, object]", value).items()}
        case tuple():
            return tuple(_marked(item, code, cells) for item in cast("tuple[object, ...]", value))
        case _:
            return value


def to_json(results: Results) -> bytes:
    """The bytes of results.json: one object, indented, the same for the same files on every machine."""
    return (json.dumps(plain(results), ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode(
        "utf-8", "surrogatepass"
    )
