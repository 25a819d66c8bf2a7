"""Where evidence lies below `runs/`, and the record that closes a run."""

from pathlib import Path
from typing import Literal

import msgspec

from tokenbench.decoding import UNREADABLE
from tokenbench.errors import RunsError
from tokenbench.experiment.model import Cell
from tokenbench.figures import Refusal
from tokenbench.files import own_folder, write_atomically

Outcome = Literal[
    "answered",
    "max_turns",
    "max_budget",
    "time_limit",
    "infrastructure",
    "no_result",
    "cancelled",
    "quarantined",
]
COUNTED: frozenset[Outcome] = frozenset({"answered", "max_turns", "max_budget", "time_limit", "quarantined"})
"""Outcomes of a run that stands for its cell; every other one is an attempt."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """`runs/native__q01__r1.json`: how the transcript beside it came to be."""

    cell: str
    attempt: int
    """1 is the first attempt of the cell; the record that counts names the one that did."""
    position: int
    """Place in the planned order, from 0."""
    outcome: Outcome
    reason: str = ""
    """Why the outcome is what it is, where that is not plain."""
    refusals: tuple[Refusal, ...] = ()
    """QUARANTINED and its evidence, as seen by the runner."""
    agent: str
    agent_version: str
    model: str
    """The model asked for."""
    argv: tuple[str, ...]
    environment: tuple[str, ...]
    """Names only."""
    folder: str
    """The agent's working folder."""
    pid: int
    exit_code: int | None
    """None where the process was ended by the runner; negative for a signal."""
    ended_by: Literal["agent", "wall", "silence", "after_result", "cancel", "stop", "runner_lost", "misannounced"] = (
        "agent"
    )
    started: float
    """Seconds since the Unix epoch."""
    ended: float
    scripted: bool
    sandbox: bool
    """Whether the run was confined."""
    sandbox_told: str = ""
    """What confined it, `bubblewrap 0.8.0`, or why nothing did."""
    sandbox_argv: tuple[str, ...] = ()
    """What stood before `argv` to confine it."""
    seal: str
    """sha256 of seal.json."""
    transcript_sha256: str
    transcript_bytes: int
    set_aside: str = ""
    """Why a run that counted lies among the attempts: its cell was run again, and this is the reason given."""
    since_last_call: float | None = None
    """Seconds since the last call of the same arm, when this run was started; None for the first."""


class Runs:
    """The paths of one `runs/` folder. Pure names: nothing is read or made unless a method says so."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seal = folder / "seal.json"
        self.journal = folder / "journal.jsonl"
        self.lock = folder / "runner.lock"
        self.socket = folder / "control.sock"
        self.logs = folder / "logs"
        self.queries = folder / "queries"
        self.warmups = folder / "warmups"
        self.attempts = folder / "attempts"
        self.composition = folder / "composition.json"
        self.prices = folder / "prices.json"
        self.calibration = folder / "calibration.json"
        self.index_report = folder / "index.json"
        self.servers = folder / "servers.json"
        self.blind = folder / "blind.json"
        self.verdicts = folder / "verdicts"
        self.results = folder / "results.json"
        self.report = folder / "report.md"
        self.wire = folder / "rehearsal.jsonl"

    def prepare(self) -> None:
        """Make the folders, private to their owner.

        Raises:
            RunsError: One is a link or somebody else's, or cannot be made.
        """
        for folder in (self.folder, self.logs, self.queries, self.warmups, self.attempts, self.verdicts):
            own_folder(folder)

    def transcript(self, cell: Cell) -> Path:
        """The transcript of the run that counts; it exists only once that run is closed."""
        return self.folder / f"{cell.name}.jsonl"

    def partial(self, cell: Cell) -> Path:
        """The transcript of a run under way."""
        return self.folder / f"{cell.name}.jsonl.part"

    def record(self, cell: Cell) -> Path:
        """The record of the run that counts."""
        return self.folder / f"{cell.name}.json"

    def attempt(self, cell: Cell, attempt: int) -> Path:
        """The transcript of an attempt that did not count; its record has the suffix `.json`."""
        return self.attempts / f"{cell.name}__a{attempt}.jsonl"

    def warmup(self, arm: str, number: int) -> Path:
        """The transcript of a warm-up run; its record has the suffix `.json`."""
        return self.warmups / f"{arm}__w{number}.jsonl"

    def stderr(self, stem: str) -> Path:
        """What a run wrote to standard error; `stem` is that of its transcript."""
        return self.logs / f"{stem}.err"

    def query_log(self, stem: str) -> Path:
        """What `xq` was asked in a run, and what it found."""
        return self.queries / f"{stem}.jsonl"


def write_record(path: Path, record: Record) -> None:
    """Close a run: from here on it is finished.

    Raises:
        RunsError: The disk is full, or the folder may not be written.
    """
    write_atomically(path, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")


def read_record(path: Path) -> Record | None:
    """The record at this path, or None if there is none.

    Raises:
        RunsError: It is there, but it cannot be read as a record.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except FileNotFoundError:
        return None
    except (OSError, *UNREADABLE) as error:
        raise RunsError(
            f"is not the record of a run: {error}",
            where=str(path),
            remedy="Restore the file; if it is lost, move its transcript to runs/attempts/ and run the cell again",
        ) from error
