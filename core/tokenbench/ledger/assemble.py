"""From what a builder gathered to the published ledger: what is refused, and what is noted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from tokenbench.figures import Code, Refusal, refuse
from tokenbench.ledger import names
from tokenbench.ledger.attribution.threads import Thread
from tokenbench.ledger.calls import Call, collisions, split
from tokenbench.ledger.model import Costs, Equation, Ledger, ModelRow, Role
from tokenbench.ledger.models import Surroundings
from tokenbench.ledger.outcome import Segment, Verdict, judge
from tokenbench.ledger.prices import PriceTable
from tokenbench.ledger.pricing import Bill, Unknown, check
from tokenbench.ledger.process import Models
from tokenbench.ledger.reconcile import MAIN_LEFT, MAIN_RIGHT, Evidence, Outcome, lower_bound, reconcile
from tokenbench.ledger.sums import ZERO, Sum, total
from tokenbench.ledger.tools import ToolTable
from tokenbench.text import one_line
from tokenbench.transcripts.events import Announcement, Bad, Ended, SubagentReport
from tokenbench.transcripts.evidence import Record

MOST_BAD_LINES: Final = 20
"""Bad lines that are named in the ledger."""
MOST_EVIDENCE: Final = 5
SIDE_TOOLS: Final = ("WebSearch", "WebFetch")
"""Tools that call a model on their own."""
_LIMITS: Final = frozenset({"time_limit", "max_turns", "max_budget"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """All that a transcript said."""

    transcript: str
    agent: str
    calls: Sequence[Call]
    abandoned: frozenset[str]
    tools: ToolTable
    threads: tuple[Thread, ...]
    announced: Announcement | None
    ended: tuple[Ended, ...]
    segment: Segment
    reports: tuple[SubagentReport, ...]
    bad: tuple[Bad, ...]
    user_rows: int
    nudges: frozenset[str]
    breaks: tuple[str, ...]
    """Signs of replies that broke off."""
    compacted: bool
    fallbacks: tuple[str, ...]
    open_tasks: int
    """Tasks in the background that had not ended."""
    last_wake: int
    """Line of the last sign that a turn begins."""
    mended: bool
    inconsistent: bool
    scripted: bool
    own_log: bool
    last_line: int
    counts: dict[str, int]
    record: Record | None
    earlier: Models | None
    owned_elsewhere: frozenset[str]
    notes: tuple[str, ...]
    prices: PriceTable | None = None


def ledger(material: Material) -> Ledger:
    """The ledger of one transcript."""
    if material.own_log:
        verdict, outcome = _of_log(material)
    elif not material.ended:
        verdict, outcome = Verdict("no_result", None, ()), _without_result(material)
    else:
        verdict, outcome = _of_stream(material)
    damages = _damages(material)
    if damages:
        _withdraw(outcome)
    refusals = [*damages, *outcome.refusals]
    record = material.record
    if record is not None:
        refusals.extend(record.refusals)
        answer = verdict.answer if record.outcome == "answered" else None
        verdict = Verdict(record.outcome, answer, verdict.notes)
    if verdict.outcome in _LIMITS and not outcome.reconciled and material.ended:
        refusals.append(refuse(Code.LIMIT_UNSETTLED, f"outcome {verdict.outcome}"))
    announced = material.announced
    return Ledger(
        transcript=material.transcript,
        agent=material.agent,
        agent_version=announced.version if announced is not None else None,
        model=_model(material),
        outcome=verdict.outcome,
        token_reconciled=None if material.own_log and not damages else outcome.reconciled,
        cost_reconciled=outcome.cost_reconciled,
        refusals=tuple(refusals),
        notes=tuple(dict.fromkeys(_notes(material, verdict, outcome))),
        calls=len(outcome.calls),
        abandoned_calls=outcome.abandoned,
        tokens=outcome.tokens,
        lower_bound=outcome.lower_bound,
        main=outcome.main,
        models=outcome.models,
        remainder=outcome.remainder,
        cost_usd=outcome.costs,
        tools=material.tools.rows(),
        answer=verdict.answer,
        equations=tuple(outcome.equations),
        call_rows=() if outcome.collided else tuple(call.row(n) for n, call in enumerate(outcome.calls, 1)),
        turns=sum(call.parent is None for call in outcome.calls),
        session=announced.session if announced is not None else None,
        announced=announced,
        bad_lines=tuple(f"line {bad.line}: {bad.what}" for bad in material.bad[:MOST_BAD_LINES]),
        counts=material.counts,
        threads=material.threads,
    )


def _of_stream(material: Material) -> tuple[Verdict, Outcome]:
    collided = tuple(collisions(material.calls, own_log=False))
    main = tuple(call for call in material.calls if call.parent is None)
    subagents = [call for call in material.calls if call.parent is not None]
    first_look = judge(material.ended, material.segment, broken=False)
    turns = sum(event.turns or 0 for event in material.ended) - len(material.ended)
    outcome = reconcile(
        Evidence(
            main_calls=main,
            abandoned=material.abandoned,
            collided=tuple(name for name in collided if any(call.message_id == name for call in main)),
            empty_replies="empty" in material.nudges,
            cut_replies="cut" in material.nudges or bool(material.breaks),
            breaks=material.breaks[:MOST_EVIDENCE],
            complete=not material.tools.orphans and not first_look.from_result and turns <= material.user_rows,
            ended=material.ended,
            around=Surroundings(
                subagent_calls=tuple(split(subagents, collided)),
                reports=material.reports,
                announced=material.announced.model if material.announced is not None else None,
                fallbacks=material.fallbacks,
                compacted=material.compacted,
                side_tool=material.tools.used(*SIDE_TOOLS),
                fetched=material.tools.used("WebFetch"),
                searches=sum(event.usage.web_searches for event in material.ended if event.usage is not None),
            ),
            earlier=material.earlier,
            prices=material.prices,
            version=material.announced.version if material.announced is not None else None,
        )
    )
    unfinished = _unfinished(material)
    if unfinished:
        _withdraw(outcome)
        outcome.refusals.insert(0, refuse(Code.NO_RESULT, f"last line: {material.last_line}", reason=unfinished))
        return Verdict("no_result", None, ()), outcome
    return judge(material.ended, material.segment, broken=outcome.last_reply_missing), outcome


def _unfinished(material: Material) -> str | None:
    """Why the last result event of the transcript cannot be the last of the run; None where it can."""
    last = max(event.line for event in material.ended)
    if material.last_wake > last:
        return "A turn began after the last result event, and its own result is missing"
    stopped = material.record is not None and material.record.ended_by == "after_result"
    if material.open_tasks and not stopped:
        return "A task in the background had not ended with the transcript, so that another result is missing"
    return None


def _without_result(material: Material) -> Outcome:
    """Nothing to reconcile with: the calls that were seen are a lower bound."""
    calls = tuple(call for call in material.calls if call.key not in material.abandoned)
    evidence = [f"last line: {material.last_line}", f"calls seen: {len(calls)}"]
    if any(bad.tail for bad in material.bad):
        evidence.append("the last line was cut off while it was written")
    at_limit = material.record is not None and material.record.outcome in _LIMITS
    code = Code.LIMIT_UNSETTLED if at_limit else Code.NO_RESULT
    main = total(call.counters for call in calls if call.parent is None)
    return Outcome(
        reconciled=False,
        tokens=None,
        main=None,
        lower_bound=lower_bound(calls),
        calls=calls,
        abandoned=len(material.calls) - len(calls),
        models={},
        costs=Costs(),
        cost_reconciled=False,
        equations=[Equation("main loop", MAIN_LEFT, MAIN_RIGHT, main.tokens(), None, None, "no result event")],
        refusals=[refuse(code, *evidence)],
    )


def _of_log(material: Material) -> tuple[Verdict, Outcome]:
    """A session file: the finished snapshot of each id, and nothing to reconcile it with."""
    own = [call for call in material.calls if call.key not in material.owned_elsewhere]
    collided = tuple(collisions(own, own_log=True))
    calls = tuple(split(own, collided))
    by_model: dict[str, tuple[Role, Sum]] = {}
    for call in calls:
        name = names.plain(call.model)
        role, counters = by_model.get(name, ("subagent", ZERO))
        by_model[name] = ("main" if call.parent is None else role, counters + call.counters)
    tokens = total(call.counters for call in calls).tokens()
    main = total(call.counters for call in calls if call.parent is None).tokens()
    notes = ["SESSION-FILE"]
    if len(own) < len(material.calls):
        notes.append("OWNED-ELSEWHERE")
    if any(not call.final for call in calls):
        notes.append("PARTIAL-OUTPUT")
    if material.compacted:
        notes.append("COMPACTION")
    refusals: list[Refusal] = []
    if collided:
        refusals.append(refuse(Code.CALLS_COLLIDE, *(f"message id {name}" for name in collided[:MOST_EVIDENCE])))
    checked = check(
        _bills(calls),
        costs={},
        reported=None,
        reported_label="not reported",
        table=material.prices,
        version=material.announced.version if material.announced is not None else None,
    )
    priced = checked.without(())
    if checked.refusal is not None and calls:
        refusals.append(checked.refusal)
    outcome = Outcome(
        reconciled=False,
        tokens=tokens,
        main=main,
        lower_bound=tokens,
        calls=calls,
        abandoned=0,
        models={name: ModelRow(role, counters.tokens(), None) for name, (role, counters) in by_model.items()},
        costs=Costs(
            recomputed=checked.recomputed,
            cache_neutral=priced.neutral if priced is not None else None,
            fees=checked.fees,
        ),
        cost_reconciled=None,
        equations=[
            Equation("main loop", MAIN_LEFT, MAIN_RIGHT, main, None, None, "a session file holds no result"),
            checked.equation,
        ],
        refusals=refusals,
        notes=notes,
        collided=collided,
    )
    text = material.segment.text
    return Verdict("answered" if text else "no_result", text, ()), outcome


def _bills(calls: Sequence[Call]) -> dict[str, Bill] | Unknown:
    """What finished calls used, by model."""
    if any(not call.final for call in calls):
        return Unknown("The end of some replies was not written, so that their output is unknown")
    by_model: dict[str, list[Call]] = {}
    for call in calls:
        by_model.setdefault(names.plain(call.model), []).append(call)
    return {
        name: Bill(
            calls=mine,
            whole=total(call.counters for call in mine),
            searches=sum(call.usage.web_searches for call in mine),
        )
        for name, mine in by_model.items()
    }


def _damages(material: Material) -> tuple[Refusal, ...]:
    """TRANSCRIPT-DAMAGED, where a line that counts could not be read."""
    # Without a result NO-RESULT says all that there is to say of a line that was cut off.
    counting = [bad for bad in material.bad if material.ended or not bad.tail or bad.kind == "nul"]
    if not counting:
        return ()
    lines = [f"line {bad.line}: {one_line(bad.what, 200)}" for bad in counting[:MOST_EVIDENCE]]
    if len(counting) > MOST_EVIDENCE:
        lines.append(f"and {len(counting) - MOST_EVIDENCE} more")
    return (refuse(Code.TRANSCRIPT_DAMAGED, *lines),)


def _withdraw(outcome: Outcome) -> None:
    """Take back what rests on a damaged transcript."""
    outcome.reconciled = False
    outcome.lower_bound = lower_bound(outcome.calls)
    outcome.tokens = outcome.main = None
    outcome.costs = Costs()
    outcome.cost_reconciled = False
    outcome.models = {name: msgspec.structs.replace(row, cost_usd=None) for name, row in outcome.models.items()}
    outcome.refusals = [refusal for refusal in outcome.refusals if refusal.code is not Code.PRICE_UNKNOWN]


def _model(material: Material) -> str | None:
    """The model of the run: the announced one, else that of the first call."""
    if material.announced is not None and material.announced.model:
        return names.plain(material.announced.model)
    first = next((call for call in material.calls if call.parent is None), None)
    first = first or next(iter(material.calls), None)
    return names.plain(first.model) if first is not None and first.model else None


def _notes(material: Material, verdict: Verdict, outcome: Outcome) -> Iterator[str]:
    """The codes of `notes`, in the order in which they should be read."""
    if material.scripted:
        yield "SCRIPTED-MODEL"
    yield from outcome.notes
    yield from verdict.notes
    if material.inconsistent:
        yield "USAGE-INCONSISTENT"
    announced = material.announced.model if material.announced is not None else None
    main_models = {names.undated(call.model) for call in outcome.calls if call.parent is None and call.model}
    if announced and main_models - {names.undated(announced)} and "REPLY-MODEL-DIFFERS" not in outcome.notes:
        yield "MODEL-SWITCHED"
    if material.tools.denied:
        yield "TOOL-DENIED"
    if material.tools.unlisted_denial and material.ended:
        yield "PERMISSION-DENIALS-INCOMPLETE"
    if verdict.answer and not material.tools.grounded:
        yield "UNGROUNDED"
    if any(row.images for row in material.tools.rows()):
        yield "IMAGE-ESTIMATE"
    if material.counts.get("noise"):
        yield "NOISE"
    if material.mended:
        yield "LINES-MENDED"
    if any(bad.tail for bad in material.bad):
        yield "TRUNCATED-TAIL"
    yield from material.notes
