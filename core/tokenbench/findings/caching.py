"""Whether the arms began equally warm, when each run found or lost its cache, and what that did to the dollars.

Nothing here rests on a grade: it may be seen before the mapping is opened.
"""

import statistics
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, Literal

import msgspec

from tokenbench.experiment.model import Cell, Loaded
from tokenbench.figures import Code, Figure, Published, Refusal, refuse
from tokenbench.findings.measures import WARMTH_POINTS, Replay, first_calls, read_share, replayed, unpaid, warmth
from tokenbench.findings.results import marked
from tokenbench.findings.world import World
from tokenbench.grading.counted import LEDGERS, CountedRun, Ledgers
from tokenbench.ledger import warmth as heat
from tokenbench.ledger.model import Tokens
from tokenbench.rehearsal.caching import LIFETIMES
from tokenbench.runner.board import Board
from tokenbench.runner.journal import JournalReader
from tokenbench.runner.rows import Row

_MICRO: Final = Decimal("0.000001")


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """How one run began."""

    cell: str
    under_way: bool
    started: float
    """Seconds since the Unix epoch."""
    word: heat.Word | None
    """None where no call is known yet."""
    share: float | None
    """Of the first call's billed input, what was read from cache."""
    first: Tokens | None
    """The first call; None of a run under way."""
    lapsed: float | None
    """When the cache of the arm's last call had run out before this run began, if it began cold; seconds since the
    Unix epoch. Reckoned from the lifetime of the writes of the run before, not observed."""


class ArmCache(msgspec.Struct, frozen=True, kw_only=True):
    """One arm."""

    planned: int
    """Cells."""
    ended: int
    """Runs that count."""
    share: Published
    """Of the billed input of all first calls, what was read from cache."""
    typical: Start | None
    """The run whose share is the middle one."""
    starts: tuple[Start, ...]
    """In the order of their start."""
    paid: Published
    """Median USD per run, as the agent CLI reckons it, without sidecars."""
    cold: Published
    """The same, each run replayed from an empty cache."""
    warm: Published
    """The same, each run replayed from the cache that it leaves itself."""
    neutral: Published
    """The same with all input at the price of fresh input."""

    @property
    def refused(self) -> Refusal | None:
        """Why the share of an arm that has runs is not given."""
        return self.share if self.ended and isinstance(self.share, Refusal) else None


class Caching(msgspec.Struct, frozen=True, kw_only=True):
    """What the cache did in an experiment."""

    experiment: str
    scripted: bool
    complete: bool
    """Whether every cell has a run."""
    limit: float
    """Shares that differ by more have no comparable dollars."""
    difference: float | None
    """Between the largest and the smallest share; None where fewer than two arms have a run, or a share is refused."""
    warmest: str | None
    """The arm with the largest share; None where there is no difference to speak of."""
    coldest: str | None
    confounded: Refusal | None
    arms: Mapping[str, ArmCache]
    """Baseline first, headline arm second."""


def compute(loaded: Loaded, ledgers: Ledgers = LEDGERS) -> Caching:
    """What the cache did so far, from the files alone. Writes nothing.

    Args:
        loaded: The experiment.
        ledgers: Ledgers that this process has read already.

    Raises:
        GradingError: blind.json is damaged.
    """
    world = World(loaded, ledgers)
    board = Board()
    board.fold(JournalReader(world.paths.journal).new())
    running = [row for row in board.view().rows if row.state == "running"]
    arms = {arm: _arm(world, arm, [row for row in running if row.arm == arm]) for arm in world.arms}
    shares = {arm: float(one.share.value) for arm, one in arms.items() if isinstance(one.share, Figure)}
    several = len(shares) > 1 and not any(one.refused for one in arms.values())
    order = sorted(shares, key=lambda arm: shares[arm])
    found = Caching(
        experiment=loaded.config.experiment.name,
        scripted=bool(world.integrity.scripted),
        complete=not world.counted.missing,
        limit=WARMTH_POINTS,
        difference=shares[order[-1]] - shares[order[0]] if several else None,
        warmest=order[-1] if several else None,
        coldest=order[0] if several else None,
        confounded=warmth(world),
        arms=arms,
    )
    return marked(found, Code.RERUN, frozenset(world.reruns)) if world.reruns else found


def _arm(world: World, arm: str, running: Sequence[Row]) -> ArmCache:
    cells = world.cells(arm)
    runs = [world.run(cell) for cell in cells if cell in world.counted.runs]
    starts = sorted([*_ended(runs), *map(_under_way, running)], key=lambda start: (start.started, start.cell))
    told = sorted((start for start in starts if start.first is not None), key=lambda start: start.share or 0.0)
    unknown = unpaid(world, cells)

    def cost(which: Replay) -> Published:
        return unknown or replayed(world, cells, which, _median)

    return ArmCache(
        planned=len(cells),
        ended=len(runs),
        share=_share(world, arm),
        typical=told[len(told) // 2] if told else None,
        starts=tuple(starts),
        paid=unknown or warmth(world) or _paid(world, cells),
        cold=cost("cold"),
        warm=cost("warm"),
        neutral=cost("cache_neutral"),
    )


def _share(world: World, arm: str) -> Published:
    cells = world.cells(arm)
    refusal = world.seal_broken or world.quarantined(cells) or world.unreconciled(cells)
    if refusal is not None:
        return refusal
    firsts = first_calls(world, arm)
    share = read_share(firsts.values())
    if share is None:
        return refuse(Code.INCOMPLETE, reason=f"No run of {arm} has ended yet")
    return Figure(value=share, unit="share", basis="exact", runs=tuple(cell.name for cell in firsts))


def _paid(world: World, cells: tuple[Cell, ...]) -> Published:
    costs = [cost for cell in cells if (cost := world.run(cell).ledger.cost_usd.own) is not None]
    return Figure(value=_median(costs), unit="USD", basis="exact", runs=tuple(cell.name for cell in cells))


def _median(costs: Sequence[Decimal]) -> Decimal:
    return statistics.median(costs).quantize(_MICRO)


def _ended(runs: Sequence[CountedRun]) -> list[Start]:
    found: list[Start] = []
    lifetime = LIFETIMES["5m"]
    for run in sorted(runs, key=lambda run: run.record.started):
        rows, record = run.ledger.call_rows, run.record
        first = rows[0].tokens if rows else None
        warm = heat.of_first(first) if first is not None else heat.Warmth(None, None)
        idle = record.since_last_call
        lapsed = warm.word == "cold" and idle is not None and idle > lifetime
        found.append(
            Start(
                cell=run.cell.name,
                under_way=False,
                started=record.started,
                word=warm.word,
                share=warm.share,
                first=first,
                lapsed=record.started - idle + lifetime if lapsed and idle is not None else None,
            )
        )
        lifetime = LIFETIMES["1h" if any(row.tokens.cache_write_1h for row in rows) else "5m"]
    return found


def _under_way(row: Row) -> Start:
    warm = heat.warmth(row.read_share)
    return Start(
        cell=row.cell,
        under_way=True,
        started=row.started or 0.0,
        word=warm.word,
        share=warm.share,
        first=None,
        lapsed=None,
    )


Sign = Literal["W", "p", "r", "?", "·"]
SIGNS: Final[Mapping[heat.Word | None, Sign]] = {"cold": "W", "part": "p", "warm": "r", None: "?"}


class Band(msgspec.Struct, frozen=True):
    """A stretch of the time line, for a number of cells."""

    begin: float
    """Seconds since the first start of the experiment."""
    end: float
    rows: Mapping[str, str]
    """By arm: one sign a run, at about its time; `·` where a lifetime ran out."""


def bands(found: Caching, cells: int) -> tuple[Band, ...]:
    """The time line in as many stretches as it takes for no run to be hidden behind another one.

    Args:
        found: What the cache did.
        cells: Width of a stretch, in signs.
    """
    cells = max(4, cells)
    runs = sorted(
        ((start.started, arm, start) for arm, one in found.arms.items() for start in one.starts),
        key=lambda run: (run[0], run[1], run[2].cell),
    )
    if not runs:
        return ()
    zero = runs[0][0]
    groups: list[list[tuple[float, str, Start]]] = [[]]
    taken: dict[str, int] = {}
    for run in runs:
        wanted = 2 if run[2].lapsed is not None else 1
        if taken.get(run[1], 0) + wanted > cells:
            groups.append([])
            taken = {}
        taken[run[1]] = taken.get(run[1], 0) + wanted
        groups[-1].append(run)
    return tuple(_band(group, tuple(found.arms), zero, cells) for group in groups)


def _band(group: Sequence[tuple[float, str, Start]], arms: tuple[str, ...], zero: float, cells: int) -> Band:
    begin, end = group[0][0], group[-1][0]
    rows: dict[str, str] = {}
    for arm in arms:
        marks: list[tuple[float, Sign]] = []
        for at, whose, start in group:
            if whose == arm:
                if start.lapsed is not None:
                    marks.append((max(begin, start.lapsed), "·"))
                marks.append((at, SIGNS[start.word]))
        rows[arm] = _placed(marks, begin, max(1.0, end - begin), cells)
    return Band(begin - zero, end - zero, rows)


def _placed(marks: Sequence[tuple[float, Sign]], begin: float, span: float, cells: int) -> str:
    """Each sign at its time, or as near to it as the signs beside it allow."""
    places: list[int] = []
    for at, _ in marks:
        wanted = int((at - begin) / span * (cells - 1))
        places.append(max(wanted, places[-1] + 1) if places else wanted)
    line = [" "] * cells
    limit = cells - 1
    for place, (_, sign) in zip(reversed(places), reversed(marks), strict=True):
        limit = min(place, limit)
        line[limit] = sign
        limit -= 1
    return "".join(line).rstrip()
