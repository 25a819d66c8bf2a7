"""Runs are started in the planned order, tried again by one policy, and stopped when somebody or a limit says so."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.clock import ManualClock
from tokenbench.errors import RunnerError, RunsError
from tokenbench.experiment.model import Cell, Limits
from tokenbench.ledger.model import Tokens
from tokenbench.runner.journal import Entry, Journal, JournalReader
from tokenbench.runner.schedule import AttemptEnd, Backoff, Job, Retry, Scheduler, Spent, Underway
from tokenbench.runner.supervise import Interrupt
from tokenbench.transcripts.evidence import Outcome

ONE = Tokens.of(input=10, output=1)


def cells(count: int) -> list[Job]:
    return [Job("native", Cell("native", f"q{number}", 1), number) for number in range(count)]


WARMUP = Job("native", None, 1)


class Stage:
    """Stands in for the agent: what each attempt does is decided by the test."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(1000.0)
        self.journal_path = folder / "journal.jsonl"
        self.log: list[tuple[str, int]] = []
        self.waits: list[float | None] = []
        self.at_once = 0
        self.most_at_once = 0
        self.outcomes: dict[str, list[Outcome]] = {}
        self.act: Callable[[Job, Interrupt], Awaitable[Outcome | None]] | None = None
        self.stop = ""
        self.cost: Decimal | None = Decimal("0.5")
        self.spent = Spent()
        self.scheduler: Scheduler | None = None

    def build(
        self, jobs: list[Job], *, warmups: list[Job] | None = None, concurrency: int = 1, **limits: object
    ) -> Scheduler:
        self.scheduler = Scheduler(
            warmups=warmups or [],
            cells=jobs,
            execute=self.execute,
            journal=Journal(self.journal_path, self.clock),
            clock=self.clock,
            dice=random.Random(1),
            limits=Limits(**limits),
            concurrency=concurrency,
            spent=self.spent,
        )
        return self.scheduler

    async def execute(self, job: Job, slot: int, interrupt: Interrupt, retry: Retry) -> AttemptEnd:
        self.log.append((job.stem, slot))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)
            outcome = await self.act(job, interrupt) if self.act is not None else None
        finally:
            self.at_once -= 1
        planned = self.outcomes.get(job.stem) or ["answered"]
        outcome = outcome or (planned.pop(0) if len(planned) > 1 else planned[0])
        if outcome in ("infrastructure", "no_result"):
            self.waits.append(retry(outcome))
        return AttemptEnd(outcome, ONE, self.cost, self.stop)

    @property
    def started(self) -> list[str]:
        return [stem for stem, _ in self.log]

    def events(self, *names: str) -> list[Entry]:
        return [entry for entry in JournalReader(self.journal_path).new() if entry.event in names]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


async def test_cells_run_in_the_planned_order_after_the_warmups(stage: Stage) -> None:
    tally = await stage.build(cells(3), warmups=[WARMUP]).run()
    assert stage.started == ["native__w1", "native__q0__r1", "native__q1__r1", "native__q2__r1"]
    assert (tally.counted, tally.open) == (3, 0)


@pytest.mark.parametrize("concurrency", [1, 2, 4])
async def test_there_are_never_more_runs_than_slots_and_slots_are_numbered_from_one(
    stage: Stage, concurrency: int
) -> None:
    await stage.build(cells(9), concurrency=concurrency).run()
    assert stage.most_at_once == concurrency
    assert {slot for _, slot in stage.log} == set(range(1, concurrency + 1))
    assert sorted(stage.started) == sorted(job.stem for job in cells(9))


async def test_two_runs_at_a_time_never_share_a_slot(stage: Stage) -> None:
    held: set[int] = set()

    async def act(job: Job, interrupt: Interrupt) -> Outcome | None:
        slot = dict(stage.log)[job.stem]
        assert slot not in held
        held.add(slot)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        held.discard(slot)
        return None

    stage.act = act
    await stage.build(cells(12), concurrency=3).run()


async def test_no_cell_starts_before_the_last_warmup_has_ended(stage: Stage) -> None:
    open_warmups = {"native__w1", "native__w2"}

    async def act(job: Job, interrupt: Interrupt) -> Outcome | None:
        if job.cell is None:
            await asyncio.sleep(0)
            open_warmups.discard(job.stem)
        else:
            assert not open_warmups
        return None

    stage.act = act
    await stage.build(cells(2), warmups=[WARMUP, WARMUP._replace(number=2)], concurrency=4).run()


# 529, then well: one retry policy, on the injected clock.


async def test_an_infrastructure_failure_is_tried_again_after_a_doubling_wait_with_jitter(stage: Stage) -> None:
    stage.outcomes["native__q0__r1"] = ["infrastructure", "no_result", "answered"]
    tally = await stage.build(cells(2)).run()
    assert stage.started == ["native__q0__r1"] * 3 + ["native__q1__r1"]
    first, second = stage.waits
    assert first is not None
    assert second is not None
    assert 2.5 <= first <= 7.5
    assert 5 <= second <= 15
    assert stage.clock.monotonic() == pytest.approx(1000 + first + second)
    assert (tally.counted, tally.open, tally.given_up) == (2, 0, [])


async def test_a_cell_is_given_up_after_its_attempts_and_the_next_one_runs(stage: Stage) -> None:
    stage.outcomes["native__q0__r1"] = ["infrastructure"]
    tally = await stage.build(cells(2), attempts=3).run()
    assert stage.started == ["native__q0__r1"] * 3 + ["native__q1__r1"]
    assert stage.waits[-1] is None
    assert tally.given_up == ["native__q0__r1"]
    assert (tally.counted, tally.open) == (1, 1)
    (given_up,) = stage.events("gave_up")
    assert (given_up.cell, given_up.attempt) == ("native__q0__r1", 3)


@pytest.mark.parametrize("outcome", ["answered", "max_turns", "max_budget", "time_limit", "quarantined", "cancelled"])
async def test_what_is_the_agents_doing_is_never_tried_again(stage: Stage, outcome: Outcome) -> None:
    stage.outcomes["native__q0__r1"] = [outcome]
    await stage.build(cells(1)).run()
    assert stage.started == ["native__q0__r1"]


@given(st.integers(1, 60), st.integers(0, 2**32))
def test_waits_are_bounded_whatever_the_dice_say(failures: int, seed: int) -> None:
    backoff = Backoff(first=5, longest=300)
    seconds = backoff.seconds(failures, random.Random(seed))
    base = min(300, 5 * 2 ** (failures - 1))
    assert base / 2 <= seconds <= base * 1.5


# Limits of the experiment.


async def test_the_token_limit_stops_the_scheduling_and_says_so(stage: Stage) -> None:
    tally = await stage.build(cells(9), experiment_tokens=3 * ONE.total).run()
    assert len(stage.started) == 3
    (said,) = stage.events("limit_reached")
    assert "33 tokens" in str(said.reason)
    assert tally.reason == said.reason
    assert tally.open == 6


async def test_the_usd_limit_counts_what_earlier_runners_spent(stage: Stage) -> None:
    stage.spent.add(ONE, Decimal("0.75"))
    await stage.build(cells(9), experiment_usd=Decimal("1.5")).run()
    assert len(stage.started) == 2


async def test_tokens_of_runs_under_way_count_for_the_limit(stage: Stage) -> None:
    stage.spent.live["other"] = Underway(tokens=1000)
    await stage.build(cells(2), experiment_tokens=500).run()
    assert stage.started == []


async def test_dollars_of_runs_under_way_count_for_the_limit(stage: Stage) -> None:
    stage.spent.add(ONE, Decimal("0.75"))
    stage.spent.live["other"] = Underway(cost=Decimal("0.75"))
    tally = await stage.build(cells(2), experiment_usd=Decimal("1.5")).run()
    assert stage.started == []
    assert "$1.50" in tally.reason


async def test_a_limit_ends_the_retries_too(stage: Stage) -> None:
    stage.outcomes["native__q0__r1"] = ["infrastructure"]
    await stage.build(cells(1), experiment_tokens=1).run()
    assert stage.started == ["native__q0__r1"]


async def test_an_attempt_can_say_that_nothing_more_should_start(stage: Stage) -> None:
    stage.stop = "the warm-up was not its arm"
    tally = await stage.build(cells(2), warmups=[WARMUP]).run()
    assert stage.started == ["native__w1"]
    assert tally.reason == stage.stop


# The circuit breaker.


def spoil(stage: Stage, *numbers: int) -> None:
    for number in numbers:
        stage.outcomes[f"native__q{number}__r1"] = ["infrastructure"]


async def test_five_spoilt_runs_in_a_row_pause_the_runner_before_every_cell_is_given_up(stage: Stage) -> None:
    """A wrong key spoils them all."""
    spoil(stage, *range(20))
    scheduler = stage.build(cells(20), attempts=2)
    task = asyncio.create_task(scheduler.run())
    await until(lambda: scheduler.state == "paused")
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(stage.log) == 9
    (paused,) = stage.events("paused")
    assert "5 different runs were spoilt and none went well in between" in str(paused.reason)
    assert "resume" in str(paused.reason)
    assert len(stage.events("gave_up")) == 4
    stage.outcomes.clear()
    scheduler.resume()
    tally = await task
    assert (tally.counted, len(tally.given_up), tally.open) == (16, 4, 4)


async def test_after_resume_it_takes_five_again(stage: Stage) -> None:
    spoil(stage, *range(20))
    scheduler = stage.build(cells(20), attempts=1)
    task = asyncio.create_task(scheduler.run())
    await until(lambda: scheduler.state == "paused")
    scheduler.resume()
    await until(lambda: scheduler.state == "paused")
    assert len(stage.log) == 10
    scheduler.stop(reason="told to stop")
    assert len((await task).given_up) == 10


@pytest.mark.parametrize("good", ["answered", "max_turns", "quarantined"])
async def test_a_run_that_came_to_an_end_in_between_shows_that_the_api_is_there(stage: Stage, good: Outcome) -> None:
    spoil(stage, 0, 1, 2, 3, 5, 6, 7, 8)
    stage.outcomes["native__q4__r1"] = [good]
    tally = await stage.build(cells(9), attempts=1).run()
    assert stage.events("paused") == []
    assert len(tally.given_up) == 8


async def test_one_cell_that_is_always_spoilt_pauses_nothing(stage: Stage) -> None:
    spoil(stage, 0)
    tally = await stage.build(cells(2), attempts=9).run()
    assert stage.events("paused") == []
    assert (tally.counted, tally.given_up) == (1, ["native__q0__r1"])


async def test_runs_that_were_under_way_together_are_one_bad_minute_of_the_api(stage: Stage) -> None:
    for number in range(8):
        stage.outcomes[f"native__q{number}__r1"] = ["infrastructure", "answered"]
    tally = await stage.build(cells(16), concurrency=8, attempts=3).run()
    assert stage.events("paused") == []
    assert tally.counted == 16


async def test_the_last_cells_spoilt_end_the_runner_and_hold_it_up_for_nobody(stage: Stage) -> None:
    spoil(stage, *range(5))
    tally = await stage.build(cells(5), attempts=1).run()
    assert len(tally.given_up) == 5


# Pause, resume, stop, cancel, concurrency.


async def test_pause_lets_runs_end_and_starts_none_until_resume(stage: Stage) -> None:
    scheduler = stage.build(cells(3))
    task = asyncio.create_task(scheduler.run())
    await until(lambda: len(stage.log) == 1)
    scheduler.pause()
    await until(lambda: scheduler.running == ())
    for _ in range(20):
        await asyncio.sleep(0)
    assert stage.started == ["native__q0__r1"]
    assert scheduler.state == "paused"
    scheduler.resume()
    assert (await task).counted == 3
    assert [entry.event for entry in stage.events("paused", "resumed")] == ["paused", "resumed"]


async def test_stop_lets_the_runs_under_way_end(stage: Stage) -> None:
    scheduler = stage.build(cells(5), concurrency=2)
    task = asyncio.create_task(scheduler.run())
    await until(lambda: len(stage.log) == 2)
    scheduler.stop(reason="told to stop")
    tally = await task
    assert (tally.counted, tally.open, tally.reason) == (2, 3, "told to stop")


async def test_stop_now_interrupts_every_run(stage: Stage) -> None:
    interrupted: list[str | None] = []

    async def act(job: Job, interrupt: Interrupt) -> Outcome:
        await until(lambda: interrupt.reason is not None)
        interrupted.append(interrupt.reason)
        return "cancelled"

    stage.act = act
    scheduler = stage.build(cells(5), concurrency=2)
    task = asyncio.create_task(scheduler.run())
    await until(lambda: len(stage.log) == 2)
    scheduler.stop(now=True, reason="at once")
    tally = await task
    assert interrupted == ["stop", "stop"]
    assert (tally.counted, tally.open) == (0, 5)


async def test_stop_ends_a_paused_runner(stage: Stage) -> None:
    scheduler = stage.build(cells(2))
    scheduler.pause()
    task = asyncio.create_task(scheduler.run())
    await asyncio.sleep(0)
    scheduler.stop(reason="told to stop")
    assert (await task).open == 2
    with pytest.raises(RunnerError, match="stopping"):
        scheduler.resume()


async def test_cancel_ends_a_run_and_the_others_go_on(stage: Stage) -> None:
    async def act(job: Job, interrupt: Interrupt) -> Outcome | None:
        if job.stem != "native__q0__r1":
            return None
        await until(lambda: interrupt.reason is not None)
        return "cancelled"

    stage.act = act
    scheduler = stage.build(cells(2))
    task = asyncio.create_task(scheduler.run())
    await until(lambda: len(stage.log) == 1)
    assert "being ended" in scheduler.cancel("native__q0__r1")
    tally = await task
    assert (tally.counted, tally.cancelled, tally.open) == (1, ["native__q0__r1"], 1)


async def test_cancel_takes_a_waiting_cell_out_of_the_queue(stage: Stage) -> None:
    scheduler = stage.build(cells(3))
    task = asyncio.create_task(scheduler.run())
    await until(lambda: len(stage.log) == 1)
    assert "out of the queue" in scheduler.cancel("native__q2__r1")
    await task
    assert stage.started == ["native__q0__r1", "native__q1__r1"]
    (said,) = stage.events("cancelled")
    assert said.cell == "native__q2__r1"
    for name, why in (
        ("native__q0__r1", "ended already"),
        ("native__q2__r1", "ended already"),
        ("none", "is called none"),
    ):
        with pytest.raises(RunnerError, match=why):
            scheduler.cancel(name)


async def test_cancel_and_pause_reach_a_cell_that_waits_for_its_next_attempt(stage: Stage) -> None:
    class Slow(ManualClock):
        async def sleep(self, seconds: float) -> None:
            await asyncio.Event().wait()

    stage.clock = Slow(0)
    stage.outcomes["native__q0__r1"] = ["infrastructure"]
    scheduler = stage.build(cells(2))
    task = asyncio.create_task(scheduler.run())
    await until(lambda: len(stage.waits) == 1)
    scheduler.cancel("native__q0__r1")
    assert (await task).cancelled == ["native__q0__r1"]
    assert stage.started == ["native__q0__r1", "native__q1__r1"]


async def test_a_retry_waits_while_the_runner_is_paused(stage: Stage) -> None:
    stage.outcomes["native__q0__r1"] = ["infrastructure", "answered"]
    scheduler = stage.build(cells(1))
    task = asyncio.create_task(scheduler.run())
    await until(lambda: len(stage.log) == 1)
    scheduler.pause()
    await until(lambda: len(stage.waits) == 1)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(stage.log) == 1
    scheduler.resume()
    assert (await task).counted == 1


async def test_concurrency_can_grow_and_shrink_under_way(stage: Stage) -> None:
    gate = asyncio.Event()

    async def act(job: Job, interrupt: Interrupt) -> Outcome | None:
        await gate.wait()
        return None

    stage.act = act
    scheduler = stage.build(cells(8))
    task = asyncio.create_task(scheduler.run())
    await until(lambda: stage.at_once == 1)
    scheduler.set_concurrency(3)
    await until(lambda: stage.at_once == 3)
    scheduler.set_concurrency(1)
    gate.set()
    await task
    assert stage.most_at_once == 3
    for senseless in (0, -1, 1000):
        with pytest.raises(RunnerError, match="make no sense"):
            scheduler.set_concurrency(senseless)


async def test_a_run_that_cannot_be_recorded_ends_all_others_and_is_raised(stage: Stage) -> None:
    async def act(job: Job, interrupt: Interrupt) -> Outcome:
        if job.stem == "native__q1__r1":
            raise RunsError("the disk is full", remedy="Free space")
        await until(lambda: interrupt.reason is not None)
        return "cancelled"

    stage.act = act
    scheduler = stage.build(cells(5), concurrency=2)
    with pytest.raises(RunsError, match="the disk is full"):
        await scheduler.run()
    assert len(stage.log) == 2
    assert scheduler.state == "ended"
