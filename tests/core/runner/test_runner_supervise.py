"""An agent process is followed byte for byte, held to its limits, and nothing of it is left."""

import asyncio
import hashlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tokenbench.clock import SystemClock
from tokenbench.errors import AgentError, RunsError
from tokenbench.ledger.model import Live
from tokenbench.runner import processes
from tokenbench.runner.supervise import STDERR_LIMIT, Command, Ending, Interrupt, Patience, Supervisor
from tokenbench.transcripts.lines import Line

DATA = Path(__file__).parents[2] / "data" / "runner"
ANSWERED = DATA / "answered.jsonl"
QUICK = Patience(wall=20, silence=20, after_result=0.5, after_term=1, drain=1)


class Observer:
    """Counts lines and calls, and knows a result when it sees one."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.results = 0
        self.calls = 0

    def __call__(self, lines: list[Line]) -> Live:
        self.lines += lines
        self.results += sum(b'"type":"result"' in line.data for line in lines)
        self.calls += sum(b'"type":"assistant"' in line.data for line in lines)
        return Live(calls=self.calls, ended=self.results > 0)


class Bench:
    """Runs shell scripts as agents in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.observer = Observer()
        self.started: list[int] = []

    def path(self, name: str = "run") -> Path:
        return self.folder / f"{name}.jsonl.part"

    async def run(
        self,
        *argv: str,
        name: str = "run",
        prompt: bytes = b"",
        patience: Patience = QUICK,
        interrupt: Interrupt | None = None,
        started: Callable[[int], None] | None = None,
    ) -> Ending:
        marker = f"{self.folder}/{name}/"
        command = Command(
            argv=argv,
            environment={"PATH": "/usr/bin:/bin", "TOKENBENCH_RUN": marker},
            folder=self.folder,
            prompt=prompt,
            transcript=self.path(name),
            stderr=self.folder / f"{name}.err",
            marker=marker,
        )
        return await Supervisor(SystemClock()).run(
            command,
            patience,
            observe=self.observer,
            interrupt=interrupt or Interrupt(),
            started=started or self.started.append,
        )

    def left(self) -> list[psutil.Process]:
        return processes.marked(str(self.folder))


@pytest.fixture
def bench(tmp_path: Path):
    made = Bench(tmp_path)
    yield made
    left = made.left()
    processes.end_marked(str(tmp_path))
    assert left == []


async def test_output_is_kept_byte_for_byte_and_given_on_line_by_line(bench: Bench) -> None:
    ending = await bench.run("cat", str(ANSWERED))
    written = bench.path().read_bytes()
    assert written == ANSWERED.read_bytes()
    assert ending.sha256 == hashlib.sha256(written).hexdigest()
    assert (ending.ended_by, ending.exit_code, ending.size) == ("agent", 0, len(written))
    assert [line.number for line in bench.observer.lines] == list(range(1, written.count(b"\n") + 1))
    assert bench.path().stat().st_mode & 0o777 == 0o600


async def test_a_line_of_megabytes_and_a_flood_on_standard_error_block_nothing(bench: Bench) -> None:
    script = "import sys\nfor _ in range(4):\n sys.stderr.write('e'*1000000)\n sys.stdout.write('x'*3000000+'\\n')"
    ending = await bench.run(sys.executable, "-I", "-S", "-c", script)
    assert ending.exit_code == 0
    assert [len(line.data) for line in bench.observer.lines] == [3_000_000] * 4
    errors = (bench.folder / "run.err").read_bytes()
    assert errors.startswith(b"e" * STDERR_LIMIT)
    assert f"[{4_000_000 - STDERR_LIMIT} more bytes were not kept]".encode() in errors


async def test_an_exit_code_and_a_signal_are_told_apart(bench: Bench) -> None:
    assert (await bench.run("sh", "-c", "exit 3")).exit_code == 3
    assert (await bench.run("sh", "-c", "kill -9 $$")).exit_code == -9


async def test_a_tail_without_newline_is_kept_and_marked(bench: Bench) -> None:
    await bench.run("printf", "one\\ntw")
    assert [(line.data, line.complete) for line in bench.observer.lines] == [(b"one", True), (b"tw", False)]
    assert bench.path().read_bytes() == b"one\ntw"


# Case 38: the result event ends a run, the end of the output does not.


@pytest.mark.parametrize("after", ["exec sleep 600", "sleep 600 & exit 0", "setsid sleep 600 & exit 0"])
async def test_a_run_ends_after_its_result_though_the_process_or_its_child_stays(bench: Bench, after: str) -> None:
    begun = time.monotonic()
    ending = await bench.run("sh", "-c", f"cat {ANSWERED}; {after}")
    assert ending.ended_by == "after_result"
    assert time.monotonic() - begun < 10
    assert bench.path().read_bytes() == ANSWERED.read_bytes()


async def test_output_in_the_grace_period_is_kept_and_another_turn_extends_it(bench: Bench) -> None:
    # The second turn comes within the grace of the first result.
    script = f"cat {ANSWERED}; sleep 0.3; grep assistant {ANSWERED}; tail -n 1 {ANSWERED}; sleep 600"
    ending = await bench.run("sh", "-c", script)
    assert ending.ended_by == "after_result"
    assert bench.observer.results == 2
    assert bench.path().read_bytes().count(b'"type":"result"') == 2


async def test_noise_after_the_result_extends_nothing(bench: Bench) -> None:
    begun = time.monotonic()
    ending = await bench.run("sh", "-c", f"cat {ANSWERED}; while :; do echo noise; sleep 0.1; done")
    assert ending.ended_by == "after_result"
    assert time.monotonic() - begun < 10


async def test_the_wall_limit_does_not_spoil_a_run_that_has_its_result(bench: Bench) -> None:
    patience = Patience(wall=0.5, silence=20, after_result=20)
    assert (await bench.run("sh", "-c", f"cat {ANSWERED}; sleep 600", patience=patience)).ended_by == "after_result"


# Case 39: standard input is the prompt and ends.


@pytest.mark.parametrize("prompt", [b"", b"a question\n", b"x" * 1_000_000])
async def test_standard_input_is_the_prompt_and_nothing_else(bench: Bench, prompt: bytes) -> None:
    await bench.run(sys.executable, "-I", "-S", "-c", "import sys;print(len(sys.stdin.read()))", prompt=prompt)
    assert bench.path().read_bytes() == f"{len(prompt)}\n".encode()


async def test_an_agent_that_never_reads_its_prompt_blocks_nothing(bench: Bench) -> None:
    assert (await bench.run("true", prompt=b"x" * 1_000_000)).exit_code == 0


# Case 41: what a run has started ends with it.


async def test_eight_runs_reach_their_wall_limit_and_none_of_their_sixteen_sleeps_survives(bench: Bench) -> None:
    patience = Patience(wall=1, silence=20)
    begun = time.monotonic()
    endings = await asyncio.gather(
        *(
            bench.run("sh", "-c", "sleep 300 & sleep 300; wait", name=f"run{number}", patience=patience)
            for number in range(8)
        )
    )
    assert time.monotonic() - begun < 1 + patience.after_term
    assert {ending.ended_by for ending in endings} == {"wall"}
    assert {ending.exit_code for ending in endings} == {None}
    assert bench.left() == []
    assert not [child for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE]


async def test_a_process_that_ignores_sigterm_is_killed(bench: Bench) -> None:
    patience = Patience(wall=0.3, silence=20, after_term=0.3)
    script = "trap '' TERM; while :; do sleep 1; done"
    assert (await bench.run("sh", "-c", script, patience=patience)).ended_by == "wall"


async def test_what_left_its_group_is_found_by_its_mark(bench: Bench) -> None:
    script = "setsid sh -c 'echo up >up; sleep 300 & sleep 300' & while [ ! -s up ]; do sleep 0.01; done"
    ending = await bench.run("sh", "-c", f"({script}) >/dev/null 2>&1")
    assert ending.ended_by == "agent"
    assert ending.leftovers >= 1


async def test_silence_has_a_limit_of_its_own(bench: Bench) -> None:
    patience = Patience(wall=60, silence=0.5)
    ending = await bench.run("sh", "-c", "echo one; sleep 0.3; echo two; sleep 300", patience=patience)
    assert ending.ended_by == "silence"
    assert ending.seconds >= 0.8
    assert bench.path().read_bytes() == b"one\ntwo\n"


async def test_one_that_closes_its_output_and_goes_on_is_ended(bench: Bench) -> None:
    patience = Patience(wall=60, silence=0.5)
    ending = await bench.run("sh", "-c", "echo one; exec >&- 2>&-; echo $$ >pid; sleep 300", patience=patience)
    assert ending.ended_by == "silence"
    assert bench.path().read_bytes() == b"one\n"
    assert not psutil.pid_exists(int((bench.folder / "pid").read_text()))


@pytest.mark.parametrize("reason", ["cancel", "stop"])
async def test_an_interrupt_ends_the_run_and_keeps_what_came(bench: Bench, reason: str) -> None:
    interrupt = Interrupt()

    def observed(lines: list[Line]) -> Live:
        interrupt.set(reason)
        return Live()

    bench.observer = observed
    ending = await bench.run("sh", "-c", "echo one; sleep 300", interrupt=interrupt)
    assert ending.ended_by == reason
    assert bench.path().read_bytes() == b"one\n"


async def test_an_interrupt_from_before_the_start_counts(bench: Bench) -> None:
    interrupt = Interrupt()
    interrupt.set("stop")
    assert (await bench.run("sleep", "300", interrupt=interrupt)).ended_by == "stop"


async def test_a_transcript_that_cannot_be_opened_is_named(bench: Bench) -> None:
    bench.path().mkdir()
    with pytest.raises(RunsError, match="could not be written") as caught:
        await bench.run("sh", "-c", "echo one; sleep 300")
    assert caught.value.where == str(bench.path())


async def test_a_full_disk_ends_the_run_and_is_said(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "path", lambda name: Path("/dev/full"))
    with pytest.raises(RunsError, match="No space left on device"):
        await bench.run("sh", "-c", "echo one; sleep 300")


async def test_an_agent_that_cannot_be_started_is_named(bench: Bench) -> None:
    with pytest.raises(AgentError, match="could not be started") as caught:
        await bench.run(str(bench.folder / "none"))
    assert caught.value.where.endswith("none")


async def test_a_defect_of_the_observer_is_not_lost_in_the_loop(bench: Bench) -> None:
    def broken(lines: list[Line]) -> Live:
        raise ZeroDivisionError

    bench.observer = broken
    with pytest.raises(ZeroDivisionError):
        await bench.run("sh", "-c", "echo one; sleep 300")


async def test_a_cancelled_task_leaves_no_process(bench: Bench) -> None:
    running = asyncio.Event()
    task = asyncio.create_task(bench.run("sh", "-c", "sleep 300", started=lambda _pid: running.set()))
    await running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.left() == []
