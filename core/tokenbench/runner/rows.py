"""What a board shows: frozen rows, totals, the phase. Nothing here changes once it is made."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal

from tokenbench.ledger.model import Tokens

NO_TOKENS: Final = Tokens()
State = Literal["waits", "running", "retry", "ok", "refused", "quarantined", "failed", "cancelled", "infrastructure"]
DONE: Final[frozenset[State]] = frozenset({"ok", "refused", "quarantined", "failed"})
"""States of a cell whose run counts."""
PhaseKind = Literal["none", "preparing", "running", "paused", "stopping", "ended", "lost"]


@dataclass(frozen=True, slots=True)
class Row:
    """One cell as far as the journal tells."""

    cell: str
    """The name, as the journal spells it: `arm__question__rN`."""
    arm: str
    question: str
    repeat: int
    """0 where the name is not that of a cell."""
    position: int
    """Place in the planned order, from 0."""
    state: State = "waits"
    attempt: int = 0
    """The latest attempt; 0 before the first."""
    calls: int | None = None
    turns: int | None = None
    """Calls of the main loop."""
    prompt: int | None = None
    """Billed input of the latest main-loop call, in tokens."""
    tokens: Tokens | None = None
    lower_bound: bool = False
    """Whether `tokens` are only what was seen: the run goes on, or its ledger is refused."""
    cost_usd: Decimal | None = None
    read_share: float | None = None
    """Share of the first call's billed input that was read from cache, 0 to 1."""
    doing: str = ""
    started: float | None = None
    """Seconds since the Unix epoch."""
    seconds: float | None = None
    """Wall time of the run that ended."""
    retry_at: float | None = None
    """Seconds since the Unix epoch."""
    outcome: str | None = None
    reason: str = ""
    codes: tuple[str, ...] = ()
    token_reconciled: bool | None = None
    reruns: int = 0
    """How often the cell was told to run again after a run that counted."""

    @property
    def done(self) -> bool:
        """Whether a run that counts has ended."""
        return self.state in DONE


@dataclass(frozen=True, slots=True)
class Attempt:
    """A run that did not count."""

    cell: str
    attempt: int
    tokens: Tokens
    cost_usd: Decimal | None
    reason: str


@dataclass(frozen=True, slots=True)
class WarmUp:
    """A run made to warm up, never counted."""

    arm: str
    number: int
    """1 is the first of its arm."""
    running: bool
    outcome: str | None = None
    tokens: Tokens = NO_TOKENS
    cost_usd: Decimal | None = None
    seconds: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Phase:
    """What the runner is doing, as one can say without looking at a run."""

    kind: PhaseKind = "none"
    reason: str = ""
    """A sentence: what is being prepared, why it stopped."""
    since: float | None = None
    """Seconds since the Unix epoch."""


@dataclass(frozen=True, slots=True)
class Judging:
    """A judge that the journal tells of."""

    judge: str
    state: Literal["running", "ended", "failed"]
    reason: str = ""
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the board; tokens and USD of attempts and warm-ups stand apart from those of the cells."""

    cells: int = 0
    done: int = 0
    running: int = 0
    retry: int = 0
    to_go: int = 0
    """Cells that wait for their first attempt, or to be tried again by a later runner."""
    cancelled: int = 0
    given_up: int = 0
    """Cells that infrastructure spoilt as often as the limit allows."""
    tokens: int = 0
    """Billed input + output of the runs that count and of those under way."""
    lower_bound: bool = False
    """Whether some of `tokens` are only what was seen."""
    cost_usd: Decimal | None = None
    """None while no cost is known."""
    apart_tokens: int = 0
    """Attempts that did not count, and warm-ups."""
    apart_usd: Decimal | None = None
    codes: tuple[tuple[str, int], ...] = ()
    """Refusal codes of ended runs with the number of runs, most frequent first."""

    @property
    def spent_usd(self) -> Decimal | None:
        """All that was spent, whether it counts or not."""
        if self.cost_usd is None:
            return self.apart_usd
        return self.cost_usd + (self.apart_usd or 0)


@dataclass(frozen=True, slots=True)
class View:
    """The board at one moment; nothing in it changes any more."""

    rows: tuple[Row, ...] = ()
    totals: Totals = Totals()
    phase: Phase = Phase()
    warmups: tuple[WarmUp, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    judges: tuple[Judging, ...] = ()
    scripted: bool = False
    unconfined: str | None = None
    """Why agents were started without a sandbox; None where nothing says that they were."""
    runner_pid: int | None = None
    queue_locked: float | None = None
    mapping_opened: float | None = None
    """Seconds since the Unix epoch; None while the grading is blind."""
    peeked: bool = False
    changed: frozenset[int] = frozenset()
    """Positions of the rows that are not what they were in the view before."""
    plan: int = 0
    """How often rows were added or moved so far; views of the same plan have the same cells in the same places."""

    def seconds_left(self, now: float, parallel: int) -> float | None:
        """An estimate of the time until every cell has run: each arm's mean wall time, shared by runs in parallel.

        Args:
            now: Seconds since the Unix epoch.
            parallel: Runs at a time.

        Returns:
            Seconds, or None while no run has ended.
        """
        times: dict[str, list[float]] = {}
        for row in self.rows:
            if row.done and row.seconds is not None:
                times.setdefault(row.arm, []).append(row.seconds)
        if not times:
            return None
        means = {arm: sum(values) / len(values) for arm, values in times.items()}
        overall = sum(means.values()) / len(means)
        left = 0.0
        for row in self.rows:
            mean = means.get(row.arm, overall)
            if row.state in ("waits", "retry"):
                left += mean
            elif row.state == "running":
                left += max(0.0, mean - (now - row.started if row.started is not None else 0.0))
        return left / max(1, parallel)
