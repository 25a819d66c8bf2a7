"""The price probe: what the agent CLI charges, found by showing it bills on which one counter stands.

The CLI is pointed at an API on 127.0.0.1 whose replies state crafted usage; the price of each counter is solved from
the cost that the CLI prints. Thresholds above which a whole call is repriced are found by bisection. Nothing is assumed
of one class of calls from another: each tier, speed and region has its own bills, and in the end a bill with all
counters at once must cost what the prices say.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final

import msgspec

from tokenbench.agents.claude import launch
from tokenbench.clock import Clock
from tokenbench.errors import AgentError
from tokenbench.ledger.prices import MILLION, STANDARD, ModelPrices, PriceTable, Rates, Row, Sample
from tokenbench.ledger.process import TOLERANCE
from tokenbench.probes.till import Ask, Charge, till
from tokenbench.text import one_line

LADDER: Final = (1_000, 10_000, 32_000, 64_000, 128_000, 200_000, 256_000, 400_000, 600_000, 900_000, 2_000_000)
"""Prompt sizes between which a change of price is looked for, in tokens."""
USUAL: Final = 100_000
"""Tokens of a counter on a bill, where no threshold asks for another number."""
SEARCHES: Final = 10
FETCHES: Final = 10
SPEEDS: Final = ("", "fast")
REGIONS: Final = ("", "us")
"""Regions with bills of their own."""
OTHER_REGIONS: Final = ("not_available", "global", "eu")
"""Regions of which only is asked whether they cost what no region costs."""
FINEST: Final = Decimal("1e-9")
"""USD per million tokens. The CLI's doubles are good to about 1e-15 of a price."""


class UnknownPrice(AgentError):
    """The CLI itself has no price of this model."""


@dataclass(slots=True)
class _Bills:
    """Shows bills and keeps them as evidence."""

    ask: Ask
    shown: list[Sample] = field(default_factory=list[Sample])
    model: str = ""

    async def cost(self, bill: Sample) -> Decimal:
        charge = await self.ask(bill)
        self._check(charge)
        self.shown.append(msgspec.structs.replace(bill, cost=charge.cost))
        return charge.cost

    async def unit(self, size: int) -> Decimal:
        """Price of fresh input in a prompt of that many tokens."""
        return _solved(await self.cost(Sample(cost=Decimal(0), input=size)), size)

    def _check(self, charge: Charge) -> None:
        if not charge.known:
            raise UnknownPrice(
                f"the CLI has no price of {one_line(charge.model, 80)} and takes that of another model",
                remedy="Name a model that this version of the CLI knows, or update the CLI; until then use tokens",
            )
        if self.model and charge.model != self.model:
            raise _odd(f"it billed {one_line(charge.model, 80)} after {one_line(self.model, 80)}")
        self.model = charge.model


async def probe_model(ask: Ask, *, version: str, made: float) -> ModelPrices:
    """Find all prices of the model that `ask` bills.

    Args:
        ask: Shows a bill and gives back what it costs.
        version: Of the CLI.
        made: Now, in seconds since the Unix epoch.

    Raises:
        UnknownPrice: The CLI prices the model as another one.
        AgentError: It does not answer, or its prices are none of the kind that a table can hold.
    """
    bills = _Bills(ask)
    thresholds = await _thresholds(bills)
    rows: list[Row] = []
    for at, above in enumerate([0, *thresholds]):
        # At the last token below a threshold and the first above it, so that each counter proves that it counts.
        size = above + 1 if above else thresholds[at] if thresholds else USUAL
        for speed in SPEEDS:
            for region in REGIONS:
                rates = await _rates(bills, size, above, speed, region)
                rows.append(Row(above, speed or STANDARD, region, rates))
    base = await bills.cost(Sample(cost=Decimal(0), input=1_000, output=1_000))
    fetched = await bills.cost(Sample(cost=Decimal(0), input=1_000, output=1_000, fetches=FETCHES))
    if fetched != base:
        raise _odd(f"{FETCHES} web fetches cost {fetched - base} USD, and a table has no price of them")
    plain = tuple(
        [
            region
            for region in OTHER_REGIONS
            if await bills.cost(Sample(cost=Decimal(0), input=1_000, output=1_000, region=region)) == base
        ]
    )
    return ModelPrices(
        model=bills.model,
        agent=launch.NAME,
        agent_version=version,
        rows=tuple(rows),
        plain_regions=plain,
        largest=LADDER[-1],
        made=made,
        evidence=tuple(bills.shown),
    )


async def _thresholds(bills: _Bills) -> list[int]:
    """Prompt sizes, in tokens, above which fresh input has another price."""
    found: list[int] = []
    low, price = LADDER[0], await bills.unit(LADDER[0])
    for high in LADDER[1:]:
        other = await bills.unit(high)
        while price != other:
            inside, outside = low, high
            while outside - inside > 1:
                middle = (inside + outside) // 2
                if await bills.unit(middle) == price:
                    inside = middle
                else:
                    outside = middle
            found.append(inside)
            if len(found) > len(LADDER):
                raise _odd("the price of a token changes with every size of the prompt")
            low, price = outside, await bills.unit(outside)
        low = high
    return found


async def _rates(bills: _Bills, size: int, above: int, speed: str, region: str) -> Rates:
    """The prices of one class of calls, each from a bill of its own, and proved by a bill with all of them."""
    nothing = Sample(cost=Decimal(0), speed=speed, region=region)

    async def alone(counter: str) -> Decimal:
        return _solved(await bills.cost(msgspec.structs.replace(nothing, **{counter: size})), size)

    fresh = await alone("input")
    # Output and searches are in the tier of their call's prompt.
    prompt = msgspec.structs.replace(nothing, input=size) if above else nothing
    under = fresh * prompt.input / MILLION
    output = _solved(await bills.cost(msgspec.structs.replace(prompt, output=USUAL)) - under, USUAL)
    fees = await bills.cost(msgspec.structs.replace(prompt, searches=SEARCHES)) - under
    rates = Rates(
        input=fresh,
        cache_write_5m=await alone("cache_write_5m"),
        cache_write_1h=await alone("cache_write_1h"),
        cache_read=await alone("cache_read"),
        output=output,
        web_search=_solved(fees, SEARCHES, per=1),
    )
    fourth = size // 4
    every = msgspec.structs.replace(
        nothing,
        input=size - 3 * fourth,
        cache_write_5m=fourth,
        cache_write_1h=fourth,
        cache_read=fourth,
        output=777,
        searches=3,
    )
    charged, expected = await bills.cost(every), rates.cost(every.tokens, searches=every.searches)
    if abs(charged - expected) > TOLERANCE:
        raise _odd(f"a call with all counters cost {charged} USD, its counters one by one {expected} USD")
    return rates


def _solved(cost: Decimal, count: int, *, per: int = 1_000_000) -> Decimal:
    """The price of `per` pieces, where `count` cost so much: the double's noise is rounded away."""
    price = (cost * per / count).quantize(FINEST, ROUND_HALF_EVEN)
    if abs(price * count / per - cost) > TOLERANCE:
        raise _odd(f"{count} pieces cost {cost} USD, which is no round price")
    return Decimal(format(price.normalize(), "f"))


def _odd(what: str) -> AgentError:
    return AgentError(
        f"the CLI's costs do not follow from prices: {what}",
        remedy="Use tokens; report this with the version of the CLI",
    )


class Probed(msgspec.Struct, frozen=True):
    """What came of probing several models."""

    table: PriceTable
    failed: dict[str, str]
    """Models that could not be priced, and why."""
    renamed: dict[str, str]
    """Models that the CLI bills under another name."""


async def probe(
    cli: launch.Cli, models: Sequence[str], *, clock: Clock, progress: Callable[[str], None] = lambda _text: None
) -> Probed:
    """Probe models, one process each. Costs nothing: the CLI talks to 127.0.0.1 with a dummy key.

    Args:
        cli: The agent CLI, as `launch.find` gives it.
        models: As they are asked for.
        clock: Dates the table.
        progress: Receives sentences for a person.
    """
    found: list[ModelPrices] = []
    failed: dict[str, str] = {}
    renamed: dict[str, str] = {}
    for model in dict.fromkeys(models):
        try:
            async with till(cli, model) as desk:
                prices = await probe_model(desk.ask, version=cli.version, made=clock.now())
        except AgentError as error:
            failed[model] = str(error)
            progress(f"prices of {one_line(model, 80)}: {error}")
            continue
        found.append(prices)
        if PriceTable((prices,)).find(model, cli.version) is None:
            renamed[model] = prices.model
        tiers = "".join(f", another tier above {limit:,} tokens" for limit in prices.thresholds)
        progress(f"prices of {one_line(prices.model, 80)}: {len(prices.evidence)} bills shown{tiers}")
    return Probed(PriceTable().merged(PriceTable(tuple(found))), failed, renamed)
