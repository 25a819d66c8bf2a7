"""Where the billed input of an arm went: medians over its runs, estimates all of them, or UNCALIBRATED."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

from tokenbench.agents.claude import launch
from tokenbench.errors import RunsError, TokenbenchError
from tokenbench.experiment import config
from tokenbench.experiment import seal as seals
from tokenbench.experiment.model import Cell, Loaded
from tokenbench.experiment.seal import Seal
from tokenbench.figures import Code, Figure, Published, Refusal, refuse
from tokenbench.findings.world import World
from tokenbench.ledger.attribution import calibration as store
from tokenbench.ledger.attribution.attribute import attribute
from tokenbench.ledger.attribution.calibration import Calibration
from tokenbench.ledger.attribution.model import Attributed, Part, Weights
from tokenbench.ledger.model import Ledger
from tokenbench.ledger.prices import PriceTable
from tokenbench.ledger.weights import weights as table_weights
from tokenbench.transcripts.evidence import Runs

LOOKED_UP: Final = frozenset({"search", "read", "list", "filter", "retrieval"})
"""Uses by which an agent finds out what stands in the corpus."""
GROUPS: Final = ("search, read, list", "retrieval", "other tools", "own words", "prefix and prompt", "unattributed")


def group_of(part: Part) -> str:
    """The group that a part is published in; all groups together are the billed input."""
    match part.kind:
        case "result" | "envelope":
            if part.use == "retrieval":
                return "retrieval"
            return "search, read, list" if part.use in LOOKED_UP else "other tools"
        case "own" | "thinking":
            return "own words"
        case "prefix" | "prompt" | "summary":
            return "prefix and prompt"
        case "denied":
            return "other tools"
        case _:
            return "unattributed"


def attribute_cell(
    loaded: Loaded,
    cell: Cell,
    ledger: Ledger,
    *,
    calibration: Calibration | None,
    seal: Seal | None,
    weights: Weights | None = None,
) -> Attributed:
    """Where the tokens of one run of an experiment went.

    Args:
        loaded: The experiment.
        cell: Whose run it is.
        ledger: Of the run.
        calibration: What lies in `runs/calibration.json`.
        seal: What lies in `runs/seal.json`.
        weights: Prices.
    """
    arm = loaded.config.arms.get(cell.arm)
    rates = store.rates_for(
        calibration,
        model=(arm.model if arm is not None else None) or loaded.config.experiment.model,
        corpus_sha256=seal.corpus_sha256 if seal is not None else None,
        scripted=seal.scripted if seal is not None else None,
    )
    question = next((one for one in loaded.questions if one.id == cell.question), None)
    prompt = loaded.prompts.get(cell.arm)
    told = None
    if question is not None and prompt is not None:
        told = len(launch.prompt(prompt, question.text).decode("utf-8", "replace"))
    found = attribute(ledger, None if isinstance(rates, Refusal) else rates, prompt=told, weights=weights)
    # Where the calibration is what is missing, its own refusal says more exactly why.
    exact = isinstance(rates, Refusal) and isinstance(found, Refusal) and found.code == rates.code
    return rates if exact and isinstance(rates, Refusal) else found


def attribute_transcript(runs: Runs | None, name: str, ledger: Ledger, table: PriceTable | None = None) -> Attributed:
    """Where the tokens of a transcript went, by the calibration that lies in its `runs/`.

    Args:
        runs: Of its experiment; None for a transcript of no experiment, which nothing is calibrated for.
        name: `arm__question__repeat`, with `__aN` where it is an attempt.
        ledger: Of the transcript.
        table: Prices; None leaves dollars out.
    """
    if runs is None:
        return attribute(ledger, None, prompt=None)
    try:
        sealed = seals.read(runs.seal) if runs.seal.exists() else None
        found = store.read(runs.calibration)
    except RunsError as error:
        return refuse(Code.UNCALIBRATED, reason=str(error))
    weights = table_weights(ledger, table)
    try:
        loaded = config.load(runs.folder.parent)
        cell = Cell.parse("__".join(name.split("__")[:3]))
    except (TokenbenchError, ValueError):
        # Runs that were moved away from their experiment keep everything but their prompts' sizes.
        rates = store.rates_for(
            found,
            model=ledger.model or "",
            corpus_sha256=sealed.corpus_sha256 if sealed is not None else None,
            scripted=sealed.scripted if sealed is not None else None,
        )
        return rates if isinstance(rates, Refusal) else attribute(ledger, rates, prompt=None, weights=weights)
    return attribute_cell(loaded, cell, ledger, calibration=found, seal=sealed, weights=weights)


class Shares:
    """The shares of an experiment's arms.

    Args:
        world: The experiment.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._problem: Refusal | None = None
        self._calibration: Calibration | None = None
        self._found: dict[str, list[tuple[Cell, Attributed]]] = {}
        try:
            self._calibration = store.read(world.paths.calibration)
        except RunsError as error:
            self._problem = refuse(Code.UNCALIBRATED, reason=str(error))

    def looked_up(self, arm: str) -> Published:
        """The median run's share of billed input that results of searching, reading, listing and retrieval are."""
        return self._published(arm, ("search, read, list", "retrieval"))

    def by_group(self, arm: str) -> Mapping[str, Published]:
        """The same for every group; medians of different groups need not add up to one."""
        return {group: self._published(arm, (group,)) for group in GROUPS}

    def _published(self, arm: str, groups: Sequence[str]) -> Published:
        if self._problem is not None:
            return self._problem
        world, planned = self._world, self._world.cells(arm)
        refusal = world.seal_broken or world.incomplete(planned) or world.quarantined(planned)
        if refusal is not None:
            return refusal
        shares: list[float] = []
        bounds: list[float] = []
        cells: list[str] = []
        for cell, found in self._attributed(arm):
            if isinstance(found, Refusal):
                return found
            if found.billed_input <= 0:
                continue
            mine = [part for part in found.parts if group_of(part) in groups]
            shares.append(sum(part.billed for part in mine) / found.billed_input)
            bounds.append(sum(part.bound_billed for part in mine) / found.billed_input)
            cells.append(cell.name)
        if not shares:
            return refuse(Code.TOO_FEW, arm, reason="No run of this arm was billed any input")
        # Each run's share lies within its own bound, so the median lies between the medians of both ends.
        low = median(share - bound for share, bound in zip(shares, bounds, strict=True))
        high = median(share + bound for share, bound in zip(shares, bounds, strict=True))
        return Figure(
            value=median(shares),
            unit="share",
            basis="estimate",
            interval=(max(0.0, low), min(1.0, high)),
            runs=tuple(cells),
        )

    def _attributed(self, arm: str) -> list[tuple[Cell, Attributed]]:
        if arm not in self._found:
            world = self._world
            self._found[arm] = [
                (
                    cell,
                    attribute_cell(
                        world.loaded,
                        cell,
                        world.run(cell).ledger,
                        calibration=self._calibration,
                        seal=world.integrity.seal,
                    ),
                )
                for cell in world.cells(arm)
                if cell in world.counted.runs
            ]
        return self._found[arm]
