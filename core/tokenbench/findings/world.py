"""Everything that figures are computed from, read once from the experiment's files."""

from collections.abc import Iterable, Mapping
from functools import cached_property

from tokenbench.errors import RunsError
from tokenbench.experiment import composition
from tokenbench.experiment.composition import Composition
from tokenbench.experiment.model import Cell, Loaded, Question
from tokenbench.figures import MEANINGS, RERUN_COMMAND, Code, Refusal, refuse
from tokenbench.findings.chronicle import Again, Chronicle, divergence, read_chronicle
from tokenbench.findings.integrity import Integrity, examine
from tokenbench.grading.blindness import is_open
from tokenbench.grading.counted import LEDGERS, Counted, CountedRun, Ledgers, gather
from tokenbench.grading.grades import Grade, Grading, grade_all
from tokenbench.transcripts.evidence import Runs

SHOWN = 12
"""Cells that a refusal names before it counts the rest."""
_COST_CODES = frozenset({Code.COST_UNRECONCILED, Code.PRICE_UNKNOWN})


def named(cells: "list[str] | tuple[str, ...]") -> tuple[str, ...]:
    """The first ones and how many more there are, as evidence."""
    more = len(cells) - SHOWN
    return (*cells[:SHOWN], f"and {more} more") if more > 0 else tuple(cells)


class World:
    """An experiment's runs, grades, seal and journal, and why a number over some of its cells cannot be given.

    Args:
        loaded: The experiment.
        ledgers: What this process has read already.

    Raises:
        GradingError: blind.json is damaged.
    """

    def __init__(self, loaded: Loaded, ledgers: Ledgers = LEDGERS) -> None:
        self.loaded = loaded
        self.paths = Runs(loaded.runs)
        # The journal is read after the records: a run that ends in between is in the journal at least.
        self.counted: Counted = gather(loaded, ledgers)
        self.chronicle: Chronicle = read_chronicle(self.paths)
        self.opened = is_open(self.paths)
        self.grading: Grading = grade_all(loaded, self.counted)
        self.integrity: Integrity = examine(loaded, self.counted, self.chronicle)
        self.composition: Composition | None = _read_composition(self.paths)
        experiment = loaded.config.experiment
        self.baseline = experiment.baseline
        first = [arm for arm in (experiment.baseline, experiment.headline_arm) if arm in loaded.config.arms]
        self.arms: tuple[str, ...] = tuple(dict.fromkeys((*first, *loaded.config.arms)))
        """Baseline first, headline arm second, then as they stand in tokenbench.toml."""
        self.questions: Mapping[str, Question] = {question.id: question for question in loaded.questions}

    @cached_property
    def divergences(self) -> tuple[str, ...]:
        """Where the executed order left the planned one."""
        return divergence(self.chronicle)

    @cached_property
    def reruns(self) -> Mapping[str, str]:
        """Cells that somebody had run again, of which a run was cut off, or that had more than one run that counted."""
        found = {name: _told(name, agains) for name, agains in self.chronicle.rerun.items()}
        for name, number in self.chronicle.cut_off.items():
            times = "a run of it was" if number == 1 else f"{number} runs of it were"
            found.setdefault(name, f"{times} cut off without a result, and it was started again (kept in attempts/)")
        for name, ends in self.chronicle.ended.items():
            if len(ends) > 1:
                found.setdefault(name, f"ended {len(ends)} times by the journal")
        return dict(sorted(found.items()))

    def cells(self, arm: str, *, canaries: bool = True) -> tuple[Cell, ...]:
        """The planned cells of an arm."""
        cells = self._by_arm.get(arm, ())
        return cells if canaries else tuple(cell for cell in cells if not self.is_canary(cell))

    def cells_on(self, arm: str, questions: Iterable[str]) -> tuple[Cell, ...]:
        """The planned cells of an arm on some questions, question by question."""
        return tuple(cell for question in questions for cell in self._by_question.get((arm, question), ()))

    @cached_property
    def _by_arm(self) -> Mapping[str, tuple[Cell, ...]]:
        found: dict[str, list[Cell]] = {}
        for cell in self.counted.planned:
            found.setdefault(cell.arm, []).append(cell)
        return {arm: tuple(cells) for arm, cells in found.items()}

    @cached_property
    def _by_question(self) -> Mapping[tuple[str, str], tuple[Cell, ...]]:
        found: dict[tuple[str, str], list[Cell]] = {}
        for cell in self.counted.planned:
            found.setdefault((cell.arm, cell.question), []).append(cell)
        return {key: tuple(cells) for key, cells in found.items()}

    @cached_property
    def _unjudged(self) -> frozenset[Cell]:
        return frozenset(self.grading.unjudged)

    def is_canary(self, cell: Cell) -> bool:
        """Whether the answer is not in the corpus."""
        return self.questions[cell.question].question_class == "canary"

    def run(self, cell: Cell) -> CountedRun:
        """The run of a cell that has one."""
        return self.counted.runs[cell]

    def tokens(self, cell: Cell) -> int:
        """Tokens of a token-reconciled run."""
        tokens = self.run(cell).ledger.tokens
        assert tokens is not None, "asked for the tokens of a refused run"
        return tokens.total

    def grade(self, cell: Cell) -> Grade:
        """The grade of a cell that has a run."""
        return self.grading.grades[cell]

    def is_correct(self, cell: Cell) -> bool:
        """Whether it adds a correct answer to the headline; a canary never does."""
        return not self.is_canary(cell) and self.grade(cell).result == "correct"

    def is_unknown(self, cell: Cell) -> bool:
        """Whether it may or may not be one."""
        return not self.is_canary(cell) and self.grade(cell).result == "unknown"

    @cached_property
    def seal_broken(self) -> Refusal | None:
        """SEAL-BROKEN, if anything is not as it was."""
        breaks = self.integrity.breaks
        if not breaks:
            return None
        return refuse(Code.SEAL_BROKEN, *named(breaks), reason=f"{breaks[0]}")

    def incomplete(self, cells: "tuple[Cell, ...]") -> Refusal | None:
        """INCOMPLETE, if a cell has no run that counts."""
        missing = [cell for cell in cells if cell not in self.counted.runs]
        if not missing:
            return None
        names = [
            f"{cell.name}: {self.counted.broken[cell]}" if cell in self.counted.broken else cell.name
            for cell in missing
        ]
        return refuse(
            Code.INCOMPLETE,
            *named(names),
            reason=f"{len(missing)} of {len(cells)} cells have no run that counts",
            remedy="Finish the rehearsal with `tokenbench-tui rehearse`" if self.scripted else None,
        )

    @property
    def scripted(self) -> bool:
        """Whether the experiment was sealed as a rehearsal."""
        return self.integrity.seal is not None and self.integrity.seal.scripted

    def remedy(self, remedy: str, cell: Cell) -> str:
        """A remedy that tells to run a cell again, with the command that does it to this one."""
        command = "rehearse" if self.scripted else "run"
        return remedy.replace(RERUN_COMMAND, f"`tokenbench-tui {command} --rerun {cell.name}`")

    def quarantined(self, cells: "tuple[Cell, ...]") -> Refusal | None:
        """QUARANTINED, if a run was no instance of its arm."""
        found = [cell for cell in cells if cell in self.counted.runs and self.run(cell).quarantined]
        if not found:
            return None
        evidence = [
            f"{cell.name}: {detail}"
            for cell in found
            for refusal in self.run(cell).record.refusals or (refuse(Code.QUARANTINED),)
            for detail in (refusal.evidence or (refusal.reason,))
        ]
        count = "A run was" if len(found) == 1 else f"{len(found)} runs were"
        return refuse(
            Code.QUARANTINED,
            *named(evidence),
            reason=f"{count} no instance of the arm",
            remedy=self.remedy(MEANINGS[Code.QUARANTINED].remedy, found[0]),
        )

    def unreconciled(self, cells: "tuple[Cell, ...]") -> Refusal | None:
        """The code of the first run whose tokens are refused, with all runs that it refuses."""
        refused = [
            cell
            for cell in cells
            if cell in self.counted.runs and not self.run(cell).quarantined and not self._has_tokens(cell)
        ]
        if not refused:
            return None
        first = self.run_refusal(refused[0])
        same = [cell.name for cell in refused if self.run_refusal(cell).code == first.code]
        others = len(refused) - len(same)
        evidence = (*named(same), *first.evidence)
        if others:
            evidence = (*evidence, f"{others} more runs are refused for other reasons")
        runs = "1 run is" if len(same) == 1 else f"{len(same)} runs are"
        remedy = self.remedy(first.remedy, refused[0])
        return refuse(first.code, *evidence, reason=f"{runs} refused. {first.reason}", remedy=remedy)

    def _has_tokens(self, cell: Cell) -> bool:
        ledger = self.run(cell).ledger
        return ledger.token_reconciled is True and ledger.tokens is not None

    def run_refusal(self, cell: Cell) -> Refusal:
        """Why a run has no tokens: the first of its own refusals that is not about dollars."""
        for refusal in self.run(cell).ledger.refusals:
            if refusal.code not in _COST_CODES:
                return refusal
        return refuse(Code.CALLS_UNRECONCILED, cell.name, reason="The run's tokens were not reconciled")

    def ungraded(self, cells: "tuple[Cell, ...]") -> Refusal | None:
        """UNGRADED, if an answer waits for a judge or the mapping is closed.

        While it is closed the sentence is one for all arms: how many answers of which arm wait would tell a judge
        whose they are.
        """
        waiting = len(self._unjudged)
        if not self.opened:
            if waiting or not self.counted.runs:
                reason = "1 answer waits for a judge" if waiting == 1 else f"{waiting} answers wait for a judge"
                return refuse(Code.UNGRADED, reason=reason)
            return refuse(
                Code.UNGRADED,
                reason="Every answer is judged, and the mapping of answers to arms is still closed",
                remedy="Open it in the Grade screen, or with `tokenbench-tui grade --open`",
            )
        mine = [cell.name for cell in cells if cell in self._unjudged]
        if not mine:
            return None
        stale = [
            refusal.reason
            for cell in cells
            if cell in self.grading.grades
            for refusal in self.grade(cell).refusals
            if refusal.code == Code.UNGRADED
        ]
        reason = "1 answer was never judged" if len(mine) == 1 else f"{len(mine)} answers were never judged"
        return refuse(Code.UNGRADED, *named([*mine, *stale]), reason=reason)

    def not_blind(self, cells: "tuple[Cell, ...]") -> Refusal | None:
        """NOT-BLIND, if a grade rests on verdicts of somebody who could know the arm."""
        found = [
            cell.name for cell in cells if cell in self.grading.grades and self.grade(cell).refused(Code.NOT_BLIND)
        ]
        if not found:
            return None
        answers = "1 answer was" if len(found) == 1 else f"{len(found)} answers were"
        # Cells beside verdicts would unblind those who still judge.
        evidence = named(found) if self.opened else ()
        return refuse(Code.NOT_BLIND, *evidence, reason=f"{answers} judged only by somebody who could know the arm")

    @cached_property
    def no_control(self) -> Refusal | None:
        """NO-CONTROL, if there is no class that retrieval should lose."""
        if any(question.question_class == "index_hostile" for question in self.loaded.questions):
            return None
        classes = sorted({question.question_class for question in self.loaded.questions})
        return refuse(Code.NO_CONTROL, f"classes: {', '.join(classes)}")

    @cached_property
    def no_composition(self) -> Refusal | None:
        """NO-COMPOSITION, if nobody knows what the corpus is made of."""
        return (
            None
            if self.composition is not None
            else refuse(Code.NO_COMPOSITION, "runs/composition.json is not there, or cannot be read")
        )

    def spending(self, cells: "tuple[Cell, ...]") -> Refusal | None:
        """Why tokens over these cells cannot be given."""
        return self.seal_broken or self.incomplete(cells) or self.quarantined(cells) or self.unreconciled(cells)

    def judging(self, cells: "tuple[Cell, ...]") -> Refusal | None:
        """Why grades over these cells cannot be given."""
        return self.seal_broken or self.incomplete(cells) or self.quarantined(cells) or self.ungraded(cells)

    def claiming(self, cells: "tuple[Cell, ...]") -> Refusal | None:
        """Why tokens per correct answer over these cells cannot be given."""
        return self.spending(cells) or self.judging(cells)

    def heading(self, cells: "tuple[Cell, ...]") -> Refusal | None:
        """Why these cells can have no headline."""
        return self.claiming(cells) or self.not_blind(cells) or self.no_control or self.no_composition


def _told(cell: str, agains: tuple[Again, ...]) -> str:
    """What the journal tells of the reruns of a cell."""
    told: list[str] = []
    for again in agains:
        text = again.reason or "run again by hand"
        if again.opened:
            text += ", after the mapping was opened"
        if again.kept is not None:
            text += f" (the run before is kept as attempts/{cell}__a{again.kept}.jsonl)"
        told.append(text)
    return told[0] if len(told) == 1 else f"{len(told)} times: {'; '.join(told)}"


def _read_composition(paths: Runs) -> Composition | None:
    """What the corpus is made of; None where it was not measured, or the file is damaged."""
    try:
        return composition.read(paths.composition)
    except RunsError:
        return None
