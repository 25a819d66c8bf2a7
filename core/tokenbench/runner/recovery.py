"""What a new runner does with what a dead one left: finish what was closed, keep apart what was not.

No run that was closed is repeated, and nothing that was not closed counts; its tokens are kept.
"""

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple, TypedDict

from tokenbench.errors import RunsError
from tokenbench.experiment.seal import digest
from tokenbench.files import sync_folder
from tokenbench.ledger.model import Ledger, Tokens
from tokenbench.ledger.prices import read_if_sound
from tokenbench.ledger.read import read_ledger
from tokenbench.runner import closing
from tokenbench.runner.journal import Entry, Journal
from tokenbench.runner.schedule import Job, Spent
from tokenbench.transcripts.evidence import COUNTED, Outcome, Record, Runs, read_record

_ENDS = frozenset({"run_ended", "attempt_failed", "recovered", "cancelled", "warmup_ended"})
"""Lines that tell how a run ended, and what it spent."""


class Started(NamedTuple):
    """The latest start of a job, as the journal tells it."""

    t: float
    pid: int
    attempt: int


class Begun(NamedTuple):
    """A rerun whose new run was not started yet, as the journal tells it."""

    attempt: int
    """The number under which the run that had counted is kept."""
    reason: str


@dataclass(slots=True)
class History:
    """What the journal tells a new runner."""

    spent: Spent = field(default_factory=Spent)
    started: dict[str, Started] = field(default_factory=dict[str, Started])
    """By stem."""
    told: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """Cells and attempts whose end is written down, whether they count or not."""
    warmups: Counter[str] = field(default_factory=Counter[str])
    """Ends of warm-ups that are written down, by stem: their lines name no attempt."""
    reruns: dict[str, Begun] = field(default_factory=dict[str, Begun])
    """By stem."""


def read_history(entries: Iterable[Entry]) -> History:
    """Fold the journal of earlier runners."""
    history = History()
    for entry in entries:
        stem = entry.cell or (f"{entry.arm}__w{entry.attempt}" if entry.arm else None)
        if entry.event in _ENDS and entry.tokens is not None:
            history.spent.add(entry.tokens, entry.cost_usd)
        if stem is None:
            continue
        if entry.event in ("run_started", "warmup_started"):
            history.started[stem] = Started(entry.t, entry.pid or 0, entry.attempt or 1)
            history.reruns.pop(stem, None)
        elif entry.event == "rerun" and entry.attempt is not None:
            history.reruns[stem] = Begun(entry.attempt, entry.reason or "")
        elif entry.event in _ENDS and entry.cell is not None:
            if entry.attempt is not None:
                history.told.add((stem, entry.attempt))
        elif entry.event in _ENDS:
            history.warmups[stem] += 1
    return history


class Stamp(NamedTuple):
    """What every record of this runner says alike."""

    agent: str
    agent_version: str
    scripted: bool
    seal: str
    sandbox: bool = False
    sandbox_told: str = ""


class Recovery:
    """Puts the files of an experiment in order before the first run is started."""

    def __init__(self, runs: Runs, journal: Journal, history: History, stamp: Stamp) -> None:
        self._runs = runs
        self._journal = journal
        self._history = history
        self._stamp = stamp

    def run(self, jobs: Iterable[tuple[Job, str]]) -> frozenset[str]:
        """Put everything in order and return the stems of the jobs that are done.

        Args:
            jobs: Every warm-up and cell of the plan, with its model.

        Raises:
            RunsError: A closed run is damaged, or a file cannot be moved.
        """
        self._sweep()
        done: set[str] = set()
        for job, model in jobs:
            files = closing.files_of(self._runs, job)
            record = self._order(job, model, files)
            if record is not None:
                done.add(job.stem)
            self._tell(job, files, record)
        return frozenset(done)

    def _order(self, job: Job, model: str, files: closing.Files) -> Record | None:
        """Put the files of one job in order, and return the record of the run that counts."""
        if job.stem in self._history.reruns:
            self._finish_rerun(job, files, self._history.reruns[job.stem])
        if files.partial.exists():
            self._partial(job, model, files)
        record = read_record(files.record)
        if record is None:
            if files.transcript.exists():
                # Existence says nothing: without its record nobody knows how it came to be.
                self._set_apart(job, model, files.transcript, "its record is missing, so it does not count")
            return None
        if job.cell is not None and record.outcome not in COUNTED:
            self._demote(job, files)
            return None
        self._check(files, record)
        return record

    def _finish_rerun(self, job: Job, files: closing.Files, begun: Begun) -> None:
        """The journal says that this run was to be set aside, and nothing has been started since: it is, now."""
        record = read_record(files.record)
        if record is None:
            return
        if not closing.attempt_files(self._runs, job, begun.attempt).transcript.exists():
            self._check(files, record)
        closing.set_aside(self._runs, job, begun.attempt, begun.reason)

    def _sweep(self) -> None:
        """Remove half-written files of an atomic write that a crash cut short."""
        for folder in (self._runs.folder, self._runs.warmups, self._runs.attempts):
            for path in folder.glob(".*.part"):
                path.unlink(missing_ok=True)

    def _partial(self, job: Job, model: str, files: closing.Files) -> None:
        sha256 = digest(files.partial)
        made = closing.attempts_made(self._runs, job.stem)
        for closed in (files, *(closing.attempt_files(self._runs, job, number) for number in range(made, 0, -1))):
            record = read_record(closed.record)
            if record is not None and record.transcript_sha256 == sha256 and not closed.transcript.exists():
                closing.settle(self._runs, job, closed)
                return
        self._set_apart(job, model, files.partial, "its runner was lost before it could be recorded")

    def _set_apart(self, job: Job, model: str, found: Path, reason: str) -> None:
        """Keep a transcript that does not count as an attempt, with a record that says so."""
        started = self._history.started.get(job.stem)
        attempt = max(closing.attempts_made(self._runs, job.stem) + 1, started.attempt if started and job.cell else 1)
        status = found.stat()
        record = Record(
            cell=job.stem,
            attempt=attempt,
            position=job.number if job.cell is not None else -1,
            outcome="no_result",
            reason=reason,
            agent=self._stamp.agent,
            agent_version=self._stamp.agent_version,
            model=model,
            argv=(),
            environment=(),
            folder="",
            pid=started.pid if started else 0,
            exit_code=None,
            ended_by="runner_lost",
            started=started.t if started else status.st_mtime,
            ended=status.st_mtime,
            scripted=self._stamp.scripted,
            # The seal holds that a runner of this experiment confines all its runs or none.
            sandbox=self._stamp.sandbox,
            sandbox_told=self._stamp.sandbox_told,
            seal=self._stamp.seal,
            transcript_sha256=digest(found),
            transcript_bytes=status.st_size,
        )
        files = closing.attempt_files(self._runs, job, attempt)._replace(partial=found)
        closing.close(self._runs, job, files, record)
        self._tell_end(job, attempt, files.transcript, record, counts=False)

    def _demote(self, job: Job, files: closing.Files) -> None:
        """A closed run that does not count stands where only one that counts may stand: make it an attempt."""
        attempt = closing.attempts_made(self._runs, job.stem) + 1
        apart = closing.attempt_files(self._runs, job, attempt)
        try:
            if files.transcript.exists():
                files.transcript.replace(apart.transcript)
            files.record.replace(apart.record)
            sync_folder(self._runs.attempts)
            sync_folder(self._runs.folder)
        except OSError as error:
            raise RunsError(
                f"could not be moved to attempts/: {error.strerror or error}",
                where=str(files.record),
                remedy="Mend the permissions there, then start again",
            ) from error

    def _check(self, files: closing.Files, record: Record) -> None:
        if not files.transcript.exists():
            what = "the transcript of a closed run is gone"
        elif digest(files.transcript) != record.transcript_sha256:
            what = "the transcript of a closed run is no longer what was recorded"
        else:
            return
        raise RunsError(
            what,
            where=os.fspath(files.transcript),
            remedy="Restore it from a copy; if there is none, move it and its record to runs/attempts/ and start again",
        )

    def _tell(self, job: Job, files: closing.Files, counting: Record | None) -> None:
        """A crash between a record and the journal: the line of each run that has ended without one is written now."""
        ended: list[tuple[int, Path, Record]] = []
        for number in range(1, closing.attempts_made(self._runs, job.stem) + 1):
            apart = closing.attempt_files(self._runs, job, number)
            record = read_record(apart.record)
            # What was set aside had counted, and its line was written then.
            if record is not None and not record.set_aside and apart.transcript.exists():
                ended.append((number, apart.transcript, record))
        if counting is not None:
            ended.append((counting.attempt, files.transcript, counting))
        if job.cell is None:
            ended = ended[self._history.warmups[job.stem] :]
        else:
            told = {number for stem, number in self._history.told if stem == job.stem}
            ended = [one for one in ended if told.isdisjoint((one[0], one[2].attempt))]
        for number, transcript, record in ended:
            self._tell_end(job, number, transcript, record, counts=record is counting)

    def _tell_end(self, job: Job, number: int, transcript: Path, record: Record, *, counts: bool) -> None:
        ledger = read_ledger(transcript, record=record, prices=read_if_sound(self._runs.prices))
        fields = ended_fields(job, record, ledger)
        if job.cell is not None:
            fields["attempt"] = number
        if record.ended_by == "runner_lost" or (record.outcome in COUNTED and not counts):
            event = "recovered"
        elif job.cell is None:
            event = "warmup_ended"
        elif counts:
            event = "run_ended"
        else:
            event = "cancelled" if record.ended_by == "cancel" else "attempt_failed"
        self._journal.write(event, **fields)
        self._history.spent.add(*spending(ledger))
        if job.cell is None:
            self._history.warmups[job.stem] += 1
        else:
            self._history.told.add((job.stem, number))


def spending(ledger: Ledger) -> tuple[Tokens, Decimal | None]:
    """What a run cost, or at least cost where its ledger is refused."""
    return ledger.tokens if ledger.tokens is not None else ledger.lower_bound, ledger.cost_usd.reported


class EndedFields(TypedDict):
    """The journal line of a run that has ended, whether it counts or not."""

    cell: str | None
    arm: str | None
    position: int | None
    attempt: int
    pid: int
    outcome: Outcome
    reason: str | None
    codes: tuple[str, ...]
    token_reconciled: bool | None
    calls: int
    turns: int
    prompt: int | None
    tokens: Tokens
    cost_usd: Decimal | None
    first_read_share: float | None
    seconds: float
    transcript_sha256: str


def ended_fields(job: Job, record: Record, ledger: Ledger) -> EndedFields:
    """What the journal says of a run that has ended."""
    tokens, cost = spending(ledger)
    first = ledger.call_rows[0].tokens if ledger.call_rows else None
    last = next((row.tokens for row in reversed(ledger.call_rows) if row.parent is None), None)
    codes = [*(refusal.code for refusal in record.refusals), *(refusal.code for refusal in ledger.refusals)]
    is_cell = job.cell is not None
    return EndedFields(
        cell=job.stem if is_cell else None,
        arm=None if is_cell else job.arm,
        position=record.position if is_cell else None,
        attempt=record.attempt if is_cell else job.number,
        pid=record.pid,
        outcome=record.outcome,
        reason=record.reason or None,
        codes=tuple(dict.fromkeys(codes)),
        token_reconciled=ledger.token_reconciled,
        calls=ledger.calls,
        turns=ledger.turns,
        prompt=last.billed_input if last is not None else None,
        tokens=tokens,
        cost_usd=cost,
        first_read_share=first.cache_read / first.billed_input if first is not None and first.billed_input else None,
        seconds=record.ended - record.started,
        transcript_sha256=record.transcript_sha256,
    )
