"""Where one judge sits: the items in this judge's order, the verdicts given, and what is left.

The front ends (a pane, a line-mode command, a file that comes back) judge through this, so none of them needs the
mapping.
"""

from typing import Literal

import msgspec

from tokenbench.clock import Clock
from tokenbench.errors import GradingError
from tokenbench.experiment.model import Loaded
from tokenbench.grading.items import BlindItem
from tokenbench.grading.queue import extend_queue
from tokenbench.grading.verdicts import Act, Decision, JudgeLog, Verdicts
from tokenbench.transcripts.evidence import Runs


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a judge has come."""

    items: int
    judged: int
    unjudged: int
    mean_seconds: float | None
    """Of the verdicts that stand and have a time; None where none has."""


class Desk:
    """One judge's view of the queue.

    Args:
        loaded: The experiment.
        judge: The judge's name.
        clock: Stamps the verdicts.

    Raises:
        GradingError: The name may not be a judge's, or blind.json is damaged.
    """

    def __init__(self, loaded: Loaded, judge: str, clock: Clock) -> None:
        self._loaded = loaded
        self._verdicts = Verdicts(Runs(loaded.runs), judge, clock)
        self.judge = judge
        self.items: tuple[BlindItem, ...] = ()
        """In this judge's order."""
        self.log: JudgeLog
        """This judge's file, as last read."""
        self.refresh()

    def refresh(self) -> bool:
        """Queue what has come to wait and read the files again; says whether anything changed for this judge."""
        before = self.items, getattr(self, "log", None)
        self.items = extend_queue(self._loaded).for_judge(self.judge)
        self.log = self._verdicts.read()
        return before != (self.items, self.log)

    def item(self, item_id: str) -> BlindItem:
        """The item of that id.

        Raises:
            GradingError: There is none in the queue.
        """
        for item in self.items:
            if item.id == item_id:
                return item
        raise GradingError("no such item is in the queue", remedy="Export the queue again and judge that file")

    def verdict(self, item: BlindItem) -> Act | None:
        """The verdict of this judge that holds for an item; None where there is none, or it is stale."""
        placed = self.log.standing.get(item.id)
        return placed.act if placed is not None and placed.act.seen == item.seen else None

    def stale(self, item: BlindItem) -> bool:
        """Whether this judge's verdict on an item was given on a question, truth or answer that has changed."""
        placed = self.log.standing.get(item.id)
        return placed is not None and placed.act.seen != item.seen

    def unjudged(self) -> tuple[BlindItem, ...]:
        """What waits for this judge, in order."""
        return tuple(item for item in self.items if self.verdict(item) is None)

    def next_unjudged(self, after: str | None = None, *, step: Literal[1, -1] = 1) -> BlindItem | None:
        """The nearest unjudged item behind (or before) the given one, going round; None where all are judged."""
        ids = [item.id for item in self.items]
        start = ids.index(after) if after in ids else (-1 if step == 1 else len(ids))
        for distance in range(1, len(ids) + 1):
            item = self.items[(start + step * distance) % len(ids)]
            if self.verdict(item) is None:
                return item
        return None

    def give(self, item: BlindItem, verdict: Decision, *, note: str = "", seconds: float | None = None) -> Act:
        """Write a verdict; it is on the disk when this returns.

        Raises:
            RunsError: The disk is full, or the file may not be written.
        """
        act = self._verdicts.give(item, verdict, note=note, seconds=seconds)
        self.log = self._verdicts.read()
        return act

    def undo(self) -> Act | None:
        """Take back the latest verdict that stands, any number of times; None when none is left."""
        act = self._verdicts.undo()
        self.log = self._verdicts.read()
        return act

    @property
    def progress(self) -> Progress:
        """How far this judge has come."""
        judged = [act for item in self.items if (act := self.verdict(item)) is not None]
        times = [act.seconds for act in judged if act.seconds is not None]
        return Progress(
            items=len(self.items),
            judged=len(judged),
            unjudged=len(self.items) - len(judged),
            mean_seconds=sum(times) / len(times) if times else None,
        )
