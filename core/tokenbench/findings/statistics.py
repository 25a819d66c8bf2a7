"""Intervals: a bootstrap over questions with expanded percentiles, Wilson's for shares, medians.

The unit that is resampled is the question, its repeats staying together, because repeats of one question are no
independent evidence about other questions. All arms share the same resamples, so that a ratio is paired.
"""

import math
import statistics as _statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RESAMPLES: Final = 10_000
CONFIDENCE: Final = 0.95
_Z: Final = 1.959963984540054
"""Normal quantile of 0.975."""


class Interval(msgspec.Struct, frozen=True):
    """A two-sided interval, in the unit of its value; a bound without limit is `math.inf`."""

    low: float
    high: float

    def spans(self, value: float) -> bool:
        """Whether the value lies within, the bounds included."""
        return self.low <= value <= self.high

    def hull(self, other: "Interval") -> "Interval":
        """The smallest interval that holds both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))


def median(values: Sequence[int | float]) -> int | float:
    """The median; an int where it is one.

    Raises:
        ValueError: There are no values.
    """
    if not values:
        raise ValueError("the median of nothing")
    middle = _statistics.median(values)
    return int(middle) if isinstance(middle, float) and middle.is_integer() else middle


def wilson(successes: int, total: int) -> Interval:
    """The 95 % score interval of a share (Wilson 1927, JASA 22:209-212).

    Raises:
        ValueError: There were no trials, or more successes than trials.
    """
    if not 0 <= successes <= total or total == 0:
        raise ValueError(f"{successes} of {total} is no share")
    z2 = _Z * _Z
    share = successes / total
    centre = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = _Z / (1 + z2 / total) * math.sqrt(share * (1 - share) / total + z2 / (4 * total * total))
    # At the ends the formula gives 0 and 1 but for rounding.
    return Interval(0.0 if successes == 0 else centre - half, 1.0 if successes == total else centre + half)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Continued fraction of the incomplete beta function, by Lentz's method (Numerical Recipes, 6.4)."""
    tiny = 1e-300
    c = 1.0
    d = 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    h = d
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 + term * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + term / c
            c = c if abs(c) > tiny else tiny
            h *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return h


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function."""
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x),
    )
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _beta_fraction(a, b, x) / a
    return 1.0 - front * _beta_fraction(b, a, 1.0 - x) / b


def student_t(p: float, df: int) -> float:
    """The quantile of Student's t distribution above its median.

    Args:
        p: A probability, 0.5 to below 1.
        df: Degrees of freedom, at least 1.
    """
    tail = 1.0 - p
    low, high = 0.0, 1.0

    def above(t: float) -> float:
        return 0.5 * _incomplete_beta(df / 2, 0.5, df / (df + t * t))

    while above(high) > tail:
        low, high = high, high * 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if above(middle) > tail else (low, middle)
    return (low + high) / 2


def expanded_level(n: int, confidence: float = CONFIDENCE) -> float:
    """The lower level of the expanded percentile interval; the upper one is 1 less it.

    A percentile bootstrap of n units is too narrow by sqrt((n-1)/n) and takes normal where t belongs; widening the
    levels to Phi(-sqrt(n/(n-1)) * t) mends both (Hesterberg 2015, The American Statistician 69:371-386).

    Args:
        n: Units that are resampled, at least 2.
        confidence: Wanted coverage.
    """
    if n < 2:
        raise ValueError("one question has no interval")
    t = student_t(0.5 + confidence / 2, n - 1)
    return 0.5 * math.erfc(math.sqrt(n / (n - 1)) * t / math.sqrt(2))


def _indices(n: int, resamples: int, seed: int) -> "NDArray[np.int64]":
    """Questions drawn with replacement, shape (resamples, n).

    Made from the raw words of PCG64, whose stream numpy keeps for ever, and not from a method of Generator, whose
    stream may change between versions: a figure has to be the same to the byte on another machine.
    """
    import numpy as np

    words = np.random.PCG64(seed).random_raw(resamples * n)
    high = (np.asarray(words, dtype=np.uint64) >> np.uint64(32)) * np.uint64(n)
    return (high >> np.uint64(32)).astype(np.int64).reshape(resamples, n)


class Resamples:
    """The sums of each arm over the same bootstrap resamples of the questions.

    Args:
        tokens: By arm, a number a question: what is spent (tokens, or seconds in whole milliseconds), repeats added up.
        correct: By arm, correct answers a question.
        seed: Of the resamples.
        resamples: How many.

    Raises:
        ValueError: Fewer than two questions, or rows of different lengths.
    """

    def __init__(
        self,
        tokens: Mapping[str, Sequence[int]],
        correct: Mapping[str, Sequence[int]],
        *,
        seed: int,
        resamples: int = RESAMPLES,
    ) -> None:
        import numpy as np

        lengths = {len(row) for rows in (tokens, correct) for row in rows.values()}
        if len(lengths) != 1 or min(lengths) < 2:
            raise ValueError(f"a bootstrap needs rows of one length of at least 2, not {sorted(lengths)}")
        self.n = lengths.pop()
        """Questions."""
        self.resamples = resamples
        indices = _indices(self.n, resamples, seed)
        # Sums of integers are exact in whatever order they are added.
        self._tokens = {arm: np.asarray(row, dtype=np.int64)[indices].sum(axis=1) for arm, row in tokens.items()}
        self._correct = {arm: np.asarray(row, dtype=np.int64)[indices].sum(axis=1) for arm, row in correct.items()}

    def _interval(self, low_values: "NDArray[np.float64]", high_values: "NDArray[np.float64]") -> Interval:
        """Expanded percentiles; order statistics without interpolation, since values may be infinite."""
        import numpy as np

        level = expanded_level(self.n)
        low = math.floor(level * (self.resamples - 1))
        high = self.resamples - 1 - low
        return Interval(float(np.sort(low_values)[low]), float(np.sort(high_values)[high]))

    def per_correct(self, arm: str) -> Interval:
        """Spent per correct answer; a resample without a correct answer is infinite."""
        import numpy as np

        tokens, correct = self._tokens[arm], self._correct[arm]
        values = np.full(self.resamples, np.inf)
        np.divide(tokens, correct, out=values, where=correct > 0)
        return self._interval(values, values)

    def ratio(self, arm: str, baseline: str) -> Interval:
        """Spent per correct answer of an arm over that of the baseline, in the same resamples.

        Without a correct answer the arm makes it infinite, the baseline zero; where both have none it may be anything
        and counts as zero for the lower and as infinite for the upper bound.
        """
        import numpy as np

        above = self._tokens[arm] * self._correct[baseline].astype(np.float64)
        below = self._tokens[baseline] * self._correct[arm].astype(np.float64)
        values = np.full(self.resamples, np.inf)
        np.divide(above, below, out=values, where=below > 0)
        neither = (self._correct[arm] == 0) & (self._correct[baseline] == 0)
        return self._interval(np.where(neither, 0.0, values), np.where(neither, np.inf, values))
