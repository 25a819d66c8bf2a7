"""The journal folded into what a front end shows: one frozen row a cell, totals, the phase of the runner.

A board is fed entries in the order in which they are read and can be asked at any time. Lines may be repeated, late,
of an unknown kind or of a cell that no plan names; a runner may vanish and another may take over. What a line says of
an attempt that is no longer the latest changes nothing but the tokens that are kept apart.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final, Literal

from tokenbench.experiment.model import Cell
from tokenbench.runner.journal import Entry
from tokenbench.runner.rows import DONE, NO_TOKENS, Attempt, Judging, Phase, Row, State, Totals, View, WarmUp
from tokenbench.text import one_line
from tokenbench.transcripts.evidence import COUNTED

AGENT_FAILED: Final = frozenset({"max_turns", "max_budget", "time_limit"})

_STARTED, _USAGE, _FAILED, _ENDED, _FINAL = 1, 2, 3, 4, 5
"""Stages of one attempt: a line of an earlier stage never undoes a later one."""


@dataclass(slots=True)
class _Trail:
    """What the row of a cell does not show: how far its latest attempt has come, and since when lines count."""

    stage: int = 0
    rerun_at: float = float("-inf")
    """Time of the latest rerun; what was stamped before it speaks of an earlier run."""
    rerun_attempt: int = 0
    """The last attempt before that rerun."""
    closed_at: float | None = None
    """When the cell was cancelled or given up; None where it was not, or has run since."""


@dataclass(slots=True)
class _Sums:
    """Running sums over the rows, so that ten thousand cells cost no more than the ones that changed."""

    states: Counter[State] = field(default_factory=Counter[State])
    codes: Counter[str] = field(default_factory=Counter[str])
    tokens: int = 0
    lower_bounds: int = 0
    cost: Decimal = Decimal(0)
    costs: int = 0

    def add(self, row: Row, sign: Literal[1, -1]) -> None:
        """Count a row in, or out again."""
        self.states[row.state] += sign
        if row.tokens is not None:
            self.tokens += sign * row.tokens.total
            self.lower_bounds += sign * row.lower_bound
        if row.cost_usd is not None:
            self.cost += sign * row.cost_usd
            self.costs += sign
        if row.done:
            for code in row.codes:
                self.codes[code] += sign


class Board:
    """Folds journal entries into rows. For one thread at a time; a `View` may be handed to anybody."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._at: dict[str, int] = {}
        self._trails: list[_Trail] = []
        self._sums = _Sums()
        self._attempts: dict[tuple[str, int], Attempt] = {}
        self._warmups: dict[tuple[str, int], WarmUp] = {}
        self._judges: dict[str, Judging] = {}
        self._phase = Phase()
        self._alive: bool | None = None
        self._runners: set[tuple[int | None, float]] = set()
        self._scripted = False
        self._unconfined: str | None = None
        self._runner_pid: int | None = None
        self._queue_locked: float | None = None
        self._mapping_opened: float | None = None
        self._peeked = False
        self._changed: set[int] = set()
        self._plan_number = 0
        self._dirty = True

    @property
    def dirty(self) -> bool:
        """Whether the next view will tell anything new."""
        return self._dirty

    def fold(self, entries: Iterable[Entry]) -> int:
        """Take entries in, in the order in which they were read, and return how many there were."""
        count = 0
        for entry in entries:
            self._take(entry)
            count += 1
        self._dirty = self._dirty or count > 0
        return count

    def observe_runner(self, alive: bool) -> None:
        """Say whether the runner's process is there, as its lock or pid shows.

        A journal cannot tell of a `kill -9`: without this, the runs of a dead runner would seem to go on for ever.
        """
        if alive != self._alive:
            self._alive = alive
            self._dirty = True

    def view(self) -> View:
        """The board as it is now; which rows changed is counted from the view before."""
        phase = self._phase
        if self._alive is False and phase.kind not in ("none", "ended"):
            phase = Phase("lost", "the runner's process is gone; what had ended is kept", phase.since)
            self._release("runner lost")
        view = View(
            rows=tuple(self._rows),
            totals=self._totals(),
            phase=phase,
            warmups=tuple(self._warmups.values()),
            attempts=tuple(self._attempts[key] for key in sorted(self._attempts)),
            judges=tuple(self._judges.values()),
            scripted=self._scripted,
            unconfined=self._unconfined,
            runner_pid=self._runner_pid,
            queue_locked=self._queue_locked,
            mapping_opened=self._mapping_opened,
            peeked=self._peeked,
            changed=frozenset(self._changed),
            plan=self._plan_number,
        )
        self._changed.clear()
        self._dirty = False
        return view

    def _totals(self) -> Totals:
        sums, states = self._sums, self._sums.states
        apart = (*self._attempts.values(), *self._warmups.values())
        apart_costs = [one.cost_usd for one in apart if one.cost_usd is not None]
        return Totals(
            cells=len(self._rows),
            done=sum(states[state] for state in DONE),
            running=states["running"],
            retry=states["retry"],
            to_go=states["waits"],
            cancelled=states["cancelled"],
            given_up=states["infrastructure"],
            tokens=sums.tokens,
            lower_bound=sums.lower_bounds > 0,
            cost_usd=sums.cost if sums.costs else None,
            apart_tokens=sum(one.tokens.total for one in apart),
            apart_usd=sum(apart_costs, Decimal(0)) if apart_costs else None,
            codes=tuple(
                sorted(((code, n) for code, n in sums.codes.items() if n), key=lambda pair: (-pair[1], pair[0]))
            ),
        )

    def _take(self, entry: Entry) -> None:
        if entry.scripted:
            self._scripted = True
        match entry.event:
            case "runner_started":
                self._runner_started(entry)
            case "planned":
                self._plan(entry.cells)
            case "preparing":
                self._phase = Phase("preparing", entry.reason or "", entry.t)
            case "sandbox":
                if entry.outcome == "none":
                    self._unconfined = one_line(entry.reason or "no reason was told", 300)
            case "sealed":
                self._phase = Phase("running", "", entry.t)
            case "paused":
                self._phase = Phase("paused", entry.reason or "", entry.t)
            case "resumed":
                self._phase = Phase("running", entry.reason or "", entry.t)
            case "stopping" | "limit_reached":
                self._phase = Phase("stopping", entry.reason or "", entry.t)
            case "runner_ended":
                self._phase = Phase("ended", entry.reason or "", entry.t)
                self._release("")
            case "warmup_started" | "warmup_ended":
                self._warmup(entry)
            case "queue_locked":
                self._queue_locked = self._queue_locked or entry.t
            case "mapping_opened":
                self._mapping_opened = self._mapping_opened or entry.t
            case "peeked":
                self._peeked = True
            case "judge_started" | "judge_ended" | "judge_failed":
                self._judge(entry)
            case _:
                if entry.event == "run_started" and self._phase.kind in ("none", "preparing"):
                    self._phase = Phase("running", "", entry.t)
                if entry.cell is not None:
                    self._cell_line(entry, entry.cell)
                elif entry.event == "recovered" and entry.arm is not None:
                    number = entry.attempt or 1
                    self._warmups.pop((entry.arm, number), None)
                    self._set_apart(entry, f"{entry.arm}__w{number}", number)

    def _runner_started(self, entry: Entry) -> None:
        key = (entry.pid, entry.t)
        if key in self._runners:
            return
        self._runners.add(key)
        self._runner_pid = entry.pid
        self._alive = None
        self._phase = Phase("preparing", entry.reason or "the runner has started", entry.t)
        self._release("")

    def _release(self, doing: str) -> None:
        """No runner holds these runs any more: they will be tried again by the next one."""
        for position, row in enumerate(self._rows):
            if row.state in ("running", "retry"):
                self._keep_apart(row)
                self._trails[position].stage = 0
                self._put(position, replace(_fresh_attempt(row, row.attempt), doing=doing))

    def _plan(self, cells: tuple[str, ...]) -> None:
        """The order of the plan stands, and no row is lost that a shorter plan leaves out."""
        planned = list(dict.fromkeys(cells))
        known = [row.cell for row in self._rows]
        order = planned if set(known) <= set(planned) else list(dict.fromkeys((*known, *planned)))
        if order == known:
            return
        rows = {row.cell: row for row in self._rows}
        trails = dict(zip(known, self._trails, strict=True))
        self._rows, self._trails, self._at = [], [], {}
        for position, cell in enumerate(order):
            row = rows.get(cell)
            if row is None:
                row = _new_row(cell, position)
                self._sums.add(row, 1)
            self._rows.append(replace(row, position=position))
            self._trails.append(trails.get(cell) or _Trail())
            self._at[cell] = position
        self._changed.update(range(len(order)))
        self._plan_number += 1

    def _put(self, position: int, row: Row) -> None:
        before = self._rows[position]
        if row == before:
            return
        self._sums.add(before, -1)
        self._sums.add(row, 1)
        self._rows[position] = row
        self._changed.add(position)

    def _cell_line(self, entry: Entry, cell: str) -> None:
        if entry.event not in _CELL_EVENTS:
            return
        if cell not in self._at:
            self._plan((*self._at, cell))
        position = self._at[cell]
        row, trail = self._rows[position], self._trails[position]
        if entry.event == "rerun":
            self._rerun(entry, position)
            return
        stage = _stage(entry)
        if trail.closed_at is not None and entry.t > trail.closed_at and (stage == _STARTED or _counts(entry)):
            # A later runner runs the cell all the same, under the number of the attempt that was taken out.
            trail.stage, trail.closed_at = 0, None
        fresh = stage == _STARTED and trail.stage >= _FAILED
        attempt = entry.attempt or max(1, row.attempt + fresh)
        earlier = attempt <= trail.rerun_attempt and entry.t < trail.rerun_at
        if earlier or attempt < row.attempt or (attempt == row.attempt and stage < trail.stage):
            if not (row.done and attempt == row.attempt):
                self._set_apart(entry, cell, attempt)
            return
        repeated = stage == _FINAL and row.started is not None and entry.t < row.started
        if repeated or (entry.event == "cancelled" and row.done):
            return
        if attempt > row.attempt:
            self._keep_apart(row)
            row = _fresh_attempt(row, attempt)
        trail.stage = stage
        trail.closed_at = entry.t if stage == _FINAL else trail.closed_at
        moved = _moved(row, entry)
        self._put(position, moved)
        if moved.tokens is not None:
            self._attempts.pop((cell, attempt), None)
        elif entry.tokens is None:
            self._keep_apart(row)
        else:
            self._set_apart(entry, cell, attempt)

    def _rerun(self, entry: Entry, position: int) -> None:
        row, trail = self._rows[position], self._trails[position]
        if entry.t <= trail.rerun_at:
            return
        self._keep_apart(row)
        trail.rerun_at, trail.rerun_attempt, trail.stage = entry.t, max(row.attempt, trail.rerun_attempt), 0
        fresh = _fresh_attempt(row, 0)
        self._put(position, replace(fresh, reruns=row.reruns + 1, reason=entry.reason or ""))

    def _set_apart(self, entry: Entry, cell: str, attempt: int) -> None:
        """Keep what a run cost that does not count."""
        if entry.event not in ("attempt_failed", "run_ended", "cancelled", "recovered") or entry.tokens is None:
            return
        self._attempts[cell, attempt] = Attempt(cell, attempt, entry.tokens, entry.cost_usd, entry.reason or "")

    def _keep_apart(self, row: Row) -> None:
        if row.tokens is not None and (row.cell, row.attempt) not in self._attempts:
            kept = Attempt(row.cell, row.attempt, row.tokens, row.cost_usd, row.reason)
            self._attempts[row.cell, row.attempt] = kept

    def _warmup(self, entry: Entry) -> None:
        arm = entry.arm or ""
        number = entry.attempt or 1
        before = self._warmups.get((arm, number))
        if entry.event == "warmup_started":
            if before is None:
                self._warmups[arm, number] = WarmUp(arm, number, running=True)
            if self._phase.kind in ("none", "preparing"):
                self._phase = Phase("preparing", "warming up", entry.t)
            return
        self._warmups[arm, number] = WarmUp(
            arm,
            number,
            running=False,
            outcome=entry.outcome,
            tokens=entry.tokens or NO_TOKENS,
            cost_usd=entry.cost_usd,
            seconds=entry.seconds,
            reason=entry.reason or "",
        )

    def _judge(self, entry: Entry) -> None:
        judge = entry.judge or ""
        before = self._judges.get(judge)
        if before is None or entry.t >= before.since:
            self._judges[judge] = Judging(judge, _JUDGE_STATES[entry.event], entry.reason or "", entry.t)


_JUDGE_STATES: Final[dict[str, Literal["running", "ended", "failed"]]] = {
    "judge_started": "running",
    "judge_ended": "ended",
    "judge_failed": "failed",
}
_CELL_EVENTS: Final = frozenset(
    {"run_started", "usage", "run_ended", "attempt_failed", "gave_up", "recovered", "cancelled", "rerun"}
)


def _counts(entry: Entry) -> bool:
    return entry.outcome in COUNTED


def _stage(entry: Entry) -> int:
    match entry.event:
        case "run_started":
            return _STARTED
        case "usage":
            return _USAGE
        case "gave_up" | "cancelled":
            return _FINAL
        case _:
            return _ENDED if _counts(entry) else _FAILED


def _new_row(name: str, position: int) -> Row:
    try:
        cell = Cell.parse(name)
    except ValueError:
        return Row(name, name, "", 0, position)
    return Row(name, cell.arm, cell.question, cell.repeat, position)


def _fresh_attempt(row: Row, attempt: int) -> Row:
    return Row(row.cell, row.arm, row.question, row.repeat, row.position, attempt=attempt, reruns=row.reruns)


def _ended_state(entry: Entry) -> State:
    if entry.outcome == "quarantined":
        return "quarantined"
    if entry.outcome in AGENT_FAILED:
        return "failed"
    return "ok" if entry.token_reconciled else "refused"


def _read_share(entry: Entry, row: Row) -> float | None:
    if entry.first_read_share is not None:
        return entry.first_read_share
    if row.read_share is None and entry.calls == 1 and entry.tokens is not None and entry.tokens.billed_input:
        return entry.tokens.cache_read / entry.tokens.billed_input
    return row.read_share


def _seen(row: Row, entry: Entry) -> Row:
    """A line of usage; one that is older than what is shown changes nothing."""
    if row.calls is not None and (entry.calls or 0) < row.calls:
        return row
    return replace(
        row,
        state="running",
        calls=entry.calls if entry.calls is not None else row.calls,
        turns=entry.turns if entry.turns is not None else row.turns,
        prompt=entry.prompt if entry.prompt is not None else row.prompt,
        tokens=entry.tokens or row.tokens,
        lower_bound=True,
        cost_usd=entry.cost_usd if entry.cost_usd is not None else row.cost_usd,
        read_share=_read_share(entry, row),
        doing=entry.doing or row.doing,
    )


def _moved(row: Row, entry: Entry) -> Row:
    """The row after a line that speaks of its latest attempt."""
    match entry.event:
        case "run_started":
            return replace(row, state="running", started=entry.t, doing=entry.doing or "starting")
        case "usage":
            return _seen(row, entry)
        case "cancelled":
            return replace(_fresh_attempt(row, row.attempt), state="cancelled", reason=entry.reason or "")
        case "gave_up":
            return replace(_fresh_attempt(row, row.attempt), state="infrastructure", reason=entry.reason or row.reason)
        case _:
            pass
    if not _counts(entry):
        state: State = "retry" if entry.retry_in is not None else "waits"
        return replace(
            _fresh_attempt(row, row.attempt),
            state=state,
            outcome=entry.outcome,
            reason=entry.reason or "",
            codes=entry.codes,
            retry_at=entry.t + entry.retry_in if entry.retry_in is not None else None,
        )
    return replace(
        row,
        state=_ended_state(entry),
        calls=entry.calls if entry.calls is not None else row.calls,
        turns=entry.turns if entry.turns is not None else row.turns,
        prompt=entry.prompt if entry.prompt is not None else row.prompt,
        tokens=entry.tokens or row.tokens,
        lower_bound=entry.token_reconciled is not True,
        cost_usd=entry.cost_usd,
        read_share=_read_share(entry, row),
        doing="",
        seconds=entry.seconds,
        retry_at=None,
        outcome=entry.outcome,
        reason=entry.reason or "",
        codes=entry.codes,
        token_reconciled=entry.token_reconciled,
    )
