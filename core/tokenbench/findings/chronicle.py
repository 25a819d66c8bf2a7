"""What the journal tells about the order, the repetition and the loss of runs."""

from collections.abc import Mapping

import msgspec

from tokenbench.ledger.model import Tokens
from tokenbench.runner.journal import JournalReader
from tokenbench.transcripts.evidence import COUNTED, Runs


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A run that counted when its journal line was written."""

    t: float
    attempt: int | None
    """None where the journal is of a version that does not say."""
    outcome: str
    tokens: Tokens | None
    token_reconciled: bool | None
    transcript_sha256: str | None
    """None where the journal is of a version that does not say."""


class Again(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody had a cell run again."""

    t: float
    reason: str
    kept: int | None = None
    """The number of the attempt as which the run is kept that had counted; None where none had."""
    transcript_sha256: str | None = None
    """Of the run that had counted."""
    opened: bool = False
    """Whether the mapping was open, so that the grade of the run could be known."""
    started: bool = False
    """Whether the cell was started since."""


class Chronicle(msgspec.Struct, frozen=True, kw_only=True):
    """The journal of an experiment, as far as figures depend on it."""

    there: bool
    planned: tuple[str, ...]
    """Cells in the planned order, of the first plan."""
    started: tuple[str, ...]
    """Cells in the order of their first start."""
    ended: Mapping[str, tuple[Ended, ...]]
    """Counting ends of each cell; more than one is a rerun."""
    rerun: Mapping[str, tuple[Again, ...]]
    """Cells that were run again by hand, each time."""
    cut_off: Mapping[str, int]
    """Attempts of each cell that ended without a result: killed, or crashed. Whoever kills a run that looks dear gets
    another one, so they are told."""
    scripted: bool
    bad_lines: int


def read_chronicle(runs: Runs) -> Chronicle:
    """Read the journal from its start; one that is not there tells nothing."""
    reader = JournalReader(runs.journal)
    planned: tuple[str, ...] = ()
    started: dict[str, None] = {}
    ended: dict[str, list[Ended]] = {}
    rerun: dict[str, list[Again]] = {}
    cut_off: dict[str, int] = {}
    scripted, opened = False, False
    for entry in reader.new():
        scripted = scripted or entry.scripted is True
        opened = opened or entry.event == "mapping_opened"
        if entry.event == "planned":
            planned = planned or entry.cells
        if entry.cell is None:
            continue
        if entry.event in ("attempt_failed", "recovered") and entry.outcome == "no_result":
            cut_off[entry.cell] = cut_off.get(entry.cell, 0) + 1
        if entry.event == "run_started":
            started.setdefault(entry.cell)
            for again in rerun.get(entry.cell, [])[-1:]:
                rerun[entry.cell][-1] = msgspec.structs.replace(again, started=True)
        elif entry.event == "rerun":
            rerun.setdefault(entry.cell, []).append(
                Again(
                    t=entry.t,
                    reason=entry.reason or "",
                    kept=entry.attempt,
                    transcript_sha256=entry.transcript_sha256,
                    opened=opened,
                )
            )
        elif entry.event in ("run_ended", "recovered") and entry.outcome in COUNTED:
            ended.setdefault(entry.cell, []).append(
                Ended(
                    t=entry.t,
                    attempt=entry.attempt,
                    outcome=entry.outcome,
                    tokens=entry.tokens,
                    token_reconciled=entry.token_reconciled,
                    transcript_sha256=entry.transcript_sha256,
                )
            )
    return Chronicle(
        there=runs.journal.exists(),
        planned=planned,
        started=tuple(started),
        ended={cell: tuple(ends) for cell, ends in ended.items()},
        rerun={cell: tuple(agains) for cell, agains in rerun.items()},
        cut_off=cut_off,
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
