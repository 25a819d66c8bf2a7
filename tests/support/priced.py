"""Price tables as a probe would have made them: rows with bills that bear them out."""

from collections.abc import Iterator
from decimal import Decimal

import msgspec

from tokenbench.ledger.prices import STANDARD, ModelPrices, PriceTable, Row, Sample

COUNTERS = ("input", "cache_write_5m", "cache_write_1h", "cache_read")
LARGEST = 2_000_000


def proved(prices: ModelPrices) -> ModelPrices:
    """The same rows with the bills that determine them, as a CLI with these prices would have charged."""
    longest = msgspec.structs.replace(prices, largest=prices.largest or LARGEST)
    bills = [msgspec.structs.replace(bill, cost=_cost(longest, bill)) for bill in _bills(longest)]
    return msgspec.structs.replace(longest, evidence=tuple(bills))


def proved_table(*prices: ModelPrices) -> PriceTable:
    """A table of these, each with its bills."""
    return PriceTable(tuple(map(proved, prices)))


def _cost(prices: ModelPrices, bill: Sample) -> Decimal:
    cost = prices.cost(bill.tokens, searches=bill.searches, speed=bill.speed, region=bill.region)
    assert cost is not None
    return cost


def _bills(prices: ModelPrices) -> Iterator[Sample]:
    nothing = Sample(cost=Decimal(0))
    for row in prices.rows:
        yield from _of_row(prices, row)
    for limit in (*prices.thresholds, prices.largest):
        yield msgspec.structs.replace(nothing, input=limit)
        yield msgspec.structs.replace(nothing, input=min(limit + 1, prices.largest))
    for region in prices.plain_regions:
        yield msgspec.structs.replace(nothing, input=1_000, region=region)


def _of_row(prices: ModelPrices, row: Row) -> Iterator[Sample]:
    size = row.above + 1 if row.above else min((100_000, *prices.thresholds))
    way = Sample(cost=Decimal(0), speed="" if row.speed == STANDARD else row.speed, region=row.region)
    for counter in COUNTERS:
        yield msgspec.structs.replace(way, **{counter: size})
    prompt = msgspec.structs.replace(way, input=size if row.above else 0)
    yield msgspec.structs.replace(prompt, output=100_000)
    yield msgspec.structs.replace(prompt, searches=10)
