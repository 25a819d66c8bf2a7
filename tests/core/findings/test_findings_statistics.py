"""Intervals: against tables, against other arithmetic, and against worlds whose truth is known."""

import math
import random
import statistics
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.findings.statistics import (
    Interval,
    Resamples,
    expanded_level,
    median,
    student_t,
    wilson,
)


@pytest.mark.parametrize(
    ("df", "quantile"),
    # Any printed table of Student's t, 0.975.
    [(1, 12.7062), (2, 4.3027), (4, 2.7764), (9, 2.2622), (29, 2.0452), (120, 1.9799), (1000, 1.9623)],
)
def test_the_t_quantile_is_that_of_the_tables(df: int, quantile: float) -> None:
    assert student_t(0.975, df) == pytest.approx(quantile, abs=5e-5)


def test_the_expanded_level_of_ten_questions_is_below_the_plain_one_and_approaches_it() -> None:
    ten = expanded_level(10)
    assert ten == pytest.approx(statistics.NormalDist().cdf(-math.sqrt(10 / 9) * 2.262157), abs=1e-7)
    assert ten < 0.025
    assert expanded_level(100_000) == pytest.approx(0.025, abs=1e-5)
    with pytest.raises(ValueError, match="one question"):
        expanded_level(1)


@pytest.mark.parametrize(
    ("successes", "total", "low", "high"),
    [(5, 8, 0.3057, 0.8632), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (1, 3, 0.0615, 0.7923)],
)
def test_wilson_is_that_of_the_tables(successes: int, total: int, low: float, high: float) -> None:
    interval = wilson(successes, total)
    assert interval.low == pytest.approx(low, abs=5e-5)
    assert interval.high == pytest.approx(high, abs=5e-5)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share_and_stays_within_0_and_1(case: tuple[int, int]) -> None:
    interval = wilson(*case)
    assert 0.0 <= interval.low <= case[0] / case[1] <= interval.high <= 1.0


def test_there_is_no_share_of_nothing() -> None:
    with pytest.raises(ValueError, match="no share"):
        wilson(0, 0)


def test_a_median_that_is_whole_is_an_int() -> None:
    assert repr(median([3, 1, 2])) == "2"
    assert repr(median([1, 3])) == "2"
    assert repr(median([1, 2])) == "1.5"


def test_the_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    tokens = {"a": [100, 250, 90, 400, 120], "b": [200, 210, 190, 300, 220]}
    correct = {"a": [1, 0, 1, 1, 2], "b": [2, 1, 1, 2, 1]}
    first = Resamples(tokens, correct, seed=7)
    assert first.ratio("a", "b") == Resamples(tokens, correct, seed=7).ratio("a", "b")
    chance = random.Random(1)
    rows = {"a": [chance.randrange(10_000) for _ in range(40)]}
    right = {"a": [1] * 40}
    assert Resamples(rows, right, seed=1).per_correct("a") != Resamples(rows, right, seed=2).per_correct("a")


def test_the_stream_of_resamples_is_pinned() -> None:
    """`verify` recomputes on other machines and numpy versions: these bounds may never change."""
    tokens = {"a": [100, 250, 90, 400, 120, 330], "b": [200, 210, 190, 300, 220, 800]}
    correct = {"a": [1, 0, 1, 1, 2, 1], "b": [2, 1, 1, 2, 1, 1]}
    assert Resamples(tokens, correct, seed=20, resamples=1000).ratio("a", "b") == Interval(
        0.32673267326732675, 3.823529411764706
    )


def test_an_arm_against_itself_is_one_and_nothing_else() -> None:
    sample = Resamples({"a": [5, 9, 30]}, {"a": [1, 1, 1]}, seed=0)
    assert sample.ratio("a", "a") == Interval(1.0, 1.0)


def test_a_resample_without_a_correct_answer_is_infinite_and_not_dropped() -> None:
    """One right answer in six: (5/6)^6 = a third of the resamples hold none, so there is no upper bound."""
    sample = Resamples({"rare": [10] * 6, "sure": [10] * 6}, {"rare": [1, 0, 0, 0, 0, 0], "sure": [1] * 6}, seed=3)
    assert sample.per_correct("rare").high == math.inf
    assert sample.per_correct("rare").low < math.inf
    assert sample.ratio("rare", "sure").high == math.inf
    assert sample.ratio("sure", "rare").low == 0.0


def test_where_neither_arm_is_right_the_ratio_may_be_anything() -> None:
    sample = Resamples({"a": [10] * 4, "b": [10] * 4}, {"a": [1, 0, 0, 0], "b": [1, 0, 0, 0]}, seed=3)
    assert sample.ratio("a", "b") == Interval(0.0, math.inf)


def test_one_question_cannot_be_resampled() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        Resamples({"a": [1]}, {"a": [1]}, seed=0)
    with pytest.raises(ValueError, match="one length"):
        Resamples({"a": [1, 2]}, {"a": [1, 2, 3]}, seed=0)


def test_the_interval_of_a_ratio_covers_the_truth_nineteen_times_in_twenty() -> None:
    """300 simulated worlds of 10 questions with a known ratio: a plain percentile interval would cover about 90 %."""
    chance = random.Random(11)
    worlds, covered = 300, 0
    truth = 0.7
    for world in range(worlds):
        a, b, ca, cb = [], [], [], []
        for _ in range(10):
            hard = chance.lognormvariate(0, 0.5)
            a.append(round(40_000 * truth * hard * chance.lognormvariate(0, 0.3)))
            b.append(round(40_000 * hard * chance.lognormvariate(0, 0.3)))
            ca.append(sum(chance.random() < 0.8 for _ in range(3)))
            cb.append(sum(chance.random() < 0.8 for _ in range(3)))
        sample = Resamples({"a": a, "b": b}, {"a": ca, "b": cb}, seed=world, resamples=2000)
        covered += sample.ratio("a", "b").spans(truth)
    # 95 % of 300 with a binomial error of 1.3 points, to three of them.
    assert 0.91 <= covered / worlds <= 0.99


def test_two_hundred_questions_take_less_than_a_second() -> None:
    chance = random.Random(5)
    tokens = {arm: [chance.randrange(10_000, 90_000) for _ in range(200)] for arm in "abc"}
    correct = {arm: [chance.randrange(3) for _ in range(200)] for arm in "abc"}
    began = time.process_time()
    sample = Resamples(tokens, correct, seed=1)
    for arm in "abc":
        sample.per_correct(arm)
        sample.ratio(arm, "a")
    assert time.process_time() - began < 1.0


def test_numpy_is_loaded_only_by_who_resamples() -> None:
    script = "import sys, tokenbench.findings.statistics as s; s.wilson(1, 2); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
