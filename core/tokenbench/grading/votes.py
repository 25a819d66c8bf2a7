"""What the judges said of each item, and what follows from it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from tokenbench.grading.blindness import Sight, sight
from tokenbench.grading.items import BlindItem
from tokenbench.grading.mapping import BlindMapping
from tokenbench.grading.verdicts import DECISIONS, Decision, JudgeLog, LogState, Placed, read_logs, unchanged_since
from tokenbench.transcripts.evidence import Runs


class Vote(msgspec.Struct, frozen=True, kw_only=True):
    """One judge's standing verdict on one item."""

    judge: str
    verdict: Decision
    note: str = ""
    blind: bool = True
    """False where the judge could have known the arm."""
    stale: tuple[Literal["question", "truth", "answer"], ...] = ()
    """What has changed since it was given; a stale vote decides nothing."""
    model: str | None = None
    failed: bool = False
    scripted: bool = False


class Votes(msgspec.Struct, frozen=True, kw_only=True):
    """All votes of an experiment."""

    by_item: Mapping[str, tuple[Vote, ...]]
    """By item id, judges in the order of their names."""
    judges: tuple[str, ...]
    problems: tuple[str, ...]
    """Lines of verdict files that could not be used, and files that were changed after the queue was locked."""

    @property
    def scripted(self) -> tuple[str, ...]:
        """Judges that were scripted models."""
        return tuple(sorted({vote.judge for votes in self.by_item.values() for vote in votes if vote.scripted}))

    def of(self, item: str) -> tuple[Vote, ...]:
        """The votes on an item."""
        return self.by_item.get(item, ())


def read_votes(runs: Runs, items: Mapping[str, BlindItem], mapping: BlindMapping | None) -> Votes:
    """Read all judges' files against the items as they are now."""
    seen = sight(runs)
    locked = mapping.locked if mapping is not None and seen.opened is not None else None
    by_item: dict[str, list[Vote]] = {}
    problems: list[str] = []
    logs = read_logs(runs)
    for log in logs:
        problems.extend(log.problems)
        until = _sealed_bytes(runs, log, locked, problems)
        for item_id, placed in log.standing.items():
            item = items.get(item_id)
            if item is None:
                known = mapping is not None and any(mapped.id == item_id for mapped in mapping.items)
                what = "is stale: the answer it was given on has changed" if known else "is about no item of the queue"
                problems.append(f"verdicts/{log.judge}.jsonl:{placed.line}: {what}")
                continue
            by_item.setdefault(item_id, []).append(_vote(log.judge, placed, item, seen, until))
    return Votes(
        by_item={item: tuple(votes) for item, votes in by_item.items()},
        judges=tuple(log.judge for log in logs if log.order),
        problems=tuple(problems),
    )


def _sealed_bytes(runs: Runs, log: JudgeLog, locked: Mapping[str, LogState] | None, problems: list[str]) -> int | None:
    """How far a judge's file is known to be as it was when the queue was locked; None while it is not locked."""
    if locked is None:
        return None
    state = locked.get(log.judge)
    if state is None:
        return 0
    if unchanged_since(runs.verdicts / f"{log.judge}.jsonl", state):
        return state.bytes
    problems.append(f"verdicts/{log.judge}.jsonl: lines were changed after the queue was locked")
    return 0


def _vote(judge: str, placed: Placed, item: BlindItem, seen: Sight, until: int | None) -> Vote:
    act, now = placed.act, item.seen
    names: tuple[Literal["question", "truth", "answer"], ...] = ("question", "truth", "answer")
    return Vote(
        judge=judge,
        verdict=act.verdict or "unknown",
        note=act.note,
        blind=seen.blind(judge, act.t, model=act.model is not None) and (until is None or placed.end <= until),
        stale=tuple(name for name in names if getattr(act.seen, name) != getattr(now, name)),
        model=act.model,
        failed=act.failed,
        scripted=act.scripted,
    )


def deciding(votes: Iterable[Vote]) -> tuple[Vote, ...]:
    """The votes that decide: none that is stale, and none that was not blind where a blind one is there."""
    fresh = tuple(vote for vote in votes if not vote.stale)
    blind = tuple(vote for vote in fresh if vote.blind)
    return blind or fresh


def majority(votes: Iterable[Vote]) -> Decision | None:
    """What more than half of those who could say something said; a tie is unknown; None where nobody voted."""
    cast = tuple(votes)
    if not cast:
        return None
    counts = Counter(vote.verdict for vote in cast if vote.verdict != "unknown")
    for verdict in DECISIONS:
        if 2 * counts[verdict] > counts.total():
            return verdict
    return "unknown"


def overturns(votes: Iterable[Vote]) -> bool:
    """Whether a judge says of a mechanical FAIL that the answer was not wrong."""
    return any(vote.verdict in ("correct", "abstained") for vote in deciding(votes))
