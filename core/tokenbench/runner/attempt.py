"""One attempt of a job: the agent is started, followed, judged and recorded."""

import asyncio
import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Final, NamedTuple

from tokenbench.agents.claude import announce, launch, leaks
from tokenbench.agents.claude.stream import SUBAGENT_TOOLS, ClaudeReader
from tokenbench.clock import Clock
from tokenbench.errors import TokenbenchError
from tokenbench.experiment.model import Arm, Limits
from tokenbench.figures import Code, Refusal, refuse
from tokenbench.ledger.build import LedgerBuilder
from tokenbench.ledger.model import Ledger, Live
from tokenbench.ledger.prices import ModelPrices, read_if_sound
from tokenbench.ledger.read import read_ledger
from tokenbench.rehearsal.api import ScriptedApi
from tokenbench.rehearsal.served import RunKey
from tokenbench.runner import closing, schedule
from tokenbench.runner import reruns as again
from tokenbench.runner.journal import Journal
from tokenbench.runner.prepare import Prepared
from tokenbench.runner.recovery import ended_fields, spending
from tokenbench.runner.rooms import Asked, entered, folder_of
from tokenbench.runner.sandbox import CORPUS
from tokenbench.runner.schedule import AttemptEnd, Job, Spent, Underway
from tokenbench.runner.supervise import Command, Ending, Interrupt, Patience, Supervisor
from tokenbench.text import one_line
from tokenbench.transcripts.events import (
    AgentNotice,
    Announcement,
    CallSeen,
    Ended,
    Event,
    Retry,
    ToolResult,
    ToolUse,
)
from tokenbench.transcripts.evidence import COUNTED, Outcome, Record, read_record
from tokenbench.transcripts.lines import Line, read_lines

USAGE_SECONDS: Final = 0.25
"""The least time between two usage lines of a run."""
WARMUP_QUESTION: Final = "This is a warm-up. Find one file, read a few of its lines, and name it."
"""The question of a warm-up run: it fills the cache with what all runs of its arm begin with, and asks nothing."""


class _Verdict(NamedTuple):
    outcome: Outcome
    reason: str
    refusals: tuple[Refusal, ...] = ()
    misannounced: str = ""
    """What the agent announced that is not its arm."""


class _Try(NamedTuple):
    """What is run."""

    job: Job
    number: int
    """The attempt; 1 is the first."""
    arm: Arm
    model: str
    folder: Path
    """The agent's working folder."""
    files: closing.Files
    stderr: Path


class Executor:
    """Runs attempts for the scheduler."""

    def __init__(
        self,
        prepared: Prepared,
        *,
        supervisor: Supervisor,
        journal: Journal,
        clock: Clock,
        spent: Spent,
        last_ended: dict[str, float],
        reruns: Mapping[str, str],
        api: ScriptedApi | None,
        patience: Patience | None = None,
    ) -> None:
        """
        Args:
            prepared: What all runs have in common.
            supervisor: Starts and ends processes.
            journal: Is told of every start, of usage, and of every end.
            clock: For times and throttling.
            spent: Its `live` is kept up to date.
            last_ended: When the last run of each arm ended, in seconds since the Unix epoch.
            reruns: Cells that have a run which counts and are to be run again, by name, with the operator's reason.
            api: The scripted API; None for a real model.
            patience: Waits other than those of the limits; None takes the usual ones.
        """
        limits = prepared.loaded.config.limits
        self._prepared = prepared
        self._supervisor = supervisor
        self._journal = journal
        self._clock = clock
        self._spent = spent
        self._last_ended = last_ended
        self._reruns = dict(reruns)
        self._api = api
        self._starting = asyncio.Lock()
        self._patience = patience or Patience(limits.run_wall_seconds, limits.run_silence_seconds)

    async def __call__(self, job: Job, slot: int, interrupt: Interrupt, retry: schedule.Retry) -> AttemptEnd:
        """Run one attempt to its end and record it.

        Raises:
            TokenbenchError: The agent could not be started, or the run not be recorded.
        """
        prepared = self._prepared
        config = prepared.loaded.config
        arm = config.arms[job.arm]
        if job.stem in self._reruns:
            # Not before it is the cell's turn: a limit or a stop until then leaves the run that counts where it is.
            again.begin(prepared.runs, self._journal, job, self._reruns.pop(job.stem))
        number = closing.attempts_made(prepared.runs, job.stem) + 1
        rooms = prepared.places.clean(slot)
        this = _Try(
            job=job,
            number=number,
            arm=arm,
            model=arm.model or config.experiment.model,
            folder=folder_of(prepared.confinement, arm, rooms, prepared.corpus),
            files=closing.files_of(prepared.runs, job),
            stderr=prepared.runs.stderr(job.stem),
        )
        self._tell_rerun(this)
        table = read_if_sound(prepared.runs.prices)
        prices = table.find(this.model, prepared.cli.version) if table is not None else None
        follower = _Follower(this, journal=self._journal, clock=self._clock, spent=self._spent, prices=prices)
        follower.on_announcement = lambda said: self._end_without_servers(this, said, interrupt)
        async with contextlib.AsyncExitStack() as open_while_it_runs:
            base_url = open_while_it_runs.enter_context(self._address(this))
            marker = prepared.places.marker(job.stem, number)
            asked = self._asked(this, slot, marker, base_url)
            start = await open_while_it_runs.enter_async_context(
                entered(prepared.confinement, prepared.cli, rooms, asked)
            )
            command = Command(
                argv=start.argv,
                environment=start.environment,
                folder=start.outside,
                handed=start.handed,
                prompt=launch.prompt(prepared.loaded.prompts[job.arm], self._question(job)),
                transcript=this.files.partial,
                stderr=this.stderr,
                marker=marker,
            )
            idle = self._last_ended.get(job.arm)
            since_last_call = max(0.0, self._clock.now() - idle) if idle is not None else None
            with contextlib.ExitStack() as starting:
                # One start at a time: of two slots that are free at once, the journal tells the planned one first.
                await self._starting.acquire()
                starting.callback(self._starting.release)

                def started(pid: int) -> None:
                    self._tell_started(this, pid)
                    starting.close()

                try:
                    ending = await self._supervisor.run(
                        command, self._patience, observe=follower.observe, interrupt=interrupt, started=started
                    )
                finally:
                    follower.stop()
        for failure in (follower.failure, self._api.failure if self._api is not None else None):
            if failure is not None:
                raise failure
        self._last_ended[job.arm] = ending.ended
        ledger = follower.finish()
        verdict = self._judge(this, ending, ledger.outcome)
        record = Record(
            cell=job.stem,
            attempt=number,
            position=job.number if job.cell is not None else -1,
            outcome=verdict.outcome,
            reason=verdict.reason,
            refusals=verdict.refusals,
            agent=arm.agent,
            agent_version=prepared.cli.version,
            model=this.model,
            argv=start.agent,
            environment=tuple(sorted(start.environment)),
            folder=str(this.folder),
            pid=ending.pid,
            exit_code=ending.exit_code,
            ended_by=ending.ended_by,
            started=ending.started,
            ended=ending.ended,
            scripted=prepared.scripted,
            sandbox=prepared.confinement.sandbox is not None,
            sandbox_told=prepared.confinement.told,
            sandbox_argv=start.confined_by,
            seal=prepared.seal,
            transcript_sha256=ending.sha256,
            transcript_bytes=ending.size,
            since_last_call=since_last_call,
        )
        return self._close(this, record, verdict, retry)

    def _end_without_servers(self, this: _Try, said: Announcement, interrupt: Interrupt) -> None:
        """A run without the servers of its arm would be paid for and measure another arm: it is ended at once."""
        if this.arm.mcp and announce.mismatches(said, this.arm, this.model, self._prepared.cli.version):
            interrupt.set("misannounced")

    def _question(self, job: Job) -> str:
        return self._prepared.loaded.question(job.cell.question).text if job.cell is not None else WARMUP_QUESTION

    def _asked(self, this: _Try, slot: int, marker: str, base_url: str | None) -> Asked:
        prepared = self._prepared
        return Asked(
            arm=this.arm,
            model=this.model,
            limits=prepared.loaded.config.limits,
            marker=marker,
            key=prepared.key,
            base_url=base_url,
            corpus=prepared.corpus,
            index_folder=prepared.index,
            corpus_sha256=prepared.corpus_sha256,
            # Beside the slot's folders, not in them: the agent has no business there, and its path is constant.
            access=prepared.places.access(slot),
            log=prepared.runs.query_log(this.job.stem),
            values=prepared.values,
        )

    @contextlib.contextmanager
    def _address(self, this: _Try) -> Generator[str | None]:
        """The API's address for this run; that of the scripted API is the run's own."""
        if self._api is None:
            yield self._prepared.base_url
            return
        cell = this.job.cell
        if cell is not None:
            key = RunKey("cell", cell.arm, cell.question, cell.repeat, this.number)
        else:
            key = RunKey("warmup", this.job.arm, "", this.job.number, this.number)
        url = self._api.open_run(key, tools=this.arm.tools, folder=str(this.folder))
        try:
            yield url
        finally:
            self._api.close_run(url)

    def _tell_rerun(self, this: _Try) -> None:
        """An operator who ended a run and lets it run again: the journal says so, nobody rolls the dice in silence."""
        if this.job.cell is None or this.number == 1:
            return
        last = read_record(closing.attempt_files(self._prepared.runs, this.job, this.number - 1).record)
        if last is not None and last.outcome == "cancelled":
            self._journal.write("rerun", cell=this.job.stem, reason="its last run was ended by the operator")

    def _tell_started(self, this: _Try, pid: int) -> None:
        job = this.job
        if job.cell is not None:
            self._journal.write("run_started", cell=job.stem, attempt=this.number, position=job.number, pid=pid)
        else:
            self._journal.write("warmup_started", arm=job.arm, attempt=job.number, pid=pid)

    def _judge(self, this: _Try, ending: Ending, by_ledger: Outcome) -> _Verdict:
        """The outcome of the run, and whether it was an instance of its arm at all."""
        evidence = _Evidence(this)
        outcome, reason = _outcome(ending, by_ledger, evidence, self._prepared.loaded.config.limits)
        if outcome not in COUNTED:
            return _Verdict(outcome, reason)
        version = self._prepared.cli.version
        wrong = [
            sentence
            for announcement in evidence.announcements or [None]
            for sentence in announce.mismatches(announcement, this.arm, this.model, version, folder=this.folder)
        ]
        misannounced = wrong[0] if wrong else ""
        inside = CORPUS if self._prepared.confinement.sandbox is not None else None
        wrong += leaks.find_leaks(
            evidence.events(), this.arm, corpus=self._prepared.corpus, folder=this.folder, inside=inside
        )
        if not wrong:
            return _Verdict(outcome, reason)
        how = "it was ended at once" if ending.ended_by == "misannounced" else f"it had ended as {outcome}"
        reason = f"{wrong[0]} ({how})"
        return _Verdict("quarantined", reason, (refuse(Code.QUARANTINED, *wrong),), misannounced)

    def _close(self, this: _Try, record: Record, verdict: _Verdict, retry: schedule.Retry) -> AttemptEnd:
        """Record the run where it belongs, and tell the journal."""
        runs, job = self._prepared.runs, this.job
        counts = record.outcome in COUNTED
        files = this.files if counts else closing.attempt_files(runs, job, record.attempt)
        closing.close(runs, job, files, record)
        # From here on the run is closed: a crash before the journal's line is mended by the next runner.
        ledger = read_ledger(files.transcript, record=record, prices=read_if_sound(runs.prices))
        fields = ended_fields(job, record, ledger)
        if job.cell is None:
            self._journal.write("warmup_ended", **fields)
        elif counts:
            self._journal.write("run_ended", **fields)
        elif record.ended_by == "cancel":
            self._journal.write("cancelled", **fields)
        else:
            self._journal.write("attempt_failed", **fields, retry_in=retry(record.outcome))
        tokens, cost = spending(ledger)
        stop = ""
        if job.cell is None and verdict.misannounced:
            stop = f"the warm-up of arm {job.arm} was not an instance of it: {verdict.misannounced}"
        return AttemptEnd(record.outcome, tokens, cost, stop)


class _Follower:
    """Follows a run's lines: a live ledger for limits and screens, and usage lines for the journal, a few a second."""

    def __init__(self, this: _Try, *, journal: Journal, clock: Clock, spent: Spent, prices: ModelPrices | None) -> None:
        self._prices = prices
        self._journal = journal
        self._clock = clock
        self._spent = spent
        self._job = this.job
        self._attempt = this.number
        self._told: Live | None = None
        self._told_at = -USAGE_SECONDS
        self._later: asyncio.TimerHandle | None = None
        self._builder = LedgerBuilder(transcript=str(this.files.transcript))
        self.failure: TokenbenchError | None = None
        self.on_announcement: Callable[[Announcement], None] | None = None
        """Is called once, with what the agent says first of itself."""

    def observe(self, lines: list[Line]) -> Live:
        """Take lines in and say how far the run is."""
        for line in lines:
            self._builder.feed(line)
        if self.on_announcement is not None and self._builder.announced is not None:
            tell, self.on_announcement = self.on_announcement, None
            tell(self._builder.announced)
        live = self._builder.live()
        rates = self._prices.rates(live.prompt) if self._prices is not None else None
        cost = rates.cost(live.seen) if rates is not None else Decimal(0)
        self._spent.live[self._job.stem] = Underway(live.seen.total, cost)
        if self._job.cell is not None and self._later is None:
            wait = self._told_at + USAGE_SECONDS - self._clock.monotonic()
            if wait <= 0:
                self._tell()
            else:
                self._later = asyncio.get_running_loop().call_later(wait, self._tell_later)
        return live

    def finish(self) -> Ledger:
        """The ledger of what came."""
        return self._builder.finish()

    def stop(self) -> None:
        """Tell nothing more: the line of the run's end is next."""
        if self._later is not None:
            self._later.cancel()
            self._later = None

    def _tell_later(self) -> None:
        self._later = None
        try:
            self._tell()
        except TokenbenchError as error:
            # Nobody waits for a timer: whoever waits for the run raises it.
            self.failure = error

    def _tell(self) -> None:
        live = self._builder.live()
        self._told_at = self._clock.monotonic()
        if self._told is not None and _shown(live) == _shown(self._told):
            return
        self._told = live
        self._journal.write(
            "usage",
            durable=False,
            cell=self._job.stem,
            attempt=self._attempt,
            calls=live.calls,
            turns=live.turns,
            doing=one_line(live.doing, 40),
            prompt=live.prompt,
            tokens=live.seen,
            first_read_share=_read_share(live),
        )


def _shown(live: Live) -> tuple[object, ...]:
    return live.calls, live.turns, live.doing, live.prompt, live.seen


def _read_share(live: Live) -> float | None:
    first = live.first_call
    return first.cache_read / first.billed_input if first is not None and first.billed_input else None


class _Evidence:
    """What the finished transcript shows beside its ledger."""

    def __init__(self, this: _Try) -> None:
        self._transcript = this.files.partial
        self._stderr = this.stderr
        self.announcements: list[Announcement] = []
        self.sentence = ""
        """The agent's last own sentence about a failure."""
        self.unanswered = ""
        """How the API failed the last time; empty once a call was answered."""
        answered = False
        running: dict[str, str] = {}
        for event in self.events():
            match event:
                case Announcement():
                    self.announcements.append(event)
                case ToolUse() if event.name not in SUBAGENT_TOOLS:
                    # While a subagent is at work, what one waits for is again the API.
                    running[event.id] = event.name
                case ToolResult():
                    running.pop(event.tool_use_id, None)
                case CallSeen():
                    answered, self.unanswered = True, ""
                case Retry() if not answered:
                    status = f"{event.status} " if event.status is not None else ""
                    self.unanswered = one_line(f"{status}{event.error}", 100) or "no connection"
                case AgentNotice():
                    self.sentence = event.text
                case Ended() if event.is_error:
                    self.sentence = event.text or "; ".join(event.errors) or self.sentence
                case _:
                    pass
        self.running = tuple(running.values())
        """Tools that were asked for and had not answered at the end."""

    def events(self) -> Iterator[Event]:
        """All events, read anew: a transcript can be larger than memory."""
        reader = ClaudeReader()
        for line in read_lines(self._transcript):
            yield from reader.feed(line)

    def complaint(self) -> str:
        """The first line of standard error."""
        try:
            with self._stderr.open("rb") as file:
                return one_line(file.read(2000).decode("utf-8", "replace"), 200)
        except OSError:
            return ""


def _outcome(ending: Ending, by_ledger: Outcome, evidence: _Evidence, limits: Limits) -> tuple[Outcome, str]:
    """The outcome and a sentence for it, where the ledger's word is not all there is to say."""
    match ending.ended_by:
        case "cancel":
            return "cancelled", "ended by the operator"
        case "stop":
            return "cancelled", "ended with the runner"
        case "misannounced":
            return "quarantined", ""
        case "wall":
            if evidence.unanswered:
                # It never got to work: a key that is refused, an address where nobody answers.
                after = f"the API had not answered once in {limits.run_wall_seconds:g} s"
                return "infrastructure", f"{after}: {evidence.unanswered}"
            return "time_limit", f"reached its limit of {limits.run_wall_seconds:g} s"
        case "silence":
            silent = f"silent for {limits.run_silence_seconds:g} s"
            if evidence.running:
                return "time_limit", f"{silent} while {one_line(evidence.running[-1], 40)} ran"
            # Without a witness this is all that can be told: nothing else was under way that the stream shows.
            return "infrastructure", f"{silent} with no tool running, so a request to the API must have been open"
        case "agent" | "after_result":
            pass
    if by_ledger == "infrastructure":
        return by_ledger, one_line(evidence.sentence, 200) or "the API or the network failed"
    if by_ledger == "no_result":
        complaint = evidence.complaint()
        said = f", standard error: {complaint}" if complaint else ""
        return by_ledger, f"it ended without a result, exit code {ending.exit_code}{said}"
    return by_ledger, ""
