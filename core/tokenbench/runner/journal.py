"""`runs/journal.jsonl`: append-only, what was done and each run's usage as it grows.

One flat type for every event: a reader of an older version still reads what it knows, and skips the rest.
"""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Literal

import msgspec

from tokenbench.clock import Clock
from tokenbench.decoding import UNREADABLE
from tokenbench.files import append_line
from tokenbench.ledger.model import Tokens

Event = Literal[
    "runner_started",
    "runner_ended",
    "preparing",
    "planned",
    "sealed",
    "sandbox",
    "warmup_started",
    "warmup_ended",
    "run_started",
    "usage",
    "run_ended",
    "attempt_failed",
    "gave_up",
    "recovered",
    "paused",
    "resumed",
    "stopping",
    "cancelled",
    "limit_reached",
    "rerun",
    "queue_locked",
    "mapping_opened",
    "peeked",
    "calibrated",
    "judge_started",
    "judge_ended",
    "judge_failed",
]


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One journal line. Only `t` and `event` are always there."""

    t: float
    """Seconds since the Unix epoch."""
    event: str
    """One of `Event`; a reader keeps names it does not know."""
    cell: str | None = None
    attempt: int | None = None
    """rerun: the number under which the run that had counted is kept; None where none had."""
    position: int | None = None
    arm: str | None = None
    """warm-ups: the arm."""
    pid: int | None = None
    outcome: str | None = None
    """How what ended has ended; sandbox: `confined` or `none`."""
    reason: str | None = None
    """A sentence for a person; sandbox: what confines the agents, or why nothing does."""
    codes: tuple[str, ...] = ()
    """Refusal codes of an ended run."""
    token_reconciled: bool | None = None
    calls: int | None = None
    turns: int | None = None
    doing: str | None = None
    prompt: int | None = None
    """usage, run_ended: billed input of the latest main-loop call, in tokens."""
    tokens: Tokens | None = None
    """usage: seen so far; run_ended, attempt_failed: the ledger's, or what was seen where it is refused."""
    cost_usd: Decimal | None = None
    first_read_share: float | None = None
    """run_ended: share of the first call's billed input that was read from cache."""
    seconds: float | None = None
    """Wall time of what ended; attempt_failed: also see `retry_in`."""
    retry_in: float | None = None
    transcript_sha256: str | None = None
    """Of a run that ended: its transcript as the run left it; rerun: that of the run which was set aside."""
    cells: tuple[str, ...] = ()
    """planned: the cells in their order."""
    scripted: bool | None = None
    judge: str | None = None
    lock_sha256: str | None = None
    """mapping_opened: of what blind.json says of the judges' files at that moment."""
    version: str | None = None


class Journal:
    """The writing end. Several processes may write; each line is one locked append."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock

    def write(self, event: Event, *, durable: bool = True, **fields: object) -> Entry:
        """Append one event, stamped with the clock's time, and return it.

        Raises:
            RunsError: The disk is full, or the journal may not be written.
        """
        entry = msgspec.convert({"t": self._clock.now(), "event": event, **fields}, Entry)
        append_line(self._path, msgspec.json.encode(entry), durable=durable)
        return entry


class JournalReader:
    """Follows a journal: each call of `new` gives what has been added since the last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._decoder = msgspec.json.Decoder(Entry)
        self.bad_lines = 0
        """Lines that are no entries: the torn end of a crash, or damage."""

    def new(self) -> Iterator[Entry]:
        """Entries that were completed since the last call; a journal that was replaced is read from its start."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, 2)
                if size < self._offset:
                    self._offset = 0
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        end = data.rfind(b"\n") + 1
        self._offset += end
        for line in data[:end].split(b"\n"):
            if not line.strip():
                continue
            try:
                yield self._decoder.decode(line)
            except UNREADABLE:
                self.bad_lines += 1
