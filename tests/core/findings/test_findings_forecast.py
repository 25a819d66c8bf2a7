"""What is left of an experiment is forecast from what was measured, with a range, and never from nothing."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from tokenbench.figures import Code, Figure, Refusal
from tokenbench.findings.forecast import Forecast, forecast
from tokenbench.findings.statistics import student_t

Fabricate = Callable[..., Any]


def arm_of(found: Forecast, name: str) -> Any:
    return next(arm for arm in found.arms if arm.arm == name)


def tokens_by_question(cell: Any) -> tuple[int, int, int, int]:
    number = int(cell.question[1:])
    factor = 2 if cell.arm == "native" else 1
    return (5, 1000 * factor * number, 4000 * factor, 100)


def test_nothing_measured_is_no_forecast_but_the_way_to_one(fabricate: Fabricate) -> None:
    found = forecast(fabricate().loaded)
    assert isinstance(found.tokens, Refusal)
    assert found.tokens.code == Code.TOO_FEW
    assert "--only question=q01 repeat=1" in found.tokens.remedy


def test_what_is_left_is_the_mean_times_the_open_cells_with_a_prediction_interval(fabricate: Fabricate) -> None:
    bench = fabricate(questions=6)
    bench.run_all(tokens=tokens_by_question, skip=lambda cell: int(cell.question[1:]) > 3)
    found = arm_of(forecast(bench.loaded), "hybrid")
    totals = [5 + 1000 * number + 4000 + 100 for number in (1, 2, 3)]
    mean = sum(totals) / 3
    half = student_t(0.975, 2) * 1000 * math.sqrt(3 + 9 / 3)
    assert (found.open, found.measured, found.warmups_only) == (3, 3, False)
    assert found.tokens.value == round(3 * mean)
    assert found.tokens.interval == (pytest.approx(max(0, 3 * mean - half)), pytest.approx(3 * mean + half))
    assert found.tokens.basis == "estimate"


def test_one_run_has_no_end_to_its_range(fabricate: Fabricate) -> None:
    bench = fabricate(questions=3)
    bench.run_all(skip=lambda cell: cell.question != "q01")
    found = arm_of(forecast(bench.loaded), "native")
    assert found.tokens.interval == (0.0, math.inf)


def test_nothing_is_left_of_a_finished_experiment(fabricate: Fabricate) -> None:
    bench = fabricate()
    bench.run_all()
    found = forecast(bench.loaded)
    assert isinstance(found.tokens, Figure)
    assert found.tokens.value == 0
    assert found.over == ()


def test_runs_whose_tokens_are_refused_and_quarantined_ones_are_no_basis(fabricate: Fabricate) -> None:
    bench = fabricate(questions=3)
    first, second, *_ = [cell for cell in bench.cells if cell.arm == "native"]
    bench.run(first, "256", off_by=3)
    bench.run(second, "256", outcome="quarantined")
    found = arm_of(forecast(bench.loaded), "native")
    assert isinstance(found.tokens, Refusal)


def test_a_scripted_model_forecasts_nothing_but_itself(fabricate: Fabricate) -> None:
    bench = fabricate(questions=3, scripted=True)
    bench.run_all(skip=lambda cell: cell.question == "q03")
    found = forecast(bench.loaded)
    assert isinstance(found.tokens, Figure)
    assert found.tokens.codes == (Code.SCRIPTED_MODEL,)


def test_a_limit_that_would_be_reached_is_said_before_it_is(fabricate: Fabricate) -> None:
    bench = fabricate(questions=3)
    bench.run_all(skip=lambda cell: cell.question != "q01")
    bench.edit(bench.folder / "tokenbench.toml", lambda text: text + "\n[limits]\nexperiment_tokens = 20_000\n")
    assert "more than the experiment's limit of 20,000" in forecast(bench.loaded).over[0]


def test_what_could_be_told_apart_needs_three_questions_and_comes_from_their_spread(fabricate: Fabricate) -> None:
    bench = fabricate(questions=6)
    bench.run_all(tokens=tokens_by_question, skip=lambda cell: int(cell.question[1:]) > 2)
    assert isinstance(forecast(bench.loaded).detectable["hybrid"], Refusal)

    bench.run_all(tokens=tokens_by_question, skip=lambda cell: int(cell.question[1:]) != 3)
    found = forecast(bench.loaded).detectable["hybrid"]
    assert isinstance(found, Figure)
    logs = [math.log((105 + 1000 * n + 4000) / (105 + 2000 * n + 8000)) for n in (1, 2, 3)]
    spread = math.sqrt(sum((value - sum(logs) / 3) ** 2 for value in logs) / 2)
    gap = (student_t(0.975, 5) + student_t(0.8, 5)) * spread / math.sqrt(6)
    assert found.value == pytest.approx(1 - math.exp(-gap))
