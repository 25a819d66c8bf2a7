"""Holds the equations of a stream: a total that is published, or a refusal with both sides.

Token equations: calls of the main loop = usage of the result events; all calls and named rests, model by model =
`modelUsage`. Cost equations: the models' costs = the total; a recomputed price = the CLI's cost.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from tokenbench.figures import Code, Refusal, refuse
from tokenbench.ledger import names
from tokenbench.ledger.calls import Call
from tokenbench.ledger.mainloop import Hypothesis, MainEvidence, hypotheses
from tokenbench.ledger.model import Costs, Equation, ModelRow, Remainder, Tokens
from tokenbench.ledger.models import Fit, Surroundings, equations, fit
from tokenbench.ledger.prices import PriceTable
from tokenbench.ledger.pricing import Bill, Unknown, check
from tokenbench.ledger.process import Account, Models, accounts, add_up, cost_sides
from tokenbench.ledger.replay import Replayed, replay
from tokenbench.ledger.sums import Sum, of_usage, total
from tokenbench.transcripts.events import Ended

MAIN_LEFT: Final = "calls of the main loop"
MAIN_RIGHT: Final = "usage of the result events"


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that the equations are made of."""

    main_calls: tuple[Call, ...]
    abandoned: frozenset[str]
    collided: tuple[str, ...]
    empty_replies: bool
    cut_replies: bool
    """A reply was cut off, as the CLI told the model or as `breaks` show: nobody knows what it was billed."""
    breaks: tuple[str, ...]
    """Where it shows, for the refusal."""
    complete: bool
    ended: tuple[Ended, ...]
    """Result events, each once, in their order; at least one."""
    around: Surroundings
    earlier: Models | None
    """Totals of the transcript that this one resumed, if it was named."""
    prices: PriceTable | None = None
    version: str | None = None
    """Of the CLI."""


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    reconciled: bool
    tokens: Tokens | None
    main: Tokens | None
    lower_bound: Tokens
    calls: tuple[Call, ...]
    """Calls that count, in the order of their lines."""
    abandoned: int
    models: dict[str, ModelRow]
    costs: Costs
    cost_reconciled: bool | None
    remainder: tuple[Remainder, ...] = ()
    equations: list[Equation] = field(default_factory=list[Equation])
    refusals: list[Refusal] = field(default_factory=list[Refusal])
    notes: list[str] = field(default_factory=list[str])
    collided: tuple[str, ...] = ()
    last_reply_missing: bool = False
    """The result events leave out the last reply of the stream, and the totals by model do too: it broke off."""


def reconcile(evidence: Evidence) -> Outcome:
    """Check the equations of a stream that has a result event."""
    usages = [event.usage for event in evidence.ended]
    reported = total(of_usage(usage) for usage in usages if usage is not None)
    main = MainEvidence(
        calls=evidence.main_calls,
        reported=reported,
        abandoned=evidence.abandoned,
        collided=evidence.collided,
        empty_replies=evidence.empty_replies,
        complete=evidence.complete,
    )
    readings = accounts(evidence.ended, evidence.earlier)
    equal: Hypothesis | None = None
    nearest: Fit | None = None
    if not evidence.cut_replies and None not in usages:
        for hypothesis in hypotheses(main):
            first_equal = equal is None and hypothesis.equal
            equal = hypothesis if first_equal else equal
            if not readings:
                if _alone(hypothesis, evidence):
                    return _without_models(hypothesis, reported, evidence)
                continue
            for reading in readings:
                found = fit(hypothesis, reported.output, reading, evidence.around)
                if not found.problem:
                    return _accepted(hypothesis, found, reported, evidence)
                if nearest is None or first_equal:
                    nearest = found
    return _refused(evidence, main, equal, nearest)


def _alone(hypothesis: Hypothesis, evidence: Evidence) -> bool:
    """Whether nothing but the main loop can have been billed, so that it stands without totals by model."""
    around = evidence.around
    return hypothesis.equal and not (
        around.subagent_calls or around.reports or around.compacted or around.side_tool or evidence.empty_replies
    )


def _accepted(hypothesis: Hypothesis, found: Fit, reported: Sum, evidence: Evidence) -> Outcome:
    own = [side for side in found.sides.values() if side.role != "sidecar"]
    sums = {name: side.sum for name, side in found.sides.items()}
    split = total(sums.values())
    hour_only = split.write_1h > 0 and split.write_5m == 0
    whole = total(side.sum for side in own)
    notes = [*hypothesis.notes, *found.notes]
    if whole.write_unsplit:
        notes.append("TTL-SPLIT-ASSUMED")
    if found.account.carried:
        notes.append("CARRYOVER")
    models: dict[str, ModelRow] = {}
    costs = {name: entry.cost for name, entry in found.account.models.items()}
    guessed = any(entry.guessed for entry in found.account.models.values())
    for name, side in found.sides.items():
        tokens = side.sum.tokens(unsplit_is_1h=hour_only)
        if tokens.total or name in costs:
            models[name] = ModelRow(side.role, tokens, costs.get(name))
    if sum(entry.searches for entry in found.account.models.values()) != evidence.around.searches:
        notes.append("SEARCHES-DIFFER")
    if len({name for name, side in found.sides.items() if side.role == "main" and side.main.billed_input}) > 1:
        notes.append("MODEL-SWITCHED")
    calls = _in_order((*hypothesis.calls, *evidence.around.subagent_calls))
    tokens = whole.tokens(unsplit_is_1h=hour_only)
    result = Outcome(
        reconciled=True,
        tokens=tokens,
        main=found.main.tokens(unsplit_is_1h=hour_only),
        lower_bound=tokens,
        calls=calls,
        abandoned=len(hypothesis.abandoned),
        models=models,
        costs=Costs(),
        cost_reconciled=None,
        remainder=(*hypothesis.remainder, *found.remainder),
        notes=notes,
        collided=hypothesis.collided,
    )
    result.equations = [_main_equation(hypothesis.calls, reported, hypothesis), *equations(found)]
    if hypothesis.collided:
        result.refusals.append(refuse(Code.CALLS_COLLIDE, *(f"message id {name}" for name in hypothesis.collided[:5])))
    bills = {
        name: Bill(
            calls=(*side.main_calls, *side.subagent_calls),
            whole=side.sum,
            searches=entry.searches if (entry := found.account.models.get(name)) is not None else 0,
            unsplit_is_1h=hour_only,
        )
        for name, side in found.sides.items()
    }
    carried = _sum(costs.values()) if found.account.carried else None
    _costs(result, evidence, bills, costs, guessed=guessed, own_process=carried)
    return result


def _without_models(hypothesis: Hypothesis, reported: Sum, evidence: Evidence) -> Outcome:
    tokens = reported.tokens()
    result = Outcome(
        reconciled=True,
        tokens=tokens,
        main=tokens,
        lower_bound=tokens,
        calls=_in_order(hypothesis.calls),
        abandoned=len(hypothesis.abandoned),
        models={},
        costs=Costs(),
        cost_reconciled=None,
        notes=[*hypothesis.notes, "NO-MODEL-USAGE"],
        collided=hypothesis.collided,
    )
    result.equations = [
        _main_equation(hypothesis.calls, reported, hypothesis),
        Equation("models", "all calls", "modelUsage", tokens, None, None, "the CLI reports no usage by model"),
    ]
    if hypothesis.collided:
        result.refusals.append(refuse(Code.CALLS_COLLIDE, *(f"message id {name}" for name in hypothesis.collided[:5])))
    called = {names.plain(call.model) for call in hypothesis.calls}
    searches = sum(event.usage.web_searches for event in evidence.ended if event.usage is not None)
    bills: dict[str, Bill] | Unknown = {
        name: Bill(calls=hypothesis.calls, whole=reported, searches=searches) for name in called
    }
    if len(called) > 1:
        bills = Unknown("Calls went to several models, and the CLI reports no usage by model")
    _costs(result, evidence, bills, {}, guessed=False)
    return result


def _costs(
    result: Outcome,
    evidence: Evidence,
    bills: Mapping[str, Bill] | Unknown,
    costs: Mapping[str, Decimal | None],
    *,
    guessed: bool,
    own_process: Decimal | None = None,
) -> None:
    """The cost equations, and what may be shown of costs.

    Args:
        result: Gets them.
        evidence: What the transcript says.
        bills: What each model used, or why that is unknown.
        costs: What the CLI says each cost, in USD.
        guessed: The CLI priced a model as another one.
        own_process: What the models cost without an earlier session, where one was taken out.
    """
    left, right = cost_sides(evidence.ended)
    holds = add_up(left, right)
    result.equations.append(Equation("cost", "costs of the models", "total_cost_usd", left, right, holds))
    nothing = result.tokens is not None and not result.tokens.total and not result.models
    checked = check(
        bills,
        costs=costs,
        reported=right if own_process is None else own_process,
        reported_label="total_cost_usd" if own_process is None else "costs of the models since the last result",
        table=evidence.prices,
        version=evidence.version,
    )
    result.equations.append(checked.equation)
    if checked.refusal is not None:
        result.refusals.append(checked.refusal)
    if holds is False:
        result.refusals.append(
            refuse(Code.COST_UNRECONCILED, f"costs of the models: {left} USD", f"total_cost_usd: {right} USD")
        )
        result.cost_reconciled = False
        return
    result.cost_reconciled = False if right is None else checked.holds
    own: Decimal | None = Decimal(0)
    for row in result.models.values():
        if row.role != "sidecar":
            own = None if own is None or row.cost_usd is None else own + row.cost_usd
    if any(not row.cost_usd and row.tokens.total for row in result.models.values() if row.role != "sidecar"):
        own = None
        result.notes.append("COST-ZERO")
    if guessed:
        own = None
        result.notes.append("COST-GUESSED-BY-CLI")
    if not result.models and not nothing:
        own = None
    sidecars = {name for name, row in result.models.items() if row.role == "sidecar"}
    # A table that does not give what the CLI charged says nothing of what another cache would have cost.
    priced = None if checked.holds is False else checked.without(sidecars)
    replayed = Replayed()
    if priced is not None and not isinstance(bills, Unknown) and not result.collided:
        mine = {name: bill for name, bill in bills.items() if name not in sidecars}
        replayed = replay(mine, evidence.prices, evidence.version, priced.exact)
    result.costs = Costs(
        reported=right,
        own=own,
        recomputed=None if checked.holds is False else checked.recomputed,
        cache_neutral=None if priced is None else priced.neutral,
        fees=None if priced is None else checked.fees,
        cold=replayed.cold,
        warm=replayed.warm,
    )


def _sum(costs: Iterable[Decimal | None]) -> Decimal | None:
    known = list(costs)
    return None if None in known else sum((cost for cost in known if cost is not None), Decimal(0))


def _main_equation(calls: Sequence[Call], reported: Sum, hypothesis: Hypothesis | None) -> Equation:
    partial = [call for call in calls if not call.final]
    seen = total(call.counters for call in calls)
    remarks: list[str] = []
    if hypothesis is not None:
        remarks.extend(f"{item.what}: {item.tokens.billed_input} tokens of input" for item in hypothesis.remainder)
        if hypothesis.short:
            lines = ", ".join(str(call.line) for call in hypothesis.short)
            remarks.append(f"left out by the result events: the calls of line {lines}")
        if hypothesis.abandoned:
            remarks.append(f"{len(hypothesis.abandoned)} abandoned")
    if partial:
        finished = sum(call.usage.output for call in calls if call.final)
        if hypothesis is not None and not hypothesis.short:
            seen = seen.with_output(max(reported.output, finished))
            remarks.append("output is streamed as a placeholder and taken from the right side")
        else:
            remarks.append("output is streamed as a placeholder")
    holds = hypothesis is not None and hypothesis.equal
    return Equation(
        name="main loop",
        left_label=MAIN_LEFT,
        right_label=MAIN_RIGHT,
        left=seen.tokens(),
        right=reported.tokens(),
        holds=holds,
        note="; ".join(remarks),
    )


def _refused(evidence: Evidence, main: MainEvidence, equal: Hypothesis | None, nearest: Fit | None) -> Outcome:
    """Every equation with both sides, and what was seen as a lower bound.

    Args:
        evidence: All of it.
        main: The part of the main loop.
        equal: How the first equation holds, if it does.
        nearest: How the second one does not.
    """
    counted = equal.calls if equal is not None else _certain(evidence.main_calls, evidence.abandoned)
    subagents = evidence.around.subagent_calls
    floor = lower_bound((*counted, *subagents))
    refusals: list[Refusal] = []
    rows = [_main_equation(counted, main.reported, equal)]
    if equal is None:
        seen = total(call.counters for call in counted)
        sides = (f"{MAIN_LEFT}: {_words(seen)}", f"{MAIN_RIGHT}: {_words(main.reported)}")
        reason = (
            "A reply was cut off in mid-stream, and nobody knows what it was billed" if evidence.cut_replies else None
        )
        remedy: str | None = None
        if not evidence.main_calls and not subagents:
            reason = "The transcript holds a result and no call, so there is nothing to hold the result against"
            remedy = "Start the agent with --output-format stream-json --verbose, and keep all that it prints"
        if any(event.usage is None for event in evidence.ended):
            reason = "A result event reports no usage that could be read"
        refusals.append(refuse(Code.CALLS_UNRECONCILED, *evidence.breaks, *sides, reason=reason, remedy=remedy))
    shown: Fit | None = None
    if readings := accounts(evidence.ended, evidence.earlier):
        shown = nearest if nearest is not None else _plain_fit(counted, main.reported, readings[0], evidence.around)
        by_model = equations(shown)
        rows.extend(by_model)
        if shown.problem and (equal is not None or evidence.cut_replies):
            sides = tuple(
                f"{row.name}: {_words_of(row.left)} against {_words_of(row.right)}"
                for row in by_model
                if row.holds is False
            )
            refusals.append(refuse(shown.code, *(sides or (shown.problem,)), reason=_sentence(shown)))
    else:
        rows.append(Equation("models", "all calls", "modelUsage", None, None, None, "not reported"))
        if equal is not None:
            refusals.append(
                refuse(
                    Code.MODELS_UNRECONCILED,
                    reason="The CLI reports no usage by model, and more than the main loop was billed",
                )
            )
    left, right = cost_sides(evidence.ended)
    rows.append(Equation("cost", "costs of the models", "total_cost_usd", left, right, add_up(left, right)))
    dropped = len(evidence.abandoned) if equal is None else len(equal.abandoned)
    models = {
        name: ModelRow(side.role, side.reported.tokens(), None)
        for name, side in (shown.sides.items() if shown is not None else ())
        if side.reported.billed_input or side.reported.output
    }
    return Outcome(
        reconciled=False,
        tokens=None,
        main=None,
        lower_bound=floor,
        calls=_in_order((*counted, *subagents)),
        abandoned=dropped,
        models=models,
        costs=Costs(),
        cost_reconciled=False,
        equations=rows,
        refusals=refusals,
        notes=["STREAM-BROKEN"] if evidence.cut_replies else [],
        collided=evidence.collided,
        last_reply_missing=_last_is_missing(counted, main.reported),
    )


def _plain_fit(calls: Sequence[Call], reported: Sum, reading: Account, around: Surroundings) -> Fit:
    """The totals by model against the calls as they were seen, whatever the result events say."""
    plain = Hypothesis(tuple(calls), (), total(call.counters for call in calls), equal=False)
    return fit(plain, reported.output, reading, around)


def _sentence(found: Fit) -> str:
    if found.code is Code.CARRYOVER:
        return "The CLI's totals hold whole calls more than this transcript, and no event in it explains them"
    return f"All calls of a model do not add up to what the CLI reports for it: {found.problem}"


def _certain(calls: Sequence[Call], abandoned: frozenset[str]) -> tuple[Call, ...]:
    return tuple(call for call in calls if call.key not in abandoned)


def _last_is_missing(calls: Sequence[Call], reported: Sum) -> bool:
    if not calls:
        return False
    gap = total(call.counters for call in calls) - reported
    return gap.inside == calls[-1].counters.inside and gap.billed_input > 0


def _in_order(calls: Sequence[Call]) -> tuple[Call, ...]:
    return tuple(sorted(calls, key=lambda call: (call.line, call.key)))


def lower_bound(calls: Sequence[Call]) -> Tokens:
    """What was certainly billed: the input of each call, and the output of those whose end was seen."""
    return total(call.counters if call.final else call.counters.with_output(0) for call in calls).tokens()


def _words(counters: Sum) -> str:
    return f"input {counters.input}, cache write {counters.write}, cache read {counters.read}, output {counters.output}"


def _words_of(side: Tokens | Decimal | None) -> str:
    if isinstance(side, Tokens):
        write = side.cache_write_5m + side.cache_write_1h
        return f"input {side.input}, cache write {write}, cache read {side.cache_read}, output {side.output}"
    return "nothing" if side is None else str(side)
