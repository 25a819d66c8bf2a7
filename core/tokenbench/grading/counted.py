"""The runs that count, read from the files alone: each with its record and its ledger."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from tokenbench.errors import TokenbenchError
from tokenbench.experiment.model import Cell, Loaded
from tokenbench.experiment.plan import plan_cells
from tokenbench.files import private_folder
from tokenbench.ledger import read_ledger
from tokenbench.ledger.model import Ledger
from tokenbench.ledger.prices import PriceTable, read_if_sound
from tokenbench.transcripts.evidence import COUNTED, Record, Runs, read_record

_CHUNK = 1 << 20
_OF_A_WARMUP: Final = re.compile(r".+__w\d+__a\d+")
"""Stem of an attempt of a warm-up, which is of no cell."""


class CountedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The run that stands for a cell."""

    cell: Cell
    record: Record
    ledger: Ledger
    sha256: str
    """Of the transcript as it lies there now; the record holds what it was."""

    @property
    def quarantined(self) -> bool:
        """Whether the run was no instance of its arm."""
        return self.record.outcome == "quarantined"

    @property
    def answer(self) -> str | None:
        """The final answer; None where the run ended without one."""
        return self.ledger.answer if self.record.outcome == "answered" else None


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A run that did not count."""

    name: str
    """`native__q01__r1__a1`."""
    cell: Cell
    record: Record | None
    """None where the attempt was cut off before it could be recorded."""
    ledger: Ledger
    sha256: str
    """Of the transcript as it lies there now."""


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """All that `runs/` holds of an experiment's cells."""

    planned: tuple[Cell, ...]
    runs: Mapping[Cell, CountedRun]
    attempts: tuple[Attempt, ...]
    lost_attempts: Mapping[str, str]
    """Attempts whose transcript cannot be read, by name, and why: what they cost is unknown."""
    broken: Mapping[Cell, str]
    """Cells whose files are there in part, or cannot be read, and why."""
    strangers: tuple[str, ...]
    """Files of runs that no cell of the plan belongs to."""

    @property
    def missing(self) -> tuple[Cell, ...]:
        """Planned cells without a run that counts, in the planned order."""
        return tuple(cell for cell in self.planned if cell not in self.runs)


class Ledgers:
    """Ledgers and hashes of finished transcripts, kept in memory for as long as the files stay as they are."""

    def __init__(self, read: Callable[..., Ledger] = read_ledger) -> None:
        self._read = read
        self._known: dict[Path, tuple[tuple[object, ...], Ledger, str]] = {}
        self._tables: dict[Path, tuple[tuple[int, ...], PriceTable | None]] = {}

    def prices(self, path: Path) -> PriceTable | None:
        """The price table at this path; a damaged one is none, and costs are PRICE-UNKNOWN then."""
        try:
            state = path.stat()
        except OSError:
            return None
        stamp = (state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
        known = self._tables.get(path)
        if known is None or known[0] != stamp:
            known = self._tables[path] = (stamp, read_if_sound(path))
        return known[1]

    def get(self, path: Path, record: Record | None, prices: PriceTable | None = None) -> tuple[Ledger, str]:
        """The ledger of a transcript and the sha256 of its bytes.

        Raises:
            FileNotFoundError: There is no such file.
            TranscriptError: It cannot be read.
        """
        state = path.stat()
        stamp = (state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino, record, prices)
        known = self._known.get(path)
        if known is not None and known[0] == stamp:
            return known[1], known[2]
        ledger, digest = self._read(path, record=record, prices=prices), _sha256(path)
        self._known[path] = (stamp, ledger, digest)
        return ledger, digest


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


LEDGERS = Ledgers()
"""What a process has read, shared by all that ask."""


def gather(loaded: Loaded, ledgers: Ledgers = LEDGERS) -> Counted:
    """Read the records and transcripts of an experiment. A file that cannot be read spoils its own cell only."""
    runs = Runs(loaded.runs)
    planned = plan_cells(loaded.config, loaded.questions)
    found: dict[Cell, CountedRun] = {}
    broken: dict[Cell, str] = {}
    for cell in planned:
        try:
            run = _counted(runs, cell, ledgers)
        except (TokenbenchError, OSError) as error:
            broken[cell] = str(error)
            continue
        if isinstance(run, str):
            broken[cell] = run
        elif run is not None:
            found[cell] = run
    names = {cell.name for cell in planned}
    strangers = sorted(
        path.name for path in loaded.runs.glob("*__*__r*.json*") if path.name.split(".", 1)[0] not in names
    )
    attempts, lost = _attempts(runs, ledgers)
    return Counted(
        planned=planned,
        runs=found,
        attempts=attempts,
        lost_attempts=lost,
        broken=broken,
        strangers=tuple(strangers),
    )


def _counted(runs: Runs, cell: Cell, ledgers: Ledgers) -> CountedRun | str | None:
    """The run, None where there is none, or what is wrong with its files."""
    record = read_record(runs.record(cell))
    transcript = runs.transcript(cell)
    if record is None:
        return f"{transcript.name} has no record beside it" if transcript.exists() else None
    if not transcript.exists():
        return f"{runs.record(cell).name} is there, its transcript is not"
    if record.cell != cell.name:
        return f"{runs.record(cell).name} is the record of {record.cell}"
    if record.outcome not in COUNTED:
        return f"{runs.record(cell).name} records an attempt ({record.outcome}), not a run that counts"
    ledger, digest = ledgers.get(transcript, record, ledgers.prices(runs.prices))
    return CountedRun(cell=cell, record=record, ledger=ledger, sha256=digest)


def _attempts(runs: Runs, ledgers: Ledgers) -> tuple[tuple[Attempt, ...], dict[str, str]]:
    found: list[Attempt] = []
    lost: dict[str, str] = {}
    for path in sorted(runs.attempts.glob("*.jsonl")):
        if _OF_A_WARMUP.fullmatch(path.stem):
            continue
        try:
            cell = Cell.parse(path.stem.rpartition("__")[0])
            record = read_record(path.with_suffix(".json"))
            ledger, digest = ledgers.get(path, record, ledgers.prices(runs.prices))
        except (TokenbenchError, OSError, ValueError) as error:
            lost[path.stem] = str(error)
            continue
        found.append(Attempt(name=path.stem, cell=cell, record=record, ledger=ledger, sha256=digest))
    return tuple(found), lost


class Warmup(msgspec.Struct, frozen=True, kw_only=True):
    """A run that warmed up."""

    name: str
    """`native__w1`."""
    arm: str
    record: Record
    ledger: Ledger


def warmups(loaded: Loaded, ledgers: Ledgers = LEDGERS) -> Iterator[Warmup]:
    """The warm-ups of an experiment's arms. No figure rests on one, so one that cannot be read is left out."""
    runs = Runs(loaded.runs)
    for path in sorted(runs.warmups.glob("*__w*.json")):
        arm = path.name.split("__")[0]
        if arm not in loaded.config.arms:
            continue
        try:
            record = read_record(path)
            if record is not None:
                ledger, _ = ledgers.get(path.with_suffix(".jsonl"), record, ledgers.prices(runs.prices))
                yield Warmup(name=path.stem, arm=arm, record=record, ledger=ledger)
        except (TokenbenchError, OSError):
            continue


def judge_folder(runs: Runs, judge: str, *, make: bool = False) -> Path:
    """Where the transcripts of a model judge lie.

    Args:
        runs: The results folder.
        judge: The judge's name.
        make: Make it, private to its owner.
    """
    folder = runs.folder / "judges"
    return private_folder(private_folder(folder) / judge) if make else folder / judge


def judge_ledgers(runs: Runs, judge: str, ledgers: Ledgers = LEDGERS) -> dict[str, Ledger]:
    """What each process of a model judge cost, failed ones included, by `judges/<judge>/<item>__a1`."""
    found: dict[str, Ledger] = {}
    for path in sorted(judge_folder(runs, judge).glob("*__a*.jsonl")):
        try:
            found[f"judges/{judge}/{path.stem}"], _ = ledgers.get(path, None, ledgers.prices(runs.prices))
        except (TokenbenchError, FileNotFoundError):
            # It cannot be read, so it says nothing; that a verdict without transcript exists is seen by their numbers.
            continue
    return found
