"""Tokens per correct answer, and its ratio to the baseline.

An arm's tokens over all its counted runs, wrong ones and canaries included, over its correct answers. Answers on which
the judges are split count as wrong in the value; the interval also holds what it would be if all of them were right,
and where that would change what a ratio says, there is no figure.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Literal

import msgspec

from tokenbench.experiment.model import Cell
from tokenbench.figures import Code, Figure, Published, Refusal, refuse
from tokenbench.findings.results import Ratio, Reading
from tokenbench.findings.statistics import Interval, Resamples
from tokenbench.findings.world import World, named

UNIT = "tokens/correct"
Case = Literal["wrong", "right"]
"""What the answers in dispute are taken for."""
_MENDED_BY_JUDGES = frozenset({Code.UNGRADED, Code.NOT_BLIND})


class ArmSums(msgspec.Struct, frozen=True, kw_only=True):
    """One arm, question by question in the order of the questions."""

    cells: tuple[Cell, ...]
    tokens: tuple[int, ...]
    correct: tuple[int, ...]
    unknown: tuple[int, ...]

    @property
    def total(self) -> int:
        """Tokens of all counted runs."""
        return sum(self.tokens)

    def right(self, case: Case) -> int:
        """Correct answers, with those in dispute taken for right or wrong."""
        return sum(self.correct) + (sum(self.unknown) if case == "right" else 0)


def read_interval(interval: Interval) -> Reading:
    """What the interval of a ratio says."""
    if interval.spans(1.0):
        return "not distinguishable"
    return "fewer" if interval.high < 1.0 else "more"


class Headline:
    """The headline of each arm, computed from the same resamples.

    Args:
        world: The experiment's evidence.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    @cached_property
    def _refused(self) -> Mapping[str, Refusal | None]:
        return {arm: self._world.heading(self._world.cells(arm)) for arm in self._world.arms}

    @cached_property
    def sums(self) -> Mapping[str, ArmSums]:
        """The arms that nothing refuses."""
        return {arm: arm_sums(self._world, arm) for arm, refusal in self._refused.items() if refusal is None}

    @cached_property
    def _resamples(self) -> Resamples | None:
        """All arms at once, each with its answers in dispute wrong and right; None where there is one question."""
        if len(self._world.questions) < 2 or not self.sums:
            return None
        tokens: dict[str, Sequence[int]] = {}
        correct: dict[str, Sequence[int]] = {}
        for arm, sums in self.sums.items():
            tokens[_key(arm, "wrong")] = tokens[_key(arm, "right")] = sums.tokens
            correct[_key(arm, "wrong")] = sums.correct
            correct[_key(arm, "right")] = [a + b for a, b in zip(sums.correct, sums.unknown, strict=True)]
        return Resamples(tokens, correct, seed=self._world.loaded.config.experiment.seed)

    def _cases(self, arm: str) -> tuple[Case, ...]:
        return ("wrong", "right") if any(self.sums[arm].unknown) else ("wrong",)

    def _own_refusal(self, arm: str) -> Refusal | None:
        """Why the arm has no tokens per correct answer, whatever the baseline does."""
        refusal = self._refused[arm]
        if refusal is not None:
            return refusal
        sums = self.sums[arm]
        if sums.right("right") == 0:
            return refuse(Code.NO_CORRECT, f"{arm}: 0 of {len(sums.cells)} runs")
        if sums.right("wrong") == 0:
            return refuse(
                Code.JUDGES_DISAGREE,
                f"{arm}: {sums.right('right')} answers in dispute, no other is correct",
                reason="Every answer that may be right is in dispute",
            )
        if self._resamples is None:
            return refuse(Code.TOO_FEW, "1 question", reason="One question has no interval")
        return None

    def per_correct(self, arm: str) -> Published:
        """Tokens per correct answer of an arm."""
        refusal = self._own_refusal(arm) or self._disputed(arm)
        if refusal is not None:
            return refusal
        assert self._resamples is not None
        sums = self.sums[arm]
        interval = self._hull([self._resamples.per_correct(_key(arm, case)) for case in self._cases(arm)])
        return Figure(
            value=float(Fraction(sums.total, sums.right("wrong"))),
            unit=UNIT,
            basis="exact",
            interval=(interval.low, interval.high),
            runs=tuple(cell.name for cell in sums.cells),
        )

    def ratio(self, arm: str) -> Ratio:
        """An arm against the baseline."""
        refusal = self._ratio_refusal(arm)
        both = both_correct(self._world, arm, refusal)
        if refusal is not None:
            return Ratio(tokens_per_correct=refusal, reading=None, both_correct=both)
        intervals = self._corners(arm)
        mine, base = self.sums[arm], self.sums[self._world.baseline]
        value = Fraction(mine.total * base.right("wrong"), base.total * mine.right("wrong"))
        interval = self._hull(intervals)
        return Ratio(
            tokens_per_correct=Figure(
                value=float(value),
                unit="ratio",
                basis="exact",
                interval=(interval.low, interval.high),
                runs=tuple(cell.name for cell in (*mine.cells, *base.cells)),
            ),
            reading=read_interval(intervals[0]),
            both_correct=both,
        )

    def _ratio_refusal(self, arm: str) -> Refusal | None:
        """Why there is no ratio: the arm's own reason first, then the baseline's.

        What more judging would mend comes last: no verdict makes up for a run of the baseline that is not there.
        """
        own = self._own_refusal(arm)
        base = self._own_refusal(self._world.baseline)
        if own is not None and (own.code not in _MENDED_BY_JUDGES or base is None or base.code in _MENDED_BY_JUDGES):
            return own
        if base is not None:
            return msgspec.structs.replace(
                base, reason=f"The baseline {self._world.baseline} is refused. {base.reason}"
            )
        return self._disputed(arm)

    def _corners(self, arm: str) -> list[Interval]:
        """The ratio's intervals with the answers in dispute of either arm right or wrong; both wrong stands first."""
        assert self._resamples is not None
        base = self._world.baseline
        return [
            self._resamples.ratio(_key(arm, mine), _key(base, theirs))
            for mine in self._cases(arm)
            for theirs in self._cases(base)
        ]

    def _disputed(self, arm: str) -> Refusal | None:
        """JUDGES-DISAGREE, where the answers in dispute decide what the ratio says."""
        base = self._world.baseline
        if arm == base or self._own_refusal(arm) is not None or self._own_refusal(base) is not None:
            return None
        intervals = self._corners(arm)
        readings = [read_interval(interval) for interval in intervals]
        if len(set(readings)) == 1:
            return None
        bounds = [
            f"{arm} {mine}, {base} {theirs}: {interval.low:.3g} to {interval.high:.3g}, {reading}"
            for (mine, theirs), interval, reading in zip(
                [(mine, theirs) for mine in self._cases(arm) for theirs in self._cases(base)],
                intervals,
                readings,
                strict=True,
            )
        ]
        disputed = [
            cell.name for one in dict.fromkeys((arm, base)) for cell in self.sums[one].cells if self._unknown(cell)
        ]
        return refuse(
            Code.JUDGES_DISAGREE,
            *bounds,
            *named(disputed),
            reason="What the ratio says depends on answers that the judges are split on",
        )

    def _unknown(self, cell: Cell) -> bool:
        return self._world.is_unknown(cell)

    @staticmethod
    def _hull(intervals: Sequence[Interval]) -> Interval:
        return Interval(min(one.low for one in intervals), max(one.high for one in intervals))


def _key(arm: str, case: Case) -> str:
    return f"{arm}\x1f{case}"


def arm_sums(world: World, arm: str) -> ArmSums:
    """What an arm spent and got right, question by question; only for an arm that nothing refuses."""
    rows = [world.cells_on(arm, (question,)) for question in world.questions]
    return ArmSums(
        cells=world.cells(arm),
        tokens=tuple(sum(world.tokens(cell) for cell in row) for row in rows),
        correct=tuple(sum(world.is_correct(cell) for cell in row) for row in rows),
        unknown=tuple(sum(world.is_unknown(cell) for cell in row) for row in rows),
    )


def both_correct(world: World, arm: str, refusal: Refusal | None) -> Published:
    """Mean tokens of an arm's right answers over the baseline's, on the questions that both got right at least once.

    The sum of the arm's means over the sum of the baseline's; the interval is a bootstrap over those questions. What
    wrong answers cost is not in it: it says what a right answer took, not what it cost to get one.
    """
    if refusal is not None and refusal.code not in (Code.NO_CORRECT, Code.TOO_FEW, Code.JUDGES_DISAGREE):
        return refusal
    mine, base = _right_means(world, arm), _right_means(world, world.baseline)
    shared = [question for question in world.questions if question in mine and question in base]
    if not shared:
        return refuse(
            Code.NO_CORRECT,
            f"{arm}: {len(mine)} questions right, {world.baseline}: {len(base)}",
            reason="No question was answered rightly by both arms",
        )
    scale = math.lcm(*(one[q][0].denominator for one in (mine, base) for q in shared))
    rows = [[int(one[question][0] * scale) for question in shared] for one in (mine, base)]
    interval: tuple[float, float] | None = None
    if len(shared) > 1:
        ones = [1] * len(shared)
        sample = Resamples(
            {"arm": rows[0], "base": rows[1]},
            {"arm": ones, "base": ones},
            seed=world.loaded.config.experiment.seed,
        )
        found = sample.ratio("arm", "base")
        interval = (found.low, found.high)
    cells = [cell for one in (mine, base) for question in shared for cell in one[question][1]]
    return Figure(
        value=float(Fraction(sum(rows[0]), sum(rows[1]))),
        unit="ratio",
        basis="exact",
        interval=interval,
        runs=tuple(cell.name for cell in cells),
    )


def _right_means(world: World, arm: str) -> dict[str, tuple[Fraction, tuple[Cell, ...]]]:
    """Mean tokens of the right answers and their cells, by question; questions without one are left out."""
    found: dict[str, tuple[Fraction, tuple[Cell, ...]]] = {}
    for question in world.questions:
        cells = tuple(cell for cell in world.cells_on(arm, (question,)) if world.is_correct(cell))
        if cells:
            found[question] = Fraction(sum(world.tokens(cell) for cell in cells), len(cells)), cells
    return found
