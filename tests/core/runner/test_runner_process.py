"""The runner as a process of its own: detached, killed, told to end, refused."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Generator

import psutil
import pytest

from tokenbench.errors import ConfigError, RunnerError
from tokenbench.runner import __main__ as runner_main
from tokenbench.runner import control, lock, processes
from tokenbench.runner.start import start_runner
from tokenbench.runner.status import read_status

from .conftest import Lab


@pytest.fixture
def place(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Generator[Lab]:
    """An experiment whose runners are processes; none of them is left."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", lab.environment["ANTHROPIC_API_KEY"])
    yield lab
    owner = lock.living_owner(lab.runs.lock)
    if owner is not None:
        os.kill(owner.pid, signal.SIGKILL)
    processes.end_marked(lab.places.marker_prefix)


async def start(lab: Lab, **settings: object) -> int:
    return await asyncio.to_thread(lambda: start_runner(lab.folder, **settings))


def gone(pid: int) -> bool:
    return processes.identity(pid) is None


def foreground(lab: Lab, *options: str, shell: str = "") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-P", "-m", "tokenbench.runner", str(lab.folder), *options]
    if shell:
        command = ["sh", "-c", f'{shell}; exec "$@"', "sh", *command]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


async def test_it_is_at_work_when_start_returns_and_ends_by_itself(place: Lab) -> None:
    place.write(["GATE go"])
    said: list[str] = []
    pid = await start(place, progress=said.append)
    assert (await asyncio.to_thread(control.send, place.runs, "status"))["pid"] == pid
    assert any("claude 2.1.332 (configured)" in sentence for sentence in said)
    place.open_gate()
    await place.until(lambda: gone(pid))
    assert place.record("native__q1__r1").outcome == "answered"
    assert lock.living_owner(place.runs.lock) is None


async def test_it_has_a_session_of_its_own_and_survives_a_closed_terminal(place: Lab) -> None:
    place.write(["GATE go"])
    pid = await start(place)
    assert os.getsid(pid) == pid
    runner = psutil.Process(pid)
    assert runner.terminal() is None
    await place.at_gate()
    os.kill(pid, signal.SIGHUP)
    place.open_gate()
    await place.until(lambda: gone(pid))
    assert place.record("native__q1__r1").outcome == "answered"


async def test_killed_in_mid_run_it_loses_no_closed_run_and_repeats_none(place: Lab) -> None:
    place.write(["PLAIN", "PLAIN", "GATE go", "PLAIN"])
    pid = await start(place)
    await place.at_gate(3)
    assert len(processes.marked(place.places.marker_prefix)) >= 1
    os.kill(pid, signal.SIGKILL)
    await place.until(lambda: gone(pid))
    closed = {path: path.read_bytes() for path in place.runs.folder.glob("native__q[12]__r1*")}
    assert len(closed) == 4
    assert (place.runs.folder / "native__q3__r1.jsonl.part").exists()
    status = read_status(place.folder, now=0)
    assert (status.runner.state, status.cells.finished, status.cells.waiting) == ("lost", 2, 2)
    # Nobody reads what they print any more, so they must not go on spending: the guard ends them.
    await place.until(lambda: not processes.marked(place.places.marker_prefix))

    place.open_gate()
    pid = await start(place)
    await place.until(lambda: gone(pid))
    started = [entry.cell for entry in place.journal("run_started")]
    assert started == [f"native__q{n}__r1" for n in (1, 2, 3, 3, 4)]
    assert {path: path.read_bytes() for path in closed} == closed
    assert place.record("native__q3__r1").attempt == 2
    (recovered,) = place.journal("recovered")
    assert recovered.cell == "native__q3__r1"
    assert recovered.tokens is not None
    assert recovered.tokens.billed_input > 0
    assert not list(place.runs.folder.glob("*.part"))


async def test_what_a_runner_and_its_guard_left_is_ended_by_the_next_runner(place: Lab) -> None:
    place.write(["GATE go"])
    pid = await start(place)
    await place.at_gate()
    agents = processes.marked(place.places.marker_prefix)
    for process in psutil.Process(pid).children():
        if process not in agents:
            process.kill()
    os.kill(pid, signal.SIGKILL)
    await place.until(lambda: gone(pid))
    assert processes.marked(place.places.marker_prefix) == agents
    place.open_gate()
    pid = await start(place)
    await place.until(lambda: gone(pid))
    assert not [agent for agent in agents if processes.identity(agent.pid) is not None]
    assert place.record("native__q1__r1").attempt == 2


async def test_sigterm_ends_the_runs_and_keeps_them_as_attempts(place: Lab) -> None:
    place.write(["GATE go"])
    pid = await start(place)
    await place.at_gate()
    os.kill(pid, signal.SIGTERM)
    await place.until(lambda: gone(pid))
    assert place.record("native__q1__r1__a1", "attempts").ended_by == "stop"
    assert place.journal("runner_ended")[-1].outcome == "open"
    assert processes.marked(place.places.marker_prefix) == []


async def test_a_second_runner_is_told_who_runs_and_ends_with_2(place: Lab) -> None:
    place.write(["GATE go"])
    pid = await start(place)
    with pytest.raises(RunnerError, match=f"at work here already: pid {pid}"):
        await start(place)
    done = await asyncio.to_thread(foreground, place)
    assert done.returncode == 2
    assert f"pid {pid}" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    place.open_gate()
    await place.until(lambda: gone(pid))


async def test_what_keeps_it_from_starting_reaches_whoever_started_it(place: Lab) -> None:
    place.write(["PLAIN"])
    place.agent.unlink()
    with pytest.raises(RunnerError, match="no such file") as caught:
        await start(place)
    assert "agents.claude.path" in caught.value.where
    assert "no such file" in (place.runs.logs / "runner.log").read_text()
    assert lock.living_owner(place.runs.lock) is None


async def test_a_folder_without_an_experiment_is_left_alone(place: Lab) -> None:
    place.folder.mkdir()
    with pytest.raises(ConfigError):
        await start(place)
    assert list(place.folder.iterdir()) == []


async def test_a_socket_that_cannot_be_made_ends_it_before_anything_is_run(place: Lab) -> None:
    place.write(["PLAIN"])
    place.runs.prepare()
    place.runs.socket.mkdir()
    done = await asyncio.to_thread(foreground, place)
    assert done.returncode == 2
    assert "control socket could not be made" in done.stderr
    assert place.journal("run_started") == []


async def test_a_second_run_that_was_killed_leaves_the_first_kept_and_the_next_runner_goes_on(place: Lab) -> None:
    place.write(["GATE-AT 2"])
    pid = await start(place)
    await place.until(lambda: gone(pid))
    first = (place.runs.folder / "native__q1__r1.jsonl").read_bytes()
    pid = await start(place, rerun=["native__q1__r1"], reason="--why not")
    await place.until(lambda: len(place.journal("run_started")) == 2)
    os.kill(pid, signal.SIGKILL)
    await place.until(lambda: gone(pid))
    assert (place.runs.attempts / "native__q1__r1__a1.jsonl").read_bytes() == first
    assert "native__q1__r1.jsonl" not in place.names()
    pid = await start(place)
    await place.until(lambda: gone(pid))
    (line,) = place.journal("rerun")
    assert (line.attempt, line.reason) == (1, "--why not")
    assert (place.runs.attempts / "native__q1__r1__a1.jsonl").read_bytes() == first
    assert place.record("native__q1__r1__a2", "attempts").ended_by == "runner_lost"
    assert place.record("native__q1__r1").attempt == 3


async def test_a_cell_that_cannot_be_run_again_is_told_to_whoever_started_it(place: Lab) -> None:
    place.write(["PLAIN"])
    with pytest.raises(RunnerError, match="native__q1__r1 has no run that counts"):
        await start(place, rerun=["native__q1__r1"])
    assert foreground(place, "--rerun=--only").returncode == 2
    assert place.journal() == []


def test_a_defect_is_a_sentence_and_a_report(
    place: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken(session: object) -> int:
        raise ZeroDivisionError("a defect")

    place.write(["PLAIN"])
    place.runs.prepare()
    monkeypatch.setattr("tokenbench.runner.__main__.Session.run", broken)
    monkeypatch.setattr("tokenbench.runner.__main__.processes.adopt_orphans", lambda: False)
    hangup = signal.getsignal(signal.SIGHUP)
    try:
        assert runner_main.main([str(place.folder)]) == 2
    finally:
        signal.signal(signal.SIGHUP, hangup)
    said = capsys.readouterr().err
    assert "ZeroDivisionError: a defect" in said
    assert "Traceback" not in said
    (report,) = place.runs.logs.glob("defect-*.txt")
    assert "Traceback" in report.read_text()


def test_exit_codes(place: Lab) -> None:
    assert foreground(place.write(["PLAIN"])).returncode == 0
    assert foreground(place).returncode == 0
    place.write(["PLAIN", "MAX-TURNS"])
    refused = foreground(place)
    assert refused.returncode == 2
    assert "SEAL-BROKEN" in refused.stderr
    assert foreground(place, "--only", "arm=none").returncode == 2


def test_cells_left_over_are_exit_code_1(place: Lab) -> None:
    assert foreground(place.write(["NOTHING"], limits="attempts = 1")).returncode == 1


def test_no_space_left_is_a_sentence_and_keeps_what_had_ended(place: Lab) -> None:
    place.write(["PLAIN", "PLAIN"])
    assert foreground(place, "--only", "question=q1").returncode == 0
    # No file may grow beyond 8 kB: the transcript of the second run does.
    done = foreground(place, shell="ulimit -f 16")
    assert done.returncode == 2
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert place.record("native__q1__r1").outcome == "answered"
    assert foreground(place).returncode == 0
    assert place.record("native__q2__r1").outcome == "answered"


async def test_status_of_a_runner_at_work_and_after_it(place: Lab) -> None:
    assert read_status(place.folder, now=0).runner.state == "none"
    place.write(["PLAIN", "GATE go", "PLAIN"])
    pid = await start(place)
    await place.at_gate(2)
    await place.until(lambda: len(place.journal("run_ended")) == 1)
    status = await asyncio.to_thread(read_status, place.folder, now=place.journal()[-1].t + 1)
    assert (status.runner.state, status.runner.pid, status.runner.concurrency) == ("running", pid, 1)
    counts = status.cells
    assert (counts.planned, counts.finished, counts.running, counts.waiting) == (3, 1, 1, 1)
    (running,) = status.runs
    assert running.cell == "native__q2__r1"
    assert running.seen.billed_input > 0
    place.open_gate()
    await place.until(lambda: gone(pid))
    status = read_status(place.folder, now=0)
    assert (status.runner.state, status.cells.finished, status.runs) == ("ended", 3, ())
    assert status.tokens == sum(entry.tokens.total for entry in place.journal("run_ended") if entry.tokens)
