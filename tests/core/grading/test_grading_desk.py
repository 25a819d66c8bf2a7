"""A judge's seat, and judging elsewhere."""

import json
from collections.abc import Callable

import pytest
from fabricated import Fabricated, right

from tokenbench.errors import GradingError
from tokenbench.grading.desk import Desk
from tokenbench.grading.exchange import export_lines, import_lines

Fabricate = Callable[..., Fabricated]


@pytest.fixture
def bench(fabricate: Fabricate) -> Fabricated:
    bench = fabricate(questions=4)
    bench.run_all()
    return bench


def test_a_judge_works_through_what_waits_and_can_go_back(bench: Fabricated) -> None:
    desk = bench.desk("ann")
    assert desk.progress.unjudged == 4
    first = desk.next_unjudged()
    assert first == desk.items[0]
    desk.give(first, "wrong", note="says 128", seconds=30.0)
    second = desk.next_unjudged(after=first.id)
    assert second == desk.items[1]
    desk.give(second, "unknown", seconds=10.0)
    assert (desk.progress.judged, desk.progress.mean_seconds) == (2, 20.0)
    assert desk.undo() is not None
    assert desk.next_unjudged(after=first.id) == second
    assert desk.next_unjudged(after=first.id, step=-1) == desk.items[3]


def test_all_judged_leaves_nothing_next(bench: Fabricated) -> None:
    bench.judge("ann")
    desk = bench.desk("ann")
    assert desk.next_unjudged() is None
    assert desk.progress.unjudged == 0


def test_another_window_of_the_same_judge_sees_the_same(bench: Fabricated) -> None:
    here, there = bench.desk("ann"), bench.desk("ann")
    here.give(here.items[0], "correct")
    assert there.refresh()
    assert there.verdict(there.items[0]) is not None
    assert not there.refresh()


def test_judges_are_blind_to_each_other(bench: Fabricated) -> None:
    bench.judge("ann")
    desk = bench.desk("bob")
    assert desk.progress.judged == 0
    assert "ann" not in export_lines(desk).decode()


def test_a_stale_verdict_has_to_be_given_again(bench: Fabricated) -> None:
    bench.judge("ann")
    bench.edit(bench.folder / "questions.jsonl", lambda text: text.replace("kind 1 hold", "sort 1 hold"))
    desk = bench.desk("ann")
    (stale,) = [item for item in desk.items if desk.stale(item)]
    assert desk.unjudged() == (stale,)


def test_no_such_item(bench: Fabricated) -> None:
    with pytest.raises(GradingError, match="no such item"):
        bench.desk("ann").item("nope")


def judged_elsewhere(desk: Desk, verdict: str = "correct", **more: object) -> list[dict[str, object]]:
    return [json.loads(line) | {"verdict": verdict} | more for line in export_lines(desk).splitlines()]


def as_lines(rows: list[dict[str, object]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def test_what_was_exported_comes_back_with_verdicts(bench: Fabricated) -> None:
    desk = bench.desk("ann")
    data = as_lines(judged_elsewhere(desk, comment="fine", seconds=3))
    assert import_lines(desk, data).taken == 4
    act = desk.verdict(desk.items[0])
    assert act is not None
    assert (act.verdict, act.note, act.seconds) == ("correct", "fine", 3.0)
    again = import_lines(desk, data)
    assert (again.taken, again.known, again.refused) == (0, 4, ())


def test_an_id_and_a_verdict_are_enough(bench: Fabricated) -> None:
    desk = bench.desk("ann")
    data = as_lines([{"id": desk.items[0].id, "verdict": "abstained"}])
    assert import_lines(desk, b"\xef\xbb\xbf" + data + b"\n\n").taken == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"verdict": "right"}, "`verdict` is right, not one of correct, wrong, abstained, unknown"),
        ({"verdict": None}, "`verdict` is None"),
        ({"verdict": ["correct"]}, "`verdict` is"),
        ({"id": "0" * 16}, "names no item"),
        ({"id": None}, "names no item"),
        ({"arm": "native"}, "unknown field `arm`"),
        ({"answer": "something else"}, "`answer` is not what is in the queue now"),
        ({"comment": 7}, "`comment` is no text"),
        ({"seconds": "7"}, "`seconds` is no number"),
        ({"seconds": True}, "`seconds` is no number"),
        ({"seconds": -1}, "`seconds` is no time"),
    ],
)
def test_a_line_that_cannot_be_taken_is_refused_by_number_and_the_others_are_taken(
    bench: Fabricated, change: dict[str, object], why: str
) -> None:
    desk = bench.desk("ann")
    rows = judged_elsewhere(desk)
    rows[1] |= change
    done = import_lines(desk, as_lines(rows))
    assert done.taken == 3
    (refused,) = done.refused
    assert refused.startswith("line 2: ")
    assert why in refused


@pytest.mark.parametrize("raw", [b"{", b"[]", b"null", b'"x"', b"\xff", b"\x00\x00"])
def test_a_line_that_is_no_object_is_refused(bench: Fabricated, raw: bytes) -> None:
    done = import_lines(bench.desk("ann"), raw + b"\n")
    assert done.taken == 0
    assert done.refused[0].startswith("line 1: is no JSON object")


def test_a_key_that_stands_twice_is_refused(bench: Fabricated) -> None:
    desk = bench.desk("ann")
    line = f'{{"id": "{desk.items[0].id}", "verdict": "correct", "verdict": "wrong"}}\n'
    assert import_lines(desk, line.encode()).refused == ("line 1: names `verdict` twice",)


def test_two_verdicts_on_one_item_are_both_refused(bench: Fabricated) -> None:
    desk = bench.desk("ann")
    rows = judged_elsewhere(desk)
    done = import_lines(desk, as_lines([*rows, rows[0] | {"verdict": "wrong"}]))
    assert done.taken == 3
    assert [text.partition(":")[0] for text in done.refused] == ["line 1", "line 5"]
    assert desk.verdict(desk.items[0]) is None


def test_hostile_answers_go_out_whole_and_harmless(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    bench.run_all(lambda cell: f"{right(1)} \x1b]0;owned\x07 [/] \u202e")
    (item,) = bench.desk("ann").items
    assert "\x1b" not in item.answer
    assert "\u202e" not in item.answer
    assert "[/]" in item.answer
