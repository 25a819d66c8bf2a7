"""Prices from transcripts: where the costs of enough runs are known, the price of a counter follows from them.

Each run gives one equation a model: its counters times their prices is what the CLI says it cost. A price is derived
only where these equations determine it; a derived price that is not the probed one is a refusal.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Final

import msgspec

from tokenbench.figures import Code, Refusal, refuse
from tokenbench.ledger.model import Ledger, Tokens
from tokenbench.ledger.prices import MILLION, STANDARD, PriceTable
from tokenbench.ledger.process import TOLERANCE

COUNTERS: Final = ("input", "cache_write_5m", "cache_write_1h", "cache_read", "output")
SEARCHING: Final = frozenset({"WebSearch"})
"""Runs with these tools have fees that no counter of tokens holds."""
FINEST: Final = Decimal("1e-6")
"""USD per million tokens: finer prices do not exist, and doubles cannot tell them from a run's cost."""


class Derived(msgspec.Struct, frozen=True):
    """What the costs of one model's runs determine."""

    model: str
    agent_version: str | None
    prices: dict[str, Decimal]
    """By counter, USD per million tokens; only those that the runs determine."""
    runs: tuple[str, ...]
    """Transcripts whose costs were used."""
    problem: str = ""
    """Why no prices fit all runs; then `prices` is empty."""


def derive(ledgers: Iterable[Ledger]) -> tuple[Derived, ...]:
    """Derive what can be derived, model by model and version by version.

    Ledgers that are not token-reconciled, report no cost, or hold web searches are left out.
    """
    groups: dict[tuple[str, str | None], list[tuple[str, Tokens, Decimal]]] = {}
    for ledger in ledgers:
        if not ledger.token_reconciled or any(tool.name in SEARCHING for tool in ledger.tools):
            continue
        if "COST-GUESSED-BY-CLI" in ledger.notes:
            continue
        for name, row in ledger.models.items():
            if row.cost_usd is not None and row.tokens.total:
                key = (name, ledger.agent_version)
                groups.setdefault(key, []).append((ledger.transcript, row.tokens, row.cost_usd))
    return tuple(_derived(model, version, group) for (model, version), group in sorted(groups.items(), key=str))


def _derived(model: str, version: str | None, group: Sequence[tuple[str, Tokens, Decimal]]) -> Derived:
    runs = tuple(name for name, _, _ in group)
    solved, left = _solve([(tokens, cost) for _, tokens, cost in group])
    rounded = {counter: price.quantize(FINEST) for counter, price in solved.items()}
    prices = {counter: Decimal(format(price.normalize(), "f")) for counter, price in rounded.items()}
    if any(abs(rest) > TOLERANCE for rest in left) or any(price < 0 for price in prices.values()):
        return Derived(model, version, {}, runs, "no prices fit all runs: several tiers, speeds or regions")
    if len(prices) == len(COUNTERS):
        for name, tokens, cost in group:
            expected = sum((getattr(tokens, counter) * prices[counter] / MILLION for counter in COUNTERS), Decimal(0))
            if abs(expected - cost) > TOLERANCE:
                return Derived(model, version, {}, runs, f"no prices fit all runs: {name} cost {cost} USD")
    return Derived(model, version, prices, runs)


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
    """COST-UNRECONCILED, a refusal for each model whose derived prices are not those of the table."""
    found: list[Refusal] = []
    for one in derived:
        known = table.find(one.model, one.agent_version)
        if known is None:
            continue
        if one.problem:
            if len({row.rates for row in known.rows}) == 1:
                found.append(refuse(Code.COST_UNRECONCILED, one.problem, *one.runs[:5], reason=_reason(one)))
            continue
        # Runs in one tier, speed and region have the prices of one row.
        rows = [row for row in known.rows if _fits(one, msgspec.to_builtins(row.rates, builtin_types=(Decimal,)))]
        if not rows:
            base = next(
                (row.rates for row in known.rows if (row.above, row.speed, row.region) == (0, STANDARD, "")), None
            )
            sides = [
                f"{counter}: {price} USD per million tokens by the runs, {getattr(base, counter, None)} by the table"
                for counter, price in one.prices.items()
                if base is None or getattr(base, counter) != price
            ]
            found.append(refuse(Code.COST_UNRECONCILED, *sides, *one.runs[:5], reason=_reason(one)))
    return tuple(found)


def _fits(one: Derived, rates: dict[str, Decimal]) -> bool:
    return all(rates[counter] == price for counter, price in one.prices.items())


def _reason(one: Derived) -> str:
    return f"What the runs of {one.model} cost does not follow from its prices in the table"
