"""The blind queue: random ids, a secret mapping that is only extended, and nothing in it that tells the arm."""

import json
import re
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from fabricated import Fabricated, question, right

from tokenbench.errors import GradingError
from tokenbench.grading.exchange import export_lines
from tokenbench.grading.items import BlindItem
from tokenbench.grading.mapping import read_mapping
from tokenbench.grading.masking import MARK
from tokenbench.grading.queue import CANARY_NOTE, extend_queue, read_queue

Fabricate = Callable[..., Fabricated]


def wrong(number: int) -> str:
    """An answer that the rule fails."""
    return f"A block holds {1000 + number} integers."


def test_the_type_of_an_item_has_no_field_that_could_hold_the_arm() -> None:
    assert set(BlindItem.__struct_encode_fields__) == {
        "id",
        "question",
        "class",
        "text",
        "truth",
        "note",
        "answer",
        "masked",
    }


def test_answers_that_rules_cannot_settle_are_queued_and_others_are_not(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    answers = {1: right(1), 2: wrong(2), 3: "NOT FOUND.", 4: None}
    for cell in bench.cells:
        number = bench.number(cell)
        bench.run(cell, answers[number], outcome="max_turns" if number == 4 else "answered")
    bench.journal.write("runner_ended")
    queue = extend_queue(bench.loaded)
    assert [item.question for item in queue.items.values()] == ["q01"]


def test_identical_answers_are_one_item_whoever_gave_them(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    bench.run_all(lambda cell: right(1) if cell.arm == "native" else f"  {right(1)}\n")
    queue = extend_queue(bench.loaded)
    (item,) = queue.mapping.items
    assert len(item.cells) == 2
    assert len(queue.items) == 1


def test_answers_that_differ_only_in_the_tool_they_name_are_one_item(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    bench.run_all(lambda cell: f"{right(1)} Found with {'Grep' if cell.arm == 'native' else 'xq'}.")
    (item,) = extend_queue(bench.loaded).items.values()
    assert MARK in item.answer
    assert item.masked == 1


def test_the_mapping_is_private_and_holds_no_time(fabricate: Fabricate) -> None:
    bench = fabricate(questions=2)
    bench.run_all(lambda cell: f"{right(bench.number(cell))} {cell.arm[0]}")
    extend_queue(bench.loaded)
    assert stat.S_IMODE(bench.runs.blind.stat().st_mode) == 0o600
    text = bench.runs.blind.read_text()
    assert "1000" not in re.sub(r'"[0-9a-f]{16,}"', "", text)


def test_ids_are_random_and_stay_when_more_runs_end(fabricate: Fabricate) -> None:
    bench = fabricate(questions=3, repeats=2)
    first = [cell for cell in bench.cells if cell.repeat == 1]
    for cell in first:
        bench.run(cell, right(bench.number(cell)))
    before = extend_queue(bench.loaded)
    for cell in bench.cells:
        if cell.repeat == 2:
            bench.run(cell, f"{right(bench.number(cell))} Indeed.")
    bench.journal.write("runner_ended")
    after = extend_queue(bench.loaded)
    assert set(before.items) < set(after.items)
    assert after.mapping.secret == before.mapping.secret
    assert all(re.fullmatch(r"[0-9a-f]{16}", item) for item in after.items)
    assert extend_queue(bench.loaded).mapping == after.mapping


def test_while_the_runner_works_an_answer_waits_until_its_question_is_through_in_all_arms(
    fabricate: Fabricate,
) -> None:
    """Else a judge who watches the runs would know whose the one new answer is."""
    bench = fabricate(questions=2)
    q01 = [cell for cell in bench.cells if cell.question == "q01"]
    bench.run(q01[0], f"{right(1)} a")
    assert extend_queue(bench.loaded).items == {}
    bench.run(q01[1], f"{right(1)} b")
    assert len(extend_queue(bench.loaded).items) == 2


def test_a_cell_that_was_given_up_holds_nothing_back(fabricate: Fabricate) -> None:
    bench = fabricate(questions=2)
    one, other = [cell for cell in bench.cells if cell.question == "q01"]
    bench.run(one, right(1))
    bench.journal.write("gave_up", cell=other.name)
    assert len(extend_queue(bench.loaded).items) == 1


def test_each_judge_gets_an_order_of_his_own_and_always_the_same(fabricate: Fabricate) -> None:
    bench = fabricate(questions=12)
    bench.run_all(lambda cell: f"{right(bench.number(cell))} {cell.arm}")
    queue = extend_queue(bench.loaded)
    orders = {judge: [item.id for item in queue.for_judge(judge)] for judge in ("ann", "bob")}
    assert orders["ann"] != orders["bob"]
    assert sorted(orders["ann"]) == sorted(orders["bob"])
    again = read_queue(bench.loaded)
    assert again is not None
    assert [item.id for item in again.for_judge("ann")] == orders["ann"]
    assert orders["ann"] != sorted(orders["ann"])


def test_a_share_of_the_fails_is_mixed_in_unmarked(fabricate: Fabricate) -> None:
    bench = fabricate(questions=10, audit_share=0.2)
    bench.run_all(lambda cell: f"{wrong(bench.number(cell))} {cell.arm}")
    queue = extend_queue(bench.loaded)
    assert len(queue.items) == 4
    assert {item.why for item in queue.mapping.items} == {"audit"}
    exported = export_lines(bench.desk("ann")).decode()
    assert "audit" not in exported
    assert "FAIL" not in exported


def test_without_a_share_no_fail_is_shown_and_with_all_of_it_every_one(fabricate: Fabricate, tmp_path: Path) -> None:
    none = fabricate(questions=5, audit_share=0.0)
    none.run_all(lambda cell: wrong(none.number(cell)))
    assert extend_queue(none.loaded).items == {}
    every = Fabricated(tmp_path / "every", questions=5, audit_share=1.0)
    every.run_all(lambda cell: wrong(every.number(cell)))
    assert len(extend_queue(every.loaded).items) == 5


def test_an_overturned_fail_brings_all_fails_of_its_question_and_of_no_other(fabricate: Fabricate) -> None:
    bench = fabricate(questions=2, repeats=3, audit_share=0.2)
    bench.run_all(lambda cell: f"{wrong(bench.number(cell))} {cell.arm} {cell.repeat}")
    audited = {item.question for item in extend_queue(bench.loaded).items.values()}
    bench.judge("ann", lambda item: "correct" if item.question == "q01" else "wrong")
    queue = extend_queue(bench.loaded)
    asked = [item.question for item in queue.items.values()]
    assert asked.count("q01") == (6 if "q01" in audited else 0)
    assert asked.count("q02") < 6


def test_what_is_exported_holds_the_items_and_nothing_else(fabricate: Fabricate) -> None:
    bench = fabricate(questions=3, arms=("native", "hybrid", "retrieval"))
    bench.run_all(lambda cell: f"{right(bench.number(cell))} {len(cell.arm)}")
    lines = export_lines(bench.desk("ann")).splitlines()
    rows = [json.loads(line) for line in lines]
    assert all(set(row) == set(BlindItem.__struct_encode_fields__) for row in rows)
    text = "".join(json.dumps(row | {"id": ""}) for row in rows)
    for leak in ("native", "hybrid", "retrieval", "__r1", "/srv/corpus", "5005", "runs/"):
        assert leak not in text


def test_a_canary_tells_the_judge_what_an_abstention_is(fabricate: Fabricate) -> None:
    bench = fabricate(questions=[question(1), {**question(2, "canary"), "judge_note": "None of it exists."}])
    bench.run_all(lambda cell: right(1) if cell.question == "q01" else "There is nothing of that kind here, it says.")
    notes = {item.question: item.note for item in extend_queue(bench.loaded).items.values()}
    assert notes["q02"] == f"{CANARY_NOTE}\nNone of it exists."
    assert notes["q01"] == ""


def test_quarantined_runs_take_no_judges_time(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    for cell in bench.cells:
        bench.run(cell, right(1), outcome="quarantined")
    bench.journal.write("runner_ended")
    assert extend_queue(bench.loaded).items == {}


def test_a_damaged_mapping_is_said_and_never_replaced(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    bench.run_all()
    extend_queue(bench.loaded)
    whole = bench.runs.blind.read_bytes()
    bench.runs.blind.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(GradingError, match="cannot be read as the mapping"):
        extend_queue(bench.loaded)
    assert bench.runs.blind.read_bytes() == whole[: len(whole) // 2]


def test_no_queue_was_made_yet(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    assert read_queue(bench.loaded) is None
    assert read_mapping(bench.runs) is None


def test_an_item_whose_answer_was_changed_is_no_longer_shown(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    bench.run_all(lambda cell: f"{right(1)} {cell.arm}")
    before = extend_queue(bench.loaded)
    path = bench.runs.transcript(bench.cells[0])
    bench.edit(path, lambda text: text.replace("257 integers", "257 whole integers"))
    now = read_queue(bench.loaded)
    assert now is not None
    assert len(now.items) == len(before.items) - 1
    assert msgspec.structs.asdict(now.mapping) == msgspec.structs.asdict(before.mapping)
