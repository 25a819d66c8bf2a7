"""The matrix: all figures of an experiment, from its files alone."""

import math
from collections import Counter

from tokenbench.experiment.model import CLASSES, Loaded, QuestionClass
from tokenbench.figures import Code, Figure, Published, Refusal, refuse
from tokenbench.findings import measures
from tokenbench.findings.banners import banners, corpus_name
from tokenbench.findings.headline import Headline
from tokenbench.findings.results import Agreement, Breakdown, JudgeRow, Results, RunRow, Subject, marked
from tokenbench.findings.shares import Shares
from tokenbench.findings.world import World
from tokenbench.grading.counted import LEDGERS, Ledgers, judge_ledgers
from tokenbench.grading.votes import deciding


def compute(loaded: Loaded, ledgers: Ledgers = LEDGERS) -> Results:
    """Compute every figure, or the refusal in its place. Writes nothing.

    Reads the journal, records, transcripts, verdicts, seal and composition below `runs/`.

    Args:
        loaded: The experiment.
        ledgers: Ledgers that this process has read already; files that changed are read again.

    Raises:
        GradingError: blind.json is damaged.
    """
    world = World(loaded, ledgers)
    headline = Headline(world)
    shares = Shares(world)
    per_correct = {arm: headline.per_correct(arm) for arm in world.arms}
    ratios = {arm: headline.ratio(arm) for arm in world.arms if arm != world.baseline}
    results = Results(
        experiment=_subject(world),
        seal=world.integrity.seal_sha256,
        banners=banners(world, per_correct, ratios),
        headline=per_correct,
        ratios=ratios,
        accuracy={arm: measures.accuracy(world, arm) for arm in world.arms},
        medians={arm: measures.medians(world, arm) for arm in world.arms},
        effort={arm: measures.effort(world, arm) for arm in world.arms},
        by_class=_by_class(world),
        by_question={
            question: {arm: measures.breakdown(world, arm, (question,)) for arm in world.arms}
            for question in world.questions
        },
        shares={arm: shares.looked_up(arm) for arm in world.arms},
        parts={arm: shares.by_group(arm) for arm in world.arms},
        cost={arm: measures.dollars(world, arm) for arm in world.arms},
        abstention={arm: measures.abstention(world, arm) for arm in world.arms},
        apart={arm: measures.apart(world, arm) for arm in world.arms},
        agreement=_agreement(world, ledgers),
        hypotheses=(),
        runs=_rows(world),
    )
    return marked(results, Code.RERUN, frozenset(world.reruns)) if world.reruns else results


def _subject(world: World) -> Subject:
    config = world.loaded.config
    classes = Counter(question.question_class for question in world.loaded.questions)
    return Subject(
        name=config.experiment.name,
        models=tuple(sorted({arm.model or config.experiment.model for arm in config.arms.values()})),
        arms=world.arms,
        baseline=config.experiment.baseline,
        headline_arm=config.experiment.headline_arm,
        questions=len(world.questions),
        classes={name: classes[name] for name in CLASSES if classes[name]},
        repeats=config.experiment.repeats,
        cells=len(world.counted.planned),
        counted=len(world.counted.runs),
        corpus=corpus_name(world),
        composition=world.composition,
        opened=world.opened,
        judges=world.grading.votes.judges,
    )


def _by_class(world: World) -> dict[QuestionClass, dict[str, Breakdown]]:
    found: dict[QuestionClass, dict[str, Breakdown]] = {}
    for name in CLASSES:
        questions = [question.id for question in world.loaded.questions if question.question_class == name]
        if questions:
            found[name] = {arm: measures.breakdown(world, arm, questions) for arm in world.arms}
    return found


def _agreement(world: World, ledgers: Ledgers) -> Agreement:
    votes = world.grading.votes
    rows: list[JudgeRow] = []
    for judge in votes.judges:
        mine = [vote for item in votes.by_item.values() for vote in item if vote.judge == judge]
        model = next((vote.model for vote in mine if vote.model is not None), None)
        rows.append(
            JudgeRow(
                name=judge,
                model=model,
                scripted=any(vote.scripted for vote in mine),
                verdicts=len(mine),
                not_blind=sum(not vote.blind for vote in mine),
                stale=sum(bool(vote.stale) for vote in mine),
                tokens=None if model is None else _judge_tokens(world, judge, ledgers),
            )
        )
    disputed = [
        cell.name
        for cell, grade in world.grading.grades.items()
        if len({vote.verdict for vote in deciding(grade.votes)}) > 1
    ]
    return Agreement(
        judges=tuple(rows),
        raw=_raw_agreement(world),
        disputed=tuple(disputed) if world.opened else None,
        problems=votes.problems,
    )


def _raw_agreement(world: World) -> Published:
    several = [decided for item in world.grading.votes.by_item.values() if len(decided := deciding(item)) > 1]
    if not world.opened:
        return world.ungraded(()) or refuse(Code.UNGRADED)
    if not several:
        return refuse(Code.TOO_FEW, reason="No answer has verdicts of more than one judge")
    same = sum(len({vote.verdict for vote in decided}) == 1 for decided in several)
    return Figure(value=same / len(several), unit="share", basis="exact")


def _judge_tokens(world: World, judge: str, ledgers: Ledgers) -> Published:
    """What a model judge cost, over all its processes."""
    found = judge_ledgers(world.paths, judge, ledgers)
    if not found:
        return refuse(Code.INCOMPLETE, f"runs/judges/{judge}", reason="The judge's transcripts are not there")
    exact = all(ledger.tokens is not None for ledger in found.values())
    return Figure(
        value=sum((ledger.tokens or ledger.lower_bound).total for ledger in found.values()),
        unit="tokens",
        basis="exact" if exact else "estimate",
        runs=tuple(found),
    )


def _rows(world: World) -> tuple[RunRow, ...]:
    rows: list[RunRow] = []
    for cell in world.counted.planned:
        run = world.counted.runs.get(cell)
        if run is None:
            continue
        ledger, grade = run.ledger, world.grade(cell)
        codes = [refusal.code for refusal in (*run.record.refusals, *ledger.refusals)]
        if world.opened:
            codes += [refusal.code for refusal in grade.refusals]
        if cell.name in world.reruns:
            codes.append(Code.RERUN)
        rows.append(
            RunRow(
                cell=cell.name,
                outcome=run.record.outcome,
                token_reconciled=ledger.token_reconciled,
                cost_reconciled=ledger.cost_reconciled,
                tokens=ledger.tokens,
                lower_bound=ledger.lower_bound,
                turns=ledger.turns,
                seconds=max(0.0, run.record.ended - run.record.started),
                cost_usd=ledger.cost_usd.own if ledger.cost_reconciled is True else None,
                codes=tuple(dict.fromkeys(str(code) for code in codes)),
                result=grade.result if world.opened else None,
                stage=grade.stage if world.opened else None,
                by=grade.by if world.opened else None,
            )
        )
    return tuple(rows)


def loses(mine: Breakdown, base: Breakdown | None) -> bool:
    """Whether an arm does worse than the baseline: more tokens per correct answer, or none correct where it has one."""
    if isinstance(mine.ratio, Figure):
        return mine.ratio.value > 1
    nothing = isinstance(mine.tokens_per_correct, Refusal) and mine.tokens_per_correct.code == Code.NO_CORRECT
    return nothing and base is not None and isinstance(base.tokens_per_correct, Figure)


def losing_first(results: Results, arm: str) -> list[tuple[QuestionClass, Breakdown]]:
    """An arm's classes, those first in which it loses to the baseline; refused ones stand before those it wins."""

    def order(entry: tuple[QuestionClass, Breakdown]) -> tuple[int, float]:
        name, mine = entry
        if loses(mine, results.by_class[name].get(results.experiment.baseline)):
            return 0, -float(mine.ratio.value) if isinstance(mine.ratio, Figure) else -math.inf
        return (2, -float(mine.ratio.value)) if isinstance(mine.ratio, Figure) else (1, 0.0)

    rows: list[tuple[QuestionClass, Breakdown]] = [
        (name, arms[arm]) for name, arms in results.by_class.items() if arm in arms
    ]
    return sorted(rows, key=order)
