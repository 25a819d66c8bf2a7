"""Which run is started when: warm-ups first, then the cells in the order of the plan, several at a time if asked.

What a run is and how it ended is the executor's business; here is when it starts, when it is tried again, and what
makes the scheduling stop.
"""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Literal, NamedTuple

from tokenbench.clock import Clock
from tokenbench.errors import RunnerError
from tokenbench.experiment.model import Cell, Limits
from tokenbench.ledger.model import Tokens
from tokenbench.runner.journal import Journal
from tokenbench.runner.supervise import Interrupt
from tokenbench.text import one_line
from tokenbench.transcripts.evidence import COUNTED, Outcome

LARGEST_CONCURRENCY: Final = 64
RETRIED: Final[frozenset[Outcome]] = frozenset({"infrastructure", "no_result"})
"""Outcomes that are not the agent's doing, or of which nobody can tell."""
SPOILT_IN_A_ROW: Final = 5
"""So many different runs, with none that went well in between, are no accident: a wrong key, no credit left."""


class Job(NamedTuple):
    """A cell that waits for its run, or a warm-up."""

    arm: str
    cell: Cell | None
    """None for a warm-up."""
    number: int
    """cell: its place in the planned order, from 0; warm-up: 1 is the first of its arm."""

    @property
    def stem(self) -> str:
        """The stem of its files."""
        return self.cell.name if self.cell is not None else f"{self.arm}__w{self.number}"


class AttemptEnd(NamedTuple):
    """How an attempt ended, as far as the schedule has to know."""

    outcome: Outcome
    tokens: Tokens
    """The ledger's, or what was seen where it is refused."""
    cost_usd: Decimal | None
    stop: str = ""
    """A sentence, where nothing more should be started after this."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The one retry policy: doubling waits with jitter, in seconds."""

    first: float = 5.0
    longest: float = 300.0

    def seconds(self, failures: int, dice: random.Random) -> float:
        """How long to wait after that many failures in a row: half to one and a half times the doubled wait."""
        return min(self.longest, self.first * 2 ** (failures - 1)) * dice.uniform(0.5, 1.5)


class Underway(NamedTuple):
    """What was seen so far of a run."""

    tokens: int = 0
    cost: Decimal = Decimal(0)
    """USD by the price table, a lower bound; 0 where no price is known: then it counts when the run has ended."""


@dataclass(slots=True)
class Spent:
    """Tokens and USD of everything that ran, counted or not, and of what is under way."""

    tokens: int = 0
    cost: Decimal = Decimal(0)
    live: dict[str, Underway] = field(default_factory=dict[str, Underway])
    """The runs under way, by stem."""

    def add(self, tokens: Tokens, cost: Decimal | None) -> None:
        """Something ended."""
        self.tokens += tokens.total
        self.cost += cost or 0

    def reached(self, limits: Limits) -> str:
        """A sentence if a limit of the experiment is reached; empty if none is."""
        tokens = self.tokens + sum(run.tokens for run in self.live.values())
        cost = self.cost + sum(run.cost for run in self.live.values())
        if limits.experiment_tokens is not None and tokens >= limits.experiment_tokens:
            return f"the experiment's limit of {limits.experiment_tokens:,} tokens is reached: {tokens:,}"
        if limits.experiment_usd is not None and cost >= limits.experiment_usd:
            return f"the experiment's limit of ${limits.experiment_usd} is reached: ${cost}"
        return ""


@dataclass(slots=True)
class Tally:
    """What became of the jobs of one runner."""

    counted: int = 0
    quarantined: int = 0
    given_up: list[str] = field(default_factory=list[str])
    cancelled: list[str] = field(default_factory=list[str])
    open: int = 0
    """Cells that were never started, or whose run was ended by a stop."""
    reason: str = ""
    """Why the scheduling stopped before the end of the plan."""


Retry = Callable[[Outcome], float | None]
"""Asked once when an attempt has ended: seconds until the next one, or None if there will be none."""
Execute = Callable[[Job, int, Interrupt, Retry], Awaitable[AttemptEnd]]
"""Runs one attempt in a slot (from 1) until it has ended or is interrupted, and records it."""
State = Literal["running", "paused", "stopping", "ended"]


class Scheduler:
    """Keeps the slots busy until the plan is done, or somebody says stop."""

    def __init__(
        self,
        *,
        warmups: Sequence[Job],
        cells: Sequence[Job],
        execute: Execute,
        journal: Journal,
        clock: Clock,
        dice: random.Random,
        limits: Limits,
        concurrency: int,
        spent: Spent,
        backoff: Backoff | None = None,
    ) -> None:
        self._phases = (tuple(warmups), tuple(cells))
        self._execute = execute
        self._journal = journal
        self._clock = clock
        self._dice = dice
        self._limits = limits
        self._concurrency = concurrency
        self._spent = spent
        self._backoff = backoff or Backoff()
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()
        self._open_gate = asyncio.Event()
        self._open_gate.set()
        self._known = {job.stem for jobs in self._phases for job in jobs}
        self._interrupts: dict[str, Interrupt] = {}
        self._cancelled: set[str] = set()
        self._finished: set[str] = set()
        self._spoilt: set[str] = set()
        self._ended = False
        self.tally = Tally(open=len(cells))

    @property
    def state(self) -> State:
        """What it does now."""
        if self._ended:
            return "ended"
        if self._stop.is_set():
            return "stopping"
        return "running" if self._open_gate.is_set() else "paused"

    @property
    def concurrency(self) -> int:
        """Runs at a time."""
        return self._concurrency

    @property
    def running(self) -> tuple[str, ...]:
        """Stems of the jobs that hold a slot, between attempts too."""
        return tuple(self._interrupts)

    async def run(self) -> Tally:
        """Until everything has run, or the scheduling was stopped.

        Raises:
            TokenbenchError: An attempt could not be made or recorded; all other runs have been ended.
        """
        try:
            for jobs in self._phases:
                await self._phase(jobs)
        finally:
            self._ended = True
        return self.tally

    async def _phase(self, jobs: Sequence[Job]) -> None:
        waiting = deque(jobs)
        slots: dict[asyncio.Task[None], int] = {}
        failure: BaseException | None = None
        while True:
            self._wake.clear()
            while waiting and len(slots) < self._concurrency and self._may_start():
                job = waiting.popleft()
                if job.stem in self._cancelled:
                    continue
                slot = min(set(range(1, self._concurrency + 1)) - set(slots.values()))
                interrupt = self._interrupts[job.stem] = Interrupt()
                slots[asyncio.create_task(self._work(job, slot, interrupt))] = slot
            if not slots and (not waiting or self._stop.is_set()):
                break
            wake = asyncio.create_task(self._wake.wait())
            try:
                await asyncio.wait({*slots, wake}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                wake.cancel()
            for task in [task for task in slots if task.done()]:
                del slots[task]
                error = task.exception()
                if error is not None and failure is None:
                    failure = error
                    self.stop(now=True, reason="a run could not be made or recorded")
        if failure is not None:
            raise failure

    def _may_start(self) -> bool:
        if self._stop.is_set() or not self._open_gate.is_set():
            return False
        limit = self._spent.reached(self._limits)
        if limit:
            self._journal.write("limit_reached", reason=limit)
            self._end_with(limit)
        return not limit

    def _end_with(self, reason: str) -> None:
        self.tally.reason = self.tally.reason or reason
        self._stop.set()
        self._wake.set()

    async def _work(self, job: Job, slot: int, interrupt: Interrupt) -> None:
        """Attempts of one job, until one counts or there will be no other."""
        failures = 0
        try:
            while True:
                wait: list[float | None] = []

                def retry(outcome: Outcome, wait: list[float | None] = wait, failures: int = failures) -> float | None:
                    wait[:] = [self._retry_in(outcome, failures + 1, interrupt)]
                    return wait[0]

                try:
                    end = await self._execute(job, slot, interrupt, retry)
                finally:
                    self._spent.live.pop(job.stem, None)
                self._spent.add(end.tokens, end.cost_usd)
                if end.stop:
                    self.stop(reason=end.stop)
                self._break_circuit(job, end.outcome)
                seconds = wait[0] if wait else retry(end.outcome)
                if seconds is None:
                    self._settle(job, end.outcome, failures + 1)
                    return
                failures += 1
                if not await self._wait_for_retry(job, seconds, interrupt):
                    return
        finally:
            self._interrupts.pop(job.stem, None)
            self._finished.add(job.stem)
            self._wake.set()

    def _retry_in(self, outcome: Outcome, failures: int, interrupt: Interrupt) -> float | None:
        spoilt = outcome in RETRIED and interrupt.reason is None and not self._stop.is_set()
        return self._backoff.seconds(failures, self._dice) if spoilt and failures < self._limits.attempts else None

    def _break_circuit(self, job: Job, outcome: Outcome) -> None:
        """Pause before every cell has spent all its attempts on what only a person can mend."""
        if outcome in COUNTED:
            self._spoilt.clear()
        if outcome not in RETRIED:
            return
        self._spoilt.add(job.stem)
        # Runs that are under way together fail together, when the API has a bad minute: they are waited for.
        enough = len(self._spoilt) >= max(SPOILT_IN_A_ROW, self._concurrency + 1)
        if enough and self.state == "running":
            self._open_gate.clear()
            reason = (
                f"{len(self._spoilt)} different runs were spoilt and none went well in between, the latest ended as "
                f"{outcome}: mend what their reasons name, then `tokenbench-tui resume` goes on"
            )
            self._journal.write("paused", reason=reason)

    def _settle(self, job: Job, outcome: Outcome, attempts: int) -> None:
        if job.cell is None:
            return
        if outcome in COUNTED:
            self.tally.open -= 1
            self.tally.counted += 1
            self.tally.quarantined += outcome == "quarantined"
        elif outcome == "cancelled":
            self.tally.cancelled.append(job.stem)
        elif attempts >= self._limits.attempts:
            self.tally.given_up.append(job.stem)
            reason = f"given up after {attempts} attempts that infrastructure spoilt"
            self._journal.write("gave_up", cell=job.stem, attempt=attempts, outcome=outcome, reason=reason)

    async def _wait_for_retry(self, job: Job, seconds: float, interrupt: Interrupt) -> bool:
        """Wait, and as long as the runner is paused; False if there will be no other attempt."""
        interrupted = asyncio.Event()
        interrupt.watch(interrupted.set)
        try:
            if interrupt.reason is None:
                await _first(self._clock.sleep(seconds), self._stop.wait(), interrupted.wait())
            while not self._open_gate.is_set() and interrupt.reason is None and not self._stop.is_set():
                await _first(self._open_gate.wait(), self._stop.wait(), interrupted.wait())
        finally:
            interrupt.watch(None)
        if interrupt.reason == "cancel":
            self._drop(job.stem)
            return False
        return interrupt.reason is None and self._may_start()

    def _drop(self, stem: str) -> None:
        self.tally.cancelled.append(stem)
        self._journal.write("cancelled", cell=stem, outcome="cancelled", reason="taken out of the queue")

    def pause(self) -> None:
        """Start nothing more until `resume`; runs under way go on."""
        self._refuse_if_stopping()
        if self._open_gate.is_set():
            self._open_gate.clear()
            self._journal.write("paused", reason="no run is started until `resume`")

    def resume(self) -> None:
        """Go on after `pause`."""
        self._refuse_if_stopping()
        if not self._open_gate.is_set():
            self._open_gate.set()
            self._spoilt.clear()
            self._journal.write("resumed")
            self._wake.set()

    def stop(self, *, now: bool = False, reason: str) -> None:
        """Start nothing more; with `now`, end the runs under way too."""
        self._journal.write("stopping", reason=reason)
        self._end_with(reason)
        if now:
            for interrupt in self._interrupts.values():
                interrupt.set("stop")

    def cancel(self, stem: str) -> str:
        """End a run under way, or take its cell out of the queue; says which.

        Raises:
            RunnerError: There is no such cell, or it has ended.
        """
        interrupt = self._interrupts.get(stem)
        if interrupt is not None:
            interrupt.set("cancel")
            return "its run is being ended"
        if stem not in self._known:
            raise RunnerError(
                f"no cell of this runner is called {one_line(stem, 100)}",
                remedy="Name it as `tokenbench-tui status` does: arm__question__rN",
            )
        if stem in self._finished or stem in self._cancelled:
            raise RunnerError(f"{stem} has ended already", remedy="Look at it in the Ledger")
        self._cancelled.add(stem)
        self._drop(stem)
        return "it was taken out of the queue"

    def set_concurrency(self, runs: int) -> None:
        """Change how many runs there are at a time; runs under way are left alone.

        Raises:
            RunnerError: The number makes no sense.
        """
        if not 1 <= runs <= LARGEST_CONCURRENCY:
            raise RunnerError(
                f"{runs} runs at a time make no sense", remedy=f"Give a number from 1 to {LARGEST_CONCURRENCY}"
            )
        self._concurrency = runs
        self._wake.set()

    def _refuse_if_stopping(self) -> None:
        if self._stop.is_set():
            raise RunnerError("the runner is stopping", remedy="Start it again when it has ended")


async def _first(*waits: Coroutine[object, object, object]) -> None:
    """Wait for whatever comes first, and cancel the others."""
    tasks = {asyncio.ensure_future(wait) for wait in waits}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
