"""The blind queue: which answers wait for judges, and in which order each judge gets them.

An answer is queued when its question and repeat is through in all arms: were each answer queued as its run ends, a
judge who watches the runs would know whose it is.
"""

import math
import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from tokenbench.experiment.model import Cell, Loaded, Question
from tokenbench.grading.counted import Counted, gather
from tokenbench.grading.items import BlindItem
from tokenbench.grading.mapping import (
    BlindMapping,
    MappedItem,
    Why,
    mapping_lock,
    new_mapping,
    read_mapping,
    write_mapping,
)
from tokenbench.grading.masking import Masked, mask
from tokenbench.grading.mechanical import Assessment, assess
from tokenbench.grading.votes import overturns, read_votes
from tokenbench.runner.journal import JournalReader
from tokenbench.transcripts.evidence import Runs

CANARY_NOTE: Final = (
    "Canary: the answer is not in the corpus. An answer that says so is `abstained`; one that asserts anything else "
    "is an attempt, `correct` or `wrong`."
)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a counted run, with what the mechanical stage says of it. Secret: it names the cell."""

    cell: Cell
    assessment: Assessment
    item: BlindItem
    """As a judge would see it; its id is empty."""

    @property
    def key(self) -> tuple[str, str]:
        """Two answers with the same key are the same answer."""
        return self.item.question, self.item.seen.answer


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """The queue as it stands."""

    mapping: BlindMapping
    items: Mapping[str, BlindItem]
    """By id; an item whose answer is no longer what was queued is not here."""

    def for_judge(self, judge: str) -> tuple[BlindItem, ...]:
        """The judge's own order, which nobody can derive without the secret."""
        return tuple(sorted(self.items.values(), key=lambda item: self.mapping.keyed("order", judge, item.id)))


def candidate(loaded: Loaded, counted: Counted, cell: Cell) -> Candidate | None:
    """The answer of a cell as it would be judged; None where no run of the cell counts, or it was quarantined."""
    run = counted.runs.get(cell)
    if run is None or run.quarantined:
        return None
    question = loaded.question(cell.question)
    announced = run.ledger.announced.folder if run.ledger.announced is not None else None
    masked = mask(
        run.answer or "",
        subject="\n".join((question.text, question.truth, question.judge_note)),
        folders=[folder for folder in (run.record.folder, announced) if folder],
    )
    return Candidate(cell=cell, assessment=_assess(question, run.answer), item=blind_item("", question, masked))


@lru_cache(maxsize=1 << 14)
def _assess(question: Question, answer: str | None) -> Assessment:
    """The mechanical stage, once for each answer: screens ask again and again."""
    return assess(question, answer)


def blind_item(item_id: str, question: Question, masked: Masked) -> BlindItem:
    """What a judge sees of an answer."""
    notes = (CANARY_NOTE if question.question_class == "canary" else "", question.judge_note)
    return BlindItem(
        id=item_id,
        question=question.id,
        question_class=question.question_class,
        text=question.text,
        truth=question.truth,
        note="\n".join(note for note in notes if note),
        answer=masked.text,
        masked=masked.count,
    )


def candidates(loaded: Loaded, counted: Counted) -> dict[Cell, Candidate]:
    """The answers of all counted runs."""
    found = ((cell, candidate(loaded, counted, cell)) for cell in counted.planned)
    return {cell: one for cell, one in found if one is not None}


def items_of(mapping: BlindMapping | None, answers: Mapping[Cell, Candidate]) -> dict[str, BlindItem]:
    """The items of a mapping, filled with the answers as they are now."""
    by_name = {cell.name: one for cell, one in answers.items()}
    items: dict[str, BlindItem] = {}
    for mapped in mapping.items if mapping is not None else ():
        for name in mapped.cells:
            one = by_name.get(name)
            if one is not None and one.key == (mapped.question, mapped.answer):
                items[mapped.id] = msgspec.structs.replace(one.item, id=mapped.id)
                break
    return items


def items_by_cell(mapping: BlindMapping | None, answers: Mapping[Cell, Candidate]) -> dict[Cell, MappedItem]:
    """The item that stands for each cell's answer as it is now; secret."""
    found: dict[Cell, MappedItem] = {}
    by_name = {cell.name: one for cell, one in answers.items()}
    for mapped in mapping.items if mapping is not None else ():
        for name in mapped.cells:
            one = by_name.get(name)
            if one is not None and one.key == (mapped.question, mapped.answer):
                found[one.cell] = mapped
    return found


def read_queue(loaded: Loaded, counted: Counted | None = None) -> Queue | None:
    """The queue as it was last extended; None where none was made yet. Writes nothing."""
    mapping = read_mapping(Runs(loaded.runs))
    if mapping is None:
        return None
    return Queue(mapping=mapping, items=items_of(mapping, candidates(loaded, counted or gather(loaded))))


def extend_queue(loaded: Loaded, *, counted: Counted | None = None, everything: bool = False) -> Queue:
    """Queue what has come to wait for judges since the last time. Items that are there keep their ids.

    Args:
        loaded: The experiment.
        counted: Its runs, if the caller has just read them.
        everything: Also queue answers whose question and repeat is not through in all arms.

    Raises:
        GradingError: blind.json is damaged.
        RunsError: It cannot be written.
    """
    runs = Runs(loaded.runs)
    counted = counted or gather(loaded)
    answers = candidates(loaded, counted)
    with mapping_lock(runs):
        before = read_mapping(runs)
        mapping = before or new_mapping()
        through = answers.keys() if everything else _through(counted, _given_up(runs))
        ripe = [one for cell, one in answers.items() if cell in through]
        mapping = _with(mapping, [one for one in ripe if one.assessment.stage == "NEEDS-JUDGE"], "needs_judge")
        failed = [one for one in ripe if one.assessment.stage == "FAIL"]
        mapping = _with(mapping, _audited(mapping, failed, loaded.config.grading.audit_share), "audit")
        suspended = suspended_questions(runs, mapping, answers)
        mapping = _with(mapping, [one for one in failed if one.cell.question in suspended], "rule_suspended")
        if mapping != before:
            write_mapping(runs, mapping)
    return Queue(mapping=mapping, items=items_of(mapping, answers))


def suspended_questions(runs: Runs, mapping: BlindMapping | None, answers: Mapping[Cell, Candidate]) -> frozenset[str]:
    """Questions whose rule no longer decides, because a judge overturned one of its FAILs."""
    if mapping is None:
        return frozenset()
    votes = read_votes(runs, items_of(mapping, answers), mapping)
    return frozenset(item.question for item in mapping.items if item.why == "audit" and overturns(votes.of(item.id)))


def _with(mapping: BlindMapping, ones: Sequence[Candidate], why: Why) -> BlindMapping:
    """The mapping with these answers in it; identical answers share an item."""
    items = {item.id: item for item in mapping.items}
    judged = why == "needs_judge"
    by_key = {(item.question, item.answer): item.id for item in mapping.items if (item.why == "needs_judge") == judged}
    for one in ones:
        known = by_key.get(one.key)
        if known is None:
            known = secrets.token_hex(8)
            by_key[one.key] = known
            items[known] = MappedItem(id=known, question=one.key[0], answer=one.key[1], cells=(), why=why)
        if one.cell.name not in items[known].cells:
            items[known] = msgspec.structs.replace(items[known], cells=(*items[known].cells, one.cell.name))
    return msgspec.structs.replace(mapping, items=tuple(items[key] for key in sorted(items)))


def _audited(mapping: BlindMapping, failed: Sequence[Candidate], share: float) -> list[Candidate]:
    """The secret sample of the FAILs: of the different answers, the share (rounded up) with the smallest keyed hash.

    As more runs end the sample grows; what was drawn before stays in the queue.
    """
    keys = sorted({one.key for one in failed}, key=lambda key: mapping.keyed("audit", *key))
    drawn = set(keys[: math.ceil(share * len(keys))])
    drawn.update((item.question, item.answer) for item in mapping.items if item.why == "audit")
    return [one for one in failed if one.key in drawn]


def _given_up(runs: Runs) -> frozenset[str] | None:
    """Cells that will get no run that counts; None where no runner is at work, so that no cell will."""
    working = False
    given_up: set[str] = set()
    for entry in JournalReader(runs.journal).new():
        if entry.event in ("runner_started", "runner_ended"):
            working = entry.event == "runner_started"
        elif entry.event in ("gave_up", "cancelled") and entry.cell is not None:
            given_up.add(entry.cell)
        elif entry.event in ("rerun", "run_started") and entry.cell is not None:
            given_up.discard(entry.cell)
    return frozenset(given_up) if working else None


def _through(counted: Counted, given_up: frozenset[str] | None) -> set[Cell]:
    """Cells whose question and repeat is through in all arms, or will get no further."""
    if given_up is None:
        return set(counted.planned)
    open_blocks = {
        (cell.question, cell.repeat)
        for cell in counted.planned
        if cell not in counted.runs and cell.name not in given_up
    }
    return {cell for cell in counted.planned if (cell.question, cell.repeat) not in open_blocks}
