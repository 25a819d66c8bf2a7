"""What there is to see of one cell: its run's ledger, the run under way, or the last attempt that did not count."""

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from tokenbench.experiment.model import Cell
from tokenbench.grading import blindness
from tokenbench.ledger import read_ledger
from tokenbench.ledger.attribution.model import Attributed
from tokenbench.ledger.build import LedgerBuilder
from tokenbench.ledger.model import Ledger, Live
from tokenbench.ledger.prices import read_if_sound
from tokenbench.ledger.sources import PriceSource, price_sources
from tokenbench.transcripts.evidence import Record, Runs, read_record
from tokenbench.transcripts.lines import LineSplitter

MOST_AT_ONCE = 8 << 20
"""Bytes of a growing transcript that are read in one step, so that a long one is caught up with bit by bit."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a cell."""

    cell: str
    ledger: Ledger | None = None
    """Of a run that ended; of one under way, what was seen so far: lower bounds, to be read with `live`."""
    live: Live | None = None
    record: Record | None = None
    parts: Attributed | None = None
    """Where the tokens of a run that ended went."""
    sources: tuple[PriceSource, ...] = ()
    """Where the prices of a run that ended come from."""
    attempt: int | None = None
    """The attempt that is shown, where it did not count."""
    behind: bool = False
    """Whether more of the transcript is there than was read yet."""
    problem: str = ""
    """Why nothing can be shown."""


class Viewer:
    """Looks at one cell at a time, and keeps what it has read of a run under way. For one thread at a time."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._follower: Follower | None = None

    def look(self, name: str) -> Look:
        """What there is to see of a cell now.

        Raises:
            TranscriptError: Its transcript is there and cannot be read.
            RunsError: Its record is damaged.
        """
        try:
            cell = Cell.parse(name)
        except ValueError:
            return Look(name, problem="This is not the name of a cell, so it has no transcript.")
        transcript = self._runs.transcript(cell)
        if transcript.exists():
            return self._ended(name, transcript, read_record(self._runs.record(cell)))
        partial = self._runs.partial(cell)
        if partial.exists():
            return self._under_way(name, partial)
        attempts = self._runs.attempts.glob(f"{cell.name}__a*.jsonl")
        numbered = sorted((int(path.stem.rpartition("__a")[2]), path) for path in attempts if _numbered(path))
        if numbered:
            number, path = numbered[-1]
            return replace(self._ended(name, path, read_record(path.with_suffix(".json"))), attempt=number)
        return Look(name, problem="There is no transcript of it: it has not been started, or its files are elsewhere.")

    def _ended(self, name: str, transcript: Path, record: Record | None) -> Look:
        from tokenbench.findings.shares import attribute_transcript

        table = read_if_sound(self._runs.prices)
        ledger = read_ledger(transcript, record=record, prices=table)
        return Look(
            name,
            ledger=self._withheld(ledger),
            record=record,
            parts=attribute_transcript(self._runs, name, ledger, table),
            sources=price_sources(ledger, table),
        )

    def _withheld(self, ledger: Ledger) -> Ledger:
        """Nobody unblinds himself: what a run cost is shown, what it answered is not."""
        if ledger.answer is None or blindness.is_open(self._runs):
            return ledger
        return msgspec.structs.replace(ledger, answer=None, answer_withheld=True)

    def _under_way(self, name: str, partial: Path) -> Look:
        if self._follower is None or self._follower.path != partial:
            self._follower = Follower(partial)
        follower = self._follower
        behind = follower.step()
        return Look(name, ledger=self._withheld(follower.so_far()), live=follower.live(), behind=behind)


class Follower:
    """Follows one growing transcript."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin()

    def _begin(self) -> None:
        self._offset = 0
        self._inode: int | None = None
        self._splitter = LineSplitter()
        self._builder = LedgerBuilder(transcript=str(self.path))

    def step(self) -> bool:
        """Read on; says whether there is more. A file that was replaced or cut is read from its start."""
        try:
            with self.path.open("rb") as file:
                status = file.seek(0, 2)
                inode = self.path.stat().st_ino
                if status < self._offset or (self._inode is not None and inode != self._inode):
                    self._begin()
                self._inode = inode
                file.seek(self._offset)
                data = file.read(MOST_AT_ONCE)
        except FileNotFoundError:
            # It was closed between two looks; the next one finds it under its final name.
            return False
        self._offset += len(data)
        for line in self._splitter.feed(data):
            self._builder.feed(line)
        return self._offset < status

    def live(self) -> Live:
        """How far the run is."""
        return self._builder.live()

    def so_far(self) -> Ledger:
        """What was seen; never to be taken for the ledger of the run."""
        return self._builder.finish()


def _numbered(path: Path) -> bool:
    return path.stem.rpartition("__a")[2].isdigit()
