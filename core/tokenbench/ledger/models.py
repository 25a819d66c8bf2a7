"""The second equation: all calls, model by model, against what the CLI reports for each model of its process."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

from tokenbench.figures import Code
from tokenbench.ledger import names
from tokenbench.ledger.calls import Call
from tokenbench.ledger.mainloop import Hypothesis
from tokenbench.ledger.model import Equation, Remainder, Role
from tokenbench.ledger.process import Account
from tokenbench.ledger.sums import ZERO, Sum, of_usage, total
from tokenbench.transcripts.events import SubagentReport

_MOST_REPORTS: Final = 12
"""Subagent reports among which the unstreamed ones are looked for."""
_MORE: Final = "the CLI reports more than its calls"
_LESS: Final = "the CLI reports less than its calls"
_LOOSE: Final = frozenset({"compaction", "side call"})
"""Rests whose cause is known and whose size nothing else confirms."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the transcript says beside its main loop."""

    subagent_calls: tuple[Call, ...]
    reports: tuple[SubagentReport, ...]
    announced: str | None
    fallbacks: tuple[str, ...]
    """Models that the agent said it went on with."""
    compacted: bool
    side_tool: bool
    """A tool was used that may call a model on its own: web search, web fetch."""
    fetched: bool
    """It was web fetch."""
    searches: int
    """Web searches that the API made within calls of the main loop; further ones were calls of their own."""


@dataclass(slots=True)
class ModelSide:
    """One model: what was seen of it, what explains the rest, what the CLI reports."""

    role: Role
    reported: Sum
    main: Sum
    subagent_calls: list[Call]
    main_calls: list[Call]
    rest: Sum = ZERO
    """What the stream does not show."""
    cause: str = ""
    """sidecar, subagent, compaction, side call; empty where there is no rest or no cause for it."""
    problem: str = ""

    @property
    def subagents(self) -> Sum:
        """Input of the streamed calls of subagents, with the outputs that are known."""
        return total(call.counters if call.final else call.counters.with_output(0) for call in self.subagent_calls)

    @property
    def placeholders(self) -> int:
        """Output that was begun in calls whose end was not streamed, in tokens."""
        return sum(call.usage.output for call in self.subagent_calls if not call.final)

    @property
    def open(self) -> bool:
        """Whether its output cannot be known from its parts."""
        return self.cause in _LOOSE or any(not call.final for call in self.subagent_calls)

    @property
    def sum(self) -> Sum:
        """What it used: the reported counters, with lifetimes of cache writes as far as any side knows them."""
        if not self.reported.write_unsplit:
            return self.reported
        return (self.main + self.subagents + self.rest).with_output(self.reported.output)


@dataclass(slots=True)
class Fit:
    """How a hypothesis about the main loop fits the totals by model."""

    sides: dict[str, ModelSide]
    main: Sum
    """The main loop, with its output."""
    account: Account
    """The reading of the totals by model that it was held against."""
    notes: list[str] = field(default_factory=list[str])
    remainder: list[Remainder] = field(default_factory=list[Remainder])
    problem: str = ""
    """Why it does not fit; empty where it does."""
    code: Code = Code.MODELS_UNRECONCILED


def fit(hypothesis: Hypothesis, reported_output: int, account: Account, around: Surroundings) -> Fit:
    """Hold a hypothesis against one reading of the totals by model.

    Args:
        hypothesis: Which calls of the main loop count, and what they took in.
        reported_output: Output of the main loop as the result events have it, in tokens.
        account: The totals by model.
        around: Subagents, compactions, tools with calls of their own.
    """
    known = account.models.keys()
    found = Fit({}, hypothesis.taken_in.with_output(reported_output), account)
    announced = names.find(around.announced, known) if around.announced else None
    own = {announced, *(names.find(name, known) for name in around.fallbacks)}
    main = _by_name(hypothesis.calls, known, announced, found.notes)
    subagents = _by_name(around.subagent_calls, known, None, found.notes)
    sums = {name: total(call.counters.with_output(0) for call in calls) for name, calls in main.items()}
    if len(sums) == 1 or (not sums and announced is not None):
        sums = {next(iter(sums), announced or ""): hypothesis.taken_in.with_output(0)}
    for name in sorted({*known, *sums, *subagents}):
        entry = account.models.get(name)
        role: Role = "sidecar"
        if name in sums or name in own:
            role = "main"
        elif name in subagents:
            role = "subagent"
        side = ModelSide(
            role, entry.sum if entry else ZERO, sums.get(name, ZERO), subagents.get(name, []), main.get(name, [])
        )
        found.sides[name] = side
        _explain(side, account, around, searched=entry is not None and entry.searches > around.searches)
    if known and not sums and around.announced is None:
        found.problem = "neither a call nor an announcement says which model is the run's own"
        return found
    if account.problem:
        found.problem = account.problem
        return found
    problems = [f"{name}: {side.problem}" for name, side in found.sides.items() if side.problem]
    if problems:
        found.problem = "; ".join(problems)
        found.code = _code(found, reported_output)
    elif not (hypothesis.confirmed or not any(side.cause in _LOOSE for side in found.sides.values())):
        found.problem = "the result events and the totals by model hold rests that do not confirm each other"
    else:
        _check_outputs(found, hypothesis, reported_output)
    if not found.problem:
        _itemise(found)
    return found


def _by_name(
    calls: Sequence[Call], known: Collection[str], announced: str | None, notes: list[str]
) -> dict[str, list[Call]]:
    """Calls by the name their model has in the totals.

    A reply can name another model than the one that was asked for and is billed; where only the announced one is in
    the totals, it is that one.
    """
    result: dict[str, list[Call]] = {}
    for call in calls:
        name = names.find(call.model, known)
        if name is None and announced is not None:
            name = announced
            if "REPLY-MODEL-DIFFERS" not in notes:
                notes.append("REPLY-MODEL-DIFFERS")
        result.setdefault(name or names.plain(call.model), []).append(call)
    return result


def _explain(side: ModelSide, account: Account, around: Surroundings, *, searched: bool) -> None:
    """Find the cause of what the CLI reports beyond the calls of one model."""
    expected = side.main + side.subagents
    if expected.same_input(side.reported):
        return
    rest = (side.reported - expected).with_output(0)
    if rest.inside == (0, 0, 0):
        side.problem = "the lifetimes of its cache writes differ"
        return
    if min(rest.inside) < 0:
        side.problem = _LESS
        return
    if min(rest.write_5m, rest.write_1h) < 0:
        side.problem = "the lifetimes of its cache writes differ"
        return
    side.rest = rest
    unstreamed = _unstreamed(rest, around.reports)
    if unstreamed is not None:
        side.cause, side.rest = "subagent", unstreamed
        side.role = "subagent" if side.role == "sidecar" else side.role
    elif side.role == "sidecar":
        side.cause, side.rest = "sidecar", side.reported
    elif side.role == "main" and account.certain and around.compacted:
        side.cause = "compaction"
    elif side.role == "main" and account.certain and (around.fetched or searched):
        side.cause = "side call"
    else:
        side.problem = _MORE


def _unstreamed(rest: Sum, reports: Sequence[SubagentReport]) -> Sum | None:
    """The last calls of subagents that are never streamed, where their own reports add up to exactly the rest."""
    sums = [of_usage(report.usage) for report in reports[:_MOST_REPORTS] if report.usage is not None]
    for size in range(len(sums), 0, -1):
        for some in combinations(sums, size):
            together = total(some)
            if together.same_input(rest):
                return together
    return None


def _code(found: Fit, reported_output: int) -> Code:
    """CARRYOVER where whole calls are too many: input and output both, on a model of the run, and nothing else."""
    more = [side for side in found.sides.values() if side.problem]
    output = sum(side.reported.output for side in found.sides.values() if side.role != "sidecar")
    if all(side.problem == _MORE and side.role == "main" for side in more) and output > reported_output:
        return Code.CARRYOVER
    return Code.MODELS_UNRECONCILED


def _check_outputs(found: Fit, hypothesis: Hypothesis, reported_output: int) -> None:
    """Outputs: those of the main loop and of finished calls are known, the rest must be possible.

    With calls that the result events leave out, the output of the main loop is what the totals hold beyond the others.
    """
    own = {name: side for name, side in found.sides.items() if side.role != "sidecar"}
    main_names = [name for name, side in own.items() if side.role == "main"]
    group = [own[name] for name in main_names]
    extra = sum(_beyond(side) for side in group) - reported_output
    loose = any(side.open for side in group)
    if hypothesis.short:
        finished = all(call.final for call in hypothesis.short)
        expected = sum(call.usage.output for call in hypothesis.short)
        if loose or extra < expected or (finished and extra != expected):
            found.problem = (
                f"output of the calls that the result events leave out: {extra}, at least {expected} expected"
            )
        found.main = found.main.with_output(reported_output + extra)
    elif not loose and extra:
        found.problem = f"output: {reported_output + extra} by model, {reported_output} in the result events"
    elif extra < sum(side.placeholders for side in group):
        found.problem = f"output: {reported_output + extra} by model is less than that of the calls"
    elif loose:
        _give_output(group, extra)
    for name, side in own.items():
        if side.role == "subagent" and not found.problem:
            beyond = _beyond(side)
            if beyond < side.placeholders or (beyond and not side.open):
                found.problem = f"{name}: output {side.reported.output} does not fit its calls"


def _beyond(side: ModelSide) -> int:
    """Reported output beyond that of finished subagent calls and of what their reports name."""
    return side.reported.output - side.subagents.output - (side.rest.output if side.cause == "subagent" else 0)


def _give_output(group: Sequence[ModelSide], extra: int) -> None:
    """Where only one rest can have made the output, it is its own."""
    rests = [side for side in group if side.cause in _LOOSE]
    if len(rests) == 1 and not any(not call.final for side in group for call in side.subagent_calls):
        rests[0].rest = rests[0].rest.with_output(extra)


def _itemise(found: Fit) -> None:
    """Name the rests, and say in the notes that they are there."""
    causes = {"sidecar": "SIDECAR", "compaction": "COMPACTION", "side call": "SIDE-CALLS", "subagent": "SUBAGENTS"}
    for name, side in found.sides.items():
        if side.cause:
            found.notes.append(causes[side.cause])
            found.remainder.append(Remainder(side.cause, name, side.rest.tokens()))
        if side.subagent_calls:
            found.notes.append("SUBAGENTS")


def equations(found: Fit) -> tuple[Equation, ...]:
    """One equation a model, with both sides."""
    rows: list[Equation] = []
    for name, side in sorted(found.sides.items()):
        fits = not side.problem and not found.problem
        seen = side.main + side.subagents + (side.rest if side.cause else ZERO)
        left = side.sum if fits else seen.with_output(seen.output + side.placeholders)
        right = left if fits else side.reported
        note = side.problem or (f"{side.cause}: {side.rest.billed_input} tokens of input" if side.cause else "")
        if not note and found.problem.startswith(("output", f"{name}:")):
            note = found.problem
        rows.append(
            Equation(
                name=f"model {name}",
                left_label="calls and named remainders",
                right_label="modelUsage",
                left=left.tokens(),
                right=right.tokens(),
                holds=not side.problem and not (found.problem and side.role != "sidecar"),
                note=note,
            )
        )
    return tuple(rows)
