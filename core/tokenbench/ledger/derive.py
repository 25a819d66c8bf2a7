"""Prices from transcripts: where the costs of enough runs are known, the price of a counter follows from them.

Each run gives one equation a model: its counters times their prices is what the CLI says it cost. A price is derived
only where these equations determine it; a derived price that is not the probed one is a refusal.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Final, NamedTuple

import msgspec

from tokenbench.figures import Code, Refusal, refuse
from tokenbench.ledger import names
from tokenbench.ledger.model import Ledger, Tokens
from tokenbench.ledger.prices import MILLION, STANDARD, PriceTable, Rates
from tokenbench.ledger.process import TOLERANCE

COUNTERS: Final = ("input", "cache_write_5m", "cache_write_1h", "cache_read", "output")
SEARCHING: Final = frozenset({"WebSearch"})
"""Runs with these tools have fees that no counter of tokens holds."""
FINEST: Final = Decimal("1e-6")
"""USD per million tokens: finer prices do not exist, and doubles cannot tell them from a run's cost."""


class Derived(msgspec.Struct, frozen=True, kw_only=True):
    """What the costs of one model's runs determine, of one tier, speed and region."""

    model: str
    agent_version: str | None
    speed: str = STANDARD
    region: str = ""
    above: int = 0
    """Prompts of all its calls are longer than this many tokens, and in no higher tier of the table."""
    prices: dict[str, Decimal]
    """By counter, USD per million tokens; only those that the runs determine."""
    runs: tuple[str, ...]
    """Transcripts whose costs were used."""
    problem: str = ""
    """Why no prices fit all runs; then `prices` is empty."""


class LeftOut(msgspec.Struct, frozen=True):
    """A model's part of a run that says nothing of any one price, and why."""

    run: str
    model: str
    why: str


class Derivation(msgspec.Struct, frozen=True):
    """What the runs say about prices."""

    found: tuple[Derived, ...]
    left_out: tuple[LeftOut, ...]


class _Class(NamedTuple):
    """Calls that have the same prices."""

    model: str
    version: str | None
    speed: str
    region: str
    above: int


def derive(ledgers: Iterable[Ledger], table: PriceTable | None = None) -> Derivation:
    """Derive what can be derived, for each model and version by tier, speed and region.

    Args:
        ledgers: Of the runs. Those that are not token-reconciled or report no cost say nothing.
        table: Says where tiers begin; without it all prompts are taken to be in one.
    """
    groups: dict[_Class, list[tuple[str, Tokens, Decimal]]] = {}
    left: list[LeftOut] = []
    for ledger in ledgers:
        if not ledger.token_reconciled:
            continue
        whole = _unusable(ledger)
        for name, row in ledger.models.items():
            if row.cost_usd is None or not row.tokens.total:
                continue
            no_cost = "" if row.cost_usd.is_finite() else "its printed cost is none that can have been paid"
            key = whole or no_cost or _class(ledger, name, table)
            if isinstance(key, str):
                left.append(LeftOut(ledger.transcript, name, key))
            else:
                groups.setdefault(key, []).append((ledger.transcript, row.tokens, row.cost_usd))
    return Derivation(tuple(_derived(key, group) for key, group in sorted(groups.items(), key=str)), tuple(left))


def _unusable(ledger: Ledger) -> str:
    """Why the cost of a run does not follow from its tokens alone; empty where it does."""
    if "COST-GUESSED-BY-CLI" in ledger.notes:
        return "the CLI guessed its price"
    if ledger.cost_usd.fees or "SEARCHES-DIFFER" in ledger.notes or any(t.name in SEARCHING for t in ledger.tools):
        return "it has web searches, whose fees are in no counter of tokens"
    if "TTL-SPLIT-ASSUMED" in ledger.notes:
        return "the lifetime of some cache writes was not printed"
    return "its calls cannot be told apart" if ledger.calls and not ledger.call_rows else ""


def _class(ledger: Ledger, name: str, table: PriceTable | None) -> _Class | str:
    """The tier, speed and region that all calls of one model have, or why they have none in common."""
    rows = [row for row in ledger.call_rows if (names.find(row.model, ledger.models) or name) == name]
    ways = {(row.speed or STANDARD, row.region) for row in rows or ledger.call_rows}
    if len(ways) != 1:
        return "its calls have several speeds or regions" if ways else "no row says its speed and region"
    ((speed, region),) = ways
    known = table.find(name, ledger.agent_version) if table is not None else None
    limits = known.thresholds if known is not None else ()
    # Of what no row shows only the sum is known: it may be one call.
    unseen = ledger.models[name].tokens.billed_input - sum(row.tokens.billed_input for row in rows)
    tiers = {max((limit for limit in limits if row.tokens.billed_input > limit), default=0) for row in rows}
    if len(tiers) > 1 or (unseen and (tiers - {0} or any(unseen > limit for limit in limits))):
        return f"its prompts are, or may be, on both sides of {', '.join(f'{limit:,}' for limit in limits)} tokens"
    return _Class(name, ledger.agent_version, speed, region, next(iter(tiers), 0))


def _derived(key: _Class, group: Sequence[tuple[str, Tokens, Decimal]]) -> Derived:
    solved, left = _solve([(tokens, cost) for _, tokens, cost in group])
    rounded = {counter: price.quantize(FINEST) for counter, price in solved.items()}
    found = Derived(
        model=key.model,
        agent_version=key.version,
        speed=key.speed,
        region=key.region,
        above=key.above,
        prices={counter: Decimal(format(price.normalize(), "f")) for counter, price in rounded.items()},
        runs=tuple(name for name, _, _ in group),
    )
    if any(abs(rest) > TOLERANCE for rest in left) or any(price < 0 for price in found.prices.values()):
        return msgspec.structs.replace(found, prices={}, problem="no prices fit all runs")
    if len(found.prices) == len(COUNTERS):
        for name, tokens, cost in group:
            parts = (getattr(tokens, counter) * found.prices[counter] / MILLION for counter in COUNTERS)
            if abs(sum(parts, Decimal(0)) - cost) > TOLERANCE:
                problem = f"no prices fit all runs: {name} cost {cost} USD"
                return msgspec.structs.replace(found, prices={}, problem=problem)
    return found


def _solve(equations: Sequence[tuple[Tokens, Decimal]]) -> tuple[dict[str, Decimal], list[Decimal]]:
    """Gauss-Jordan elimination in fractions, so that rank is exact and only the doubles of the costs have noise.

    Returns:
        The prices that are determined, in USD per million tokens, and what is left of equations that say nothing new.
    """
    rows = [
        [*(Fraction(getattr(tokens, counter)) for counter in COUNTERS), Fraction(cost)] for tokens, cost in equations
    ]
    pivots: list[int] = []
    for column in range(len(COUNTERS)):
        at = len(pivots)
        # The largest pivot keeps the noise of costs from growing.
        best = max(range(at, len(rows)), key=lambda index: abs(rows[index][column]), default=None)
        if best is None or not rows[best][column]:
            continue
        rows[at], rows[best] = rows[best], rows[at]
        rows[at] = [value / rows[at][column] for value in rows[at]]
        for index, row in enumerate(rows):
            if index != at and row[column]:
                rows[index] = [value - row[column] * pivot for value, pivot in zip(row, rows[at], strict=True)]
        pivots.append(column)
    solved = {
        COUNTERS[column]: _decimal(rows[at][-1] * 1_000_000)
        for at, column in enumerate(pivots)
        if all(not value for other, value in enumerate(rows[at][:-1]) if other != column)
    }
    return solved, [_decimal(row[-1]) for row in rows[len(pivots) :]]


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def differences(derived: Iterable[Derived], table: PriceTable) -> tuple[Refusal, ...]:
    """COST-UNRECONCILED, a refusal for each tier, speed and region whose derived prices are not those of its row.

    Runs of a model, speed or region that the table does not know are no difference: their dollars are PRICE-UNKNOWN.
    """
    found: list[Refusal] = []
    for one in derived:
        known = table.find(one.model, one.agent_version)
        rates = known and known.rates(one.above + 1, speed=one.speed, region=one.region)
        if rates is None:
            continue
        sides = [one.problem] if one.problem else _sides(one, rates)
        if sides:
            reason = f"What the runs of {one.model} cost does not follow from its prices in the table ({one.speed})"
            found.append(refuse(Code.COST_UNRECONCILED, *sides, *one.runs[:5], reason=reason))
    return tuple(found)


def _sides(one: Derived, rates: Rates) -> list[str]:
    return [
        f"{counter}: {price} USD per million tokens by the runs, {getattr(rates, counter)} by the table"
        for counter, price in one.prices.items()
        if getattr(rates, counter) != price
    ]
