"""Running a cell again that has a run which counts: who may, what the journal is told, what becomes of the first run.

Nobody rolls the dice in silence: the journal has the line before anything is moved, the first run is kept as an attempt
that says why, and every figure that holds the cell carries RERUN.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from tokenbench.errors import RunnerError
from tokenbench.experiment.model import Cell, Loaded
from tokenbench.experiment.plan import plan_cells
from tokenbench.runner import closing
from tokenbench.runner.journal import Entry, Journal
from tokenbench.runner.schedule import Job
from tokenbench.text import one_line
from tokenbench.transcripts.evidence import COUNTED, Record, Runs, read_record

OPTION: Final = "--rerun"
ASKED: Final = "asked for by --rerun"
"""The reason where none is given."""
_FORM: Final = "arm__question__rN"


def named_cells(loaded: Loaded, names: Sequence[str]) -> tuple[Cell, ...]:
    """The cells that are named, each once, in the planned order.

    Args:
        loaded: The experiment.
        names: `arm__question__rN`, or the three words `arm question N` in one string.

    Raises:
        RunnerError: A name has another form, or the plan has no such cell.
    """
    plan = plan_cells(loaded.config, loaded.questions) if names else ()
    wanted = {_cell(loaded, name, plan) for name in names}
    return tuple(cell for cell in plan if cell in wanted)


def _cell(loaded: Loaded, name: str, plan: Collection[Cell]) -> Cell:
    words = name.split()
    spelt = f"{words[0]}__{words[1]}__r{words[2].removeprefix('r')}" if len(words) == 3 else name
    try:
        cell = Cell.parse(spelt)
    except ValueError as error:
        raise RunnerError(
            f"{one_line(name, 80) or 'nothing'} is not the name of a cell",
            where=OPTION,
            remedy=f"Write {_FORM}, as `tokenbench-tui results` and `status` name it",
        ) from error
    # `r01` is read as the number 1, and is not what the cell is called.
    if cell in plan and cell.name == spelt:
        return cell
    arms = ", ".join(loaded.config.arms)
    raise RunnerError(
        f"the experiment has no cell {one_line(name, 80)}",
        where=OPTION,
        remedy=f"Name one as {_FORM}; its arms are {one_line(arms, 100)}, its repeats 1 to "
        f"{loaded.config.experiment.repeats}, and its questions stand in questions.jsonl",
    )


def check(
    runs: Runs, cells: Sequence[Cell], entries: Iterable[Entry], *, begun: Collection[str], force: bool = False
) -> None:
    """Whether these cells may be run again now. Nothing has been written yet.

    Args:
        runs: The results.
        cells: The cells to run again.
        entries: The journal.
        begun: Names of cells whose rerun was begun and cut off before their new run was started.
        force: Although the mapping is open.

    Raises:
        RunnerError: A cell has no run that counts, or the mapping is open.
    """
    for cell in cells:
        record = read_record(runs.record(cell))
        if cell.name not in begun and (record is None or record.outcome not in COUNTED):
            raise RunnerError(
                f"{cell.name} has no run that counts, so there is none to run again",
                where=OPTION,
                remedy=f"Leave {OPTION} away: a cell without a run that counts is run anyway",
            )
    if cells and not force and any(entry.event == "mapping_opened" for entry in entries):
        # Whoever asks can know the grade, and picks which answer counts; what is judged now is not judged blind.
        raise RunnerError(
            "the mapping is open, so whoever has a cell run again can know what its answer was worth",
            where=OPTION,
            remedy="Let the run stand, or add --force: RERUN will say so beside the figures, and an answer that has to "
            "be judged again is UNGRADED until then and NOT-BLIND after",
        )


def begin(runs: Runs, journal: Journal, job: Job, reason: str = "") -> None:
    """Set the run of a cell aside, which is about to be run again. The journal is told first.

    Args:
        runs: The results.
        journal: Gets the line `rerun`.
        job: The cell; its run is closed.
        reason: The operator's; where it is empty, the journal says that it was asked for, and of a quarantine.

    Raises:
        RunsError: It could not be written down, or not be moved; the next runner finishes what was begun.
    """
    record = read_record(closing.files_of(runs, job).record)
    if record is None:
        return
    why = one_line(reason, 300) or _default(record)
    attempt = closing.number_apart(runs, job.stem, record)
    journal.write("rerun", cell=job.stem, attempt=attempt, reason=why, transcript_sha256=record.transcript_sha256)
    closing.set_aside(runs, job, attempt, why)


def _default(record: Record) -> str:
    if record.outcome != "quarantined":
        return ASKED
    return one_line(f"{ASKED}; its run was quarantined: {record.reason}".removesuffix(": "), 300)
