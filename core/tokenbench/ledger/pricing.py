"""The price equation: what the calls cost by a price table, against what the CLI says they cost.

The tier of a call is decided by its own prompt, so prices are added up call by call. Streamed outputs are partial: only
the sum of a model's outputs is known. Where all its calls have one price, that is enough; where they straddle a tier
(or a speed, or a region), the cost lies between two bounds, and the equation cannot be checked closer than that.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

import msgspec

from tokenbench.figures import Code, Refusal, refuse
from tokenbench.ledger.calls import Call
from tokenbench.ledger.model import Equation, Tokens
from tokenbench.ledger.prices import MAKE_ONE, MILLION, ModelPrices, PriceTable, Rates
from tokenbench.ledger.process import TOLERANCE
from tokenbench.ledger.sums import Sum, total

NOUGHT: Final = Decimal(0)
LEFT: Final = "calls by the price table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What is to be priced: one model of a process."""

    calls: Sequence[Call]
    whole: Sum
    """All that it used: the calls, and what the stream does not show."""
    searches: int
    """Web searches, billed by the piece."""
    unsplit_is_1h: bool = False
    """Writes of unknown lifetime that no call shows are taken for 1-hour ones."""


@dataclass(frozen=True, slots=True)
class Priced:
    """What a model, or several, cost by a price table, in USD."""

    low: Decimal = NOUGHT
    high: Decimal = NOUGHT
    """Differs from `low` where the price of a part is not certain."""
    neutral: Decimal | None = NOUGHT
    """All input at the price of fresh input, with the fees; None where the cost is not certain."""
    fees: Decimal = NOUGHT
    """Of web searches, in all three."""
    straddled: tuple[str, ...] = ()
    """Sentences: where a price is not certain, and why."""

    @property
    def exact(self) -> Decimal | None:
        """The cost, where it is certain."""
        return self.low if self.low == self.high else None

    def __add__(self, other: "Priced") -> "Priced":
        neutral = None if self.neutral is None or other.neutral is None else self.neutral + other.neutral
        return Priced(
            self.low + other.low,
            self.high + other.high,
            neutral,
            self.fees + other.fees,
            (*self.straddled, *other.straddled),
        )


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why there is no price; empty texts leave it to the words of PRICE-UNKNOWN."""

    why: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class _Part:
    """Some tokens, and the prices that they may have."""

    tokens: Tokens
    """Its output is what is certain."""
    rates: tuple[Rates, ...]
    open: bool
    """More output may belong to it."""


def price(bills: Mapping[str, Bill], table: PriceTable | None, version: str | None) -> dict[str, Priced] | Unknown:
    """What each model cost, or why that cannot be said.

    Args:
        bills: By the model's name in the CLI's totals; models that used anything.
        table: The prices; None where there are none.
        version: Of the CLI that printed the transcript.
    """
    if table is None:
        return Unknown()
    ways = sorted({(call.usage.speed, call.usage.region) for bill in bills.values() for call in bill.calls})
    result: dict[str, Priced] = {}
    for name, bill in bills.items():
        prices = table.find(name, version)
        if prices is None:
            return _not_found(name, table, version)
        parts = _parts(bill, prices, ways)
        if isinstance(parts, Unknown):
            return parts
        result[name] = _add_up(name, bill, prices, parts)
    return result


def _used(bill: Bill) -> bool:
    return bool(bill.whole.billed_input or bill.whole.output or bill.searches)


def _not_found(name: str, table: PriceTable, version: str | None) -> Unknown:
    others = table.versions(name)
    if others and version is None:
        return Unknown(f"The transcript does not say which version of the CLI priced {name}", MAKE_ONE)
    if others:
        return Unknown(
            f"The prices of {name} are those of claude {', '.join(others)}; the transcript was printed by {version}",
            f"Probe the version that ran: `tokenbench-tui prices --probe --model {name}`",
        )
    return Unknown(
        f"No price table covers {name}",
        f"Probe it: `tokenbench-tui prices --probe --model {name}`; a model that the CLI does not know stays unknown",
    )


def _parts(bill: Bill, prices: ModelPrices, ways: Sequence[tuple[str, str]]) -> list[_Part] | Unknown:
    parts: list[_Part] = []
    for call in bill.calls:
        if not call.counters.billed_input and not call.counters.output:
            continue
        usage = call.usage
        rates = prices.rates(call.counters.billed_input, speed=usage.speed, region=usage.region)
        if rates is None:
            way = f"speed {usage.speed or 'standard'}, region {usage.region or 'none'}"
            return Unknown(
                f"The price of {prices.model} at {way} was never seen", "Use tokens; this price was not probed"
            )
        counters = call.counters if call.final else call.counters.with_output(0)
        parts.append(_Part(counters.tokens(), (rates,), not call.final))
    rest = bill.whole - total(call.counters for call in bill.calls)
    rest = rest.with_output(0)
    if rest.billed_input or not parts:
        known = prices.candidates(rest.billed_input, ways)
        if not known:
            return Unknown(f"The price of {prices.model} at its speed and region was never seen", MAKE_ONE)
        parts.append(_Part(rest.tokens(unsplit_is_1h=bill.unsplit_is_1h), known, open=True))
    return parts


def _add_up(name: str, bill: Bill, prices: ModelPrices, parts: Sequence[_Part]) -> Priced:
    low = high = neutral = NOUGHT
    even = True
    for part in parts:
        low += _extreme(part.rates, min).cost(part.tokens)
        high += _extreme(part.rates, max).cost(part.tokens)
        # Prices that charge a cached prompt alike may differ in that of fresh input.
        even = even and len({rates.neutral(part.tokens) for rates in part.rates}) == 1
        neutral += part.rates[0].neutral(part.tokens) + part.tokens.output * part.rates[0].output / MILLION
    left = bill.whole.output - sum(part.tokens.output for part in parts)
    takers = [part for part in parts if part.open] or list(parts)
    outputs = [rates.output for part in takers for rates in part.rates]
    low, high = low + left * min(outputs) / MILLION, high + left * max(outputs) / MILLION
    neutral += left * outputs[0] / MILLION
    pieces = [rates.web_search for part in parts for rates in part.rates]
    low, high = low + bill.searches * min(pieces), high + bill.searches * max(pieces)
    fees = bill.searches * pieces[0]
    if low == high:
        return Priced(low, high, neutral + fees if even else None, fees)
    sizes = ", ".join(f"{limit:,}" for limit in prices.thresholds)
    where = f"prompts on both sides of {sizes} tokens" if sizes else "calls of several speeds or regions"
    why = f"{name} had {where}, and how its output of {left:,} tokens divides among them is not printed"
    return Priced(low, high, None, fees, (f"{why}: between {low} and {high} USD",))


def _extreme(rates: Sequence[Rates], choose: Callable[[Iterable[Decimal]], Decimal]) -> Rates:
    """The lowest or the highest price of each counter: what calls of several classes cost lies between."""
    return Rates(*(choose(prices) for prices in zip(*map(msgspec.structs.astuple, rates), strict=True)))


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of the price equation."""

    equation: Equation
    holds: bool | None
    """None where nothing could be checked, or not closely enough."""
    refusal: Refusal | None = None
    priced: Mapping[str, Priced] = field(default_factory=dict[str, Priced])
    """By model; empty where no price is known."""

    @property
    def recomputed(self) -> Decimal | None:
        """What all models cost by the table, in USD."""
        return self.equation.left if isinstance(self.equation.left, Decimal) else None

    @property
    def fees(self) -> Decimal | None:
        """Of web searches, in USD; None where no price is known."""
        return sum((one.fees for one in self.priced.values()), NOUGHT) if self.priced else None

    def without(self, leave_out: Iterable[str]) -> Priced | None:
        """What all models but these cost; None where no price is known."""
        out = set(leave_out)
        every = sum((one for name, one in self.priced.items() if name not in out), Priced())
        return every if self.priced else None


def check(
    bills: Mapping[str, Bill] | Unknown,
    *,
    costs: Mapping[str, Decimal | None],
    reported: Decimal | None,
    reported_label: str,
    table: PriceTable | None,
    version: str | None,
) -> Checked:
    """Hold the prices of a table against what the CLI says its calls cost, to 1e-9 USD, model by model and in all.

    Args:
        bills: What each model used, by its name in the CLI's totals, or why that is unknown.
        costs: What the CLI says each cost, in USD; None where it does not say.
        reported: What it says all cost.
        reported_label: Where it says so.
        table: The prices.
        version: Of the CLI that printed the transcript.
    """
    used = {} if isinstance(bills, Unknown) else {name: bill for name, bill in bills.items() if _used(bill)}
    if reported == 0 and not used and not isinstance(bills, Unknown):
        return Checked(Equation("price", LEFT, reported_label, NOUGHT, reported, True), True)
    priced = bills if isinstance(bills, Unknown) else price(used, table, version)
    if isinstance(priced, Unknown):
        evidence = [f"model {name}" for name in used]
        refusal = refuse(Code.PRICE_UNKNOWN, *evidence, reason=priced.why or None, remedy=priced.remedy or None)
        return Checked(
            Equation("price", LEFT, reported_label, None, reported, None, priced.why or "no price table"), None, refusal
        )
    every = sum(priced.values(), Priced())
    left = every.exact
    wrong = [
        f"{name}: {_range(one)} USD by the price table, {cost} USD by the CLI"
        for name, one in priced.items()
        if (cost := costs.get(name)) is not None and not _within(cost, one)
    ]
    if reported is not None and not _within(reported, every):
        wrong.append(f"all models: {_range(every)} USD by the price table, {reported_label}: {reported} USD")
    note = f"web searches: {every.fees} USD of both sides" if every.fees else ""
    if wrong:
        reason = "What the calls cost by the price table is not what the CLI says they cost"
        remedy = "Probe the prices of this CLI anew with `tokenbench-tui prices --probe`; until then use tokens"
        refusal = refuse(Code.COST_UNRECONCILED, *wrong, reason=reason, remedy=remedy)
        return Checked(Equation("price", LEFT, reported_label, left, reported, False, note), False, refusal, priced)
    if left is not None:
        holds = None if reported is None else True
        return Checked(Equation("price", LEFT, reported_label, left, reported, holds, note), holds, None, priced)
    refusal = refuse(
        Code.COST_UNRECONCILED,
        *every.straddled,
        f"{reported_label}: {reported} USD",
        reason="The run's calls have several prices, and the cost can be checked no closer than between two bounds",
        remedy="Use tokens; partial messages (--include-partial-messages) print the output of each call",
    )
    return Checked(
        Equation("price", LEFT, reported_label, None, reported, None, "; ".join(every.straddled)), None, refusal, priced
    )


def _within(cost: Decimal, priced: Priced) -> bool:
    return cost.is_finite() and priced.low - TOLERANCE <= cost <= priced.high + TOLERANCE


def _range(priced: Priced) -> str:
    return str(priced.low) if priced.exact is not None else f"between {priced.low} and {priced.high}"
