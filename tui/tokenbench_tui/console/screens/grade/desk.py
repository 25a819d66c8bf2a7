"""The judge's desk, worked on in threads, one job at a time: a verdict is on the disk before the next item is shown."""

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tokenbench.clock import Clock
from tokenbench.errors import GradingError
from tokenbench.experiment.model import Loaded
from tokenbench.grading.desk import Desk
from tokenbench.grading.grades import Opening, lock_and_open
from tokenbench.grading.items import BlindItem
from tokenbench.grading.queue import read_queue
from tokenbench.grading.verdicts import Act, Decision, check_judge
from tokenbench.grading.votes import deciding, majority, read_votes
from tokenbench.transcripts.evidence import Runs


@dataclass(frozen=True, slots=True)
class DeskState:
    """What a screen needs to know of a desk."""

    items: tuple[BlindItem, ...]
    unjudged: frozenset[str]
    """Ids of the items that this judge has not judged."""
    mean_seconds: float | None
    waiting: int
    """Items that no judge has judged."""
    undecided: int
    """Items on which the judges are split, or could not say."""


def name_problem(name: str) -> str | None:
    """What is wrong with a judge's name; None if nothing is."""
    try:
        check_judge(name)
    except GradingError as error:
        return f"{error.what}. {error.remedy}."
    return None


class AsyncDesk:
    """A desk that never blocks the screen."""

    def __init__(self, loaded: Loaded, judge: str, clock: Clock) -> None:
        self.judge = judge
        self._loaded = loaded
        self._clock = clock
        self._desk: Desk | None = None
        self._lock = asyncio.Lock()

    async def refresh(self) -> DeskState:
        """Queue what has come to wait, and read what has been judged.

        Raises:
            TokenbenchError: The queue or the verdicts are damaged, or cannot be written.
        """
        async with self._lock:
            return await asyncio.to_thread(self._refresh)

    async def give(self, item: BlindItem, verdict: Decision, *, note: str, seconds: float) -> DeskState:
        """Write a verdict; it is on the disk when this returns.

        Raises:
            RunsError: It could not be written.
        """

        def work() -> DeskState:
            desk = self._open()
            desk.give(item, verdict, note=note, seconds=seconds)
            return self._state(desk)

        async with self._lock:
            return await asyncio.to_thread(work)

    async def undo(self) -> tuple[Act | None, DeskState]:
        """Take the latest verdict back.

        Raises:
            RunsError: It could not be written.
        """

        def work() -> tuple[Act | None, DeskState]:
            desk = self._open()
            return desk.undo(), self._state(desk)

        async with self._lock:
            return await asyncio.to_thread(work)

    async def open_mapping(self) -> Opening:
        """Lock the queue and open the mapping.

        Raises:
            TokenbenchError: Something is unjudged or missing, or it is open already.
        """
        async with self._lock:
            return await asyncio.to_thread(lock_and_open, self._loaded, self._clock)

    def _open(self) -> Desk:
        if self._desk is None:
            self._desk = Desk(self._loaded, self.judge, self._clock)
        return self._desk

    def _refresh(self) -> DeskState:
        desk = self._open()
        desk.refresh()
        return self._state(desk)

    def _state(self, desk: Desk) -> DeskState:
        said = decisions(self._loaded)
        return DeskState(
            items=desk.items,
            unjudged=frozenset(item.id for item in desk.unjudged()),
            mean_seconds=desk.progress.mean_seconds,
            waiting=said.count(None),
            undecided=said.count("unknown"),
        )


def decisions(loaded: Loaded) -> list[Decision | None]:
    """What the judges together say of each item of the queue; None where nobody's verdict stands."""
    queue = read_queue(loaded)
    if queue is None:
        return []
    votes = read_votes(Runs(loaded.runs), queue.items, queue.mapping)
    return [majority(deciding(votes.of(item))) for item in queue.items]


def start_model_judge(folder: Path, log: Path) -> int:
    """Start `tokenbench-tui judge` on this experiment, detached, and return its pid; the journal tells how it goes on.

    Raises:
        OSError: The process could not be started, or its log could not be opened.
    """
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "tokenbench_tui", "judge", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env=os.environ | {"NO_COLOR": "1"},
        )
    return process.pid
