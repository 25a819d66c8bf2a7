"""A cell that was run again: every figure that holds it says so, and the run before stays in sight."""

from collections.abc import Callable

import pytest
from fabricated import Fabricated, right

from tokenbench.figures import RERUN_COMMAND, Code, Figure, Published, Refusal, refuse
from tokenbench.findings.matrix import compute
from tokenbench.findings.report import report, show
from tokenbench.findings.results import Results, plain
from tokenbench.findings.summary import summary

Fabricate = Callable[..., Fabricated]


@pytest.fixture
def bench(fabricate: Fabricate) -> Fabricated:
    """All runs of an experiment; the first cell was wrong."""
    bench = fabricate(questions=4)
    first = bench.cells[0]
    bench.run_all(lambda cell: "It holds 4711." if cell == first else right(bench.number(cell)))
    return bench


def finish(bench: Fabricated) -> Results:
    bench.judge("ann")
    bench.open()
    return compute(bench.loaded)


def again(bench: Fabricated, **run: object) -> str:
    """Run the first cell again, right this time; returns its name."""
    first = bench.cells[0]
    bench.rerun(first, right(bench.number(first)), **run)
    return first.name


def evidence(results: Results) -> tuple[str, ...]:
    banner = results.banner(Code.RERUN)
    assert banner is not None
    return banner.evidence


def figure(published: Published) -> Figure:
    assert isinstance(published, Figure)
    return published


def test_the_banner_names_the_cell_the_reason_and_where_the_first_run_is(bench: Fabricated) -> None:
    name = again(bench, reason="the index was stale")
    results = finish(bench)
    assert evidence(results) == (f"{name}: the index was stale (the run before is kept as attempts/{name}__a1.jsonl)",)
    assert results.banner(Code.SEAL_BROKEN) is None
    assert results.experiment.counted == 8


def test_every_figure_that_holds_the_cell_says_so_and_no_other_one(bench: Fabricated) -> None:
    name = again(bench)
    results = finish(bench)
    arm, other = bench.cells[0].arm, next(cell.arm for cell in bench.cells if cell.arm != bench.cells[0].arm)
    for of_arm, codes in ((arm, (Code.RERUN,)), (other, ())):
        for published in (
            results.headline[of_arm],
            results.medians[of_arm].tokens,
            results.accuracy[of_arm].correct_of_all,
            results.effort[of_arm].turns,
            results.by_question[bench.cells[0].question][of_arm].tokens_per_correct,
        ):
            assert figure(published).codes == codes
    assert figure(results.ratios["hybrid"].tokens_per_correct).codes == (Code.RERUN,)
    assert [row.cell for row in results.runs if Code.RERUN in row.codes] == [name]
    for question, arms in results.by_question.items():
        expected = (Code.RERUN,) if question == bench.cells[0].question else ()
        assert figure(arms[arm].median_tokens).codes == expected


def test_the_mark_stands_in_the_json_the_report_and_the_summary(bench: Fabricated) -> None:
    again(bench)
    results = finish(bench)
    arm = bench.cells[0].arm
    headline = figure(results.headline[arm])
    assert plain(headline)["codes"] == ["RERUN"]
    assert show(headline).endswith(" RERUN")
    assert f"{show(headline)} |" in report(results)
    (row,) = [line for line in summary(results).splitlines() if line.startswith(f"{arm} ")]
    assert " RERUN " in row


def test_a_figure_without_a_code_is_written_as_ever() -> None:
    assert set(plain(Figure(value=1, unit="answers", basis="exact"))) == {
        "value",
        "unit",
        "basis",
        "interval",
        "runs",
    }


def test_the_tokens_of_the_first_run_are_apart_and_only_there(bench: Fabricated) -> None:
    first = bench.cells[0]
    again(bench, tokens=(5, 1000, 9000, 100))
    results = finish(bench)
    apart = results.apart[first.arm]
    assert apart.attempts == 1
    assert figure(apart.tokens).value == 5105
    assert figure(apart.tokens).runs == (f"{first.name}__a1",)
    arm = [cell for cell in bench.cells if cell.arm == first.arm]
    counted = figure(results.headline[first.arm])
    assert counted.value == (5105 * (len(arm) - 1) + 10105) / len(arm)
    assert figure(apart.tokens_per_correct).value == (5105 * len(arm) + 10105) / len(arm)


def test_every_time_is_told(bench: Fabricated) -> None:
    first = bench.cells[0]
    again(bench, reason="one")
    bench.set_aside(first, "two")
    bench.run(first, right(bench.number(first)), attempt=3)
    (told,) = evidence(finish(bench))
    assert told.startswith(
        f"{first.name}: 2 times: one (the run before is kept as attempts/{first.name}__a1.jsonl); two"
    )


def test_a_rerun_that_was_begun_and_not_finished_is_told_and_nothing_counts_twice(bench: Fabricated) -> None:
    first = bench.cells[0]
    bench.set_aside(first)
    results = compute(bench.loaded)
    incomplete = results.banner(Code.INCOMPLETE)
    assert incomplete is not None
    assert incomplete.evidence == (first.name,)
    assert evidence(results)[0].startswith(f"{first.name}: asked for by --rerun")
    assert results.banner(Code.SEAL_BROKEN) is None
    assert figure(results.apart[first.arm].tokens).value == 5105


def test_a_crash_between_the_line_and_the_move_breaks_no_seal(bench: Fabricated) -> None:
    first = bench.cells[0]
    bench.journal.write("rerun", cell=first.name, attempt=1, reason="asked for by --rerun")
    results = compute(bench.loaded)
    assert results.banner(Code.SEAL_BROKEN) is None
    assert results.banner(Code.RERUN) is not None
    assert results.experiment.counted == 8


# After the mapping was opened.


def test_after_the_opening_it_is_said_and_the_new_answer_waits_for_a_judge(bench: Fabricated) -> None:
    finish(bench)
    first = bench.cells[0]
    bench.rerun(first, f"{right(bench.number(first))} That much is certain.")
    results = compute(bench.loaded)
    assert ", after the mapping was opened (" in evidence(results)[0]
    refused = results.headline[first.arm]
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.evidence) == (Code.UNGRADED, (first.name,))


def test_and_judged_then_there_is_a_number_for_it_and_no_headline(bench: Fabricated) -> None:
    finish(bench)
    first = bench.cells[0]
    bench.rerun(first, f"{right(bench.number(first))} That much is certain.")
    bench.clock.advance(1.0)
    bench.judge("bob", only_unjudged=True)
    results = compute(bench.loaded)
    refused = results.headline[first.arm]
    assert isinstance(refused, Refusal)
    assert refused.code == Code.NOT_BLIND
    assert figure(results.accuracy[first.arm].correct_of_all).codes == (Code.RERUN,)


# Whoever wants the first run forgotten, or back.


def seal_broken(bench: Fabricated) -> str:
    banner = compute(bench.loaded).banner(Code.SEAL_BROKEN)
    return "\n".join(banner.evidence) if banner is not None else ""


def test_a_first_run_that_was_thrown_away_is_missed(bench: Fabricated) -> None:
    name = again(bench)
    assert seal_broken(bench) == ""
    for end in (".json", ".jsonl"):
        (bench.runs.attempts / f"{name}__a1{end}").unlink()
    assert f"{name}__a1 is gone: the run of {name} that was set aside" in seal_broken(bench)


def test_a_first_run_that_was_made_cheaper_afterwards_is_found(bench: Fabricated) -> None:
    name = again(bench)
    bench.edit(bench.runs.attempt(bench.cells[0], 1), lambda text: text.replace("4000", "1000"))
    assert f"{name}__a1.jsonl is not what the run wrote: sha256 " in seal_broken(bench)


def test_the_first_run_cannot_be_put_back_because_the_second_was_worse(bench: Fabricated) -> None:
    first = bench.cells[0]
    again(bench, tokens=(5, 1000, 9000, 100))
    for end in (".json", ".jsonl"):
        (bench.runs.attempts / f"{first.name}__a1{end}").replace(bench.runs.folder / f"{first.name}{end}")
    said = seal_broken(bench)
    assert f"{first.name} was set aside to be run again, and it counts all the same" in said
    assert f"{first.name} is attempt 1 by its record, and by the journal attempt 2 was the last that counted" in said


def test_a_line_of_the_rerun_that_is_taken_out_leaves_the_two_ends(bench: Fabricated) -> None:
    name = again(bench)
    bench.edit(
        bench.runs.journal,
        lambda text: "".join(line for line in text.splitlines(keepends=True) if '"rerun"' not in line),
    )
    assert evidence(compute(bench.loaded)) == (f"{name}: ended 2 times by the journal",)


# What would mend it.


@pytest.mark.parametrize(("scripted", "command"), [(False, "run"), (True, "rehearse")])
def test_a_quarantine_names_the_command_that_runs_the_cell_again(
    fabricate: Fabricate, scripted: bool, command: str
) -> None:
    bench = fabricate(questions=4, scripted=scripted)
    bench.run_all(skip=lambda cell: cell == bench.cells[0])
    bench.run(bench.cells[0], right(1), outcome="quarantined", refusals=(refuse(Code.QUARANTINED, "it read /etc"),))
    banner = compute(bench.loaded).banner(Code.QUARANTINED)
    assert banner is not None
    assert f"`tokenbench-tui {command} --rerun {bench.cells[0].name}`" in banner.remedy


def test_so_does_a_run_that_is_not_reconciled(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    bench.run_all(skip=lambda cell: cell == bench.cells[0])
    bench.run(bench.cells[0], right(1), off_by=3)
    results = compute(bench.loaded)
    banner = results.banner(Code.CALLS_UNRECONCILED)
    assert banner is not None
    refused = results.medians[bench.cells[0].arm].tokens
    assert isinstance(refused, Refusal)
    for remedy in (banner.remedy, refused.remedy):
        assert f"`tokenbench-tui run --rerun {bench.cells[0].name}`" in remedy
        assert RERUN_COMMAND not in remedy
