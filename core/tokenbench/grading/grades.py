"""What each counted run's answer is worth, from the rule and the judges; and the opening of the mapping.

Grades name cells, so they unblind: before the mapping is opened nothing of them may reach a screen, a command or a
report beside how many are missing.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from tokenbench.clock import Clock
from tokenbench.errors import GradingError
from tokenbench.experiment.model import Cell, Loaded
from tokenbench.figures import Code, Refusal, refuse
from tokenbench.grading.blindness import is_open
from tokenbench.grading.counted import Counted, gather
from tokenbench.grading.mapping import MappedItem, lock_sha256, mapping_lock, read_mapping, write_mapping
from tokenbench.grading.mechanical import Stage
from tokenbench.grading.queue import Candidate, candidates, extend_queue, items_by_cell, items_of, suspended_questions
from tokenbench.grading.verdicts import Decision, log_state
from tokenbench.grading.verdicts import judges as judges_of
from tokenbench.grading.votes import Vote, Votes, deciding, majority, read_votes
from tokenbench.runner.journal import Journal
from tokenbench.transcripts.evidence import Runs


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer is worth."""

    result: Decision | None
    """None: not judged yet, or not to be judged (quarantined)."""
    stage: Stage
    by: Literal["rule", "judges"] | None
    votes: tuple[Vote, ...] = ()
    """All standing verdicts, also those that did not decide."""
    refusals: tuple[Refusal, ...] = ()
    """JUDGES-DISAGREE, NOT-BLIND, RULE-SUSPENDED, UNGRADED with what is stale, QUARANTINED."""

    def refused(self, code: Code) -> bool:
        """Whether this code is among the refusals."""
        return any(refusal.code == code for refusal in self.refusals)


class Grading(msgspec.Struct, frozen=True, kw_only=True):
    """All grades, with what was wrong in the files they were read from."""

    grades: Mapping[Cell, Grade]
    votes: Votes
    suspended: frozenset[str]
    """Questions whose rule no longer decides."""

    @property
    def unjudged(self) -> tuple[Cell, ...]:
        """Cells whose answers wait for a judge."""
        return tuple(
            cell for cell, grade in self.grades.items() if grade.result is None and not grade.refused(Code.QUARANTINED)
        )


def grades(loaded: Loaded, counted: Counted | None = None) -> dict[Cell, Grade]:
    """The grade of each counted run. Writes nothing.

    Raises:
        GradingError: blind.json is damaged.
    """
    return dict(grade_all(loaded, counted).grades)


def grade_all(loaded: Loaded, counted: Counted | None = None) -> Grading:
    """The grade of each counted run, and what the files of the judges hold beside.

    Raises:
        GradingError: blind.json is damaged.
    """
    runs = Runs(loaded.runs)
    counted = counted or gather(loaded)
    answers = candidates(loaded, counted)
    mapping = read_mapping(runs)
    votes = read_votes(runs, items_of(mapping, answers), mapping)
    suspended = suspended_questions(runs, mapping, answers)
    items = items_by_cell(mapping, answers)
    found: dict[Cell, Grade] = {}
    for cell, run in counted.runs.items():
        if run.quarantined:
            refusals = tuple(r for r in run.record.refusals if r.code == Code.QUARANTINED)
            found[cell] = Grade(
                result=None, stage="NO-ANSWER", by=None, refusals=refusals or (refuse(Code.QUARANTINED, cell.name),)
            )
        else:
            found[cell] = _grade(answers[cell], items.get(cell), votes, suspended)
    return Grading(grades=found, votes=votes, suspended=suspended)


def _grade(one: Candidate, item: MappedItem | None, votes: Votes, suspended: frozenset[str]) -> Grade:
    stage = one.assessment.stage
    if stage == "NO-ANSWER":
        # It counts, and it is not correct: a limit that was reached is the agent's failure.
        return Grade(result="wrong", stage=stage, by="rule")
    if stage == "ABSTAINED":
        return Grade(result="abstained", stage=stage, by="rule")
    if item is None:
        rule_decides = stage == "FAIL" and one.cell.question not in suspended
        return Grade(result="wrong" if rule_decides else None, stage=stage, by="rule" if rule_decides else None)
    return _judged(one, votes.of(item.id), suspended)


def _judged(one: Candidate, votes: tuple[Vote, ...], suspended: frozenset[str]) -> Grade:
    name = one.cell.name
    decide = deciding(votes)
    result = majority(decide)
    refusals: list[Refusal] = []
    if one.assessment.stage == "FAIL" and one.cell.question in suspended:
        refusals.append(refuse(Code.RULE_SUSPENDED, one.cell.question))
    for vote in votes:
        if vote.stale:
            changed = " and ".join(vote.stale)
            refusals.append(
                refuse(
                    Code.UNGRADED,
                    name,
                    reason=f"The verdict of {vote.judge} is stale: the {changed} it was given on has changed",
                )
            )
    if decide and not all(vote.blind for vote in decide):
        judges = ", ".join(vote.judge for vote in decide)
        refusals.append(refuse(Code.NOT_BLIND, name, f"judged by {judges}"))
    if result == "unknown":
        said = ", ".join(f"{vote.judge} {vote.verdict}" for vote in decide)
        split = len({vote.verdict for vote in decide} - {"unknown"}) > 1
        reason = None if split else "No judge could say what this answer is worth, so it counts neither way"
        refusals.append(refuse(Code.JUDGES_DISAGREE, name, said, reason=reason))
    return Grade(
        result=result,
        stage=one.assessment.stage,
        by=None if result is None else "judges",
        votes=votes,
        refusals=tuple(refusals),
    )


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """What stood when the mapping was opened."""

    items: int
    unjudged: int
    missing: int
    """Cells without a run that counts."""
    judges: tuple[str, ...]


def lock_and_open(loaded: Loaded, clock: Clock, *, force: bool = False) -> Opening:
    """Lock the queue and open the mapping, once and for all; both are journal lines.

    From here on the figures may be shown, and no verdict is blind any more.

    Args:
        loaded: The experiment.
        clock: Stamps the journal lines.
        force: Open although answers are unjudged or cells have no run yet; what is judged later is NOT-BLIND.

    Raises:
        GradingError: It is open already, there is nothing to open, or something is unjudged or missing.
        RunsError: The files cannot be written.
    """
    runs = Runs(loaded.runs)
    counted = gather(loaded)
    if is_open(runs):
        raise GradingError(
            "the mapping is open already", where=str(runs.journal), remedy="Look at the figures in the Matrix"
        )
    if not counted.runs:
        raise GradingError(
            "no run has ended yet, so there is nothing to open",
            where=str(runs.folder),
            remedy="Run the experiment first: `tokenbench-tui run`",
        )
    queue = extend_queue(loaded, counted=counted, everything=True)
    grading = grade_all(loaded, counted)
    waiting = {
        item.id for item in queue.mapping.items if item.id in queue.items and not deciding(grading.votes.of(item.id))
    }
    missing = counted.missing
    if (waiting or missing) and not force:
        raise GradingError(_not_ready(len(waiting), len(missing)), where=str(runs.folder), remedy=_MEND)
    journal = Journal(runs.journal, clock)
    judges = grading.votes.judges
    journal.write(
        "queue_locked",
        reason=f"{len(queue.items)} items, judged by {', '.join(judges) or 'nobody'}"
        + (f"; {len(waiting)} unjudged and {len(missing)} cells without a run, forced" if waiting or missing else ""),
    )
    with mapping_lock(runs):
        mapping = read_mapping(runs)
        if mapping is None:
            raise GradingError("the mapping is gone", where=str(runs.blind), remedy="Restore it from a copy of runs/")
        if mapping.locked is None:
            # A lock is never renewed: were the journal's line of the opening taken out, later verdicts would pass for
            # blind at a second one.
            states = {judge: log_state(runs.verdicts / f"{judge}.jsonl") for judge in judges_of(runs)}
            mapping = msgspec.structs.replace(mapping, locked=states)
            write_mapping(runs, mapping)
        lock = lock_sha256(mapping.locked or {})
    journal.write("mapping_opened", reason=f"sha256 of the mapping: {log_state(runs.blind).sha256}", lock_sha256=lock)
    return Opening(items=len(queue.items), unjudged=len(waiting), missing=len(missing), judges=judges)


_MEND = (
    "Judge what is left and finish the runs, then open; or force it (`tokenbench-tui grade --open --force`), after "
    "which no verdict is blind any more"
)


def _not_ready(waiting: int, missing: int) -> str:
    parts: list[str] = []
    if waiting:
        parts.append("1 answer waits for a judge" if waiting == 1 else f"{waiting} answers wait for a judge")
    if missing:
        parts.append("1 cell has no run yet" if missing == 1 else f"{missing} cells have no run yet")
    return "the mapping stays closed: " + " and ".join(parts)
