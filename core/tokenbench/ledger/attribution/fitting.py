"""Characters per token from pairs of prompts: a line through the origin, with its standard error."""

from collections.abc import Sequence
from typing import Final

from tokenbench.ledger.attribution.rates import Rate

LEAST_POINTS: Final = 3


def fit(points: Sequence[tuple[int, int]]) -> Rate | None:
    """The rate of some (characters, tokens).

    Tokens t are regressed on characters c through the origin, with a variance that grows with c (weights 1/c), so the
    slope is b = Σt / Σc, the classical ratio estimator (Cochran, Sampling Techniques, ch. 6). Its variance is
    s² / Σc with s² = Σ (t − b·c)² / c / (n − 1). Characters per token are 1/b, their standard error se(b) / b². The
    spread is √(Σ (t / (b·c) − 1)² / (n − 1)), how far single pieces lie from the line.

    Args:
        points: Pairs, both positive.

    Returns:
        None where fewer than three points say nothing about their scatter.
    """
    if len(points) < LEAST_POINTS or any(c <= 0 or t <= 0 for c, t in points):
        return None
    characters, tokens = sum(c for c, _ in points), sum(t for _, t in points)
    slope = tokens / characters
    free = len(points) - 1
    variance = sum((t - slope * c) ** 2 / c for c, t in points) / free / characters
    spread = (sum((t / (slope * c) - 1) ** 2 for c, t in points) / free) ** 0.5
    return Rate(characters_per_token=1 / slope, standard_error=variance**0.5 / slope**2, spread=spread)
