"""What a run would have cost from a cold cache, and from a warm one.

Within a run the cache is the run's own doing; what it finds at its start is not. The first call of each conversation
(the main loop, each subagent, each model that a conversation went on with) shows it: what that call read was there
before, and what it wrote was not. From a cold start it would have written what it read; from a warm one, left by the
same run a moment ago, it would have read what it wrote. Later calls read what the first one left, either way; where
they wait longer than a cache lives they write again, either way. Prompts stay as long as they are, so tiers do not
change. What a later conversation reads at its start may be the run's own: then the cold start cannot be told. What no
row shows (compactions, side calls) is taken as it is.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import NamedTuple

from tokenbench.ledger.calls import Call
from tokenbench.ledger.prices import MILLION, PriceTable
from tokenbench.ledger.pricing import Bill
from tokenbench.ledger.sums import Sum, total


class Replayed(NamedTuple):
    """USD; None where it cannot be told."""

    cold: Decimal | None = None
    warm: Decimal | None = None


def replay(bills: Mapping[str, Bill], table: PriceTable | None, version: str | None, cost: Decimal | None) -> Replayed:
    """Replay a run from both starts.

    Args:
        bills: What each model of the run used, sidecars left out.
        table: The prices.
        version: Of the CLI that printed the transcript.
        cost: What the run cost by that table, in USD; None where that is not certain.
    """
    if table is None or cost is None:
        return Replayed()
    cold: Decimal | None = cost
    warm = cost
    written = total(call.counters for bill in bills.values() for call in bill.calls)
    for name, bill in bills.items():
        prices = table.find(name, version)
        for call in _firsts(bill.calls):
            counters, usage = call.counters, call.usage
            rates = prices and prices.rates(counters.billed_input, speed=usage.speed, region=usage.region)
            if rates is None:
                return Replayed()
            warm += counters.write_5m * (rates.cache_read - rates.cache_write_5m) / MILLION
            warm += counters.write_1h * (rates.cache_read - rates.cache_write_1h) / MILLION
            hour = _hour(counters, written)
            if counters.read and (hour is None or _may_be_own(call, bill.calls)):
                cold = None
            elif cold is not None and counters.read:
                write = rates.cache_write_1h if hour else rates.cache_write_5m
                cold += counters.read * (write - rates.cache_read) / MILLION
    return Replayed(cold, warm)


def _firsts(calls: Iterable[Call]) -> list[Call]:
    """The first call of each conversation."""
    found: dict[str | None, Call] = {}
    for call in sorted(calls, key=lambda call: (call.line, call.key)):
        if call.counters.billed_input:
            found.setdefault(call.parent, call)
    return list(found.values())


def _may_be_own(first: Call, calls: Iterable[Call]) -> bool:
    """Whether an earlier conversation of the run can have left what the first call of this one read."""
    return any(
        call.parent != first.parent
        and (call.line, call.key) < (first.line, first.key)
        and call.counters.write + call.counters.read
        for call in calls
    )


def _hour(call: Sum, run: Sum) -> bool | None:
    """Whether a call would write for an hour: as it writes itself, else as its run does; None where nobody can tell."""
    for counters in (call, run):
        if bool(counters.write_5m) != bool(counters.write_1h):
            return bool(counters.write_1h)
    return None
