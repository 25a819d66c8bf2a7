"""The figures of the matrix, against numbers worked out by hand."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from fabricated import Fabricated, judged_by, question, right

from tokenbench.experiment.model import Cell
from tokenbench.figures import Code, Figure, Published, Refusal
from tokenbench.findings.matrix import compute, losing_first
from tokenbench.findings.results import Results

Fabricate = Callable[..., Fabricated]
WRONG = "A block holds 4711 integers."


def value(published: Published) -> float:
    """The number of a figure; a refusal fails the test with its sentence."""
    assert isinstance(published, Figure), published
    return float(published.value)


def code(published: Published) -> Code:
    assert isinstance(published, Refusal), published
    return published.code


def spent(total: int) -> tuple[int, int, int, int]:
    """Counters of a run that cost so many tokens."""
    return (5, 1000, total - 1105, 100)


def graded(bench: Fabricated, verdicts: dict[str, str] | None = None) -> Results:
    """Judge everything (by pieces of the answers, else correct), open, compute."""
    decide = judged_by(verdicts) if verdicts else (lambda _: "correct")  # pyright: ignore
    bench.judge("ann", decide)
    bench.open()
    return compute(bench.loaded)


@pytest.fixture
def simple(fabricate: Fabricate) -> Results:
    """Four questions, two arms. native: 10,000 a run, all right. hybrid: 6,000, the last one wrong."""
    bench = fabricate(questions=4)
    bench.run_all(
        lambda cell: WRONG if cell.arm == "hybrid" and cell.question == "q04" else right(bench.number(cell)),
        lambda cell: spent(10_000 if cell.arm == "native" else 6_000),
    )
    return graded(bench)


def test_tokens_per_correct_answer_holds_the_wrong_ones_too(simple: Results) -> None:
    assert value(simple.headline["native"]) == 10_000
    assert value(simple.headline["hybrid"]) == 24_000 / 3


def test_every_figure_names_its_runs(simple: Results) -> None:
    figure = simple.headline["hybrid"]
    assert isinstance(figure, Figure)
    assert set(figure.runs) == {f"hybrid__q0{number}__r1" for number in range(1, 5)}
    assert (figure.unit, figure.basis) == ("tokens/correct", "exact")


def test_the_ratio_has_an_interval_from_the_same_resamples(simple: Results) -> None:
    ratio = simple.ratios["hybrid"].tokens_per_correct
    assert value(ratio) == pytest.approx(0.8)
    assert isinstance(ratio, Figure)
    assert ratio.interval is not None
    low, high = ratio.interval
    assert low == pytest.approx(0.6)
    assert high > 1
    assert simple.ratios["hybrid"].reading == "not distinguishable"
    assert "native" not in simple.ratios


def test_without_an_error_every_resample_is_the_same_and_the_ratio_reads_fewer(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    bench.run_all(None, lambda cell: spent(10_000 if cell.arm == "native" else 6_000))
    ratio = graded(bench).ratios["hybrid"]
    assert isinstance(ratio.tokens_per_correct, Figure)
    assert ratio.tokens_per_correct.interval == (0.6, 0.6)
    assert ratio.reading == "fewer"


def test_the_both_correct_ratio_leaves_out_what_either_got_wrong(simple: Results) -> None:
    both = simple.ratios["hybrid"].both_correct
    assert value(both) == pytest.approx(0.6)
    assert isinstance(both, Figure)
    assert len(both.runs) == 6


def test_the_both_correct_ratio_weighs_questions_and_not_repeats(fabricate: Fabricate) -> None:
    """q01: native right once of two (8,000), hybrid twice (4,000, 6,000). q02: native 2,000 and 4,000, hybrid 3,000."""
    bench = fabricate(questions=[question(1, "index_hostile"), question(2)], repeats=2)
    costs = {
        ("native", 1, 1): 8000,
        ("native", 1, 2): 90_000,
        ("hybrid", 1, 1): 4000,
        ("hybrid", 1, 2): 6000,
        ("native", 2, 1): 2000,
        ("native", 2, 2): 4000,
        ("hybrid", 2, 1): 3000,
        ("hybrid", 2, 2): 3000,
    }
    bench.run_all(
        lambda cell: WRONG if cell == Cell("native", "q01", 2) else right(bench.number(cell)),
        lambda cell: spent(costs[cell.arm, bench.number(cell), cell.repeat]),
    )
    both = graded(bench).ratios["hybrid"].both_correct
    assert value(both) == pytest.approx((5000 + 3000) / (8000 + 3000))


def test_medians_turns_and_time(fabricate: Fabricate) -> None:
    bench = fabricate(questions=2, repeats=2)
    bench.run_all(None, lambda cell: spent(2000 + 1000 * bench.number(cell) + cell.repeat), seconds=20.0)
    results = graded(bench)
    assert value(results.medians["native"].tokens) == (3002 + 4001) / 2
    assert value(results.medians["native"].seconds) == 20
    assert value(results.medians["native"].turns) == 2
    assert value(results.effort["native"].turns) == 2.0
    assert value(results.effort["native"].seconds_per_correct) == 20


def test_by_class_and_by_question(simple: Results) -> None:
    assert set(simple.by_class) == {"lookup", "mechanism", "index_hostile"}
    lookup = simple.by_class["lookup"]["hybrid"]
    assert value(lookup.tokens_per_correct) == 12_000
    assert value(lookup.correct) == 1
    assert lookup.ratio is not None
    assert value(lookup.ratio) == 1.2
    assert code(simple.by_question["q04"]["hybrid"].tokens_per_correct) == Code.NO_CORRECT
    assert simple.by_question["q04"]["native"].ratio is None
    assert value(simple.by_question["q04"]["hybrid"].median_tokens) == 6000


def test_the_losing_classes_come_first(simple: Results) -> None:
    assert [name for name, _ in losing_first(simple, "hybrid")] == ["lookup", "mechanism", "index_hostile"]


def test_dollars_wait_for_a_price_table(simple: Results) -> None:
    assert code(simple.cost["native"].total) == Code.PRICE_UNKNOWN
    assert all(row.cost_usd is None for row in simple.runs)


def test_shares_wait_for_a_calibration(simple: Results) -> None:
    assert code(simple.shares["native"]) == Code.UNCALIBRATED


def test_every_run_has_its_row(simple: Results) -> None:
    assert len(simple.runs) == 8
    row = next(row for row in simple.runs if row.cell == "hybrid__q04__r1")
    assert (row.outcome, row.token_reconciled, row.result, row.by) == ("answered", True, "wrong", "rule")
    assert row.tokens is not None
    assert row.tokens.total == 6000


def test_the_arms_stand_baseline_first_headline_second(fabricate: Fabricate) -> None:
    bench = fabricate(questions=2, arms=("native", "hybrid", "bare"))
    assert compute(bench.loaded).experiment.arms == ("native", "hybrid", "bare")


# Case 55: four different things must not share a denominator.


@pytest.fixture
def case_55(fabricate: Fabricate) -> Results:
    rows = [
        json.loads(line)
        for line in (Path(__file__).parents[2] / "data" / "cases" / "55-infra-wrong-abstain.jsonl")
        .read_text()
        .splitlines()
    ]
    graded_rows = [row for row in rows if row["outcome"] != "infra_error"]
    (failed,) = [row for row in rows if row["outcome"] == "infra_error"]
    questions = [
        question(number, "canary" if row["kind"] == "canary" else None) for number, row in enumerate(graded_rows, 1)
    ]
    says = {
        "correct": right,
        "wrong": lambda _: WRONG,
        "abstain": lambda _: "NOT FOUND.",
        "answered_right_from_memory": lambda _: "Class PowerComplete does it.",
    }
    bench = fabricate(questions=questions)
    bench.run_all(
        lambda cell: says[graded_rows[bench.number(cell) - 1]["outcome"]](bench.number(cell)),
        lambda cell: (5, 100, graded_rows[bench.number(cell) - 1]["tokens"] - 205, 100),
    )
    attempt = bench.cells[0]
    bench.attempt(Cell("native", attempt.question, 1), tokens=(5, 100, failed["tokens"] - 205, 100))
    return graded(bench, {"PowerComplete": "correct", "One block": "correct"})


def test_case_55_accuracy_has_three_denominators(case_55: Results) -> None:
    accuracy = case_55.accuracy["native"]
    assert value(accuracy.correct_of_all) == 5 / 8
    assert value(accuracy.correct_of_answered) == 5 / 7
    assert value(accuracy.abstained_of_all) == 1 / 8
    assert accuracy.counts is not None
    assert accuracy.counts.runs == 8
    assert isinstance(accuracy.correct_of_all, Figure)
    assert accuracy.correct_of_all.interval == pytest.approx((0.3057, 0.8632), abs=1e-4)


def test_case_55_a_canary_answered_rightly_from_memory_is_a_violation(case_55: Results) -> None:
    abstention = case_55.abstention["native"]
    assert value(abstention.canary_violations) == 1 / 3
    assert value(abstention.canary_abstained) == 2 / 3
    assert value(abstention.score) == -7


def test_case_55_tokens_per_correct_with_and_without_the_failed_run(case_55: Results) -> None:
    assert value(case_55.headline["native"]) == 2280
    assert case_55.apart["native"].attempts == 1
    assert value(case_55.apart["native"].tokens) == 300
    assert value(case_55.apart["native"].tokens_per_correct) == 2340
    assert case_55.apart["hybrid"].attempts == 0
    assert value(case_55.apart["hybrid"].tokens_per_correct) == 2280


def test_case_55_graded_eleven(case_55: Results) -> None:
    assert len([row for row in case_55.runs if row.cell.startswith("native")]) == 11


# Answers on which the judges are split


def test_a_dispute_that_decides_nothing_widens_the_interval_and_is_said(fabricate: Fabricate) -> None:
    bench = fabricate(questions=6)
    bench.run_all(
        lambda cell: f"{right(bench.number(cell))} {cell.arm}",
        lambda cell: spent(50_000 if cell.arm == "native" else 5_000),
    )
    bench.judge("ann")
    bench.judge("bob", lambda item: "wrong" if "257" in item.answer and "hybrid" in item.answer else "correct")
    bench.open()
    results = compute(bench.loaded)
    ratio = results.ratios["hybrid"]
    assert value(results.headline["hybrid"]) == 6000
    assert value(ratio.tokens_per_correct) == pytest.approx(0.12)
    assert isinstance(ratio.tokens_per_correct, Figure)
    assert ratio.tokens_per_correct.interval is not None
    assert ratio.tokens_per_correct.interval[0] == pytest.approx(0.1)
    assert ratio.reading == "fewer"
    accuracy = results.accuracy["hybrid"].correct_of_all
    assert value(accuracy) == 1.0
    assert isinstance(accuracy, Figure)
    assert accuracy.interval is not None
    assert accuracy.interval[0] < 0.5
    assert results.banner(Code.JUDGES_DISAGREE) is not None
    assert results.agreement.disputed == ("hybrid__q01__r1",)
    assert value(results.agreement.raw) == 11 / 12


def test_a_dispute_that_decides_what_the_ratio_says_refuses_it_with_both_bounds(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    bench.run_all(
        lambda cell: f"{right(bench.number(cell))} {cell.arm}",
        lambda cell: spent(10_000 if cell.arm == "native" else 8_000),
    )
    bench.judge("ann")
    bench.judge("bob", lambda item: "wrong" if "hybrid" in item.answer and "257" in item.answer else "correct")
    bench.open()
    results = compute(bench.loaded)
    ratio = results.ratios["hybrid"].tokens_per_correct
    assert code(ratio) == Code.JUDGES_DISAGREE
    assert isinstance(ratio, Refusal)
    assert any("hybrid right, native wrong: 0.8 to 0.8, fewer" in line for line in ratio.evidence)
    assert any("not distinguishable" in line for line in ratio.evidence)
    assert "hybrid__q01__r1" in ratio.evidence
    assert code(results.headline["hybrid"]) == Code.JUDGES_DISAGREE
    assert value(results.headline["native"]) == 10_000


def test_an_upper_bound_may_be_infinite(fabricate: Fabricate) -> None:
    """One right answer in four: three resamples in ten hold none."""
    bench = fabricate(questions=4)
    bench.run_all(lambda cell: right(1) if cell.question == "q01" or cell.arm == "native" else WRONG)
    results = graded(bench, {"257": "correct", "block": "wrong"})
    figure = results.headline["hybrid"]
    assert isinstance(figure, Figure)
    assert figure.interval is not None
    assert figure.interval[1] == math.inf
