"""A runner from its start to its end: what it leaves on disk, and what a later runner makes of it."""

import asyncio
import hashlib
import itertools
import os
import random
import shutil
from pathlib import Path

import pytest

from tokenbench.clock import ManualClock, SystemClock
from tokenbench.errors import RunnerError, RunsError, TokenbenchError
from tokenbench.experiment import config, seal
from tokenbench.figures import Code
from tokenbench.findings.world import World
from tokenbench.grading.counted import Ledgers
from tokenbench.ledger.read import read_ledger
from tokenbench.runner import control
from tokenbench.runner.schedule import Backoff
from tokenbench.runner.session import Session, Settings
from tokenbench.runner.supervise import Patience

from .conftest import QUICK, Lab

DATA = Path(__file__).parents[2] / "data" / "runner"


async def test_a_closed_run_has_its_transcript_its_record_and_its_journal_lines(lab: Lab) -> None:
    assert await lab.write(["PLAIN"]).run() == 0
    record = lab.record("native__q1__r1")
    transcript = lab.runs.folder / "native__q1__r1.jsonl"
    assert record.transcript_sha256 == hashlib.sha256(transcript.read_bytes()).hexdigest()
    assert (record.outcome, record.ended_by, record.exit_code, record.attempt) == ("answered", "agent", 0, 1)
    assert record.seal == seal.digest(lab.runs.seal)
    assert (record.scripted, record.sandbox, record.folder) == (False, False, str(lab.corpus))
    assert (record.sandbox_told, record.sandbox_argv) == ('experiment.sandbox is "off"', ())
    assert lab.names() == {"native__q1__r1.json", "native__q1__r1.jsonl"}
    ledger = read_ledger(transcript, record=record)
    assert ledger.token_reconciled
    (ended,) = lab.journal("run_ended")
    assert (ended.tokens, ended.calls, ended.token_reconciled) == (ledger.tokens, ledger.calls, True)
    assert ended.transcript_sha256 == record.transcript_sha256
    assert [entry.event for entry in lab.journal() if entry.event not in ("preparing", "usage")] == [
        "runner_started", "sandbox", "planned", "sealed", "run_started", "run_ended", "runner_ended",
    ]  # fmt: skip


async def test_the_key_stands_nowhere_in_runs(lab: Lab) -> None:
    await lab.write(["PLAIN"]).run()
    files = [path for path in lab.runs.folder.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert not [path for path in files if b"a-secret-key" in path.read_bytes()]
    # Not even in the environment that an agent's tools inherit: it comes through a pipe.
    assert "ANTHROPIC_API_KEY" not in lab.record("native__q1__r1").environment
    assert "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR" in lab.record("native__q1__r1").environment


async def test_no_run_sees_what_an_earlier_one_left_in_its_home(lab: Lab) -> None:
    """The fake agent ends with 7 if its HOME or its temporary folder is not empty, and leaves a file in its HOME."""
    assert await lab.write(["PLAIN"] * 3).run() == 0
    assert {lab.record(f"native__q{n}__r1").exit_code for n in (1, 2, 3)} == {0}


async def test_warmups_come_first_and_are_kept_apart(lab: Lab) -> None:
    await lab.write(arms=["native", "hybrid"], warmups=2).run()
    assert lab.names("warmups") == {
        f"{arm}__w{n}{end}" for arm in ("native", "hybrid") for n in (1, 2) for end in (".json", ".jsonl")
    }
    order = [entry.event for entry in lab.journal("warmup_started", "run_started")]
    assert order == ["warmup_started"] * 4 + ["run_started"] * 2
    assert lab.record("native__w1", "warmups").position == -1


async def test_the_executed_order_is_the_planned_one(lab: Lab) -> None:
    await lab.write(["PLAIN"] * 3, arms=["native", "hybrid"], repeats=2).run()
    (planned,) = lab.journal("planned")
    started = lab.journal("run_started")
    assert tuple(entry.cell for entry in started) == planned.cells
    assert [entry.position for entry in started] == list(range(12))


async def test_two_at_a_time_start_in_the_planned_order_too(lab: Lab) -> None:
    await lab.write(["PLAIN"] * 4, arms=["native", "hybrid"], concurrency=3).run()
    (planned,) = lab.journal("planned")
    assert tuple(entry.cell for entry in lab.journal("run_started")) == planned.cells


async def test_a_warmup_that_is_not_its_arm_stops_everything_before_it_costs_more(lab: Lab) -> None:
    lab.write(["PLAIN"], warmups=1)
    prompt = lab.folder / "prompts" / "p.md"
    prompt.write_text("The fake agent looks at what follows the last of these. Question: OTHER-TOOLS\n")
    lab.agent.write_text(lab.agent.read_text().replace('"$@"', '--last-question-but-one "$@"'))
    assert await lab.run() == 1
    assert lab.record("native__w1", "warmups").outcome == "quarantined"
    assert lab.journal("run_started") == []
    (stopping,) = lab.journal("stopping")
    assert "warm-up of arm native was not an instance of it" in str(stopping.reason)


# Infrastructure, limits of the agent, quarantine.


async def test_overloaded_twice_then_well_is_one_run_and_two_attempts(lab: Lab) -> None:
    clock = ManualClock(1_000_000)
    assert await lab.write(["OVERLOADED 2", "PLAIN"]).run(clock=clock) == 0
    assert lab.names("attempts") == {f"native__q1__r1__a{n}{end}" for n in (1, 2) for end in (".json", ".jsonl")}
    assert lab.record("native__q1__r1").attempt == 3
    first, second = lab.journal("attempt_failed")
    assert (first.outcome, first.attempt, second.attempt) == ("infrastructure", 1, 2)
    assert "529" in str(first.reason)
    assert first.retry_in is not None
    assert second.retry_in is not None
    assert clock.monotonic() == pytest.approx(1_000_000 + first.retry_in + second.retry_in)
    assert (lab.runs.logs / "native__q1__r1__a1.err").exists()


async def test_a_cell_that_infrastructure_spoils_each_time_is_given_up_and_said(lab: Lab) -> None:
    assert await lab.write(["OVERLOADED 99", "PLAIN"], limits="attempts = 2").run() == 1
    (given_up,) = lab.journal("gave_up")
    assert given_up.cell == "native__q1__r1"
    assert lab.names() == {"native__q2__r1.json", "native__q2__r1.jsonl"}


async def test_an_end_without_result_is_an_attempt_and_says_what_stood_on_standard_error(lab: Lab) -> None:
    assert await lab.write(["NOTHING"], limits="attempts = 1").run() == 1
    record = lab.record("native__q1__r1__a1", "attempts")
    assert (record.outcome, record.exit_code) == ("no_result", 1)
    assert "no result today" in record.reason


async def test_a_run_that_reaches_its_turns_counts(lab: Lab) -> None:
    assert await lab.write(["MAX-TURNS"]).run() == 0
    assert lab.record("native__q1__r1").outcome == "max_turns"


async def test_a_run_that_reaches_its_wall_time_counts_as_the_agents_failure(lab: Lab) -> None:
    patience = Patience(wall=1, silence=20, after_term=1)
    assert await lab.write(["HANG"], limits="run_wall_seconds = 1").run(patience=patience) == 0
    record = lab.record("native__q1__r1")
    assert (record.outcome, record.ended_by, record.exit_code) == ("time_limit", "wall", None)
    assert "limit of 1 s" in record.reason


async def test_a_wall_time_in_which_the_api_never_answered_is_infrastructure(lab: Lab) -> None:
    """The agent CLI asks again for minutes where a key is refused; that is no failure of the agent's."""
    patience = Patience(wall=1, silence=20, after_term=1)
    limits = "attempts = 1\nrun_wall_seconds = 1"
    assert await lab.write(["UNANSWERED", "FAILED-LATER"], limits=limits).run(patience=patience) == 1
    record = lab.record("native__q1__r1__a1", "attempts")
    assert (record.outcome, record.ended_by) == ("infrastructure", "wall")
    assert record.reason == "the API had not answered once in 1 s: 529 overloaded"
    # Once it has answered, the time is the agent's own.
    assert lab.record("native__q2__r1").outcome == "time_limit"


async def test_silence_with_a_request_open_is_infrastructure(lab: Lab) -> None:
    patience = Patience(wall=20, silence=0.5, after_term=1)
    await lab.write(["HANG"], limits="attempts = 1").run(patience=patience)
    record = lab.record("native__q1__r1__a1", "attempts")
    assert (record.outcome, record.ended_by) == ("infrastructure", "silence")


async def test_silence_while_a_tool_runs_is_the_agents_own(lab: Lab) -> None:
    patience = Patience(wall=20, silence=0.5, after_term=1)
    await lab.write(["HANG-IN-TOOL"]).run(patience=patience)
    record = lab.record("native__q1__r1")
    assert (record.outcome, record.ended_by) == ("time_limit", "silence")
    assert "while Grep ran" in record.reason


async def test_a_run_that_hangs_after_its_result_has_answered(lab: Lab) -> None:
    assert await lab.write(["RESULT-THEN-HANG"]).run() == 0
    record = lab.record("native__q1__r1")
    assert (record.outcome, record.ended_by, record.exit_code) == ("answered", "after_result", None)
    assert record.transcript_bytes > 10_000


async def test_an_agent_with_other_tools_is_quarantined(lab: Lab) -> None:
    assert await lab.write(["OTHER-TOOLS"]).run() == 1
    record = lab.record("native__q1__r1")
    assert record.outcome == "quarantined"
    assert [refusal.code for refusal in record.refusals] == [Code.QUARANTINED]
    assert "tools that the arm has not" in record.refusals[0].evidence[0]
    (ended,) = lab.journal("run_ended")
    assert "QUARANTINED" in ended.codes


async def test_a_token_limit_of_the_experiment_stops_the_scheduling(lab: Lab) -> None:
    assert await lab.write(["PLAIN"] * 3, limits="experiment_tokens = 1").run() == 1
    assert len(lab.journal("run_started")) == 1
    assert lab.journal("limit_reached")
    # A later runner knows what was spent.
    assert await lab.run() == 1
    assert len(lab.journal("run_started")) == 1


# Resume.


async def test_a_second_start_repeats_no_finished_run(lab: Lab) -> None:
    lab.write(["PLAIN"] * 3, warmups=1)
    assert await lab.run(only=["question=q2"]) == 0
    before = {path: path.read_bytes() for path in lab.runs.folder.glob("*__*")}
    assert await lab.run() == 0
    assert [entry.cell for entry in lab.journal("run_started")] == [
        "native__q2__r1",
        "native__q1__r1",
        "native__q3__r1",
    ]
    assert len(lab.journal("warmup_started")) == 1
    assert {path: path.read_bytes() for path in before} == before
    assert await lab.run() == 0
    assert len(lab.journal("run_started")) == 3


@pytest.mark.parametrize("moment", ["record", "name"])
async def test_a_crash_while_a_run_was_being_closed_repeats_nothing(lab: Lab, moment: str) -> None:
    """After the record is written the run is closed: what a crash left out is done by the next runner."""
    await lab.write(["PLAIN"]).run()
    transcript = lab.runs.folder / "native__q1__r1.jsonl"
    before = transcript.read_bytes()
    lines = lab.runs.journal.read_bytes().splitlines(keepends=True)
    lab.runs.journal.write_bytes(
        b"".join(line for line in lines if b"run_ended" not in line and b"runner_ended" not in line)
    )
    if moment == "record":
        transcript.rename(f"{transcript}.part")
    assert await lab.run() == 0
    assert transcript.read_bytes() == before
    assert not list(lab.runs.folder.glob("*.part"))
    assert len(lab.journal("run_started")) == 1
    (ended,) = lab.journal("run_ended")
    assert ended.tokens is not None


async def test_a_crash_while_an_attempt_was_being_closed_keeps_it_once(lab: Lab) -> None:
    await lab.write(["OVERLOADED 1"]).run()
    kept = lab.runs.attempts / "native__q1__r1__a1.jsonl"
    for suffix in (".json", ".jsonl"):
        (lab.runs.folder / f"native__q1__r1{suffix}").unlink()
    before = kept.read_bytes()
    kept.rename(lab.runs.folder / "native__q1__r1.jsonl.part")
    assert await lab.run() == 0
    assert kept.read_bytes() == before
    assert lab.names("attempts") == {"native__q1__r1__a1.json", "native__q1__r1__a1.jsonl"}
    assert lab.record("native__q1__r1").attempt == 2


async def test_what_a_dead_runner_left_under_way_is_kept_and_does_not_count(lab: Lab) -> None:
    lab.write(["PLAIN"])
    await lab.run()
    for suffix in (".json", ".jsonl"):
        (lab.runs.folder / f"native__q1__r1{suffix}").unlink()
    cut = (DATA / "answered.jsonl").read_bytes()[:9000]
    (lab.runs.folder / "native__q1__r1.jsonl.part").write_bytes(cut)
    (lab.runs.folder / ".native__q1__r1.json.abcd.part").write_bytes(b"{")
    assert await lab.run() == 0
    assert (lab.runs.attempts / "native__q1__r1__a1.jsonl").read_bytes() == cut
    lost = lab.record("native__q1__r1__a1", "attempts")
    assert (lost.outcome, lost.ended_by) == ("no_result", "runner_lost")
    assert lab.record("native__q1__r1").attempt == 2
    (recovered,) = lab.journal("recovered")
    assert recovered.tokens is not None
    assert recovered.tokens.billed_input > 0
    assert not list(lab.runs.folder.glob(".*.part"))


async def test_a_warmup_that_was_cut_short_is_made_again_and_kept(lab: Lab) -> None:
    await lab.write(["PLAIN"], warmups=1).run()
    for suffix in (".json", ".jsonl"):
        (lab.runs.warmups / f"native__w1{suffix}").unlink()
    (lab.runs.warmups / "native__w1.jsonl.part").write_bytes(b"")
    (lab.runs.folder / "native__q1__r1.json").unlink()
    assert await lab.run() == 0
    assert lab.names("warmups") == {"native__w1.json", "native__w1.jsonl"}
    assert "native__w1__a1.jsonl" in lab.names("attempts")


async def test_case_42_only_the_finished_run_is_not_run_again(lab: Lab) -> None:
    """One done, one killed, one that infrastructure spoilt, one empty file: three of four run again."""
    lab.write(["PLAIN"] * 4)
    await lab.run(only=["question=q1"])
    done = {path: path.read_bytes() for path in lab.runs.folder.glob("native__q1__r1*")}
    killed = (DATA / "42-resume-partial-transcript-killed.jsonl").read_bytes()
    spoilt = (DATA / "42-resume-partial-transcript-infra.jsonl").read_bytes()
    for question, content in (("q2", killed), ("q3", spoilt), ("q4", b"")):
        (lab.runs.folder / f"native__{question}__r1.jsonl").write_bytes(content)
    assert await lab.run() == 0
    assert [entry.cell for entry in lab.journal("run_started")] == [f"native__q{n}__r1" for n in (1, 2, 3, 4)]
    assert {path: path.read_bytes() for path in done} == done
    for question, content in (("q2", killed), ("q3", spoilt), ("q4", b"")):
        assert (lab.runs.attempts / f"native__{question}__r1__a1.jsonl").read_bytes() == content
        assert lab.record(f"native__{question}__r1").attempt == 2


async def test_a_record_of_a_run_that_does_not_count_is_not_taken_for_done(lab: Lab) -> None:
    await lab.write(["PLAIN"]).run()
    path = lab.runs.folder / "native__q1__r1.json"
    path.write_text(path.read_text().replace('"answered"', '"infrastructure"'))
    assert await lab.run() == 0
    assert lab.record("native__q1__r1__a1", "attempts").outcome == "infrastructure"
    assert lab.record("native__q1__r1").outcome == "answered"


@pytest.mark.parametrize("damage", ["gone", "changed"])
async def test_a_closed_run_that_was_damaged_is_named_and_nothing_is_run(lab: Lab, damage: str) -> None:
    await lab.write(["PLAIN", "PLAIN"]).run(only=["question=q1"])
    transcript = lab.runs.folder / "native__q1__r1.jsonl"
    if damage == "gone":
        transcript.unlink()
    else:
        transcript.write_bytes(b"\0" * 100)
    with pytest.raises(RunsError, match="transcript of a closed run"):
        await lab.run()
    assert len(lab.journal("run_started")) == 1


# What is refused before anything is run.


async def test_a_changed_question_breaks_the_seal_before_anything_is_run(lab: Lab) -> None:
    await lab.write(["PLAIN", "PLAIN"]).run(only=["question=q1"])
    lab.write(["PLAIN", "PLAIN changed"])
    with pytest.raises(RunsError, match=r"SEAL-BROKEN: questions.jsonl: the question q2 has changed") as caught:
        await lab.run()
    assert caught.value.where.endswith("seal.json")
    assert len(lab.journal("run_started")) == 1
    assert lab.journal("runner_ended")[-1].outcome == "failed"


async def test_a_corpus_that_changed_breaks_the_seal(lab: Lab) -> None:
    await lab.write(["PLAIN"]).run()
    (lab.corpus / "a.py").write_text("x = 2\n")
    with pytest.raises(RunsError, match="SEAL-BROKEN: the corpus has changed"):
        await lab.run()


async def test_a_corpus_that_changes_under_way_is_said_at_the_end(lab: Lab) -> None:
    lab.write(["GATE go"])
    task = asyncio.create_task(lab.run())
    await lab.at_gate()
    (lab.corpus / "a.py").write_text("x = 2\n")
    lab.open_gate()
    with pytest.raises(RunsError, match="changed while the experiment ran"):
        await task
    assert lab.journal("runner_ended")[-1].outcome == "failed"


async def test_the_runs_of_another_experiment_are_refused(lab: Lab, tmp_path: Path) -> None:
    await lab.write(["PLAIN"]).run()
    other = Lab(tmp_path / "other")
    other.folder.mkdir(parents=True)
    other.write(["ANOTHER"], arms=["hybrid"])
    shutil.copytree(lab.runs.folder, other.runs.folder)
    with pytest.raises(RunsError, match="SEAL-BROKEN"):
        await other.run()
    (other.runs.seal).unlink()
    with pytest.raises(RunsError, match="no seal, so they are of another experiment"):
        await other.run()


async def test_without_a_key_nothing_is_run(lab: Lab) -> None:
    lab.write(["PLAIN"]).environment.clear()
    with pytest.raises(TokenbenchError, match="ANTHROPIC_API_KEY is not set") as caught:
        await lab.run()
    assert "rehearse" in caught.value.remedy
    assert lab.names() == set()


@pytest.mark.parametrize("condition", ["arm=none", "question=", "repeat=2", "colour=red", "native"])
async def test_a_condition_that_selects_nothing_is_named(lab: Lab, condition: str) -> None:
    with pytest.raises(RunnerError, match=r"no condition|has no"):
        await lab.write(["PLAIN"]).run(only=[condition])


async def test_conditions_of_one_kind_add_up_and_of_several_cut(lab: Lab) -> None:
    lab.write(["PLAIN"] * 3, arms=["native", "hybrid"])
    await lab.run(only=["question=q1", "question=q3", "arm=hybrid"])
    assert {entry.cell for entry in lab.journal("run_started")} == {"hybrid__q1__r1", "hybrid__q3__r1"}


async def test_runs_that_cannot_be_made_are_a_sentence(lab: Lab) -> None:
    lab.write(["PLAIN"])
    lab.runs.folder.write_text("a file stands here")
    with pytest.raises(RunsError, match="could not make the folder"):
        await lab.run()


# Control.


async def test_pause_resume_and_status_over_the_socket(lab: Lab) -> None:
    lab.write(["GATE go", "PLAIN"])
    task = asyncio.create_task(lab.run())
    await lab.at_gate()
    assert (await asyncio.to_thread(control.send, lab.runs, "pause"))["state"] == "paused"
    status = await asyncio.to_thread(control.send, lab.runs, "status")
    assert (status["pid"], status["running"]) == (os.getpid(), ["native__q1__r1"])
    lab.open_gate()
    await lab.until(lambda: lab.journal("run_ended"))
    assert len(lab.journal("run_started")) == 1
    await asyncio.to_thread(control.send, lab.runs, "resume")
    assert await task == 0
    assert len(lab.journal("run_ended")) == 2


async def test_cancel_over_the_socket_ends_one_run_and_running_it_again_is_written_down(lab: Lab) -> None:
    lab.write(["GATE go", "PLAIN"])
    task = asyncio.create_task(lab.run())
    await lab.at_gate()
    await asyncio.to_thread(lambda: control.send(lab.runs, "cancel", cell="native__q1__r1"))
    assert await task == 1
    record = lab.record("native__q1__r1__a1", "attempts")
    assert (record.outcome, record.ended_by) == ("cancelled", "cancel")
    (cancelled,) = lab.journal("cancelled")
    assert cancelled.tokens is not None
    assert "native__q2__r1.json" in lab.names()
    lab.open_gate()
    assert await lab.run() == 0
    (rerun,) = lab.journal("rerun")
    assert rerun.cell == "native__q1__r1"
    assert lab.record("native__q1__r1").attempt == 2


async def test_stop_lets_the_run_under_way_end_and_stop_now_does_not(lab: Lab) -> None:
    lab.write(["GATE one", "GATE two", "PLAIN"])
    task = asyncio.create_task(lab.run())
    await lab.at_gate()
    await asyncio.to_thread(control.send, lab.runs, "stop")
    lab.open_gate("one")
    assert await task == 1
    assert lab.record("native__q1__r1").outcome == "answered"
    task = asyncio.create_task(lab.run())
    await lab.at_gate(2)
    await asyncio.to_thread(lambda: control.send(lab.runs, "stop", now=True))
    assert await task == 1
    assert lab.record("native__q2__r1__a1", "attempts").ended_by == "stop"
    assert lab.journal("runner_ended")[-1].outcome == "open"


async def test_a_second_runner_is_refused_and_the_first_goes_on(lab: Lab) -> None:
    lab.write(["GATE go"])
    task = asyncio.create_task(lab.run())
    await lab.at_gate()
    with pytest.raises(RunnerError, match=f"a runner is at work here already: pid {os.getpid()}"):
        await lab.run()
    lab.open_gate()
    assert await task == 0


async def test_usage_lines_are_a_few_a_second_and_the_last_shows_all_that_was_seen(lab: Lab) -> None:
    await lab.write(["PLAIN"]).run()
    assert 1 <= len(lab.journal("usage")) <= 3


class JumpingClock(SystemClock):
    """A wall clock that somebody sets while the experiment runs."""

    def __init__(self, *hours: float) -> None:
        self._hours = itertools.cycle(hours)

    def now(self) -> float:
        return super().now() + 3600 * next(self._hours)


async def test_a_clock_that_jumps_ends_no_run_and_loses_none(lab: Lab) -> None:
    lab.write(["PLAIN", "OVERLOADED 1"], repeats=2, warmups=1)
    session = Session(
        Settings(folder=lab.folder, scripted=False, backoff=Backoff(first=0.01, longest=0.01), patience=QUICK),
        clock=JumpingClock(0, 5, -7, 24),
        dice=random.Random(1),
        environment=lab.environment,
    )
    assert await session.run() == 0
    assert {entry.outcome for entry in lab.journal("run_ended")} == {"answered"}
    assert len(lab.journal("run_ended")) == 4
    assert all((lab.record(cell.stem).since_last_call or 0) >= 0 for cell in lab.runs.folder.glob("native__*.jsonl"))
    world = World(config.load(lab.folder), Ledgers())
    assert (world.counted.missing, world.seal_broken) == ((), None)
