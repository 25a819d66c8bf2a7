"""What a reader has to know beside every figure, the worst first."""

from collections.abc import Mapping

from tokenbench.experiment.model import Cell
from tokenbench.figures import MEANINGS, Code, Figure, Published, Refusal, refuse
from tokenbench.findings.measures import warmth
from tokenbench.findings.results import Ratio
from tokenbench.findings.world import World, named
from tokenbench.text import one_line


def banners(world: World, headline: Mapping[str, Published], ratios: Mapping[str, Ratio]) -> tuple[Refusal, ...]:
    """All banners of an experiment, each code once unless its arms differ."""
    everything = world.counted.planned
    found: list[Refusal | None] = [
        _scripted(world),
        world.seal_broken,
        world.incomplete(everything),
        world.quarantined(everything),
        *_unreconciled(world),
        world.ungraded(everything),
        world.not_blind(everything),
        *_judges(world),
        _reruns(world),
        _order(world),
        world.no_control,
        world.no_composition,
        *_of_figures(headline, ratios),
        warmth(world),
        _external(world),
        _sandbox(world),
        _one_corpus(world),
    ]
    return tuple(banner for banner in found if banner is not None)


def _scripted(world: World) -> Refusal | None:
    marks = list(world.integrity.scripted)
    if world.grading.votes.scripted:
        marks.append(f"the judge {', '.join(world.grading.votes.scripted)} is scripted")
    return refuse(Code.SCRIPTED_MODEL, *marks) if marks else None


def _unreconciled(world: World) -> list[Refusal]:
    """One banner for each code that refuses runs."""
    found: dict[Code, list[Cell]] = {}
    for cell, run in world.counted.runs.items():
        if not run.quarantined and world.unreconciled((cell,)) is not None:
            found.setdefault(world.run_refusal(cell).code, []).append(cell)
    return [
        refuse(
            code,
            *named([cell.name for cell in cells]),
            reason=f"{len(cells)} of {len(world.counted.runs)} runs are refused",
            remedy=world.remedy(MEANINGS[code].remedy, cells[0]),
        )
        for code, cells in found.items()
    ]


def _judges(world: World) -> list[Refusal]:
    """JUDGES-DISAGREE and RULE-SUSPENDED: both name cells, so they wait for the opening."""
    if not world.opened:
        return []
    found: list[Refusal] = []
    unknown = [cell.name for cell, grade in world.grading.grades.items() if grade.result == "unknown"]
    if unknown:
        answers = "1 answer counts" if len(unknown) == 1 else f"{len(unknown)} answers count"
        found.append(
            refuse(
                Code.JUDGES_DISAGREE,
                *named(unknown),
                reason=f"{answers} neither way: the judges are split or could not say. Figures are bounded both ways",
            )
        )
    if world.grading.suspended:
        found.append(refuse(Code.RULE_SUSPENDED, *sorted(world.grading.suspended)))
    return found


def _reruns(world: World) -> Refusal | None:
    if not world.reruns:
        return None
    evidence = [f"{cell}: {why}" for cell, why in world.reruns.items()]
    return refuse(Code.RERUN, *named(evidence))


def _order(world: World) -> Refusal | None:
    return refuse(Code.ORDER_DIVERGED, *named(world.divergences)) if world.divergences else None


def _of_figures(headline: Mapping[str, Published], ratios: Mapping[str, Ratio]) -> list[Refusal]:
    """What only the figures themselves can tell."""
    found = [
        value
        for value in headline.values()
        if isinstance(value, Refusal) and value.code in (Code.NO_CORRECT, Code.TOO_FEW)
    ]
    for arm, ratio in ratios.items():
        figure = ratio.tokens_per_correct
        if ratio.reading == "not distinguishable" and isinstance(figure, Figure) and figure.interval is not None:
            low, high = figure.interval
            found.append(
                refuse(
                    Code.NOT_DISTINGUISHABLE,
                    f"{arm}: {float(figure.value):.2f} ({low:.2f} to {high:.2f})",
                    reason=f"{arm}: the interval of the ratio spans 1",
                )
            )
    return found


def _sandbox(world: World) -> Refusal | None:
    free = {cell.name: run.record.sandbox_told for cell, run in world.counted.runs.items() if not run.record.sandbox}
    if not free:
        return None
    reasons = "; ".join(sorted({one_line(reason, 200) for reason in free.values() if reason}))
    found = [f"{len(free)} of {len(world.counted.runs)} runs" + (f": {reasons}" if reasons else "")]
    if len(free) < len(world.counted.runs):
        # A mixture is two instruments: which runs were which is what a reader needs.
        found.append(f"without a sandbox: {', '.join(sorted(free))}")
    return refuse(Code.NO_SANDBOX, *found)


def _external(world: World) -> Refusal | None:
    """An MCP server can ask models of its own, and nothing in a transcript would show it."""
    unknown = [
        f"arms.{arm}.mcp.{one_line(name, 60)}"
        for arm, spec in world.loaded.config.arms.items()
        for name, server in spec.mcp.items()
        if server.builtin is None and server.usd_per_call is None
    ]
    if not unknown:
        return None
    return refuse(
        Code.EXTERNAL_COST_UNKNOWN,
        *named(unknown),
        remedy="Declare `usd_per_call` of the server, 0 if it asks no model, in a new experiment",
    )


def _one_corpus(world: World) -> Refusal:
    return refuse(Code.ONE_CORPUS, corpus_name(world))


def corpus_name(world: World) -> str:
    """Where the corpus comes from, without a path of this machine."""
    source = world.loaded.config.corpus
    if source.package is not None:
        return source.package
    return (source.path or "").rstrip("/").rpartition("/")[2] or "corpus"
