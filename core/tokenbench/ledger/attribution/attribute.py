"""Attribution: parts + unattributed = billed input, exactly, for every run (docs/ledger.md has the equations).

A thread (the main loop, or a subagent) is a row of calls with billed inputs B₁ … Bₙ. Its first prompt is fixed prefix
and prompt; what call i said and what its tools gave stands in the prompts of calls i+1 … up to the next compaction.
Estimates are rounded to integers once, where they arise, and then only multiplied by counts of calls, so no sum is ever
rounded; what is left over, which can be negative, is `unattributed`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from math import ceil, sqrt

import msgspec

from tokenbench.figures import Code, refuse
from tokenbench.ledger.attribution.dollars import Bill, Layer, Prompt, spend
from tokenbench.ledger.attribution.growth import GrowthTable
from tokenbench.ledger.attribution.items import UNATTRIBUTED, Item, Key
from tokenbench.ledger.attribution.model import Attributed, Attribution, Kind, Part, Weights
from tokenbench.ledger.attribution.own import own_words
from tokenbench.ledger.attribution.rates import Rates, Shape
from tokenbench.ledger.attribution.settling import NOTES_MOST, settle
from tokenbench.ledger.attribution.threads import Piece, Step, Thread
from tokenbench.ledger.model import CallRow, Ledger
from tokenbench.ledger.shell import Use
from tokenbench.ledger.sums import of_usage

_SHAPES: dict[Use, Shape] = {"read": "read", "search": "search", "filter": "search", "list": "list"}


@dataclass(slots=True)
class _Total:
    unique: int = 0
    billed: int = 0
    bound_unique: float = 0.0
    bound_billed: float = 0.0
    squares_unique: float = 0.0
    squares_billed: float = 0.0
    """Squared scatters."""


@dataclass(slots=True)
class _Book:
    """Gathers parts."""

    rates: Rates
    totals: dict[Key, _Total] = field(default_factory=dict[Key, _Total])
    growth: GrowthTable = field(default_factory=GrowthTable)
    prompts: list[Prompt] = field(default_factory=list[Prompt])
    """What each call's prompt is made of."""
    context: int = 0
    """Tokens of all prompts, what they share counted once."""

    def add(self, item: Item, times: int, *, again: bool = False) -> None:
        """Count a thing that so many calls billed; `again` if it has been counted for calls before."""
        total = self.totals.setdefault(item.key, _Total())
        if not again:
            total.unique += item.tokens
            total.bound_unique += item.bound
            total.squares_unique += item.scatter**2
        total.billed += item.tokens * times
        total.bound_billed += item.bound * times
        total.squares_billed += (item.scatter * times) ** 2


def attribute(ledger: Ledger, rates: Rates | None, *, prompt: int | None, weights: Weights | None = None) -> Attributed:
    """Where the billed input of a run went.

    Args:
        ledger: Of the run.
        rates: Characters per token of its corpus and model; None where they were never measured.
        prompt: Characters of the prompt that the agent was given; None leaves it in the fixed prefix.
        weights: A price table; None leaves dollars out.

    Returns:
        The parts, or UNCALIBRATED, CALLS-COLLIDE, or the refusal that took the run's tokens.
    """
    if ledger.tokens is None:
        return next(iter(ledger.refusals), None) or refuse(Code.CALLS_UNRECONCILED)
    if ledger.calls and not ledger.call_rows:
        return refuse(Code.CALLS_COLLIDE)
    if rates is None:
        return refuse(Code.UNCALIBRATED)
    book = _Book(rates)
    rest = [item for item in ledger.remainder if not _is_sidecar(ledger, item.model)]
    unstreamed = sum(item.tokens.billed_input for item in rest if item.what == "subagent")
    for thread in ledger.threads or (Thread(None),):
        calls = [row for row in ledger.call_rows if row.parent == thread.parent]
        last = _last_call(thread, calls, unstreamed)
        if last is not None:
            unstreamed -= last.tokens.billed_input
            calls.append(last)
        if calls:
            _thread(book, ledger, thread, calls, prompt)
    for item in rest:
        tokens = item.tokens.billed_input
        if item.what == "subagent":
            tokens, unstreamed = min(tokens, unstreamed), unstreamed - min(tokens, unstreamed)
        if tokens:
            book.add(Item(Key("side", item.what), tokens, 0.0), 1)
    return _published(book, ledger, prompt, weights)


def _thread(book: _Book, ledger: Ledger, thread: Thread, calls: Sequence[CallRow], prompt: int | None) -> None:
    """Lay out the prompts of one thread's calls and count what stands in them."""
    whose = "main" if thread.parent is None else "subagent"
    characters = prompt if thread.parent is None else thread.opening
    rates, billed = book.rates, [call.tokens.billed_input for call in calls]
    asked = min(rates.tokens("prompt", characters), billed[0]) if characters is not None else 0
    unsure = rates.bound("prompt", asked) + rates.scatter("prompt", asked)
    prefix = Item(Key("prefix", whose), billed[0] - asked, unsure)
    opening = Item(Key("prompt", whose), asked, unsure)
    steps = _steps(thread, calls)
    words = own_words(calls, steps, rates, ledger.main.output if thread.parent is None and ledger.main else None)
    book.add(prefix, len(calls))
    segment = [prefix, opening]
    known: dict[str, list[Item]] = {}
    grew: dict[str, int] = {}
    begin = 0
    for end in (*(at + 1 for at, step in enumerate(steps[:-1]) if step.compacted), len(calls)):
        if begin:
            stays = _stays(steps[begin - 1], known, billed[begin] - prefix.tokens)
            segment = _compacted(whose, prefix, billed[begin], [item for key in stays for item in known[key]])
            book.add(prefix._replace(tokens=0, bound=NOTES_MOST, scatter=0.0), end - begin, again=True)
            book.context -= segment[0].tokens + sum(item.tokens for key in stays if key in grew for item in known[key])
            for at in (at for at in range(begin) if steps[at].key in stays):
                key = steps[at].key
                for item in known[key]:
                    book.add(item, end - begin, again=key in grew)
                # What came in last before a compaction grew no prompt: with the summary it is a bound all the same.
                most = grew.get(key, segment[1].tokens + sum(item.tokens for item in known[key]) - words[at].said)
                book.growth.add(steps[at].results, most, end - begin, again=key in grew)
                grew[key] = most
        book.context += billed[end - 1]
        book.add(segment[1], end - begin)
        layers = [Layer(tuple(segment), sum(item.tokens for item in segment))]
        for at in range(begin, end):
            book.prompts.append(Prompt(calls[at], layers, len(layers)))
            grown = billed[at + 1] - billed[at] if at + 1 < end else None
            known[steps[at].key] = items = _items(book, steps[at], words[at].said, words[at].thought, grown)
            if grown is None:
                break
            grew[steps[at].key] = grown - words[at].said
            for item in items:
                book.add(item, end - at - 1)
            layers.append(Layer(tuple(items), grown))
            book.growth.add(steps[at].results, grew[steps[at].key], end - at - 1)
        begin = end


def _stays(step: Step, known: Mapping[str, Sequence[Item]], room: int) -> list[str]:
    """Steps that stayed behind the summary; none where they come to more than there is room for."""
    stays = [key for key in step.keeps if key in known]
    return stays if sum(item.tokens for key in stays for item in known[key]) <= room else []


def _compacted(whose: str, prefix: Item, billed: int, stayed: Sequence[Item]) -> list[Item]:
    """What stands in the first prompt after a compaction: the prefix, the summary, and what stayed.

    The agent writes its notes around them anew, so that the prefix is only about what it was.
    """
    first = min(prefix.tokens, billed)
    unsure = prefix.bound + NOTES_MOST + sum(item.bound + item.scatter for item in stayed)
    summary = Item(Key("summary", whose), billed - first - sum(item.tokens for item in stayed), unsure)
    return [prefix._replace(tokens=first), summary, *stayed]


def _items(book: _Book, step: Step, said: int, thought: int, grown: int | None) -> list[Item]:
    """What one step put into the prompt, each with its bound.

    What is left of the growth may belong to any one thing of the step, so it widens the bound of each. Before a
    compaction there is no growth to hold anything against.
    """
    rates = book.rates
    unsure = rates.bound(None, said) + rates.scatter("call", said)
    results = [item for piece in step.results for item in _of_piece(rates, piece)]
    found = settle(results, grown, said, unsure, thinks=step.thinks)
    left = grown - said - sum(item.tokens for item in found) if grown is not None else 0
    thinking = max(0, min(left, thought)) if step.thinks else 0
    if said:
        bound = rates.bound(None, said) + abs(left - thinking)
        found = [Item(Key("own", "said"), said, bound, rates.scatter("call", said)), *found]
    if step.thinks and thought:
        unsure = thinking + abs(left - thinking) + sum(item.bound + item.scatter for item in found)
        found.append(Item(Key("thinking", ""), thinking, unsure))
    return found


def _of_piece(rates: Rates, piece: Piece) -> Iterator[Item]:
    if piece.denied:
        tokens = rates.tokens("prompt", piece.characters)
        yield Item(Key("denied", piece.tool), tokens, rates.bound("prompt", tokens), rates.scatter("prompt", tokens))
        return
    if piece.use == "retrieval":
        envelope = rates.tokens("envelope", piece.envelope)
        code = rates.tokens("code", piece.characters - piece.envelope)
        yield Item(
            Key("envelope", piece.tool, piece.use),
            envelope,
            rates.bound("envelope", envelope),
            rates.scatter("envelope", envelope),
        )
        yield Item(Key("result", piece.tool, piece.use), code, rates.bound("code", code), rates.scatter("code", code))
        return
    shape = _SHAPES.get(piece.use)
    tokens = rates.tokens(shape or "code", piece.characters)
    yield Item(
        Key("result", piece.tool, piece.use),
        tokens + piece.images,
        rates.bound(shape, tokens),
        rates.scatter(shape, tokens),
    )


def _steps(thread: Thread, calls: Sequence[CallRow]) -> list[Step]:
    """The step of each call; a call that says nothing has an empty one. What belongs to no counted call is left out."""
    known = {step.key: step for step in thread.steps}
    return [known.get(call.message_id) or Step(call.message_id) for call in calls]


def _last_call(thread: Thread, calls: Sequence[CallRow], unstreamed: int) -> CallRow | None:
    """A subagent's last call, which only its summary tells, where the totals hold it beside the stream."""
    if thread.parent is None or thread.last_call is None or not calls:
        return None
    tokens = of_usage(thread.last_call).tokens()
    if not 0 < tokens.billed_input <= unstreamed:
        return None
    return msgspec.structs.replace(calls[-1], message_id="", tokens=tokens)


def _is_sidecar(ledger: Ledger, model: str) -> bool:
    row = ledger.models.get(model)
    return row is not None and row.role == "sidecar"


def _published(book: _Book, ledger: Ledger, prompt: int | None, weights: Weights | None) -> Attribution:
    assert ledger.tokens is not None
    billed = ledger.tokens.billed_input
    totals = dict(book.totals)
    unique = book.context + sum(total.unique for key, total in totals.items() if key.kind == "side")
    totals[UNATTRIBUTED] = _Total(
        unique - sum(total.unique for total in totals.values()),
        billed - sum(total.billed for total in totals.values()),
        sum(total.bound_unique for total in totals.values()),
        sum(total.bound_billed for total in totals.values()),
        sum(total.squares_unique for total in totals.values()),
        sum(total.squares_billed for total in totals.values()),
    )
    bill = _bill(book, ledger, weights)
    parts = tuple(
        _part(key, total, unique, billed, bill)
        for key, total in sorted(totals.items(), key=lambda entry: _order(entry[0]))
        if total.unique or total.billed or key.kind in ("thinking", "unattributed")
    )
    return Attribution(
        billed_input=billed,
        unique_context=unique,
        usd=bill.total if bill is not None else None,
        prompt_known=prompt is not None,
        parts=parts,
        growth=book.growth.rows(),
    )


def _bill(book: _Book, ledger: Ledger, weights: Weights | None) -> Bill | None:
    if weights is None:
        return None
    sides = [item for item in ledger.remainder if not _is_sidecar(ledger, item.model)]
    return spend(book.prompts, weights, [(Key("side", item.what), item) for item in sides if item.what != "subagent"])


def _part(key: Key, total: _Total, unique: int, billed: int, bill: Bill | None) -> Part:
    usd: Decimal | None = None
    if bill is not None:
        usd = bill.left if key == UNATTRIBUTED else bill.by_key.get(key, Decimal(0))
    return Part(
        kind=key.kind,
        name=key.name,
        use=key.use,
        unique=total.unique,
        billed=total.billed,
        bound_unique=ceil(total.bound_unique + sqrt(total.squares_unique)),
        bound_billed=ceil(total.bound_billed + sqrt(total.squares_billed)),
        usd=usd,
        share_of_unique_context=total.unique / unique if unique > 0 else None,
        share_of_billed_input=total.billed / billed if billed > 0 else None,
        share_of_input_usd=float(usd / bill.total) if usd is not None and bill is not None and bill.total > 0 else None,
    )


_ORDER: tuple[Kind, ...] = (
    "prefix",
    "prompt",
    "summary",
    "result",
    "envelope",
    "denied",
    "own",
    "thinking",
    "side",
    "unattributed",
)


def _order(key: Key) -> tuple[int, str, str]:
    return _ORDER.index(key.kind), key.name, key.use or ""
