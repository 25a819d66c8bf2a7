"""The runner may be killed at any of its writes: no finished run is repeated, none is lost, and no half run counts.

docs/crash-safety.md has the table of points. A warm-up, a run, and a run whose first attempt the API spoils.
"""

import errno
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest

from tokenbench.experiment import config
from tokenbench.findings.world import World
from tokenbench.grading.counted import Ledgers
from tokenbench.runner import processes
from tokenbench.runner.places import BASE_VARIABLE
from tokenbench.transcripts.evidence import Record

from .conftest import Lab

HARNESS = Path(__file__).parents[2] / "support" / "kill_points.py"
KILLS = 200
FAULTS = {"ENOSPC": errno.ENOSPC, "EACCES": errno.EACCES, "EIO": errno.EIO, "EMFILE": errno.EMFILE}
FAILING = ("open", "write", "pwrite", "fsync", "replace", "rename", "mkdir")
FAULTY = 40
"""Kinds of operations on kinds of files, rounded up; the rest are tried twice."""
CELLS = ("native__q1__r1", "native__q2__r1")


class Nursery:
    """Runners that die where they are told to."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HARNESS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._points: list[list[Any]] = []

    def run(self, lab: Lab, *, at: object = None, mode: str | int = "before", count: bool = False) -> tuple[int, Any]:
        """Run the experiment's runner; its exit status, and what it told."""
        environment = {"ANTHROPIC_API_KEY": "sk-ant-a-secret-key"} | {
            name: os.environ[name] for name in (BASE_VARIABLE, "XDG_CACHE_HOME")
        }
        request = {"folder": str(lab.folder), "environment": environment, "at": at, "mode": mode, "count": count}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["status"], answer["points"]

    def points(self, lab: Lab) -> list[list[Any]]:
        """Every point of an undisturbed run, in order; the experiment is run for it once."""
        if not self._points:
            status, points = self.run(lab, count=True)
            assert status == 0
            self._points = [point for point in points if "(usage)" not in point[1]]
        return self._points

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@pytest.fixture(scope="module")
def nursery() -> Generator[Nursery]:
    made = Nursery()
    yield made
    made.close()


@pytest.fixture(scope="module")
def points(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    with TemporaryDirectory(dir="/tmp", prefix="tbw") as work, pytest.MonkeyPatch.context() as patch:
        patch.setenv(BASE_VARIABLE, work)
        patch.setenv("XDG_CACHE_HOME", work)
        return nursery.points(written(Lab(tmp_path_factory.mktemp("undisturbed"))))


def written(lab: Lab) -> Lab:
    return lab.write(["PLAIN", "OVERLOADED-AT 1"], warmups=1)


def ways(point: list[Any]) -> list[str]:
    """How a runner can die at this point: in mid-write too, where there is one."""
    torn = point[0] in ("write", "pwrite") or (point[0] == "fsync" and "(temporary)" in point[1])
    return ["before", "half", "after"] if torn else ["before", "after"]


def kind(file: str) -> str:
    """The file without the names of cells."""
    return re.sub(r"native__\w+", "CELL", file)


def closed(lab: Lab) -> dict[Path, bytes]:
    """Files of the runs that are closed: those whose record is there."""
    found: dict[Path, bytes] = {}
    for cell in CELLS:
        record = lab.runs.folder / f"{cell}.json"
        if record.exists():
            transcript = next(
                path for suffix in ("", ".part") if (path := lab.runs.folder / f"{cell}.jsonl{suffix}").exists()
            )
            found[record] = record.read_bytes()
            found[record.with_suffix(".jsonl")] = transcript.read_bytes()
    return found


def check_whole(lab: Lab, before: dict[Path, bytes]) -> None:
    """The experiment is finished as if nothing had happened, and what had happened is accounted for."""
    for path, content in before.items():
        assert path.read_bytes() == content, f"{path.name} was finished, and is another now"
    assert not [path.name for path in lab.runs.folder.rglob("*.part")]
    begun = [entry.cell for entry in lab.journal("run_started")]
    for cell in CELLS:
        record = lab.record(cell)
        transcript = lab.runs.folder / f"{cell}.jsonl"
        assert record.outcome == "answered"
        assert hashlib.sha256(transcript.read_bytes()).hexdigest() == record.transcript_sha256
        attempts = {path.stem for path in lab.runs.attempts.glob(f"{cell}__a*.jsonl")}
        assert record.attempt == len(attempts) + 1, "every start is a run that counts or an attempt that is kept"
        assert begun.count(cell) <= len(attempts) + 1
        ended = [entry for entry in lab.journal("run_ended") if entry.cell == cell]
        assert len(ended) == 1
        assert ended[0].tokens is not None
        told = [entry for entry in lab.journal("attempt_failed", "recovered") if entry.cell == cell]
        assert all(entry.tokens is not None for entry in told)
        assert len({entry.attempt for entry in told}) == len(attempts), "the tokens of each attempt are in the journal"
    for path in lab.runs.attempts.glob("*.json"):
        assert msgspec.json.decode(path.read_bytes(), type=Record).outcome not in ("answered", "quarantined")
    world = World(config.load(lab.folder), Ledgers())
    assert world.counted.missing == ()
    assert world.counted.broken == {}
    assert world.counted.strangers == ()
    assert world.counted.lost_attempts == {}
    assert world.seal_broken is None
    assert processes.marked(lab.places.marker_prefix) == []


@pytest.mark.parametrize("number", range(KILLS))
def test_killed_at_any_write_it_loses_nothing_and_repeats_nothing(
    number: int, lab: Lab, nursery: Nursery, points: list[list[Any]]
) -> None:
    kills = [(point, way) for point in points for way in ways(point)]
    point, way = kills[number * len(kills) // KILLS]
    written(lab)
    status, _ = nursery.run(lab, at=point, mode=way)
    assert status == -signal.SIGKILL, f"{way} {point} was not reached"
    before = closed(lab)
    print("KILL |", way, "|", *point, "|", len(before) // 2)

    status, told = nursery.run(lab)
    assert status == 0, told
    check_whole(lab, before)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("number", range(FAULTY))
def test_a_disk_that_fails_stops_it_with_a_sentence_and_it_goes_on_when_mended(
    number: int, fault: str, lab: Lab, nursery: Nursery, points: list[list[Any]]
) -> None:
    # The first point of each kind of operation on each kind of file, so that every kind fails.
    kinds = {(operation, kind(file)): [operation, file, nth] for operation, file, nth in reversed(points)}
    failing = [point for point in reversed(kinds.values()) if point[0] in FAILING]
    assert len(failing) <= FAULTY
    point = failing[number % len(failing)]
    written(lab)
    status, told = nursery.run(lab, at=point, mode=FAULTS[fault])
    before = closed(lab)
    assert status == 2, f"{fault} at {point} went unnoticed"
    (sentence,) = [what for kind, what, _ in told if kind == "error"]
    assert str(lab.runs.folder) in sentence or str(lab.folder) in sentence
    assert os.strerror(FAULTS[fault]) in sentence
    assert sentence.endswith(".")

    status, told = nursery.run(lab)
    assert status == 0, told
    check_whole(lab, before)
