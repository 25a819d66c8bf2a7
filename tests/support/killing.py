"""What tests that kill a runner share: runners that die where they are told to, and what must hold afterwards."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tokenbench.experiment import config
from tokenbench.findings.world import World
from tokenbench.grading.counted import Ledgers
from tokenbench.runner import processes
from tokenbench.runner.journal import JournalReader
from tokenbench.runner.places import BASE_VARIABLE, Places
from tokenbench.transcripts.evidence import Record, Runs

HARNESS = Path(__file__).with_name("kill_points.py")


class Nursery:
    """Runners that die where they are told to."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HARNESS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(
        self,
        folder: Path,
        *,
        at: object = None,
        mode: str | int = "before",
        count: bool = False,
        scripted: bool = False,
    ) -> tuple[int, Any]:
        """Run the experiment's runner; its exit status, and what it told."""
        environment = {"ANTHROPIC_API_KEY": "sk-ant-a-secret-key"} | {
            name: os.environ[name] for name in (BASE_VARIABLE, "XDG_CACHE_HOME")
        }
        request = {
            "folder": str(folder),
            "environment": environment,
            "at": at,
            "mode": mode,
            "count": count,
            "scripted": scripted,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["status"], answer["points"]

    def points(self, folder: Path, *, scripted: bool = False) -> list[list[Any]]:
        """Every point of an undisturbed run, in order."""
        status, points = self.run(folder, count=True, scripted=scripted)
        assert status == 0
        return [point for point in points if "(usage)" not in point[1]]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def ways(point: list[Any]) -> list[str]:
    """How a runner can die at this point: in mid-write too, where there is one."""
    torn = point[0] in ("write", "pwrite") or (point[0] == "fsync" and "(temporary)" in point[1])
    return ["before", "half", "after"] if torn else ["before", "after"]


def closed(runs: Runs, cells: Sequence[str]) -> dict[Path, bytes]:
    """Files of the runs that are closed: those whose record is there."""
    found: dict[Path, bytes] = {}
    for cell in cells:
        record = runs.folder / f"{cell}.json"
        if record.exists():
            transcript = next(
                path for suffix in ("", ".part") if (path := runs.folder / f"{cell}.jsonl{suffix}").exists()
            )
            found[record] = record.read_bytes()
            found[record.with_suffix(".jsonl")] = transcript.read_bytes()
    return found


def check_whole(folder: Path, cells: Sequence[str], before: dict[Path, bytes]) -> None:
    """The experiment is finished as if nothing had happened, and what had happened is accounted for."""
    runs = Runs(folder / "runs")
    entries = list(JournalReader(runs.journal).new())
    for path, content in before.items():
        assert path.read_bytes() == content, f"{path.name} was finished, and is another now"
    assert not [path.name for path in runs.folder.rglob("*.part")]
    begun = [entry.cell for entry in entries if entry.event == "run_started"]
    for cell in cells:
        record = msgspec.json.decode((runs.folder / f"{cell}.json").read_bytes(), type=Record)
        transcript = runs.folder / f"{cell}.jsonl"
        assert record.outcome == "answered"
        assert hashlib.sha256(transcript.read_bytes()).hexdigest() == record.transcript_sha256
        attempts = {path.stem for path in runs.attempts.glob(f"{cell}__a*.jsonl")}
        assert record.attempt == len(attempts) + 1, "every start is a run that counts or an attempt that is kept"
        assert begun.count(cell) <= len(attempts) + 1
        ended = [entry for entry in entries if entry.event == "run_ended" and entry.cell == cell]
        assert len(ended) == 1
        assert ended[0].tokens is not None
        told = [entry for entry in entries if entry.event in ("attempt_failed", "recovered") and entry.cell == cell]
        assert all(entry.tokens is not None for entry in told)
        assert len({entry.attempt for entry in told}) == len(attempts), "the tokens of each attempt are in the journal"
    for path in runs.attempts.glob("*.json"):
        assert msgspec.json.decode(path.read_bytes(), type=Record).outcome not in ("answered", "quarantined")
    world = World(config.load(folder), Ledgers())
    assert world.counted.missing == ()
    assert world.counted.broken == {}
    assert world.counted.strangers == ()
    assert world.counted.lost_attempts == {}
    assert world.seal_broken is None
    assert processes.marked(Places(runs.folder).marker_prefix) == []
