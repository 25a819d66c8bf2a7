"""The figures beside the headline: accuracy, medians, effort, breakdowns, abstention, dollars, what counts apart."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from tokenbench.experiment.model import Cell
from tokenbench.figures import Code, Figure, Published, Refusal, refuse
from tokenbench.findings import statistics
from tokenbench.findings.results import Abstention, Accuracy, Apart, Breakdown, Counts, Dollars, Effort, Medians
from tokenbench.findings.statistics import Interval, wilson
from tokenbench.findings.world import World, named
from tokenbench.ledger.model import Tokens

Replay = Literal["cache_neutral", "cold", "warm"]
"""The cache that is supposed: none at all, one that was empty, one that the same run left."""
PENALTY = 4
"""k: what a wrong answer costs in the abstention score."""
_MICRO = Decimal("0.000001")
"""Dollars are rounded to millionths, half to even."""
WARMTH_POINTS = 0.10
"""Arms whose first calls differ by more in the share they read from cache have no comparable dollars."""


def _names(cells: Sequence[Cell]) -> tuple[str, ...]:
    return tuple(cell.name for cell in cells)


def _share(cells: Sequence[Cell], count: int, total: int, interval: Interval, nothing: Refusal) -> Published:
    if total == 0:
        return nothing
    return Figure(
        value=count / total,
        unit="share",
        basis="exact",
        interval=(interval.low, interval.high),
        runs=_names(cells),
    )


def count(world: World, cells: Sequence[Cell]) -> Counts:
    """Answers by what they are worth."""
    grades = [world.grade(cell) for cell in cells]
    silent = [grade for grade in grades if grade.stage == "NO-ANSWER" and grade.result is not None]
    spoken = [grade for grade in grades if grade.stage != "NO-ANSWER"]
    return Counts(
        runs=len(cells),
        correct=sum(grade.result == "correct" for grade in spoken),
        wrong=sum(grade.result == "wrong" for grade in spoken),
        abstained=sum(grade.result == "abstained" for grade in spoken),
        no_answer=len(silent),
        unknown=sum(grade.result == "unknown" for grade in spoken),
        unjudged=sum(grade.result is None for grade in grades),
    )


def accuracy(world: World, arm: str) -> Accuracy:
    """Correct over all, correct over answered, abstained over all: of the answerable runs, canaries left out."""
    cells = world.cells(arm, canaries=False)
    refusal = world.judging(cells)
    if refusal is not None:
        graded = [cell for cell in cells if cell in world.grading.grades]
        counts = count(world, graded) if world.opened else None
        return Accuracy(correct_of_all=refusal, correct_of_answered=refusal, abstained_of_all=refusal, counts=counts)
    c = count(world, cells)
    nothing = refuse(Code.TOO_FEW, f"{arm}: {c.runs} answerable runs", reason="There is no answer to take a share of")
    # An answer in dispute stands in neither number; the interval reaches from all of them wrong to all of them right.
    known, answered = c.runs - c.unknown, c.correct + c.wrong
    return Accuracy(
        correct_of_all=_share(cells, c.correct, known, _bounded(c.correct, c.unknown, c.runs), nothing),
        correct_of_answered=_share(
            cells, c.correct, answered, _bounded(c.correct, c.unknown, answered + c.unknown), nothing
        ),
        abstained_of_all=_share(cells, c.abstained, known, _bounded(c.abstained, 0, known), nothing),
        counts=c,
    )


def _bounded(successes: int, disputed: int, total: int) -> Interval:
    if total == 0:
        return Interval(0.0, 1.0)
    return wilson(successes, total).hull(wilson(successes + disputed, total))


def _per_run_refusal(world: World, cells: tuple[Cell, ...]) -> Refusal | None:
    """Why a number that needs neither tokens nor grades cannot be given."""
    return world.seal_broken or world.incomplete(cells) or world.quarantined(cells)


def _seconds(world: World, cell: Cell) -> float:
    record = world.run(cell).record
    return max(0.0, record.ended - record.started)


def medians(world: World, arm: str) -> Medians:
    """The middle run of an arm."""
    cells = world.cells(arm)
    spending, running = world.spending(cells), _per_run_refusal(world, cells)

    def middle(values: Sequence[int | float], unit: str) -> Figure:
        return Figure(value=statistics.median(values), unit=unit, basis="exact", runs=_names(cells))

    return Medians(
        tokens=spending or middle([world.tokens(cell) for cell in cells], "tokens"),
        seconds=running or middle([_seconds(world, cell) for cell in cells], "seconds"),
        turns=running or middle([world.run(cell).ledger.turns for cell in cells], "turns"),
    )


def effort(world: World, arm: str) -> Effort:
    """Turns, and wall time per correct answer."""
    cells = world.cells(arm)
    running = _per_run_refusal(world, cells)
    turns: Published = running or Figure(
        value=float(Fraction(sum(world.run(cell).ledger.turns for cell in cells), len(cells))),
        unit="turns/run",
        basis="exact",
        runs=_names(cells),
    )
    return Effort(turns=turns, seconds_per_correct=_seconds_per_correct(world, arm, cells))


def _seconds_per_correct(world: World, arm: str, cells: tuple[Cell, ...]) -> Published:
    refusal = world.judging(cells)
    if refusal is not None:
        return refusal
    right = sum(world.is_correct(cell) for cell in cells)
    if right == 0:
        return refuse(Code.NO_CORRECT, f"{arm}: 0 of {len(cells)} runs")
    return Figure(
        value=sum(_seconds(world, cell) for cell in cells) / right,
        unit="seconds/correct",
        basis="exact",
        runs=_names(cells),
    )


def breakdown(world: World, arm: str, questions: Sequence[str]) -> Breakdown:
    """One arm on some of the questions."""
    cells = world.cells_on(arm, questions)
    spending = world.spending(cells)
    judging = world.judging(cells)
    return Breakdown(
        tokens_per_correct=_per_correct(world, arm, cells),
        ratio=None if arm == world.baseline else _ratio(world, arm, questions),
        median_tokens=spending
        or Figure(
            value=statistics.median([world.tokens(cell) for cell in cells]),
            unit="tokens",
            basis="exact",
            runs=_names(cells),
        ),
        correct=judging
        or Figure(
            value=sum(world.is_correct(cell) for cell in cells), unit="answers", basis="exact", runs=_names(cells)
        ),
        runs=sum(cell in world.counted.runs for cell in cells),
    )


def _per_correct(world: World, arm: str, cells: tuple[Cell, ...]) -> Published:
    refusal = world.claiming(cells) or world.not_blind(cells)
    if refusal is not None:
        return refusal
    right = sum(world.is_correct(cell) for cell in cells)
    if right == 0:
        canaries = all(world.is_canary(cell) for cell in cells)
        reason = "A canary has no correct answer: see abstention" if canaries else None
        return refuse(Code.NO_CORRECT, f"{arm}: 0 of {len(cells)} runs", reason=reason)
    return Figure(
        value=float(Fraction(sum(world.tokens(cell) for cell in cells), right)),
        unit="tokens/correct",
        basis="exact",
        runs=_names(cells),
    )


def _ratio(world: World, arm: str, questions: Sequence[str]) -> Published:
    """Without an interval, and so a description of these questions and no finding."""
    mine, base = (world.cells_on(one, questions) for one in (arm, world.baseline))
    for one, cells in ((arm, mine), (world.baseline, base)):
        value = _per_correct(world, one, cells)
        if isinstance(value, Refusal):
            return value
    refusal = world.no_composition
    if refusal is not None:
        return refusal
    sums = [(sum(map(world.tokens, cells)), sum(map(world.is_correct, cells))) for cells in (mine, base)]
    (tokens, right), (base_tokens, base_right) = sums
    return Figure(
        value=float(Fraction(tokens * base_right, base_tokens * right)),
        unit="ratio",
        basis="exact",
        runs=_names((*mine, *base)),
    )


def abstention(world: World, arm: str) -> Abstention:
    """What an arm does when it should not answer. On a canary any attempt is a violation, right or wrong."""
    cells = world.cells(arm)
    canaries = tuple(cell for cell in cells if world.is_canary(cell))
    refusal = world.judging(cells)
    if refusal is not None:
        return Abstention(k=PENALTY, score=refusal, canary_violations=refusal, canary_abstained=refusal)
    answerable = count(world, world.cells(arm, canaries=False))
    canary = count(world, canaries)
    attempts = canary.correct + canary.wrong
    nothing = refuse(Code.TOO_FEW, "0 canaries", reason="The questions hold no canary")
    known = canary.runs - canary.unknown
    return Abstention(
        k=PENALTY,
        score=Figure(
            value=answerable.correct - PENALTY * answerable.wrong - PENALTY * attempts,
            unit="points",
            basis="exact",
            interval=_score_bounds(answerable, canary) if answerable.unknown or canary.unknown else None,
            runs=_names(cells),
        ),
        canary_violations=_share(canaries, attempts, known, _bounded(attempts, canary.unknown, canary.runs), nothing),
        canary_abstained=_share(
            canaries, canary.abstained, known, _bounded(canary.abstained, canary.unknown, canary.runs), nothing
        ),
    )


def _score_bounds(answerable: Counts, canary: Counts) -> tuple[float, float]:
    """The score with every answer in dispute wrong, and with every one right (on a canary: abstained)."""
    fixed = answerable.correct - PENALTY * (answerable.wrong + canary.correct + canary.wrong)
    return float(fixed - PENALTY * (answerable.unknown + canary.unknown)), float(fixed + answerable.unknown)


def dollars(world: World, arm: str) -> Dollars:
    """USD as the agent CLI reckons it, without sidecars. What rests on no cache stands whatever its warmth."""
    cells = world.cells(arm)
    unknown = unpaid(world, cells)
    neutral = unknown or replayed(world, cells, "cache_neutral")
    cold = unknown or replayed(world, cells, "cold")
    warm = unknown or replayed(world, cells, "warm")
    refusal = unknown or warmth(world)
    if refusal is not None:
        return Dollars(total=refusal, per_correct=refusal, cache_neutral=neutral, cold=cold, warm=warm)
    costs = [world.run(cell).ledger.cost_usd.own for cell in cells]
    spent = sum((cost for cost in costs if cost is not None), Decimal(0))
    total = Figure(value=spent, unit="USD", basis="exact", runs=_names(cells))
    refusal = world.claiming(cells) or world.not_blind(cells)
    right = 0 if refusal is not None else sum(world.is_correct(cell) for cell in cells)
    if refusal is None and right == 0:
        refusal = refuse(Code.NO_CORRECT, f"{arm}: 0 of {len(cells)} runs")
    return Dollars(
        total=total,
        per_correct=refusal
        or Figure(value=(spent / right).quantize(_MICRO), unit="USD/correct", basis="exact", runs=_names(cells)),
        cache_neutral=neutral,
        cold=cold,
        warm=warm,
    )


def _sum(costs: Sequence[Decimal]) -> Decimal:
    return sum(costs, Decimal(0))


def replayed(
    world: World,
    cells: tuple[Cell, ...],
    which: Replay,
    gather: Callable[[Sequence[Decimal]], Decimal] = _sum,
) -> Published:
    """A cost by the price table over all runs; what a cache would have done is an estimate.

    Args:
        world: The experiment.
        cells: Cells that have runs whose dollars are not refused.
        which: The cache that is supposed.
        gather: Makes one amount of the runs' amounts, in USD.
    """
    costs = {cell: _cost(world, cell, which) for cell in cells}
    missing = tuple(cell for cell, cost in costs.items() if cost is None)
    if missing:
        runs = "1 run" if len(missing) == 1 else f"{len(missing)} runs"
        return refuse(
            Code.PRICE_UNKNOWN,
            *named(_names(missing)),
            reason=f"What {runs} would have cost with another cache is not determined",
            remedy="Use tokens, or the dollars that the CLI reports",
        )
    spent = gather([cost for cost in costs.values() if cost is not None])
    basis = "exact" if which == "cache_neutral" else "estimate"
    return Figure(value=spent, unit="USD", basis=basis, runs=_names(cells))


def _cost(world: World, cell: Cell, which: Replay) -> Decimal | None:
    costs = world.run(cell).ledger.cost_usd
    match which:
        case "cache_neutral":
            return costs.cache_neutral
        case "cold":
            return costs.cold
        case "warm":
            return costs.warm


def unpaid(world: World, cells: tuple[Cell, ...]) -> Refusal | None:
    """Why no dollars over these cells can be given, whatever the cache did."""
    return _per_run_refusal(world, cells) or _unpriced(world, cells)


def _unpriced(world: World, cells: tuple[Cell, ...]) -> Refusal | None:
    """The refusal of the first run whose dollars are refused."""
    refused = [
        cell
        for cell in cells
        if world.run(cell).ledger.cost_reconciled is not True or world.run(cell).ledger.cost_usd.own is None
    ]
    if not refused:
        return None
    ledger = world.run(refused[0]).ledger
    first = next(
        (one for one in ledger.refusals if one.code in (Code.COST_UNRECONCILED, Code.PRICE_UNKNOWN)),
        next(iter(ledger.refusals), refuse(Code.COST_UNRECONCILED)),
    )
    runs = "1 run is" if len(refused) == 1 else f"{len(refused)} runs are"
    return refuse(
        first.code,
        *named(_names(refused)),
        reason=f"The dollars of {runs} refused. {first.reason}",
        remedy=first.remedy,
    )


def first_calls(world: World, arm: str) -> Mapping[Cell, Tokens]:
    """The first call of each run of an arm, as far as there are runs that show one.

    Of a run whose tokens are refused the first row need not be the first call.
    """
    return {
        cell: ledger.call_rows[0].tokens
        for cell in world.cells(arm)
        if cell in world.counted.runs
        and (ledger := world.run(cell).ledger).call_rows
        and ledger.token_reconciled is True
    }


def read_share(firsts: Iterable[Tokens]) -> float | None:
    """The share of these calls' billed input that was read from cache, 0 to 1; None where nothing was billed."""
    read = billed = 0
    for first in firsts:
        read, billed = read + first.cache_read, billed + first.billed_input
    return read / billed if billed else None


def warmth(world: World) -> Refusal | None:
    """WARMTH-CONFOUNDED, where the arms' first calls differ in what they read from cache."""
    shares = {arm: share for arm in world.arms if (share := read_share(first_calls(world, arm).values())) is not None}
    if len(shares) < 2 or max(shares.values()) - min(shares.values()) <= WARMTH_POINTS:
        return None
    return refuse(
        Code.WARMTH_CONFOUNDED,
        *(f"{arm}: the first calls read {share:.0%} from cache" for arm, share in shares.items()),
    )


def apart(world: World, arm: str) -> Apart:
    """Attempts that did not count. Their tokens are shown, and the headline is given with them as well."""
    attempts = [attempt for attempt in world.counted.attempts if attempt.cell.arm == arm]
    names = tuple(attempt.name for attempt in attempts)
    lost = [name for name in world.counted.lost_attempts if name.startswith(f"{arm}__")]
    exact = not lost and all(attempt.ledger.tokens is not None for attempt in attempts)
    spent = sum((attempt.ledger.tokens or attempt.ledger.lower_bound).total for attempt in attempts)
    cells = world.cells(arm)
    refusal = world.claiming(cells) or world.not_blind(cells)
    right = 0 if refusal is not None else sum(world.is_correct(cell) for cell in cells)
    if refusal is None and right == 0:
        refusal = refuse(Code.NO_CORRECT, f"{arm}: 0 of {len(cells)} runs")
    return Apart(
        attempts=len(attempts) + len(lost),
        tokens=Figure(value=spent, unit="tokens", basis="exact" if exact else "estimate", runs=names),
        tokens_per_correct=refusal
        or Figure(
            value=float(Fraction(spent + sum(map(world.tokens, cells)), right)),
            unit="tokens/correct",
            basis="exact" if exact else "estimate",
            runs=(*_names(cells), *names),
        ),
    )
