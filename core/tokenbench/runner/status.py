"""What the runner of an experiment does and how far it is, from the files, and from its socket where it answers."""

import contextlib
from decimal import Decimal
from pathlib import Path
from typing import Literal

import msgspec

from tokenbench.errors import RunnerError
from tokenbench.ledger.model import Tokens
from tokenbench.runner import control, lock
from tokenbench.runner.journal import Entry, JournalReader
from tokenbench.text import one_line
from tokenbench.transcripts.evidence import COUNTED, Runs

RunnerState = Literal["none", "preparing", "running", "paused", "stopping", "ended", "lost", "elsewhere"]


class RunnerStatus(msgspec.Struct, frozen=True):
    """The runner's process."""

    state: RunnerState
    """`none`: never started; `lost`: it is gone and did not say so; `elsewhere`: on another machine."""
    pid: int | None
    concurrency: int | None
    """None where it does not answer."""
    reason: str
    """What it prepares, or how it ended."""


class CellCounts(msgspec.Struct, frozen=True):
    """Cells by what became of them; they add up to `planned`."""

    planned: int
    finished: int
    """A run that counts has ended."""
    running: int
    retry: int
    """Wait for another attempt."""
    given_up: int
    cancelled: int
    waiting: int
    quarantined: int
    """Of the finished ones."""


class Running(msgspec.Struct, frozen=True):
    """A run under way; its counters are what was seen, never a total."""

    cell: str
    attempt: int
    pid: int | None
    seconds: float
    calls: int
    doing: str
    seen: Tokens


class Status(msgspec.Struct, frozen=True):
    """`status --json`."""

    experiment: str
    """The folder."""
    scripted: bool | None
    """None before the first start."""
    unconfined: str | None
    """Why agents were started without a sandbox; None where nothing says that they were."""
    runner: RunnerStatus
    cells: CellCounts
    runs: tuple[Running, ...]
    warmups: int
    """That have ended."""
    attempts: int
    """That did not count."""
    tokens: int
    """Billed input + output of the runs that count; at least so many where `lower_bound`."""
    lower_bound: bool
    apart_tokens: int
    """Of warm-ups and of attempts that did not count."""
    cost_usd: Decimal | None
    """Of everything, as the agent CLI reports it; None where nothing was reported."""
    last: str
    """The latest sentence of the journal."""


class _Fold:
    """The journal, folded for a summary."""

    def __init__(self) -> None:
        self.scripted: bool | None = None
        self.unconfined: str | None = None
        self.started = False
        self.pid: int | None = None
        self.phase: RunnerState = "none"
        self.reason = ""
        self.last = ""
        self.planned: tuple[str, ...] = ()
        self.states: dict[str, str] = {}
        self.running: dict[str, Entry] = {}
        self.usage: dict[str, Entry] = {}
        self.ended: dict[str, Entry] = {}
        self.warmups = 0
        self.attempts = 0
        self.apart = 0
        self.cost: Decimal | None = None

    def take(self, entry: Entry) -> None:
        """One journal line."""
        if entry.scripted is not None:
            self.scripted = entry.scripted
        if entry.reason:
            self.last = entry.reason
        match entry.event:
            case "runner_started":
                self.started, self.pid, self.phase, self.reason = True, entry.pid, "preparing", ""
                self.release()
            case "sandbox":
                if entry.outcome == "none":
                    self.unconfined = one_line(entry.reason or "no reason was told", 300)
            case "preparing":
                self.reason = entry.reason or ""
            case "planned":
                self.planned = tuple(dict.fromkeys((*self.planned, *entry.cells)))
                self.phase, self.reason = "running", ""
            case "paused":
                self.phase = "paused"
            case "resumed":
                self.phase = "running"
            case "stopping" | "limit_reached":
                self.phase, self.reason = "stopping", entry.reason or ""
            case "runner_ended":
                self.phase, self.reason = "ended", entry.reason or ""
                self.release()
            case "warmup_ended":
                self.warmups += 1
                self._spend(entry, apart=True)
            case _:
                if entry.cell is not None:
                    self._cell(entry, entry.cell)

    def release(self) -> None:
        """No runner holds these runs any more."""
        self.running.clear()
        for cell, state in self.states.items():
            if state in ("running", "retry"):
                self.states[cell] = "waiting"

    def _spend(self, entry: Entry, *, apart: bool) -> None:
        if apart and entry.tokens is not None:
            self.apart += entry.tokens.total
        if entry.cost_usd is not None:
            self.cost = (self.cost or Decimal(0)) + entry.cost_usd

    def _cell(self, entry: Entry, cell: str) -> None:
        match entry.event:
            case "run_started":
                self.states[cell] = "running"
                self.running[cell] = entry
                self.usage.pop(cell, None)
                return
            case "usage":
                self.usage[cell] = entry
                return
            case "run_ended" if entry.outcome in COUNTED:
                self.states[cell] = "finished"
                self.ended[cell] = entry
                self._spend(entry, apart=False)
            case "attempt_failed" | "recovered" | "cancelled" | "run_ended":
                if entry.event == "cancelled" and cell in self.ended:
                    # Its rerun was taken out of the queue: the run that counts stands.
                    return
                self.states[cell] = "retry" if entry.retry_in is not None else "waiting"
                if "cancelled" in (entry.event, entry.outcome):
                    self.states[cell] = "cancelled"
                self.attempts += entry.tokens is not None
                self._spend(entry, apart=True)
            case "gave_up":
                self.states[cell] = "given_up"
            case "rerun":
                self.states[cell] = "waiting"
                again = self.ended.pop(cell, None)
                if again is not None and again.tokens is not None:
                    self.attempts += 1
                    self.apart += again.tokens.total
            case _:
                return
        self.running.pop(cell, None)

    def counts(self) -> CellCounts:
        """Cells by state."""
        cells = dict.fromkeys((*self.planned, *self.states))
        states = [self.states.get(cell, "waiting") for cell in cells]
        return CellCounts(
            planned=len(states),
            finished=states.count("finished"),
            running=states.count("running"),
            retry=states.count("retry"),
            given_up=states.count("given_up"),
            cancelled=states.count("cancelled"),
            waiting=states.count("waiting"),
            quarantined=sum(entry.outcome == "quarantined" for entry in self.ended.values()),
        )


def read_status(folder: Path, *, now: float) -> Status:
    """How far the experiment in this folder is.

    Args:
        folder: The experiment.
        now: Seconds since the Unix epoch.
    """
    runs = Runs(folder / "runs")
    fold = _Fold()
    for entry in JournalReader(runs.journal).new():
        fold.take(entry)
    runner = _runner(runs, fold)
    if runner.state in ("ended", "lost", "none"):
        fold.release()
    running = tuple(_running(cell, entry, fold.usage.get(cell), now) for cell, entry in fold.running.items())
    return Status(
        experiment=str(folder),
        scripted=fold.scripted,
        unconfined=fold.unconfined,
        runner=runner,
        cells=fold.counts(),
        runs=running,
        warmups=fold.warmups,
        attempts=fold.attempts,
        tokens=sum(entry.tokens.total for entry in fold.ended.values() if entry.tokens is not None),
        lower_bound=any(not entry.token_reconciled for entry in fold.ended.values()),
        apart_tokens=fold.apart,
        cost_usd=fold.cost,
        last=one_line(fold.last, 300),
    )


def _running(cell: str, started: Entry, usage: Entry | None, now: float) -> Running:
    return Running(
        cell=cell,
        attempt=started.attempt or 1,
        pid=started.pid,
        seconds=max(0.0, now - started.t),
        calls=(usage.calls or 0) if usage else 0,
        doing=one_line((usage.doing or "") if usage else "starting", 40),
        seen=(usage.tokens or Tokens()) if usage else Tokens(),
    )


def _runner(runs: Runs, fold: _Fold) -> RunnerStatus:
    owner = lock.living_owner(runs.lock)
    reason = one_line(fold.reason, 300)
    if owner is None:
        state: RunnerState = "none" if not fold.started else "ended" if fold.phase == "ended" else "lost"
        return RunnerStatus(state, None, None, reason)
    with contextlib.suppress(RunnerError):
        reply = control.send(runs, "status")
        said = msgspec.convert(reply, _Said)
        return RunnerStatus(said.state, said.pid, said.concurrency, reason)
    state = fold.phase if lock.is_here(owner) else "elsewhere"
    return RunnerStatus(state, owner.pid, None, reason)


class _Said(msgspec.Struct):
    """The runner's own word."""

    state: Literal["running", "paused", "stopping", "ended"]
    pid: int
    concurrency: int
