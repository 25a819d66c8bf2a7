"""A cell that has a run which counts is run again: said before it is done, the first run kept, crash or no."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tokenbench.clock import SystemClock
from tokenbench.errors import RunnerError, RunsError
from tokenbench.experiment import config
from tokenbench.experiment.model import Cell
from tokenbench.experiment.seal import digest
from tokenbench.grading.counted import gather
from tokenbench.runner import closing, control, reruns
from tokenbench.runner.journal import Journal
from tokenbench.runner.schedule import Job
from tokenbench.runner.status import read_status
from tokenbench.transcripts.evidence import write_record

from .conftest import Lab

FIRST = Cell("native", "q1", 1)
NAME = FIRST.name


def started(lab: Lab) -> list[str | None]:
    return [entry.cell for entry in lab.journal("run_started")]


async def test_the_first_run_is_kept_whole_and_the_second_counts(lab: Lab) -> None:
    await lab.write(["PLAIN", "PLAIN"]).run()
    transcript = lab.runs.transcript(FIRST).read_bytes()
    complaint = lab.runs.stderr(NAME).read_bytes()
    lab.runs.query_log(NAME).write_bytes(b'{"query": "x"}\n')
    before = lab.record(NAME)
    assert await lab.run(rerun=[NAME]) == 0
    kept = f"{NAME}__a1"
    assert lab.names("attempts") == {f"{kept}.json", f"{kept}.jsonl"}
    assert lab.runs.attempt(FIRST, 1).read_bytes() == transcript
    assert lab.runs.stderr(kept).read_bytes() == complaint
    assert lab.runs.query_log(kept).read_bytes() == b'{"query": "x"}\n'
    assert not lab.runs.query_log(NAME).exists()
    record = lab.record(kept, "attempts")
    assert (record.outcome, record.attempt, record.set_aside) == ("answered", 1, "asked for by --rerun")
    assert record.transcript_sha256 == before.transcript_sha256
    assert (lab.record(NAME).attempt, lab.record(NAME).set_aside) == (2, "")
    assert started(lab) == [NAME, "native__q2__r1", NAME]


async def test_the_journal_is_told_first_and_what_it_will_be_asked_for(lab: Lab) -> None:
    await lab.write(["PLAIN"]).run()
    sha256 = lab.record(NAME).transcript_sha256
    await lab.run(rerun=[NAME], reason="the corpus was\n\x1b[2Jnot mounted")
    (line,) = lab.journal("rerun")
    assert (line.cell, line.attempt, line.transcript_sha256) == (NAME, 1, sha256)
    assert line.reason == "the corpus was ␛[2Jnot mounted"
    events = [entry.event for entry in lab.journal("rerun", "run_started", "run_ended")]
    assert events == ["run_started", "run_ended", "rerun", "run_started", "run_ended"]


async def test_a_quarantined_run_gives_the_reason_itself(lab: Lab) -> None:
    assert await lab.write(["OTHER-TOOLS-AT 1"]).run() == 1
    assert lab.record(NAME).outcome == "quarantined"
    assert await lab.run(rerun=[NAME]) == 0
    (line,) = lab.journal("rerun")
    assert str(line.reason).startswith("asked for by --rerun; its run was quarantined: line 1: it has tools")
    assert lab.record(f"{NAME}__a1", "attempts").refusals
    assert lab.record(NAME).outcome == "answered"


async def test_each_time_is_a_line_and_an_attempt_of_its_own(lab: Lab) -> None:
    await lab.write(["OVERLOADED-AT 1"]).run()
    for _ in range(2):
        assert await lab.run(rerun=[NAME]) == 0
    assert [line.attempt for line in lab.journal("rerun")] == [2, 3]
    kept = [lab.record(f"{NAME}__a{number}", "attempts") for number in (1, 2, 3)]
    assert [(record.outcome, bool(record.set_aside)) for record in kept] == [
        ("infrastructure", False),
        ("answered", True),
        ("answered", True),
    ]
    assert lab.record(NAME).attempt == 4


async def test_nothing_else_is_run_unless_it_is_asked_for_too(lab: Lab) -> None:
    lab.write(["PLAIN"] * 4)
    await lab.run(only=["question=q1", "question=q2"])
    assert await lab.run(rerun=["native__q2__r1", NAME]) == 0
    assert started(lab)[2:] == [NAME, "native__q2__r1"]
    assert await lab.run(rerun=[NAME], only=["question=q3"]) == 0
    assert started(lab)[4:] == [NAME, "native__q3__r1"]


async def test_three_words_name_a_cell_as_well(lab: Lab) -> None:
    await lab.write(["PLAIN"]).run()
    assert await lab.run(rerun=["native q1 1", NAME]) == 0
    assert len(lab.journal("rerun")) == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("native__q2__r1", "native__q2__r1 has no run that counts"),
        ("native__q9__r1", "the experiment has no cell native__q9__r1"),
        ("none__q1__r1", "the experiment has no cell none__q1__r1"),
        ("native__q1__r2", "the experiment has no cell native__q1__r2"),
        ("native__q1__r01", "the experiment has no cell native__q1__r01"),
        ("native__q1", "native__q1 is not the name of a cell"),
        ("native__q1__rone", "native__q1__rone is not the name of a cell"),
        ("../../etc/passwd", "is not the name of a cell"),
        ("\x1b[2J", "␛[2J is not the name of a cell"),
        ("", "nothing is not the name of a cell"),
    ],
)
async def test_what_cannot_be_run_again_is_a_sentence_and_nothing_is_touched(lab: Lab, name: str, said: str) -> None:
    await lab.write(["PLAIN", "PLAIN"]).run(only=["question=q1"])
    before = {path: path.read_bytes() for path in lab.runs.folder.rglob("*") if path.is_file()}
    with pytest.raises(RunnerError) as caught:
        await lab.run(rerun=[NAME, name])
    assert said in caught.value.what
    assert caught.value.where == "--rerun"
    lock = lab.runs.lock
    assert {path: path.read_bytes() for path in before if path != lock} == {
        path: content for path, content in before.items() if path != lock
    }


async def test_a_runner_at_work_is_not_disturbed(lab: Lab) -> None:
    lab.write(["PLAIN", "GATE go"])
    task = asyncio.create_task(lab.run())
    await lab.at_gate(2)
    with pytest.raises(RunnerError, match="a runner is at work here already"):
        await lab.run(rerun=[NAME])
    lab.open_gate()
    assert await task == 0
    assert lab.journal("rerun") == []


async def test_once_the_mapping_is_open_it_takes_a_word_more(lab: Lab) -> None:
    """Who asks then can know what the answer was worth, and would pick the answer that counts."""
    await lab.write(["PLAIN"]).run()
    Journal(lab.runs.journal, SystemClock()).write("mapping_opened")
    with pytest.raises(RunnerError, match="the mapping is open") as caught:
        await lab.run(rerun=[NAME])
    assert "--force" in caught.value.remedy
    assert lab.journal("rerun") == []
    assert await lab.run(rerun=[NAME], force=True) == 0
    assert lab.record(NAME).attempt == 2


async def test_a_limit_of_the_experiment_leaves_the_run_where_it_is(lab: Lab) -> None:
    await lab.write(["PLAIN"], limits="experiment_tokens = 1").run()
    before = lab.runs.transcript(FIRST).read_bytes()
    assert await lab.run(rerun=[NAME]) == 1
    assert lab.journal("limit_reached")
    assert (lab.journal("rerun"), lab.names("attempts")) == ([], set())
    assert lab.runs.transcript(FIRST).read_bytes() == before


async def test_taken_out_of_the_queue_the_run_that_counts_stands(lab: Lab) -> None:
    lab.write(["GATE-AT 2", "PLAIN"])
    await lab.run()
    again = "native__q2__r1"
    task = asyncio.create_task(lab.run(rerun=[NAME, again]))
    await lab.until(lambda: len(lab.journal("run_started")) == 3)
    await asyncio.to_thread(lambda: control.send(lab.runs, "cancel", cell=again))
    lab.open_gate()
    assert await task == 1
    assert lab.record(again).attempt == 1
    assert [line.cell for line in lab.journal("rerun")] == [NAME]
    counts = read_status(lab.folder, now=0).cells
    assert (counts.finished, counts.cancelled) == (2, 0)


async def test_a_second_run_that_infrastructure_spoils_is_tried_again(lab: Lab) -> None:
    await lab.write(["OVERLOADED-AT 2"]).run()
    assert await lab.run(rerun=[NAME]) == 0
    assert [line.attempt for line in lab.journal("rerun")] == [1]
    assert lab.record(NAME).attempt == 3
    assert lab.record(f"{NAME}__a2", "attempts").outcome == "infrastructure"


async def test_the_tokens_of_the_first_run_stand_apart(lab: Lab) -> None:
    await lab.write(["PLAIN"]).run()
    before = read_status(lab.folder, now=0)
    await lab.run(rerun=[NAME])
    after = read_status(lab.folder, now=0)
    assert before.tokens > 0
    assert (after.tokens, after.apart_tokens, after.attempts) == (before.tokens, before.tokens, before.attempts + 1)


# Crashes.


class Killed(BaseException):
    """What `kill -9` would be: nothing after it is done."""


def kill_before(monkeypatch: pytest.MonkeyPatch, number: int) -> list[str]:
    """Kill before the change of that number to the disk; returns what was done before it."""
    done: list[str] = []

    def counted(what: str, do: Callable[..., object]) -> Callable[..., object]:
        def step(*positional: object, **named: object) -> object:
            if len(done) == number:
                raise Killed
            done.append(what)
            return do(*positional, **named)

        return step

    monkeypatch.setattr(Journal, "write", counted("journal", Journal.write))
    monkeypatch.setattr(closing, "write_record", counted("record", write_record))
    monkeypatch.setattr(Path, "replace", counted("move", Path.replace))
    monkeypatch.setattr(Path, "unlink", counted("remove", Path.unlink))
    return done


STEPS = ["journal", "record", "move", "move", "move", "move", "remove"]
"""The line; the record's copy, whole by a rename; standard error; the query log; the transcript; the first record."""


def stop_before(lab: Lab, number: int) -> list[str]:
    """Begin the rerun of the first cell, and be killed before its step of that number."""
    lab.runs.query_log(NAME).write_bytes(b"{}\n")
    with pytest.MonkeyPatch.context() as patch:
        done = kill_before(patch, number)
        try:
            reruns.begin(lab.runs, Journal(lab.runs.journal, SystemClock()), Job("native", FIRST, 0))
        except Killed:
            pass
        else:
            assert number == len(STEPS)
    return done


def copies(lab: Lab, content: bytes) -> int:
    return sum(path.read_bytes() == content for path in lab.runs.folder.rglob("*.jsonl"))


@pytest.mark.parametrize("number", range(len(STEPS) + 1))
async def test_killed_between_any_two_steps_nothing_is_lost_or_doubled_and_the_next_runner_goes_on(
    lab: Lab, number: int
) -> None:
    lab.write(["PLAIN"])
    await lab.run()
    with lab.runs.transcript(FIRST).open("ab") as file:
        # The fake agent prints the same each time: this line tells the first run from the second.
        file.write(b'{"type":"system","subtype":"first"}\n')
    first = lab.runs.transcript(FIRST).read_bytes()
    record = lab.record(NAME)
    sha256 = digest(lab.runs.transcript(FIRST))
    changed = msgspec.structs.replace(record, transcript_sha256=sha256, transcript_bytes=len(first))
    write_record(lab.runs.record(FIRST), changed)

    assert stop_before(lab, number) == STEPS[:number]

    assert copies(lab, first) == 1
    counted = gather(config.load(lab.folder))
    shown = [run for run in (counted.runs.get(FIRST), *counted.attempts) if run is not None]
    assert len(shown) == 1
    assert shown[0].record is not None
    assert shown[0].record.transcript_sha256 == sha256

    begun = number > 0
    assert await lab.run() == 0
    assert copies(lab, first) == 1
    assert len(lab.journal("rerun")) == begun
    assert lab.names("attempts") == ({f"{NAME}__a1.json", f"{NAME}__a1.jsonl"} if begun else set())
    assert lab.record(NAME).attempt == 1 + begun
    assert len(lab.journal("run_started")) == 1 + begun
    if begun:
        assert lab.runs.attempt(FIRST, 1).read_bytes() == first
        assert lab.record(f"{NAME}__a1", "attempts").set_aside == "asked for by --rerun"
        assert lab.runs.query_log(f"{NAME}__a1").exists()
    assert not list(lab.runs.folder.rglob("*.part"))
    # Done is done: nothing is set aside a second time.
    assert await lab.run() == 0
    assert len(lab.journal("run_started")) == 1 + begun


@pytest.mark.parametrize("number", range(1, len(STEPS) + 1))
async def test_asked_for_again_after_a_crash_it_is_the_same_rerun(lab: Lab, number: int) -> None:
    await lab.write(["PLAIN"]).run()
    stop_before(lab, number)
    assert await lab.run(rerun=[NAME]) == 0
    assert len(lab.journal("rerun")) == 1
    assert lab.record(NAME).attempt == 2


async def test_killed_in_the_second_run_the_first_is_not_set_aside_again(lab: Lab) -> None:
    await lab.write(["PLAIN"]).run()
    first = lab.runs.transcript(FIRST).read_bytes()
    await lab.run(rerun=[NAME])
    # The second run under way, as a dead runner leaves it.
    lab.runs.record(FIRST).unlink()
    lab.runs.transcript(FIRST).rename(lab.runs.partial(FIRST))
    lines = lab.runs.journal.read_bytes().splitlines(keepends=True)
    lab.runs.journal.write_bytes(b"".join(lines[:-2]))
    assert await lab.run() == 0
    assert len(lab.journal("rerun")) == 1
    assert lab.runs.attempt(FIRST, 1).read_bytes() == first
    assert lab.record(f"{NAME}__a2", "attempts").ended_by == "runner_lost"
    assert lab.record(NAME).attempt == 3


async def test_a_rerun_that_was_begun_does_not_hide_that_the_first_run_is_gone(lab: Lab) -> None:
    await lab.write(["PLAIN"]).run()
    stop_before(lab, 2)
    lab.runs.transcript(FIRST).unlink()
    with pytest.raises(RunsError, match="transcript of a closed run is gone"):
        await lab.run()
    assert lab.runs.record(FIRST).exists()


async def test_a_disk_that_is_full_is_a_sentence_and_loses_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    await lab.write(["PLAIN"]).run()
    first = lab.runs.transcript(FIRST).read_bytes()
    move = Path.replace

    def full(path: Path, target: Path) -> Path:
        if path == lab.runs.transcript(FIRST):
            raise OSError(28, "No space left on device")
        return move(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(RunsError, match="could not be kept among the attempts: No space left"):
            await lab.run(rerun=[NAME])
    assert lab.runs.transcript(FIRST).read_bytes() == first
    assert await lab.run() == 0
    assert lab.runs.attempt(FIRST, 1).read_bytes() == first


async def test_the_number_is_never_that_of_another_attempt(lab: Lab) -> None:
    """Attempts that somebody took away, or put there, leave no number to be given twice."""
    await lab.write(["OVERLOADED-AT 1"]).run()
    shutil.rmtree(lab.runs.attempts)
    assert closing.number_apart(lab.runs, NAME, lab.record(NAME)) == 2
    lab.runs.prepare()
    lab.runs.attempt(FIRST, 5).touch()
    assert closing.number_apart(lab.runs, NAME, lab.record(NAME)) == 6
