"""The life of one runner: it takes the lock, prepares, puts things in order, runs the plan, and says how it ended."""

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from tokenbench.agents.claude import launch
from tokenbench.clock import Clock
from tokenbench.errors import RunnerError, TokenbenchError
from tokenbench.experiment import config
from tokenbench.experiment.model import Cell, Loaded
from tokenbench.rehearsal.api import ScriptedApi
from tokenbench.rehearsal.scripts import ScriptBook, scripts_for
from tokenbench.runner import lock, processes, reruns
from tokenbench.runner.attempt import Executor
from tokenbench.runner.control import ControlServer, Reply, Request
from tokenbench.runner.guard import guarded
from tokenbench.runner.journal import Journal, JournalReader
from tokenbench.runner.places import Places
from tokenbench.runner.prepare import Prepared, check_corpus, prepare
from tokenbench.runner.recovery import Recovery, Stamp, read_history
from tokenbench.runner.schedule import Backoff, Job, Scheduler, Tally
from tokenbench.runner.supervise import Patience, Supervisor
from tokenbench.text import one_line
from tokenbench.transcripts.evidence import Runs, read_record

DONE: Final = 0
"""Every cell that was to run has a run that counts, and none is quarantined."""
OPEN: Final = 1
"""The runner ended in order, and cells are left over or quarantined."""
CONDITIONS: Final = ("arm", "question", "repeat")


@dataclass(frozen=True, slots=True)
class Settings:
    """How a runner is to run."""

    folder: Path
    scripted: bool
    scripts: Path | None = None
    only: tuple[str, ...] = ()
    rerun: tuple[str, ...] = ()
    """Cells to run again that have a run which counts. With them nothing else is run but what `only` names."""
    reason: str = ""
    """Why they are run again."""
    force: bool = False
    """Run them again although the mapping is open."""
    trial: Path | None = None
    """A folder for the results of a trial: one question in every arm, once, without warm-ups and second attempts, and
    no trace of it in the experiment."""
    backoff: Backoff | None = None
    patience: Patience | None = None


def only_cells(loaded: Loaded, conditions: Sequence[str]) -> Callable[[Cell], bool]:
    """Which cells the conditions `arm=…`, `question=…` and `repeat=…` leave; several of one kind add up.

    Raises:
        RunnerError: A condition has another form, or names what the experiment has not.
    """
    known = {
        "arm": set(loaded.config.arms),
        "question": {question.id for question in loaded.questions},
        "repeat": {str(number) for number in range(1, loaded.config.experiment.repeats + 1)},
    }
    wanted: dict[str, set[str]] = {}
    for condition in conditions:
        kind, sign, value = condition.partition("=")
        if not sign or kind not in known:
            raise RunnerError(
                f"{one_line(condition, 60)} is no condition",
                where="--only",
                remedy="Write arm=NAME, question=ID or repeat=N",
            )
        if value not in known[kind]:
            raise RunnerError(
                f"the experiment has no {kind} {one_line(value, 60)}",
                where="--only",
                remedy=f"It has: {', '.join(sorted(known[kind]))}",
            )
        wanted.setdefault(kind, set()).add(value)
    return lambda cell: all(
        str(value) in wanted.get(kind, {str(value)})
        for kind, value in (("arm", cell.arm), ("question", cell.question), ("repeat", cell.repeat))
    )


def trial_of(loaded: Loaded, results: Path) -> Loaded:
    """The same experiment cut down to its first question, once in every arm, with its results in that folder."""
    settings, limits = loaded.config.experiment, loaded.config.limits
    config_of_trial = msgspec.structs.replace(
        loaded.config,
        experiment=msgspec.structs.replace(settings, repeats=1, warmups=0),
        limits=msgspec.structs.replace(limits, attempts=1),
    )
    return msgspec.structs.replace(
        loaded, config=config_of_trial, questions=loaded.questions[:1], results=results.resolve()
    )


class Session:
    """One runner."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock,
        dice: random.Random,
        environment: Mapping[str, str],
        progress: Callable[[str], None] = lambda _text: None,
        ready: Callable[[], None] = lambda: None,
        adopts: bool = False,
        guards: bool = False,
    ) -> None:
        """
        Args:
            settings: What to run.
            clock: For times, limits and waits.
            dice: For the jitter of waits.
            environment: The operator's, for the key and the address of the API.
            progress: Receives sentences while everything is prepared.
            ready: Is called when the first run may start and the socket answers.
            adopts: This process collects the orphans of its agents (`processes.adopt_orphans`).
            guards: A guard ends the agents if this process is killed.
        """
        self._settings = settings
        self._clock = clock
        self._dice = dice
        self._environment = environment
        self._progress = progress
        self._ready = ready
        self._guards = guards
        self._supervisor = Supervisor(clock, adopts=adopts)

    async def run(self) -> int:
        """Run what is left of the experiment and return the exit code.

        Raises:
            TokenbenchError: It could not begin, or had to stop; what had ended is closed and kept.
        """
        loaded = config.load(self._settings.folder)
        if self._settings.trial is not None:
            loaded = trial_of(loaded, self._settings.trial)
        chosen = only_cells(loaded, self._settings.only)
        again = reruns.named_cells(loaded, self._settings.rerun)
        book = scripts_for(self._settings.scripts, loaded) if self._settings.scripts is not None else ScriptBook()
        runs = Runs(loaded.runs)
        runs.prepare()
        with lock.held(runs.lock, self._clock):
            journal = Journal(runs.journal, self._clock)
            entries = list(JournalReader(runs.journal).new())
            history = read_history(entries)
            reruns.check(runs, again, entries, begun=history.reruns, force=self._settings.force)
            journal.write("runner_started", pid=os.getpid(), scripted=self._settings.scripted)
            try:
                places = Places(runs.folder)
                # Nobody else holds the lock, so what still carries our mark belongs to a runner that was killed.
                await asyncio.to_thread(processes.end_marked, places.marker_prefix)
                prepared = await asyncio.to_thread(self._prepare, loaded, runs, places, journal)
                plan = _Plan(prepared, chosen if self._settings.only or not again else lambda _cell: False, again)
                confined = prepared.confinement
                journal.write(
                    "sandbox", outcome="confined" if confined.sandbox is not None else "none", reason=confined.told
                )
                stamp = Stamp(
                    launch.NAME,
                    prepared.cli.version,
                    prepared.scripted,
                    prepared.seal,
                    sandbox=confined.sandbox is not None,
                    sandbox_told=confined.told,
                )
                plan.done = Recovery(runs, journal, history, stamp).run(plan.all_jobs())
                journal.write("planned", cells=tuple(cell.name for cell in prepared.cells))
                if prepared.newly_sealed:
                    journal.write("sealed")
                guard = guarded(places.own_marks) if self._guards else contextlib.nullcontext()
                async with self._scripted_api(book, runs) as api:
                    executor = Executor(
                        prepared,
                        supervisor=self._supervisor,
                        journal=journal,
                        clock=self._clock,
                        spent=history.spent,
                        last_ended=_last_ended(runs),
                        reruns={cell.name: self._settings.reason for cell in again if cell.name in plan.done},
                        api=api,
                        patience=self._settings.patience,
                    )
                    scheduler = Scheduler(
                        warmups=plan.warmups(),
                        cells=plan.cells(),
                        execute=executor,
                        journal=journal,
                        clock=self._clock,
                        dice=self._dice,
                        limits=loaded.config.limits,
                        concurrency=loaded.config.experiment.concurrency,
                        spent=history.spent,
                        backoff=self._settings.backoff,
                    )
                    with guard:
                        tally = await self._schedule(scheduler, runs, places)
                await asyncio.to_thread(check_corpus, prepared)
            except BaseException as error:
                _tell_failure(journal, error)
                raise
            code = OPEN if tally.open or tally.quarantined else DONE
            journal.write("runner_ended", outcome="done" if code == DONE else "open", reason=describe(tally))
            return code

    def _prepare(self, loaded: Loaded, runs: Runs, places: Places, journal: Journal) -> Prepared:
        def progress(text: str) -> None:
            journal.write("preparing", durable=False, reason=one_line(text, 300))
            self._progress(text)

        return prepare(
            loaded,
            runs,
            places,
            scripted=self._settings.scripted,
            environment=self._environment,
            progress=progress,
        )

    @contextlib.asynccontextmanager
    async def _scripted_api(self, book: ScriptBook, runs: Runs) -> AsyncGenerator[ScriptedApi | None]:
        if not self._settings.scripted:
            yield None
            return
        async with ScriptedApi(book, clock=self._clock, log=runs.wire) as api:
            yield api

    async def _schedule(self, scheduler: Scheduler, runs: Runs, places: Places) -> Tally:
        server = ControlServer(runs.socket, places.socket, _Desk(scheduler).answer)
        await server.start()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(
                number, lambda: scheduler.stop(now=True, reason="the runner was told to end by a signal")
            )
        try:
            self._ready()
            return await scheduler.run()
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
            await server.stop()


class _Plan:
    """The jobs of this runner: what the plan holds, less what is done or was not asked for, and what is run again."""

    def __init__(self, prepared: Prepared, chosen: Callable[[Cell], bool], again: Collection[Cell]) -> None:
        self._prepared = prepared
        self._chosen = chosen
        self._again = again
        self.done: frozenset[str] = frozenset()

    def all_jobs(self) -> list[tuple[Job, str]]:
        """Every warm-up and cell of the plan, with its model."""
        experiment = self._prepared.loaded.config
        return [
            (job, experiment.arms[job.arm].model or experiment.experiment.model)
            for job in (*self._warmups(), *self._cells())
        ]

    def cells(self) -> list[Job]:
        """The cells to run, in their planned order."""
        return [
            job
            for job in self._cells()
            if job.cell is not None
            and (job.cell in self._again or (job.stem not in self.done and self._chosen(job.cell)))
        ]

    def warmups(self) -> list[Job]:
        """The warm-ups of the arms that have something to run."""
        arms = {job.arm for job in self.cells()}
        return [job for job in self._warmups() if job.arm in arms and job.stem not in self.done]

    def _cells(self) -> list[Job]:
        return [Job(cell.arm, cell, position) for position, cell in enumerate(self._prepared.cells)]

    def _warmups(self) -> list[Job]:
        numbers: dict[str, int] = {}
        jobs: list[Job] = []
        for arm in self._prepared.warmups:
            numbers[arm] = numbers.get(arm, 0) + 1
            jobs.append(Job(arm, None, numbers[arm]))
        return jobs


class _Desk:
    """Answers what comes in on the socket."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def answer(self, request: Request) -> Reply:
        """Do what is asked for.

        Raises:
            RunnerError: It cannot be done.
        """
        scheduler = self._scheduler
        match request.command:
            case "pause":
                scheduler.pause()
            case "resume":
                scheduler.resume()
            case "stop":
                scheduler.stop(now=request.now, reason="told to stop" + (" at once" if request.now else ""))
            case "cancel":
                return {"done": scheduler.cancel(request.cell), **self._status()}
            case "concurrency":
                scheduler.set_concurrency(request.runs)
            case "status":
                pass
        return self._status()

    def _status(self) -> Reply:
        scheduler = self._scheduler
        return {
            "pid": os.getpid(),
            "state": scheduler.state,
            "concurrency": scheduler.concurrency,
            "running": scheduler.running,
        }


def _last_ended(runs: Runs) -> dict[str, float]:
    """When the last run of each arm ended, in seconds since the Unix epoch, from all records."""
    ended: dict[str, float] = {}
    for folder in (runs.folder, runs.warmups, runs.attempts):
        for path in folder.glob("*__*.json"):
            record = read_record(path)
            if record is not None:
                arm = record.cell.split("__")[0]
                ended[arm] = max(ended.get(arm, 0.0), record.ended)
    return ended


def describe(tally: Tally) -> str:
    """One sentence on how it ended."""
    parts = [f"{tally.counted} runs were made that count" if tally.counted or tally.open else "nothing was left to run"]
    if tally.quarantined:
        parts.append(f"{tally.quarantined} of them are quarantined")
    if tally.given_up:
        parts.append(f"{len(tally.given_up)} cells were given up")
    if tally.cancelled:
        parts.append(f"{len(tally.cancelled)} were cancelled")
    if tally.open:
        parts.append(f"{tally.open} cells are open")
    if tally.reason:
        parts.append(tally.reason)
    return "; ".join(parts)


def _tell_failure(journal: Journal, error: BaseException) -> None:
    reason = f"{error.what}" if isinstance(error, TokenbenchError) else f"{type(error).__name__}: {error}"
    with contextlib.suppress(TokenbenchError):
        journal.write("runner_ended", outcome="failed", reason=one_line(reason, 300))
