"""Whether a price table says what its evidence says: a price that was edited by hand reconciles nothing.

Every bill must cost what the rows say, and the bills must determine every row. Prices and bills that were both edited
so that they agree are not found here; the costs of the runs contradict them (COST-UNRECONCILED).
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import msgspec

from tokenbench.ledger.process import TOLERANCE
from tokenbench.text import one_line

if TYPE_CHECKING:
    from tokenbench.ledger.prices import ModelPrices, PriceTable, Row, Sample

MOST: Final = 10**12
"""Tokens, searches or USD; nothing real comes near, and arithmetic stays exact below."""
LATEST: Final = 253_402_300_799
"""Seconds since the Unix epoch: the last of the year 9999, after which a calendar has no day."""
FINEST: Final = -40
"""The last decimal place of a number in a table. No double that the CLI prints for a cost has more."""
LEAST: Final = 1_000
"""Tokens of a counter on a bill that says what it costs: 1e-9 USD are then 1e-6 of a price per million tokens."""
_COUNTERS: Final = ("input", "cache_write_5m", "cache_write_1h", "cache_read", "output")


def fault(table: "PriceTable") -> str | None:
    """What is wrong with a table, as a sentence; None where its evidence bears it out."""
    seen: set[tuple[str, str, str]] = set()
    for entry in table.models:
        key = (entry.agent, entry.agent_version, entry.model)
        who = f"{one_line(entry.model, 80)} in {one_line(entry.agent, 20)} {one_line(entry.agent_version, 20)}"
        if key in seen:
            return f"{who} stands in it twice"
        seen.add(key)
        wrong = next(_faults(entry), None)
        if wrong is not None:
            return f"{who}: {wrong}"
    return None


def _faults(entry: "ModelPrices") -> Iterator[str]:
    if not (entry.model and entry.agent and entry.agent_version):
        yield "the model, the agent or its version has no name"
    yield from _numbers(entry)
    keys = [(row.above, row.speed, row.region) for row in entry.rows]
    if len(set(keys)) < len(keys):
        yield "a tier, speed and region has two rows"
    if not entry.rows:
        yield "it has no row"
    for bill in entry.evidence:
        cost = entry.cost(bill.tokens, searches=bill.searches, speed=bill.speed, region=bill.region)
        if cost is None:
            yield f"no row covers the bill of {_words(bill)}"
        elif abs(cost - bill.cost) > TOLERANCE:
            yield f"by its prices {_words(bill)} cost {cost} USD, and the CLI charged {bill.cost} USD"
    for row in entry.rows:
        yield from _unproved(entry, row)
    prompts = {bill.tokens.billed_input for bill in entry.evidence}
    for limit in entry.thresholds:
        if not {limit, limit + 1} <= prompts:
            yield f"no bills on both sides of {limit:,} tokens bear out its tier"
    if entry.largest not in prompts:
        yield f"no bill bears out prompts of {entry.largest:,} tokens"
    for region in entry.plain_regions:
        if not any(bill.region == region for bill in entry.evidence):
            yield f"no bill bears out that region {one_line(region, 40)} costs what none costs"


def _numbers(entry: "ModelPrices") -> Iterator[str]:
    """Numbers that no price, cost or count can be."""
    for row in entry.rows:
        for name, price in msgspec.structs.asdict(row.rates).items():
            if not _is_money(price):
                yield f"{name} {one_line(str(price), 40)} is no price"
        if not 0 <= row.above <= MOST:
            yield f"{one_line(str(row.above), 40)} is no size of a prompt"
    for bill in entry.evidence:
        if not _is_money(bill.cost):
            yield f"{one_line(str(bill.cost), 40)} is no cost"
        if any(not 0 <= getattr(bill, name) <= MOST for name in (*_COUNTERS, "searches", "fetches")):
            yield "a bill has a counter that is none"
    if not 0 < entry.largest <= MOST:
        yield f"{one_line(str(entry.largest), 40)} is no longest prompt"
    if not 0 <= entry.made <= LATEST:
        yield f"{one_line(str(entry.made), 40)} is no time"


def _is_money(value: Decimal) -> bool:
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and FINEST <= exponent <= 12 and 0 <= value <= MOST


def _unproved(entry: "ModelPrices", row: "Row") -> Iterator[str]:
    """Prices of a row that no bill determines: each needs one on which at most fresh input stands beside it."""
    bills = [bill for bill in entry.evidence if _is_of(entry, row, bill)]
    for name in (*_COUNTERS, "searches"):
        others = {*_COUNTERS, "searches"} - {name, "input"}
        least = 1 if name == "searches" else LEAST
        if not any(getattr(bill, name) >= least and not any(getattr(bill, one) for one in others) for bill in bills):
            price = "web_search" if name == "searches" else name
            where = f"above {row.above:,}, {row.speed}, region {row.region or 'none'}"
            yield f"no bill bears out {price} of the row {one_line(where, 80)}"


def _is_of(entry: "ModelPrices", row: "Row", bill: "Sample") -> bool:
    """Whether this row is the one that prices a bill."""
    if bill.way != (row.speed, row.region):
        return False
    prompt = bill.tokens.billed_input
    return row.above == max((limit for limit in entry.thresholds if prompt > limit), default=0)


def _words(bill: "Sample") -> str:
    counters = [f"{getattr(bill, name):,} {name}" for name in (*_COUNTERS, "searches") if getattr(bill, name)]
    if bill.speed:
        counters.append(f"speed {one_line(bill.speed, 20)}")
    if bill.region:
        counters.append(f"region {one_line(bill.region, 20)}")
    return ", ".join(counters) or "nothing"
