"""What is left of an experiment will cost about this much, and can show about that much: estimates, before a start.

A forecast stands on runs of the same arm that were measured: those that count, else its warm-ups, which ask less than a
question does. It is never a result, and the headline never rests on it.
"""

import math
import statistics as _statistics
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from tokenbench.experiment.model import Cell, Loaded
from tokenbench.figures import Code, Figure, Published, Refusal, refuse
from tokenbench.findings.statistics import student_t
from tokenbench.grading.counted import LEDGERS, Counted, Ledgers, gather, warmups
from tokenbench.ledger.model import Ledger
from tokenbench.transcripts.evidence import Record

_CONFIDENT: Final = 0.975
_POWER: Final = 0.8
"""The share of repetitions of the experiment in which a difference of that size is to be found."""
_QUESTIONS: Final = 3
"""Fewer questions have no spread worth the name."""


class ArmForecast(msgspec.Struct, frozen=True, kw_only=True):
    """What the open cells of one arm will take."""

    arm: str
    cells: int
    open: int
    """Cells without a run that counts."""
    measured: int
    """Runs that the forecast stands on."""
    warmups_only: bool
    """None of them answered a question of the experiment."""
    tokens: Published
    usd: Published
    seconds: Published
    """Of agents at work, one after the other."""


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of the whole experiment."""

    arms: tuple[ArmForecast, ...]
    tokens: Published
    usd: Published
    seconds: Published
    """On the clock, with as many runs at a time as the experiment allows."""
    detectable: Mapping[str, Published]
    """By arm: the smallest saving of tokens against the baseline, as a share, that all planned questions together would
    tell from none in four of five such experiments."""
    over: tuple[str, ...]
    """Limits of the experiment that it would reach, a sentence each."""


class _Run(NamedTuple):
    record: Record
    ledger: Ledger

    @property
    def tokens(self) -> float | None:
        tokens = self.ledger.tokens
        return tokens.total if tokens is not None and self.ledger.token_reconciled else None

    @property
    def usd(self) -> float | None:
        cost = self.ledger.cost_usd.reported
        return float(cost) if cost is not None else None

    @property
    def seconds(self) -> float:
        return max(0.0, self.record.ended - self.record.started)


def forecast(loaded: Loaded, ledgers: Ledgers = LEDGERS) -> Forecast:
    """Estimate what the cells without a run that counts will take, from the runs that there are.

    Args:
        loaded: The experiment.
        ledgers: What this process has read already.
    """
    counted = gather(loaded, ledgers)
    warm: dict[str, list[_Run]] = {arm: [] for arm in loaded.config.arms}
    for run in warmups(loaded, ledgers):
        if run.record.outcome == "answered":
            warm[run.arm].append(_Run(run.record, run.ledger))
    arms = tuple(_arm(arm, counted, runs, loaded.questions[0].id) for arm, runs in warm.items())
    at_once = loaded.config.experiment.concurrency
    clock = _total([arm.seconds for arm in arms])
    if isinstance(clock, Figure):
        bounds = clock.interval
        clock = msgspec.structs.replace(
            clock,
            value=float(clock.value) / at_once,
            interval=(bounds[0] / at_once, bounds[1] / at_once) if bounds is not None else None,
        )
    found = Forecast(
        arms=arms,
        tokens=_total([arm.tokens for arm in arms]),
        usd=_total([arm.usd for arm in arms]),
        seconds=clock,
        detectable=_detectable(loaded, counted),
        over=(),
    )
    return msgspec.structs.replace(found, over=_over(loaded, counted, found))


def _arm(arm: str, counted: Counted, warm: Sequence[_Run], first: str) -> ArmForecast:
    cells = [cell for cell in counted.planned if cell.arm == arm]
    own = [
        _Run(run.record, run.ledger)
        for cell in cells
        if (run := counted.runs.get(cell)) is not None and not run.quarantined
    ]
    runs = own or warm
    left = sum(cell not in counted.runs for cell in cells)
    scripted = any(run.record.scripted for run in runs)

    def estimate(values: Sequence[float | None], unit: str, whole: bool = False) -> Published:
        known = [value for value in values if value is not None]
        if not left:
            return Figure(value=0 if whole else 0.0, unit=unit, basis="estimate")
        if not known:
            return refuse(
                Code.TOO_FEW,
                f"{arm}: {len(runs)} runs measured",
                reason=f"Nothing was measured of arm {arm} yet that its {unit} could be estimated from",
                remedy=f"Run the first question: `tokenbench-tui run --only question={first} repeat=1`; its runs "
                "count, and are not made again",
            )
        mean, low, high = _ahead(known, left)
        return Figure(
            value=round(mean) if whole else mean,
            unit=unit,
            basis="estimate",
            interval=(low, high),
            codes=(Code.SCRIPTED_MODEL,) if scripted else (),
        )

    return ArmForecast(
        arm=arm,
        cells=len(cells),
        open=left,
        measured=len(runs),
        warmups_only=not own and bool(runs),
        tokens=estimate([run.tokens for run in runs], "tokens", whole=True),
        usd=estimate([run.usd for run in runs], "USD"),
        seconds=estimate([run.seconds for run in runs], "seconds"),
    )


def _ahead(values: Sequence[float], more: int) -> tuple[float, float, float]:
    """The sum of that many more values like these, with its 95 % prediction interval.

    Of n values with mean m and standard deviation s, the sum of k more is k·m ± t(n−1)·s·√(k + k²/n) (the usual
    prediction interval, for a sum). One value alone has no interval: it reaches from nothing to no end.
    """
    n, mean = len(values), _statistics.fmean(values)
    middle = more * mean
    if n < 2:
        return middle, 0.0, math.inf
    half = student_t(_CONFIDENT, n - 1) * _statistics.stdev(values) * math.sqrt(more + more * more / n)
    return middle, max(0.0, middle - half), middle + half


def _total(parts: Sequence[Published]) -> Published:
    """The sum; bounds are added too, which is wide, as arms are not independent of each other."""
    for part in parts:
        if isinstance(part, Refusal):
            return part
    figures = [part for part in parts if isinstance(part, Figure)]
    if not figures:
        return refuse(Code.TOO_FEW, reason="The experiment has no arm")
    bounds = [figure.interval or (float(figure.value), float(figure.value)) for figure in figures]
    total = math.fsum(float(figure.value) for figure in figures)
    return Figure(
        value=round(total) if figures[0].unit == "tokens" else total,
        unit=figures[0].unit,
        basis="estimate",
        interval=(sum(low for low, _ in bounds), sum(high for _, high in bounds)),
        codes=tuple(dict.fromkeys(code for figure in figures for code in figure.codes)),
    )


def _detectable(loaded: Loaded, counted: Counted) -> dict[str, Published]:
    baseline = loaded.config.experiment.baseline
    return {arm: _smallest(arm, baseline, loaded, counted) for arm in loaded.config.arms if arm != baseline}


def _smallest(arm: str, baseline: str, loaded: Loaded, counted: Counted) -> Published:
    """The smallest difference that could be told, by the usual approximation for paired values.

    Each question gives d, the logarithm of the ratio of the arms' mean tokens. Of N questions with standard deviation s
    a mean of −(t(.975) + t(.8))·s/√N is told from 0 in 80 % of experiments (J. Cohen, Statistical Power Analysis, 2nd
    ed. 1988, section 2.4, with t for z). Correctness has its own spread, so tokens per correct answer need more.
    """
    logs: list[float] = []
    for question in loaded.questions:
        mine, base = (_mean_tokens(counted, name, question.id) for name in (arm, baseline))
        if mine and base:
            logs.append(math.log(mine / base))
    if len(logs) < _QUESTIONS:
        return refuse(
            Code.TOO_FEW,
            f"{len(logs)} questions have reconciled runs of both {arm} and {baseline}",
            reason=f"What could be told apart is estimated from {_QUESTIONS} questions or more",
            remedy="Let the first questions run, then ask again",
        )
    planned = len(loaded.questions)
    quantiles = student_t(_CONFIDENT, planned - 1) + student_t(_POWER, planned - 1)
    gap = quantiles * _statistics.stdev(logs) / math.sqrt(planned)
    return Figure(value=1 - math.exp(-gap), unit="share", basis="estimate", codes=_codes(counted, (arm, baseline)))


def _codes(counted: Counted, arms: Sequence[str]) -> tuple[Code, ...]:
    scripted = any(run.record.scripted for cell, run in counted.runs.items() if cell.arm in arms)
    return (Code.SCRIPTED_MODEL,) if scripted else ()


def _mean_tokens(counted: Counted, arm: str, question: str) -> float | None:
    values = [
        tokens
        for cell, run in counted.runs.items()
        if _is_of(cell, arm, question)
        and not run.quarantined
        and (tokens := _Run(run.record, run.ledger).tokens) is not None
    ]
    return _statistics.fmean(values) if values else None


def _is_of(cell: Cell, arm: str, question: str) -> bool:
    return cell.arm == arm and cell.question == question


def _over(loaded: Loaded, counted: Counted, found: Forecast) -> tuple[str, ...]:
    """Limits that what was spent and what is ahead would reach together."""
    limits = loaded.config.limits
    ledgers = [*(run.ledger for run in counted.runs.values()), *(attempt.ledger for attempt in counted.attempts)]
    spent_tokens = sum((ledger.tokens or ledger.lower_bound).total for ledger in ledgers)
    spent_usd = sum(float(ledger.cost_usd.reported or 0) for ledger in ledgers)
    sentences: list[str] = []
    for limit, spent, ahead, unit in (
        (limits.experiment_tokens, spent_tokens, found.tokens, "tokens"),
        (limits.experiment_usd, spent_usd, found.usd, "USD"),
    ):
        if limit is None or not isinstance(ahead, Figure):
            continue
        middle = spent + float(ahead.value)
        high = spent + (ahead.interval[1] if ahead.interval is not None else float(ahead.value))
        if middle > limit:
            sentences.append(f"about {middle:,.2f} {unit} in all, more than the experiment's limit of {limit:,}")
        elif high > limit:
            sentences.append(f"the experiment's limit of {limit:,} {unit} lies within the forecast's range")
    return tuple(sentences)
