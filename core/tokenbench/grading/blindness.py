"""Who could know the arm: whether the mapping was opened, and who looked all the same."""

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from tokenbench.runner.journal import JournalReader
from tokenbench.transcripts.evidence import Runs

ANYBODY: Final = ""
"""Key of `peekers` for a look by somebody who gave no name: it may have been any person."""


class Sight(msgspec.Struct, frozen=True):
    """What the journal says about who could see which arm an answer came from."""

    opened: float | None
    """When the mapping was opened, in seconds since the epoch; None while it is closed."""
    lock_sha256: str | None
    """What the journal keeps of the lock (`mapping.lock_sha256`); None where it says nothing."""
    peeked: Mapping[str, float]
    """When each judge first looked at a withheld answer."""

    def blind(self, judge: str, when: float, *, model: bool, others: Collection[str] = ()) -> bool:
        """Whether a verdict of this judge, given then, was given blind.

        A look is journalled under the name of the operator's account. Where that is the name of another judge it was
        that judge's; otherwise it may have been anybody's, so every person counts as having looked.

        Args:
            judge: The judge's name.
            when: Seconds since the epoch.
            model: Whether the judge is a model, which sees nothing but its prompt.
            others: Names of the other judges.
        """
        if self.opened is not None and when >= self.opened:
            return False
        if model:
            return True
        return all(when < look for name, look in self.peeked.items() if name == judge or name not in others)


_seen: dict[Path, tuple[tuple[int, int], Sight]] = {}


def sight(runs: Runs) -> Sight:
    """Read what the journal says; a journal that has not changed is not read again."""
    try:
        state = runs.journal.stat()
    except FileNotFoundError:
        return Sight(None, None, MappingProxyType({}))
    stamp = (state.st_size, state.st_mtime_ns)
    known = _seen.get(runs.journal)
    if known is not None and known[0] == stamp:
        return known[1]
    opened: float | None = None
    lock_sha256: str | None = None
    peeked: dict[str, float] = {}
    for entry in JournalReader(runs.journal).new():
        if entry.event == "mapping_opened" and opened is None:
            opened, lock_sha256 = entry.t, entry.lock_sha256
        elif entry.event == "peeked":
            name = entry.judge or ANYBODY
            peeked[name] = min(entry.t, peeked.get(name, entry.t))
    found = Sight(opened, lock_sha256, MappingProxyType(peeked))
    _seen[runs.journal] = (stamp, found)
    return found


def is_open(runs: Runs) -> bool:
    """Whether the mapping of items to cells was opened. Until then no screen or command shows a counted answer."""
    return sight(runs).opened is not None


def peekers(runs: Runs) -> frozenset[str]:
    """Judges who looked at a withheld answer; `ANYBODY` for a look without a name."""
    return frozenset(sight(runs).peeked)
