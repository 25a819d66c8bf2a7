"""One runner per runs/, and nobody is kept out by a runner that is dead."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tokenbench.clock import ManualClock
from tokenbench.errors import RunnerError, RunsError
from tokenbench.runner import lock, processes

HOLD = """
import sys, time
from pathlib import Path
from tokenbench.clock import SystemClock
from tokenbench.runner.lock import held
with held(Path(sys.argv[1]), SystemClock()):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path):
    """Another process that is the runner here."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "runner.lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_runner_is_told_who_runs(tmp_path: Path, holder: "subprocess.Popen[bytes]") -> None:
    path = tmp_path / "runner.lock"
    with pytest.raises(RunnerError, match=f"pid {holder.pid} on") as caught, lock.held(path, ManualClock()):
        pass
    assert "attach" in caught.value.remedy
    owner = lock.living_owner(path)
    assert owner is not None
    assert owner.pid == holder.pid


def test_a_killed_runner_leaves_a_lock_that_the_next_one_takes(
    tmp_path: Path, holder: "subprocess.Popen[bytes]"
) -> None:
    path = tmp_path / "runner.lock"
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert lock.read_owner(path) is not None
    assert lock.living_owner(path) is None
    with lock.held(path, ManualClock(7)) as before:
        assert before is not None
        assert before.pid == holder.pid
        owner = lock.living_owner(path)
        assert owner is not None
        assert (owner.pid, owner.started) == (os.getpid(), 7)


def test_an_orderly_end_leaves_nobody_in_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "runner.lock"
    with lock.held(path, ManualClock()) as before:
        assert before is None
    assert lock.read_owner(path) is None
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_process_that_got_the_pid_of_a_dead_runner_is_not_taken_for_it(tmp_path: Path) -> None:
    path = tmp_path / "runner.lock"
    with lock.held(path, ManualClock()):
        document = json.loads(path.read_bytes())
    path.write_text(json.dumps({**document, "identity": "another boot/1"}))
    assert lock.living_owner(path) is None


def test_a_lock_of_another_machine_is_not_broken(tmp_path: Path) -> None:
    path = tmp_path / "runner.lock"
    path.write_text('{"pid": 1, "host": "elsewhere", "started": 0.0, "identity": "x"}')
    with pytest.raises(RunnerError, match="another machine: pid 1 on elsewhere"), lock.held(path, ManualClock()):
        pass
    owner = lock.living_owner(path)
    assert owner is not None
    assert not lock.is_here(owner)


@pytest.mark.parametrize("content", [b"", b"garbage", b"\0" * 50, b'{"pid": "x"}'])
def test_a_lock_file_of_rubbish_is_nobody(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "runner.lock"
    path.write_bytes(content)
    assert lock.living_owner(path) is None
    with lock.held(path, ManualClock()) as before:
        assert before is None


def test_a_lock_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(RunsError, match="could not be locked"),
        lock.held(tmp_path / "none" / "runner.lock", ManualClock()),
    ):
        pass


def test_an_error_inside_the_block_is_not_taken_for_one_of_the_lock(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError), lock.held(tmp_path / "runner.lock", ManualClock()):
        raise BlockingIOError


def test_a_zombie_has_no_identity() -> None:
    process = subprocess.Popen(["true"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert processes.identity(process.pid) is None
    process.wait()
    assert processes.identity(process.pid) is None
    assert processes.identity(os.getpid()) is not None
