"""The first equation: the calls of the main loop against the usage of the result events, and what may explain a gap.

A hypothesis says which of the calls seen count and what the main loop took in. Each is only an offer: it stands when
the totals by model, which the CLI keeps apart, fit it too (`reconcile`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from tokenbench.ledger import calls as book
from tokenbench.ledger.calls import Call
from tokenbench.ledger.model import Remainder
from tokenbench.ledger.sums import Sum, total

_MOST_WORK: Final = 100_000
"""Calls that are looked at in all combinations of abandoned replies, before a gap counts as unexplained."""


@dataclass(frozen=True, slots=True)
class MainEvidence:
    """What the transcript says of the main loop."""

    calls: tuple[Call, ...]
    """Of the main loop, by message id."""
    reported: Sum
    """The usages of the result events, added up."""
    abandoned: frozenset[str]
    """Keys of replies that had begun when the API failed."""
    collided: tuple[str, ...]
    """Message ids that certainly belong to several calls."""
    empty_replies: bool
    """The CLI told the model that its reply was empty."""
    complete: bool
    """Every tool result has its use, the answer is there, and no turn is missing."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One explanation of both sides."""

    calls: tuple[Call, ...]
    """The calls of the main loop that count."""
    abandoned: tuple[str, ...]
    taken_in: Sum
    """Input of the main loop; its output is that of the result events, unless `short`."""
    short: tuple[Call, ...] = ()
    """Calls that the result events leave out."""
    notes: tuple[str, ...] = ()
    remainder: tuple[Remainder, ...] = ()
    equal: bool = True
    """The equation holds as it stands."""
    collided: tuple[str, ...] = ()
    confirmed: bool = True
    """The transcript itself says why the sides differ, where they do; else only equal totals by model can."""


def hypotheses(evidence: MainEvidence) -> Iterator[Hypothesis]:
    """Explanations in the order of their plainness."""
    calls = book.split(evidence.calls, evidence.collided)
    yield from _equal(evidence, calls, evidence.collided)
    repeated = book.request_collisions(evidence.calls)
    if repeated and not evidence.collided:
        yield from _equal(evidence, book.split(evidence.calls, repeated), tuple(repeated))
    for dropped in _abandonments(evidence):
        kept = tuple(call for call in calls if call.key not in dropped)
        if not all(call.usage.consistent for call in kept):
            continue
        short = _left_out(kept, evidence.reported)
        if short:
            yield Hypothesis(
                calls=kept,
                abandoned=tuple(dropped),
                taken_in=total(call.counters for call in kept),
                short=short,
                notes=("RESULT-USAGE-SHORT",),
                equal=False,
                collided=evidence.collided,
            )
    yield from _larger(evidence, calls, tuple(repeated))


def _abandonments(evidence: MainEvidence) -> Iterator[frozenset[str]]:
    """Which begun replies are left out: all of them, none, then some."""
    keys = sorted(evidence.abandoned)
    yield frozenset(keys)
    if not keys:
        return
    yield frozenset()
    left = _MOST_WORK // max(1, len(evidence.calls))
    for size in range(1, len(keys)):
        for some in combinations(keys, size):
            left -= 1
            if left < 0:
                return
            yield frozenset(some)


def _equal(evidence: MainEvidence, calls: Sequence[Call], collided: tuple[str, ...]) -> Iterator[Hypothesis]:
    for dropped in _abandonments(evidence):
        kept = tuple(call for call in calls if call.key not in dropped)
        seen = total(call.counters for call in kept)
        if seen.same_input(evidence.reported) and _outputs_fit(kept, evidence.reported.output):
            yield Hypothesis(
                calls=kept,
                abandoned=tuple(sorted(dropped)),
                taken_in=evidence.reported,
                notes=("ABANDONED-ATTEMPT",) if dropped else (),
                collided=collided,
            )


def _outputs_fit(calls: Sequence[Call], output: int) -> bool:
    """Outputs of finished messages add up to the reported one; placeholders leave room above them."""
    finished = sum(call.usage.output for call in calls if call.final)
    return finished == output if all(call.final for call in calls) else finished <= output


def _left_out(calls: Sequence[Call], reported: Sum) -> tuple[Call, ...]:
    """One or two calls that make up exactly what was seen and not reported; the last call is tried first."""
    gap = (total(call.counters for call in calls) - reported).inside
    if min(gap) < 0 or gap == (0, 0, 0):
        return ()
    later: dict[tuple[int, int, int], Call] = {}
    pair: tuple[Call, ...] = ()
    for call in reversed(calls):
        inside = call.counters.inside
        if inside == gap:
            return (call,)
        other = later.get((gap[0] - inside[0], gap[1] - inside[1], gap[2] - inside[2]))
        if other is not None and not pair:
            pair = (call, other)
        later.setdefault(inside, call)
    return pair


def _larger(evidence: MainEvidence, calls: Sequence[Call], repeated: tuple[str, ...]) -> Iterator[Hypothesis]:
    """The result events hold more than the stream shows.

    They are trusted where the totals by model hold the same, and where it is known why the stream is short: replies
    without a visible block are not streamed; a gateway may count more at the end of a reply than at its beginning;
    replies with one id fall together. Lines that were lost are no such reason: they leave a result without its use,
    an answer without its message, or a turn too many.
    """
    for dropped in _abandonments(evidence):
        kept = tuple(call for call in calls if call.key not in dropped)
        seen = total(call.counters for call in kept)
        reported = evidence.reported
        if not reported.covers(seen) or seen.inside == reported.inside:
            continue
        gap = reported - seen
        model = kept[-1].model if kept else ""
        if evidence.empty_replies:
            note, what = "EMPTY-REPLIES", "unstreamed call"
        elif (evidence.collided or repeated) and kept:
            note, what = "", "calls of one message id"
        elif evidence.complete and kept and not any(call.final for call in kept):
            note, what = "COUNTERS-GREW", "growth of counters"
        else:
            continue
        rest = Remainder(what, model, gap.with_output(0).tokens())
        yield Hypothesis(
            calls=kept,
            abandoned=tuple(sorted(dropped)),
            taken_in=reported,
            notes=(note,) if note else (),
            remainder=(rest,),
            equal=False,
            collided=evidence.collided or repeated,
            confirmed=evidence.empty_replies,
        )
