"""Verdicts are appended, never rewritten; an undo is a line; a bad line loses no other."""

import json
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenbench.clock import ManualClock
from tokenbench.errors import GradingError
from tokenbench.grading.items import BlindItem
from tokenbench.grading.verdicts import DECISIONS, Verdicts, check_judge, judges, read_log
from tokenbench.transcripts.evidence import Runs


def an_item(number: int = 1, answer: str = "256") -> BlindItem:
    return BlindItem(
        id=f"{number:016x}",
        question="q01",
        question_class="lookup",
        text="How many?",
        truth="256",
        note="",
        answer=answer,
        masked=0,
    )


@pytest.fixture
def verdicts(tmp_path: Path) -> Verdicts:
    return Verdicts(Runs(tmp_path / "runs"), "ann", ManualClock(100.0))


def test_a_verdict_is_a_line_with_what_it_is_bound_to(verdicts: Verdicts) -> None:
    item = an_item()
    verdicts.give(item, "wrong", note="says 128\nnot 256", seconds=12.5)
    (line,) = verdicts.path.read_text().splitlines()
    row = json.loads(line)
    assert row["item"] == item.id
    assert row["verdict"] == "wrong"
    assert row["seconds"] == 12.5
    assert set(row["seen"]) == {"question", "truth", "answer"}
    assert stat.S_IMODE(verdicts.path.stat().st_mode) == 0o600


def test_the_last_verdict_on_an_item_stands(verdicts: Verdicts) -> None:
    verdicts.give(an_item(), "wrong")
    verdicts.give(an_item(), "correct")
    assert verdicts.read().standing[an_item().id].act.verdict == "correct"
    assert len(verdicts.path.read_text().splitlines()) == 2


def test_undo_goes_back_any_number_of_steps_and_adds_lines(verdicts: Verdicts) -> None:
    verdicts.give(an_item(1), "wrong")
    verdicts.give(an_item(1), "correct")
    verdicts.give(an_item(2), "abstained")
    undone = [verdicts.undo() for _ in range(2)]
    assert [act.verdict for act in undone if act] == ["abstained", "correct"]
    assert verdicts.read().standing[an_item(1).id].act.verdict == "wrong"
    assert verdicts.undo() is not None
    assert verdicts.undo() is None
    assert verdicts.read().standing == {}
    assert len(verdicts.path.read_text().splitlines()) == 6


def test_a_torn_last_line_is_reported_by_number_and_the_next_verdict_starts_a_line_of_its_own(
    verdicts: Verdicts,
) -> None:
    verdicts.give(an_item(1), "wrong")
    with verdicts.path.open("ab") as file:
        file.write(b'{"act":"x","t":1,"item":"2","verd')
    verdicts.give(an_item(3), "correct")
    log = verdicts.read()
    assert set(log.standing) == {an_item(1).id, an_item(3).id}
    (problem,) = log.problems
    assert problem.startswith("verdicts/ann.jsonl:2: ")


@pytest.mark.parametrize(
    "line",
    [
        b"\x00" * 64,
        b"[]",
        b'{"act":"a","t":1,"item":"1","verdict":"right","seen":{"question":"","truth":"","answer":""}}',
        b'{"act":"a","t":1,"item":"1","verdict":"correct"}',
        b'{"act":"a","t":1,"item":"1","verdict":"correct","undoes":"b"}',
        b'{"act":"a","t":1,"undoes":"never given"}',
        b'{"t":1}',
        b"\xff\xfe",
    ],
)
def test_a_line_that_is_no_verdict_loses_no_other(verdicts: Verdicts, line: bytes) -> None:
    verdicts.give(an_item(1), "wrong")
    with verdicts.path.open("ab") as file:
        file.write(line + b"\n")
    verdicts.give(an_item(2), "correct")
    log = verdicts.read()
    assert len(log.standing) == 2
    assert len(log.problems) == 1
    assert ":2: " in log.problems[0]


def test_a_copied_line_counts_once(verdicts: Verdicts) -> None:
    verdicts.give(an_item(1), "wrong")
    data = verdicts.path.read_bytes()
    verdicts.path.write_bytes(data + data)
    log = verdicts.read()
    assert len(log.order) == 1
    assert "repeats" in log.problems[0]


def test_a_file_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert read_log(tmp_path / "ann.jsonl").standing == {}
    assert judges(Runs(tmp_path / "runs")) == ()


@pytest.mark.parametrize("name", ["", "../x", "Ann", "a b", "a.b", "-a", "x" * 41, "ann\n", "ä"])
def test_a_judges_name_becomes_a_file_name_and_is_checked(name: str) -> None:
    with pytest.raises(GradingError, match="cannot be a judge's name"):
        check_judge(name)


def test_a_note_may_hold_anything(verdicts: Verdicts) -> None:
    verdicts.give(an_item(), "unknown", note="\ud800 \x1b[31m\n")
    assert verdicts.read().problems == ()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.none(), st.tuples(st.integers(1, 4), st.sampled_from(DECISIONS))), max_size=25))
def test_the_file_says_what_a_stack_would(
    tmp_path_factory: pytest.TempPathFactory, acts: list[tuple[int, str] | None]
) -> None:
    """Whatever is given and undone in whatever order: the file, read again, equals a plain stack."""
    verdicts = Verdicts(Runs(tmp_path_factory.mktemp("runs")), "ann", ManualClock())
    stack: list[tuple[int, str]] = []
    for act in acts:
        if act is None:
            undone = verdicts.undo()
            assert (undone.verdict if undone else None) == (stack.pop()[1] if stack else None)
        else:
            stack.append(act)
            verdicts.give(an_item(act[0]), act[1])  # pyright: ignore
    expected = {an_item(number).id: verdict for number, verdict in stack}
    assert {item: placed.act.verdict for item, placed in verdicts.read().standing.items()} == expected
