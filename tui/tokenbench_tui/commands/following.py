"""A runner followed without a screen: one plain line for each thing that happens, until it ends."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tokenbench.runner.journal import Entry

DONE: Final = 0
OPEN: Final = 1
"""Cells are left over or quarantined."""
FAILED: Final = 2
_POLL_SECONDS: Final = 0.25
_EXITS: Final = {"done": DONE, "open": OPEN, "failed": FAILED}


def say(text: str) -> None:
    """Write a line at once, so that a pipe shows it when it happens."""
    print(text, flush=True)


class Follower:
    """Tells what is added to a journal after it was made. Answers stand in no line of it."""

    def __init__(self, folder: Path, say: Callable[[str], None] = say) -> None:
        """
        Args:
            folder: The experiment.
            say: Receives the lines.
        """
        from tokenbench.runner.journal import JournalReader
        from tokenbench.transcripts.evidence import Runs

        self._say = say
        self._lock = Runs(folder / "runs").lock
        self._reader = JournalReader(Runs(folder / "runs").journal)
        self._planned = 0
        self._ended: set[str] = set()
        for entry in self._reader.new():
            self._count(entry)

    def until_end(self) -> int:
        """Follow until the runner has ended, and return its exit code: 0 all done, 1 cells left over, 2 it failed."""
        from tokenbench.runner.lock import living_owner

        while True:
            # Asked before reading: what it wrote last is read before it is called lost.
            alive = living_owner(self._lock) is not None
            for entry in self._reader.new():
                self._count(entry)
                line = self._line(entry)
                if line:
                    self._say(line)
                if entry.event == "runner_ended":
                    return _EXITS.get(entry.outcome or "", FAILED)
            if not alive:
                self._say("The runner is gone and did not say why. What had ended is kept: start it again to go on.")
                return FAILED
            time.sleep(_POLL_SECONDS)

    def _count(self, entry: "Entry") -> None:
        if entry.event == "planned":
            self._planned = len(entry.cells)
        elif entry.event == "run_ended" and entry.cell is not None:
            self._ended.add(entry.cell)
        elif entry.event == "rerun" and entry.cell is not None:
            self._ended.discard(entry.cell)

    def _line(self, entry: "Entry") -> str:
        from tokenbench.text import one_line

        why = one_line(entry.reason or "", 200)
        cell = one_line(entry.cell or "", 80)
        match entry.event:
            case "planned":
                return f"{self._planned} cells planned, {len(self._ended)} of them have run"
            case "warmup_ended":
                return f"warm-up {one_line(entry.arm or '', 40)}  {entry.outcome}  {_cost(entry)}{_because(why)}"
            case "run_ended":
                return f"{len(self._ended)}/{self._planned}  {cell}  {_verdict(entry)}  {_cost(entry)}{_because(why)}"
            case "attempt_failed" if entry.retry_in is not None:
                return f"{cell}  {entry.outcome}, again in {entry.retry_in:.0f} s{_because(why)}"
            case "attempt_failed" | "gave_up" | "cancelled" | "recovered":
                return f"{cell or one_line(entry.arm or '', 40)}  {entry.event.replace('_', ' ')}{_because(why)}"
            case "rerun":
                return f"{cell}  is run again{_because(why)}"
            case "preparing":
                return why
            case "paused" | "resumed" | "stopping" | "limit_reached" | "runner_ended":
                return f"{entry.event.replace('_', ' ')}{_because(why)}"
            case _:
                return ""


def _because(why: str) -> str:
    return f": {why}" if why else ""


def _verdict(entry: "Entry") -> str:
    if entry.outcome != "answered":
        return str(entry.outcome)
    return "answered" if entry.token_reconciled else f"answered, REFUSED {' '.join(entry.codes)}"


def _cost(entry: "Entry") -> str:
    if entry.tokens is None:
        return ""
    least = "" if entry.token_reconciled else "at least "
    return f"{entry.calls or 0} calls, {least}{entry.tokens.total:,} tokens"
