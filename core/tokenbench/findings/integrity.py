"""Whether the files are those that the runs left: the seal, the hashes of the transcripts, the journal's own memory.

What is checked here holds against a slip, and against whoever changes one file. Somebody who rewrites transcript,
record and journal together, consistently, leaves no trace in them: against that only a copy in other hands helps.
"""

import msgspec

from tokenbench.errors import RunsError
from tokenbench.experiment import composition
from tokenbench.experiment import seal as seals
from tokenbench.experiment.model import Cell, Loaded
from tokenbench.findings.chronicle import Chronicle
from tokenbench.grading.counted import Counted, CountedRun
from tokenbench.ledger.build import SCRIPTED_PREFIX
from tokenbench.runner.lock import living_owner
from tokenbench.transcripts.evidence import Runs


class Integrity(msgspec.Struct, frozen=True, kw_only=True):
    """What was found."""

    seal: seals.Seal | None
    seal_sha256: str | None
    breaks: tuple[str, ...]
    """Sentences, each naming a file and what is wrong with it; empty where everything is as it was."""
    scripted: tuple[str, ...]
    """Where it stands that the model was scripted; empty where nothing says so."""


def examine(loaded: Loaded, counted: Counted, chronicle: Chronicle) -> Integrity:
    """Compare the experiment with its seal, its records and its journal."""
    runs = Runs(loaded.runs)
    breaks: list[str] = []
    seal: seals.Seal | None = None
    digest: str | None = None
    if runs.seal.exists():
        try:
            seal = seals.read(runs.seal)
            digest = seals.digest(runs.seal)
            breaks.extend(seals.differences(seal, seals.as_it_lies(seal, loaded)))
        except RunsError as error:
            breaks.append(str(error))
    elif counted.runs:
        breaks.append("seal.json is gone, and runs are there")
    breaks.extend(_composition_breaks(runs, seal))
    breaks.extend(_calibration_breaks(runs, seal))
    working = living_owner(runs.lock) is not None
    if counted.runs and not chronicle.there:
        breaks.append("journal.jsonl is gone, and runs are there")
    for cell, run in counted.runs.items():
        breaks.extend(_run_breaks(run, digest))
        if chronicle.there:
            breaks.extend(_against_journal(cell, run, chronicle, working))
    for name in chronicle.ended:
        breaks.extend(_lost(name, counted, chronicle))
    if not working:
        breaks.extend(_set_aside_breaks(counted, chronicle))
    breaks.extend(f"{name} is a run of no cell of the plan" for name in counted.strangers)
    return Integrity(
        seal=seal,
        seal_sha256=digest,
        breaks=tuple(breaks),
        scripted=_scripted(runs, seal, counted, chronicle),
    )


def _composition_breaks(runs: Runs, seal: seals.Seal | None) -> list[str]:
    """What stands beside every ratio has to be of the corpus that the questions were put to."""
    try:
        measured = composition.read(runs.composition)
    except RunsError:
        # Damaged is as good as missing: NO-COMPOSITION says so.
        return []
    if measured is None or seal is None or measured.corpus_sha256 == seal.corpus_sha256:
        return []
    return ["composition.json is of another corpus than the sealed one"]


def _calibration_breaks(runs: Runs, seal: seals.Seal | None) -> list[str]:
    """A calibration that was sealed has to be there as it was; one that was made later is in no seal."""
    if seal is None or seal.calibration_sha256 is None:
        return []
    if not runs.calibration.exists():
        return ["calibration.json was sealed and is gone"]
    return [] if seals.digest(runs.calibration) == seal.calibration_sha256 else ["calibration.json has changed"]


def _run_breaks(run: CountedRun, seal_sha256: str | None) -> list[str]:
    name = run.cell.name
    found: list[str] = []
    if run.sha256 != run.record.transcript_sha256:
        found.append(
            f"{name}.jsonl is not what the run wrote: sha256 {run.sha256[:12]}…, recorded was "
            f"{run.record.transcript_sha256[:12]}…"
        )
    if seal_sha256 is not None and run.record.seal != seal_sha256:
        found.append(f"{name}.json was recorded under another seal ({run.record.seal[:12]}…)")
    return found


def _against_journal(cell: Cell, run: CountedRun, chronicle: Chronicle, working: bool) -> list[str]:
    """The journal noted what a run wrote and cost when it ended: against whoever edits transcript and record."""
    ends = chronicle.ended.get(cell.name)
    # The runner writes the line after the record: for a moment a run under its hands has none, or an earlier run's.
    if not ends:
        return [] if working else [f"{cell.name} has a record, and the journal does not know that the run ended"]
    last = ends[-1]
    found: list[str] = []
    if last.attempt is not None and last.attempt != run.record.attempt:
        if working:
            return []
        found.append(
            f"{cell.name} is attempt {run.record.attempt} by its record, and by the journal attempt {last.attempt} "
            "was the last that counted"
        )
    if last.transcript_sha256 is not None and last.transcript_sha256 != run.record.transcript_sha256:
        found.append(
            f"{cell.name}.jsonl is not what the run wrote by the journal: sha256 {last.transcript_sha256[:12]}…, its "
            f"record says {run.record.transcript_sha256[:12]}…"
        )
    if last.outcome != run.record.outcome:
        found.append(f"{cell.name} ended as {last.outcome} by the journal and as {run.record.outcome} by its record")
    known = run.ledger.tokens
    if last.token_reconciled is True and last.tokens is not None and known is not None and last.tokens != known:
        found.append(
            f"{cell.name} cost {last.tokens.total:,} tokens when it ended, and its transcript now says {known.total:,}"
        )
    return found


def _lost(name: str, counted: Counted, chronicle: Chronicle) -> list[str]:
    """A run that ended, by the journal, and whose files are not there."""
    try:
        cell = Cell.parse(name)
    except ValueError:
        return []
    if cell in counted.runs:
        return []
    last = chronicle.ended[name][-1]
    if any(again.t >= last.t for again in chronicle.rerun.get(name, ())):
        return []
    cost = f", {last.tokens.total:,} tokens" if last.tokens is not None else ""
    what = counted.broken.get(cell, "its files are gone")
    return [f"{name} ended ({last.outcome}{cost}) by the journal: {what}"]


def _set_aside_breaks(counted: Counted, chronicle: Chronicle) -> list[str]:
    """Runs that were set aside for another one: each is kept as it was, and none of them counts again."""
    found: list[str] = []
    attempts = {attempt.name: attempt for attempt in counted.attempts}
    standing = {cell.name: run.record.attempt for cell, run in counted.runs.items()}
    for name, agains in chronicle.rerun.items():
        for again in agains:
            if again.kept is None:
                continue
            kept = f"{name}__a{again.kept}"
            attempt = attempts.get(kept)
            stands = standing.get(name, again.kept + 1) <= again.kept
            if stands and not again.started:
                # A crash came between the journal's line and the move; the next runner finishes it.
                continue
            if stands:
                found.append(f"{name} was set aside to be run again, and it counts all the same")
            if attempt is None:
                found.append(f"{kept} is gone: the run of {name} that was set aside to be run again")
            elif again.transcript_sha256 is not None and attempt.sha256 != again.transcript_sha256:
                found.append(
                    f"{kept}.jsonl is not what the run wrote: sha256 {attempt.sha256[:12]}…, by the journal "
                    f"{again.transcript_sha256[:12]}…"
                )
    return found


def _scripted(runs: Runs, seal: seals.Seal | None, counted: Counted, chronicle: Chronicle) -> tuple[str, ...]:
    found: list[str] = []
    if runs.wire.exists():
        found.append(f"{runs.wire.name} holds what the scripted API served")
    if seal is not None and seal.scripted:
        found.append("seal.json says that the model is scripted")
    if chronicle.scripted:
        found.append("journal.jsonl says that the model is scripted")
    recorded = [run.cell.name for run in counted.runs.values() if run.record.scripted]
    if recorded:
        found.append(f"{len(recorded)} records say that the model was scripted, {recorded[0]} among them")
    served = [run.cell.name for run in counted.runs.values() if served_by_script(run)]
    if served:
        found.append(f"{len(served)} transcripts hold message ids of the scripted API, {served[0]} among them")
    return tuple(found)


def served_by_script(run: CountedRun) -> bool:
    """Whether a message of the transcript came from the scripted API."""
    return any(call.message_id.startswith(SCRIPTED_PREFIX) for call in run.ledger.call_rows)
