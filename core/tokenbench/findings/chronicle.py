"""What the journal tells about the order, the repetition and the loss of runs."""

from collections.abc import Mapping

import msgspec

from tokenbench.ledger.model import Tokens
from tokenbench.runner.journal import JournalReader
from tokenbench.transcripts.evidence import COUNTED, Runs


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A run that counted when its journal line was written."""

    t: float
    outcome: str
    tokens: Tokens | None
    token_reconciled: bool | None


class Again(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody had a cell run again."""

    t: float
    reason: str


class Chronicle(msgspec.Struct, frozen=True, kw_only=True):
    """The journal of an experiment, as far as figures depend on it."""

    there: bool
    planned: tuple[str, ...]
    """Cells in the planned order, of the first plan."""
    started: tuple[str, ...]
    """Cells in the order of their first start."""
    ended: Mapping[str, tuple[Ended, ...]]
    """Counting ends of each cell; more than one is a rerun."""
    rerun: Mapping[str, Again]
    """Cells that were run again by hand, the last time."""
    scripted: bool
    bad_lines: int


def read_chronicle(runs: Runs) -> Chronicle:
    """Read the journal from its start; one that is not there tells nothing."""
    reader = JournalReader(runs.journal)
    planned: tuple[str, ...] = ()
    started: dict[str, None] = {}
    ended: dict[str, list[Ended]] = {}
    rerun: dict[str, Again] = {}
    scripted = False
    for entry in reader.new():
        scripted = scripted or entry.scripted is True
        if entry.event == "planned":
            planned = planned or entry.cells
        if entry.cell is None:
            continue
        if entry.event == "run_started":
            started.setdefault(entry.cell)
        elif entry.event == "rerun":
            rerun[entry.cell] = Again(t=entry.t, reason=entry.reason or "")
        elif entry.event in ("run_ended", "recovered") and entry.outcome in COUNTED:
            ended.setdefault(entry.cell, []).append(
                Ended(t=entry.t, outcome=entry.outcome, tokens=entry.tokens, token_reconciled=entry.token_reconciled)
            )
    return Chronicle(
        there=runs.journal.exists(),
        planned=planned,
        started=tuple(started),
        ended={cell: tuple(ends) for cell, ends in ended.items()},
        rerun=rerun,
        scripted=scripted,
        bad_lines=reader.bad_lines,
    )


def divergence(chronicle: Chronicle) -> tuple[str, ...]:
    """Where the executed order leaves the planned one: the first places, empty where it does not.

    Runs that are still to come are no divergence; a cell that was started before an earlier one was, is.
    """
    place = {cell: number for number, cell in enumerate(chronicle.planned, 1)}
    found: list[str] = []
    furthest = 0
    for number, cell in enumerate(chronicle.started, 1):
        at = place.get(cell)
        if at is None:
            found.append(f"{cell} was started and is not in the plan")
            continue
        if at < furthest:
            found.append(f"{cell} is planned as number {at} and was started as number {number}")
        furthest = max(furthest, at)
    expected = chronicle.planned[: len(chronicle.started)]
    if not found and chronicle.planned and tuple(chronicle.started) != expected:
        skipped = next(
            (cell for cell, done in zip(expected, chronicle.started, strict=False) if cell != done), expected[-1]
        )
        found.append(f"{skipped} was passed over: cells planned behind it were started")
    return tuple(found)
