"""What the judges said of each item, and what follows from it."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

import msgspec

from tokenbench.grading.blindness import Sight, sight
from tokenbench.grading.items import BlindItem
from tokenbench.grading.mapping import BlindMapping, lock_sha256
from tokenbench.grading.verdicts import (
    DECISIONS,
    Act,
    Decision,
    JudgeLog,
    LogState,
    judges,
    read_log,
    unchanged_since,
)
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
    by_item: dict[str, list[Vote]] = {}
    problems: list[str] = []
    locked = _locked(mapping, seen, problems)
    logs: list[JudgeLog] = []
    names = judges(runs)
    for judge in names:
        others = frozenset(names) - {judge}
        blind = _blindness(runs, judge, others, seen=seen, locked=locked, problems=problems)
        log = read_log(runs.verdicts / f"{judge}.jsonl", blind)
        logs.append(log)
        problems.extend(log.problems)
        for item_id, placed in log.standing.items():
            item = items.get(item_id)
            if item is None:
                known = mapping is not None and any(mapped.id == item_id for mapped in mapping.items)
                what = "is stale: the answer it was given on has changed" if known else "is about no item of the queue"
                problems.append(f"verdicts/{judge}.jsonl:{placed.line}: {what}")
                continue
            by_item.setdefault(item_id, []).append(_vote(judge, placed.act, item, blind=blind(placed.act, placed.end)))
    return Votes(
        by_item={item: tuple(votes) for item, votes in by_item.items()},
        judges=tuple(log.judge for log in logs if log.order),
        problems=tuple(problems),
    )


def _locked(mapping: BlindMapping | None, seen: Sight, problems: list[str]) -> Mapping[str, LogState] | None:
    """What the judges' files held when the mapping was opened; None while it is closed.

    Nothing, where blind.json does not say what the journal remembers of it: then no verdict can be shown to be blind.
    """
    if seen.opened is None:
        return None
    locked = mapping.locked if mapping is not None else None
    if locked is not None and lock_sha256(locked) == seen.lock_sha256:
        return locked
    problems.append("blind.json: it and the journal do not agree on what the judges' files held at the opening")
    return {}


def _blindness(
    runs: Runs,
    judge: str,
    others: frozenset[str],
    *,
    seen: Sight,
    locked: Mapping[str, LogState] | None,
    problems: list[str],
) -> Callable[[Act, int], bool]:
    """Whether acts of a judge were done blind: by their time, and by where they stand in a file that was measured.

    Times can be written by hand; how long the file was when the queue was locked, and what it held, is in blind.json.
    """
    until: int | None = None
    if locked is not None:
        state = locked.get(judge)
        until = state.bytes if state is not None else 0
        if state is not None and not unchanged_since(runs.verdicts / f"{judge}.jsonl", state):
            problems.append(f"verdicts/{judge}.jsonl: lines were changed after the queue was locked")
            until = 0

    def blind(act: Act, end: int) -> bool:
        if until is not None and end > until:
            return False
        return seen.blind(judge, act.t, model=act.model is not None, others=others)

    return blind


_SEEN: Final[tuple[Literal["question", "truth", "answer"], ...]] = ("question", "truth", "answer")


def _vote(judge: str, act: Act, item: BlindItem, *, blind: bool) -> Vote:
    now = item.seen
    return Vote(
        judge=judge,
        verdict=act.verdict or "unknown",
        note=act.note,
        blind=blind,
        stale=tuple(name for name in _SEEN if getattr(act.seen, name) != getattr(now, name)),
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
