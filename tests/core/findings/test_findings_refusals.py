"""What refuses a number, and what stands in its place."""

from collections.abc import Callable

import pytest
from fabricated import Fabricated, question, right

from tokenbench.experiment.model import Cell
from tokenbench.figures import Code, Figure, Published, Refusal, refuse
from tokenbench.findings.matrix import compute
from tokenbench.findings.results import Results

Fabricate = Callable[..., Fabricated]
WRONG = "A block holds 4711 integers."


def code(published: Published) -> Code | None:
    return published.code if isinstance(published, Refusal) else None


def headline_codes(results: Results) -> set[Code | None]:
    return {code(published) for published in results.headline.values()}


def codes(results: Results) -> list[Code]:
    return [banner.code for banner in results.banners]


def finish(bench: Fabricated) -> Results:
    bench.judge("ann")
    bench.open()
    return compute(bench.loaded)


def test_a_clean_experiment_has_figures_and_says_only_of_what_it_speaks(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    bench.run_all()
    results = finish(bench)
    assert headline_codes(results) == {None}
    assert codes(results) == [Code.NOT_DISTINGUISHABLE, Code.ONE_CORPUS]


def test_nothing_was_run(fabricate: Fabricate) -> None:
    results = compute(fabricate(questions=2).loaded)
    assert headline_codes(results) == {Code.INCOMPLETE}
    assert results.runs == ()


def test_ungraded_says_how_many_wait_and_not_of_which_arm(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    bench.run_all(lambda cell: right(bench.number(cell)) if cell.arm == "hybrid" else "NOT FOUND.")
    results = compute(bench.loaded)
    assert headline_codes(results) == {Code.UNGRADED}
    refusals = {str(published) for published in results.headline.values()}
    assert len(refusals) == 1
    assert "4 answers wait for a judge" in refusals.pop()


def test_all_judged_and_not_opened_is_still_ungraded_and_no_grade_is_told(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    bench.run_all(lambda cell: right(bench.number(cell)) if cell.arm == "hybrid" else "NOT FOUND.")
    bench.judge("ann")
    results = compute(bench.loaded)
    for published in (
        *results.headline.values(),
        results.ratios["hybrid"].tokens_per_correct,
        results.ratios["hybrid"].both_correct,
        results.accuracy["native"].correct_of_all,
        results.accuracy["native"].abstained_of_all,
        results.abstention["native"].score,
        results.effort["native"].seconds_per_correct,
        results.by_question["q01"]["native"].tokens_per_correct,
        results.by_question["q01"]["native"].correct,
        results.apart["native"].tokens_per_correct,
        results.agreement.raw,
    ):
        assert code(published) == Code.UNGRADED
    assert all((row.result, row.stage, row.by) == (None, None, None) for row in results.runs)
    assert all(accuracy.counts is None for accuracy in results.accuracy.values())
    assert results.agreement.disputed is None
    banner = results.banner(Code.UNGRADED)
    assert banner is not None
    assert "still closed" in banner.reason
    assert "--open" in banner.remedy


def test_before_the_opening_the_two_arms_refusals_are_the_same_words(fabricate: Fabricate) -> None:
    """Whatever differs between the arms while judges are at work would tell them whose answers they have."""
    bench = fabricate(questions=4)
    bench.run_all(lambda cell: right(bench.number(cell)) if cell.arm == "hybrid" else WRONG)
    bench.judge("ann", lambda item: "correct" if item.question != "q01" else None)
    results = compute(bench.loaded)
    assert results.accuracy["native"] == results.accuracy["hybrid"]
    assert results.abstention["native"] == results.abstention["hybrid"]
    assert results.headline["native"] == results.headline["hybrid"]


def test_what_a_run_cost_is_told_before_the_opening(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    bench.run_all()
    results = compute(bench.loaded)
    assert isinstance(results.medians["native"].tokens, Figure)
    assert isinstance(results.effort["native"].turns, Figure)
    assert all(row.tokens is not None for row in results.runs)


def test_incomplete_names_the_cells(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    bench.run_all(skip=lambda cell: cell == Cell("hybrid", "q03", 1))
    results = compute(bench.loaded)
    assert code(results.headline["hybrid"]) == Code.INCOMPLETE
    assert "hybrid__q03__r1" in results.headline["hybrid"].evidence  # pyright: ignore
    assert code(results.medians["hybrid"].tokens) == Code.INCOMPLETE
    assert code(results.medians["native"].tokens) is None


def test_an_unreconciled_run_refuses_its_arm_with_its_own_code_and_leaves_the_other(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    for cell in bench.cells:
        bench.run(cell, right(bench.number(cell)), off_by=3 if cell == Cell("native", "q02", 1) else 0)
    bench.journal.write("runner_ended")
    results = finish(bench)
    refused = results.headline["native"]
    assert code(refused) in (Code.CALLS_UNRECONCILED, Code.MODELS_UNRECONCILED)
    assert "native__q02__r1" in refused.evidence  # pyright: ignore
    assert isinstance(results.headline["hybrid"], Figure)
    ratio = results.ratios["hybrid"].tokens_per_correct
    assert isinstance(ratio, Refusal)
    assert ratio.reason.startswith("The baseline native is refused.")
    assert results.banner(refused.code) is not None  # pyright: ignore
    assert isinstance(results.accuracy["native"].correct_of_all, Figure)
    row = next(row for row in results.runs if row.cell == "native__q02__r1")
    assert row.tokens is None
    assert refused.code in row.codes  # pyright: ignore


def test_a_run_that_does_not_reconcile_is_never_in_a_sum(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    for cell in bench.cells:
        bench.run(cell, right(bench.number(cell)), off_by=3 if cell == Cell("native", "q02", 1) else 0)
    bench.journal.write("runner_ended")
    results = finish(bench)
    for rows in (results.by_question["q02"], results.by_class["mechanism"]):
        assert code(rows["native"].tokens_per_correct) == code(results.headline["native"])
    assert isinstance(results.by_question["q01"]["native"].tokens_per_correct, Figure)


def test_a_quarantined_run_refuses_its_arm_in_the_words_of_its_record(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    for cell in bench.cells:
        if cell == Cell("hybrid", "q01", 1):
            refusal = refuse(Code.QUARANTINED, "line 7: Read of /etc/passwd")
            bench.run(cell, right(1), outcome="quarantined", refusals=(refusal,))
        else:
            bench.run(cell, right(bench.number(cell)))
    bench.journal.write("runner_ended")
    results = finish(bench)
    refused = results.headline["hybrid"]
    assert code(refused) == Code.QUARANTINED
    assert refused.evidence == ("hybrid__q01__r1: line 7: Read of /etc/passwd",)  # pyright: ignore
    assert isinstance(results.headline["native"], Figure)


def test_no_control(fabricate: Fabricate) -> None:
    bench = fabricate(questions=2)
    bench.run_all()
    results = finish(bench)
    assert headline_codes(results) == {Code.NO_CONTROL}
    assert code(results.ratios["hybrid"].tokens_per_correct) == Code.NO_CONTROL
    assert isinstance(results.accuracy["native"].correct_of_all, Figure)


def test_no_composition(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4, measured=False)
    bench.run_all()
    results = finish(bench)
    assert headline_codes(results) == {Code.NO_COMPOSITION}
    assert results.banner(Code.NO_COMPOSITION) is not None


def test_a_damaged_composition_is_none(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    bench.run_all()
    bench.runs.composition.write_text("{")
    assert headline_codes(finish(bench)) == {Code.NO_COMPOSITION}


def test_no_correct(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    bench.run_all(lambda cell: WRONG if cell.arm == "hybrid" else right(bench.number(cell)))
    results = finish(bench)
    assert code(results.headline["hybrid"]) == Code.NO_CORRECT
    assert code(results.ratios["hybrid"].tokens_per_correct) == Code.NO_CORRECT
    assert code(results.ratios["hybrid"].both_correct) == Code.NO_CORRECT
    assert isinstance(results.headline["native"], Figure)
    assert results.banner(Code.NO_CORRECT) is not None


def test_an_abstention_on_a_canary_is_no_correct_answer(fabricate: Fabricate) -> None:
    bench = fabricate(questions=[question(1, "index_hostile"), question(2, "canary"), question(3, "canary")])
    bench.run_all(lambda cell: "NOT FOUND." if cell.question != "q01" else right(1))
    results = finish(bench)
    figure = results.headline["native"]
    assert isinstance(figure, Figure)
    assert figure.value == 3 * 5105
    reason = results.by_question["q02"]["native"].tokens_per_correct
    assert isinstance(reason, Refusal)
    assert "canary" in reason.reason


def test_one_question_is_too_few(fabricate: Fabricate) -> None:
    bench = fabricate(questions=[question(1, "index_hostile")], repeats=3)
    bench.run_all()
    results = finish(bench)
    assert headline_codes(results) == {Code.TOO_FEW}
    assert isinstance(results.by_question["q01"]["native"].tokens_per_correct, Figure)


def test_not_blind_verdicts_alone_make_no_headline(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    bench.run_all()
    bench.judge("ann", lambda item: "correct" if item.question != "q02" else None)
    bench.open(force=True)
    ungraded = compute(bench.loaded)
    assert headline_codes(ungraded) == {Code.UNGRADED}
    bench.judge("ann", only_unjudged=True)
    results = compute(bench.loaded)
    assert headline_codes(results) == {Code.NOT_BLIND}
    banner = results.banner(Code.NOT_BLIND)
    assert banner is not None
    assert set(banner.evidence) == {"native__q02__r1", "hybrid__q02__r1"}
    assert isinstance(results.accuracy["native"].correct_of_all, Figure)


def test_a_suspended_rule_is_a_banner(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4, audit_share=1.0)
    bench.run_all(lambda cell: WRONG if cell.question == "q01" else right(bench.number(cell)))
    results = finish(bench)
    banner = results.banner(Code.RULE_SUSPENDED)
    assert banner is not None
    assert banner.evidence == ("q01",)


@pytest.mark.parametrize("mark", ["seal", "record", "message ids", "judge"])
def test_a_scripted_model_is_told_from_any_of_its_marks(fabricate: Fabricate, mark: str) -> None:
    bench = fabricate(questions=4, scripted=mark == "seal")
    for cell in bench.cells:
        one = cell == bench.cells[3]
        bench.run(
            cell,
            right(bench.number(cell)),
            scripted=mark == "record" and one,
            message_ids="msg_scripted_" if mark == "message ids" and one else "msg_01real",
        )
    bench.journal.write("runner_ended")
    if mark == "judge":
        from tokenbench.grading.verdicts import Verdicts

        for item in bench.desk("scripted-judge").items:
            Verdicts(bench.runs, "scripted-judge", bench.clock).give(item, "correct", model="m", scripted=True)
    results = finish(bench)
    assert codes(results)[0] == Code.SCRIPTED_MODEL


def test_without_a_sandbox_a_banner_says_so(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    bench.run_all(sandbox=False)
    results = finish(bench)
    banner = results.banner(Code.NO_SANDBOX)
    assert banner is not None
    assert banner.evidence == ("8 of 8 runs",)
    assert headline_codes(results) == {None}


def test_a_mixture_of_confined_and_unconfined_runs_is_named_with_the_reason(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    for number, cell in enumerate(bench.cells):
        bench.run(cell, right(bench.number(cell)), sandbox=number != 3, sandbox_told="bwrap is not on PATH")
    bench.journal.write("runner_ended")
    banner = finish(bench).banner(Code.NO_SANDBOX)
    assert banner is not None
    named = f"without a sandbox: {bench.cells[3].name}"
    assert banner.evidence == (f"1 of {len(bench.cells)} runs: bwrap is not on PATH", named)


def test_warm_and_cold_arms_have_no_comparable_dollars(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    for cell in bench.cells:
        bench.run(cell, right(bench.number(cell)), first_read=2000 if cell.arm == "hybrid" else 0)
    bench.journal.write("runner_ended")
    results = finish(bench)
    banner = results.banner(Code.WARMTH_CONFOUNDED)
    assert banner is not None
    assert "hybrid: the first calls read 67% from cache" in banner.evidence


def test_a_planned_and_another_executed_order_is_a_banner(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    order = [bench.cells[0], bench.cells[2], bench.cells[1], *bench.cells[3:]]
    for cell in order:
        bench.run(cell, right(bench.number(cell)))
    bench.journal.write("runner_ended")
    results = finish(bench)
    banner = results.banner(Code.ORDER_DIVERGED)
    assert banner is not None
    assert banner.evidence == (f"{bench.cells[1].name} is planned as number 2 and was started as number 3",)


def test_a_cell_that_was_passed_over_is_a_divergence(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    bench.run_all(skip=lambda cell: cell == bench.cells[2])
    banner = compute(bench.loaded).banner(Code.ORDER_DIVERGED)
    assert banner is not None
    assert banner.evidence == (f"{bench.cells[2].name} was passed over: cells planned behind it were started",)


def test_an_experiment_under_way_is_in_order(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    for cell in bench.cells[:3]:
        bench.run(cell, right(bench.number(cell)))
    assert compute(bench.loaded).banner(Code.ORDER_DIVERGED) is None


def test_a_second_attempt_of_a_cell_is_no_divergence(fabricate: Fabricate) -> None:
    bench = fabricate(questions=2)
    first = bench.cells[0]
    bench.journal.write("run_started", cell=first.name, attempt=1)
    bench.attempt(first)
    for cell in bench.cells[1:]:
        bench.run(cell, right(bench.number(cell)))
    bench.run(first, right(1))
    results = compute(bench.loaded)
    assert results.banner(Code.ORDER_DIVERGED) is None
    assert results.banner(Code.RERUN) is None


def test_a_run_that_was_cut_off_and_made_again_is_told_as_a_rerun(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    cell = bench.cells[0]
    bench.journal.write("run_started", cell=cell.name, attempt=1)
    bench.journal.write("recovered", cell=cell.name, attempt=1, outcome="no_result", reason="its runner was killed")
    bench.run_all()
    results = finish(bench)
    banner = results.banner(Code.RERUN)
    assert banner is not None
    assert banner.evidence == (
        f"{cell.name}: a run of it was cut off without a result, and it was started again (kept in attempts/)",
    )
    assert [row.cell for row in results.runs if Code.RERUN in row.codes] == [cell.name]


def test_a_missing_run_of_the_baseline_weighs_more_than_verdicts_that_are_missing(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    gone = next(cell for cell in bench.cells if cell.arm == "native")
    bench.run_all(skip=lambda cell: cell == gone)
    ratio = compute(bench.loaded).ratios["hybrid"].tokens_per_correct
    assert isinstance(ratio, Refusal)
    assert ratio.code == Code.INCOMPLETE


def test_a_cell_that_was_run_again_is_a_banner_and_a_mark_on_its_row(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    bench.run_all()
    cell = bench.cells[0]
    bench.journal.write("rerun", cell=cell.name, reason="it was wrong")
    bench.run(cell, right(bench.number(cell)), started=False)
    results = finish(bench)
    banner = results.banner(Code.RERUN)
    assert banner is not None
    assert banner.evidence == (f"{cell.name}: it was wrong",)
    assert [row.cell for row in results.runs if Code.RERUN in row.codes] == [cell.name]
    assert results.banner(Code.SEAL_BROKEN) is None


def test_a_silent_second_run_is_found_in_the_journal(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    bench.run_all()
    cell = bench.cells[0]
    bench.run(cell, right(bench.number(cell)), started=False)
    banner = finish(bench).banner(Code.RERUN)
    assert banner is not None
    assert banner.evidence == (f"{cell.name}: ended 2 times by the journal",)


def test_a_figure_and_its_refusal_are_never_both_there(fabricate: Fabricate) -> None:
    """An attempt's tokens are in no headline, whatever it cost."""
    bench = fabricate(questions=4)
    bench.run_all()
    clean = finish(bench).headline["native"]
    bench.attempt(Cell("native", "q01", 1), tokens=(5, 1000, 900_000, 100))
    results = compute(bench.loaded)
    assert results.headline["native"] == clean
    assert results.apart["native"].attempts == 1
    assert isinstance(results.apart["native"].tokens, Figure)
    assert results.apart["native"].tokens.value == 901_105


def test_an_attempt_that_broke_off_is_a_lower_bound_and_says_so(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    bench.run_all()
    bench.attempt(Cell("native", "q01", 1), result=False)
    tokens = compute(bench.loaded).apart["native"].tokens
    assert isinstance(tokens, Figure)
    assert tokens.basis == "estimate"
    assert tokens.value == 5005


def test_a_server_of_undeclared_cost_is_said_and_a_declared_one_is_not(fabricate: Fabricate) -> None:
    bench = fabricate(questions=2)
    bench.edit(
        bench.folder / "tokenbench.toml",
        lambda text: (
            text.replace(
                'tools = ["Grep", "Read"]\nprompt = "prompts/hybrid.md"',
                'tools = ["mcp__far__find"]\nprompt = "prompts/hybrid.md"',
            )
            + '\n[arms.hybrid.mcp.far]\nurl = "https://example.org/mcp"\n'
        ),
    )
    (banner,) = [found for found in compute(bench.loaded).banners if found.code == Code.EXTERNAL_COST_UNKNOWN]
    assert banner.evidence == ("arms.hybrid.mcp.far",)
    bench.edit(bench.folder / "tokenbench.toml", lambda text: text + "usd_per_call = 0\n")
    assert Code.EXTERNAL_COST_UNKNOWN not in {found.code for found in compute(bench.loaded).banners}
