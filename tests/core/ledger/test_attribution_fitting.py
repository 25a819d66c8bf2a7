"""Characters per token from pairs of prompts."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.ledger.attribution.fitting import fit


def test_points_on_a_line_give_its_slope_without_error() -> None:
    rate = fit([(2785, 1000), (5570, 2000), (27850, 10000)])
    assert rate is not None
    assert rate.characters_per_token == pytest.approx(2.785)
    assert rate.standard_error == pytest.approx(0, abs=1e-9)
    assert rate.spread == pytest.approx(0, abs=1e-9)


def test_scatter_is_told() -> None:
    rate = fit([(1000, 350), (1000, 400), (1000, 450)])
    assert rate is not None
    assert rate.characters_per_token == 2.5
    assert rate.spread == pytest.approx(0.125)
    # s² = (50² + 50²) / 1000 / 2; se(slope) = √(s² / 3000); se(rate) = se(slope) / 0.4².
    assert rate.standard_error == pytest.approx((2.5 / 3000) ** 0.5 / 0.16)


def test_three_standard_errors_hold_the_true_rate() -> None:
    random = Random(7)
    held = 0
    for _ in range(200):
        points = [(size, max(1, round(size / 3 + random.gauss(0, size**0.5)))) for size in (1000, 2500, 6000) * 4]
        rate = fit(points)
        assert rate is not None
        held += abs(rate.characters_per_token - 3) <= 3 * rate.standard_error
    assert held >= 194


@pytest.mark.parametrize("points", [[], [(1000, 300)], [(1000, 300), (2000, 600)], [(1, 1), (2, 0), (3, 1)]])
def test_too_little_is_no_rate(points: list[tuple[int, int]]) -> None:
    assert fit(points) is None


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)), min_size=3, max_size=30))
def test_any_points_give_a_usable_rate(points: list[tuple[int, int]]) -> None:
    rate = fit(points)
    assert rate is not None
    assert rate.characters_per_token > 0
    assert rate.standard_error >= 0
    assert rate.spread >= 0
