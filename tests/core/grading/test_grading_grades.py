"""What an answer is worth: rule, judges, majority, staleness, blindness; and the opening of the mapping."""

import stat
from collections.abc import Callable

import msgspec
import pytest
from fabricated import Fabricated, judged_by, question, right

from tokenbench.errors import GradingError
from tokenbench.experiment.model import Cell
from tokenbench.figures import Code
from tokenbench.grading.blindness import is_open
from tokenbench.grading.grades import Grade, grade_all, grades, lock_and_open
from tokenbench.grading.mapping import read_mapping, write_mapping
from tokenbench.grading.verdicts import log_state
from tokenbench.grading.votes import Vote, deciding, majority
from tokenbench.runner.journal import JournalReader

Fabricate = Callable[..., Fabricated]
WRONG = "A block holds 4711 integers."


def one(bench: Fabricated, arm: str, number: int = 1, repeat: int = 1) -> Grade:
    return grades(bench.loaded)[Cell(arm, f"q{number:02d}", repeat)]


def test_rules_settle_what_they_can_and_the_rest_waits(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    answers = {1: right(1), 2: WRONG, 3: "NOT FOUND.", 4: None}
    for cell in bench.cells:
        number = bench.number(cell)
        bench.run(cell, answers[number], outcome="max_turns" if number == 4 else "answered")
    found = {number: one(bench, "native", number) for number in answers}
    assert [(grade.result, grade.stage, grade.by) for grade in found.values()] == [
        (None, "NEEDS-JUDGE", None),
        ("wrong", "FAIL", "rule"),
        ("abstained", "ABSTAINED", "rule"),
        ("wrong", "NO-ANSWER", "rule"),
    ]


@pytest.mark.parametrize("outcome", ["max_turns", "max_budget", "time_limit"])
def test_a_run_that_reached_its_limit_is_not_correct_whatever_it_had_said(fabricate: Fabricate, outcome: str) -> None:
    bench = fabricate(questions=1)
    for cell in bench.cells:
        bench.run(cell, right(1), outcome=outcome)
    grade = one(bench, "native")
    assert (grade.result, grade.stage) == ("wrong", "NO-ANSWER")


def test_a_quarantined_run_is_not_judged(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    for cell in bench.cells:
        bench.run(cell, right(1), outcome="quarantined")
    grade = one(bench, "native")
    assert grade.result is None
    assert grade.refused(Code.QUARANTINED)
    assert grade_all(bench.loaded).unjudged == ()


def test_a_verdict_counts_for_every_cell_with_that_answer(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1, repeats=2)
    bench.run_all()
    bench.judge("ann")
    assert {grade.result for grade in grades(bench.loaded).values()} == {"correct"}
    assert all(grade.by == "judges" for grade in grades(bench.loaded).values())


def a_vote(judge: str, verdict: str, **fields: object) -> Vote:
    return Vote(judge=judge, verdict=verdict, **fields)  # pyright: ignore


@pytest.mark.parametrize(
    ("verdicts", "result"),
    [
        ("", None),
        ("c", "correct"),
        ("cw", "unknown"),
        ("ccw", "correct"),
        ("cwa", "unknown"),
        ("ccwa", "unknown"),
        ("cccwa", "correct"),
        ("u", "unknown"),
        ("cu", "correct"),
        ("cwu", "unknown"),
        ("aaw", "abstained"),
    ],
)
def test_more_than_half_of_those_who_could_say_decide(verdicts: str, result: str | None) -> None:
    words = {"c": "correct", "w": "wrong", "a": "abstained", "u": "unknown"}
    assert majority(a_vote(f"j{i}", words[letter]) for i, letter in enumerate(verdicts)) == result


def test_a_stale_vote_decides_nothing_and_one_that_was_not_blind_only_where_no_other_is() -> None:
    blind, seeing = a_vote("ann", "correct"), a_vote("bob", "wrong", blind=False)
    stale = a_vote("eve", "wrong", stale=("truth",))
    assert deciding([blind, seeing, stale]) == (blind,)
    assert deciding([seeing, stale]) == (seeing,)


def test_split_judges_leave_an_answer_unknown_and_say_who(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    bench.run_all()
    bench.judge("ann", lambda _: "correct")
    bench.judge("bob", lambda _: "wrong")
    grade = one(bench, "native")
    assert grade.result == "unknown"
    (refusal,) = grade.refusals
    assert refusal.code == Code.JUDGES_DISAGREE
    assert "ann correct, bob wrong" in refusal.evidence


def test_what_changes_after_a_verdict_makes_it_stale(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    bench.run_all()
    bench.judge("ann")
    bench.edit(bench.folder / "questions.jsonl", lambda text: text.replace("257 integers (src", "257 ints (src"))
    grade = one(bench, "native")
    assert grade.result is None
    (refusal,) = grade.refusals
    assert refusal.code == Code.UNGRADED
    assert "ann" in refusal.reason
    assert "truth" in refusal.reason


def test_a_changed_answer_takes_its_verdict_with_it(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    bench.run_all()
    bench.judge("ann")
    for cell in bench.cells:
        bench.edit(bench.runs.transcript(cell), lambda text: text.replace("One block", "Each block"))
    grading = grade_all(bench.loaded)
    assert len(grading.unjudged) == 2
    assert "stale: the answer" in grading.votes.problems[0]


def test_an_overturned_audit_suspends_the_rule_and_the_others_wait(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1, repeats=2, audit_share=0.25)
    bench.run_all(lambda cell: f"{WRONG} {cell.arm} {cell.repeat}")
    bench.judge("ann", lambda _: "correct")
    found = grade_all(bench.loaded)
    assert found.suspended == {"q01"}
    assert sorted(str(grade.result) for grade in found.grades.values()) == ["None", "None", "None", "correct"]
    bench.judge("ann", lambda _: "wrong")
    assert grade_all(bench.loaded).unjudged == ()


def test_a_confirmed_audit_leaves_the_rule_in_force(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1, repeats=2, audit_share=0.25)
    bench.run_all(lambda cell: f"{WRONG} {cell.arm} {cell.repeat}")
    assert len(grade_all(bench.loaded).unjudged) == 0
    bench.desk("ann")
    assert len(grade_all(bench.loaded).unjudged) == 1
    bench.judge("ann", lambda _: "wrong")
    found = grade_all(bench.loaded)
    assert found.suspended == frozenset()
    assert {grade.result for grade in found.grades.values()} == {"wrong"}


def test_the_mapping_stays_closed_while_answers_wait(fabricate: Fabricate) -> None:
    bench = fabricate(questions=2)
    bench.run_all()
    bench.judge("ann", judged_by({"257": "correct"}))
    with pytest.raises(GradingError, match="1 answer waits for a judge"):
        lock_and_open(bench.loaded, bench.clock)
    assert not is_open(bench.runs)
    assert [e.event for e in JournalReader(bench.runs.journal).new()].count("queue_locked") == 0


def test_the_mapping_stays_closed_while_cells_have_no_run(fabricate: Fabricate) -> None:
    bench = fabricate(questions=2)
    bench.run_all(skip=lambda cell: cell.question == "q02")
    bench.judge("ann")
    with pytest.raises(GradingError, match="2 cells have no run yet"):
        lock_and_open(bench.loaded, bench.clock)


def test_nothing_was_run_so_nothing_is_opened(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    with pytest.raises(GradingError, match="no run has ended"):
        lock_and_open(bench.loaded, bench.clock, force=True)


def test_opening_is_two_journal_lines_and_happens_once(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    bench.run_all()
    bench.judge("ann")
    opening = lock_and_open(bench.loaded, bench.clock)
    assert (opening.items, opening.unjudged, opening.judges) == (1, 0, ("ann",))
    events = [entry.event for entry in JournalReader(bench.runs.journal).new()]
    assert events[-2:] == ["queue_locked", "mapping_opened"]
    assert stat.S_IMODE(bench.runs.blind.stat().st_mode) == 0o600
    with pytest.raises(GradingError, match="open already"):
        lock_and_open(bench.loaded, bench.clock, force=True)


def test_forced_open_says_so_and_later_verdicts_are_not_blind(fabricate: Fabricate) -> None:
    bench = fabricate(questions=2)
    bench.run_all()
    bench.judge("ann", judged_by({"257": "correct"}))
    bench.open(force=True)
    locked = next(entry for entry in JournalReader(bench.runs.journal).new() if entry.event == "queue_locked")
    assert "1 unjudged" in (locked.reason or "")
    bench.judge("bob")
    assert one(bench, "native", 1).refusals == ()
    late = one(bench, "native", 2)
    assert late.result == "correct"
    assert late.refused(Code.NOT_BLIND)


def test_a_late_verdict_never_outweighs_blind_ones(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    bench.run_all()
    bench.judge("ann", lambda _: "wrong")
    bench.open()
    bench.judge("bob", lambda _: "correct")
    bench.judge("eve", lambda _: "correct")
    grade = one(bench, "native")
    assert grade.result == "wrong"
    assert [vote.blind for vote in grade.votes] == [True, False, False]


def test_after_the_opening_nobody_changes_or_takes_back_what_he_decided_blind(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    bench.run_all()
    bench.judge("ann", lambda _: "wrong")
    bench.open()
    bench.judge("ann", lambda _: "correct")
    found = grade_all(bench.loaded)
    assert {grade.result for grade in found.grades.values()} == {"wrong"}
    assert "the earlier one stands" in found.votes.problems[0]
    desk = bench.desk("ann")
    while desk.undo() is not None:
        bench.clock.advance(1.0)
    found = grade_all(bench.loaded)
    assert {grade.result for grade in found.grades.values()} == {"wrong"}
    assert "the verdict stands" in found.votes.problems[0]


def test_a_late_verdict_with_an_early_time_is_found_out_by_the_length_of_its_file(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    bench.run_all()
    bench.judge("ann", lambda _: "wrong")
    bench.open()
    bench.clock.advance(-1000.0)
    bench.judge("ann", lambda _: "correct")
    bench.judge("bob", lambda _: "correct")
    grade = one(bench, "native")
    assert grade.result == "wrong"
    assert [(vote.judge, vote.blind) for vote in grade.votes] == [("ann", True), ("bob", False)]


def test_a_verdict_that_was_edited_after_the_opening_is_not_blind_and_is_named(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    bench.run_all()
    bench.judge("ann", lambda _: "wrong")
    bench.open()
    bench.edit(bench.runs.verdicts / "ann.jsonl", lambda text: text.replace('"wrong"', '"correct"'))
    found = grade_all(bench.loaded)
    assert all(grade.refused(Code.NOT_BLIND) for grade in found.grades.values())
    assert "changed after the queue was locked" in found.votes.problems[0]


@pytest.mark.parametrize("lock", ["taken out", "made anew"])
def test_a_lock_that_is_not_the_one_which_the_journal_remembers_shows_no_verdict_to_be_blind(
    fabricate: Fabricate, lock: str
) -> None:
    bench = fabricate(questions=1)
    bench.run_all()
    bench.judge("ann", lambda _: "wrong")
    bench.open()
    path = bench.runs.verdicts / "ann.jsonl"
    bench.edit(path, lambda text: text.replace('"wrong"', '"correct"'))
    mapping = read_mapping(bench.runs)
    assert mapping is not None
    forged = {"ann": log_state(path)} if lock == "made anew" else None
    write_mapping(bench.runs, msgspec.structs.replace(mapping, locked=forged))
    found = grade_all(bench.loaded)
    assert all(grade.refused(Code.NOT_BLIND) for grade in found.grades.values())
    assert "blind.json: it and the journal do not agree" in found.votes.problems[0]


def test_an_opening_that_was_taken_out_of_the_journal_makes_no_later_verdict_blind(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    bench.run_all()
    bench.judge("ann", lambda _: "wrong")
    bench.open()
    bench.edit(
        bench.runs.journal,
        lambda text: "".join(line for line in text.splitlines(True) if '"mapping_opened"' not in line),
    )
    bench.judge("ann", lambda _: "correct")
    bench.judge("bob", lambda _: "correct")
    bench.open()
    grade = one(bench, "native")
    assert grade.result == "wrong"
    assert [(vote.judge, vote.blind) for vote in grade.votes] == [("ann", True), ("bob", False)]


def test_who_peeked_judges_no_more_blind(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    bench.run_all()
    bench.journal.write("peeked", judge="ann", cell=bench.cells[0].name)
    bench.judge("ann")
    assert one(bench, "native").refused(Code.NOT_BLIND)


def test_a_canary_is_graded_by_its_own_words(fabricate: Fabricate) -> None:
    bench = fabricate(questions=[question(1, "canary")])
    bench.run_all(lambda cell: "NOT FOUND." if cell.arm == "native" else "The class PowerComplete does it.")
    bench.judge("ann", lambda _: "wrong")
    assert one(bench, "native").result == "abstained"
    assert one(bench, "hybrid").result == "wrong"
