"""Dollars of an arm: as the CLI reckons them, and by the price table as they would be with other caches."""

from collections.abc import Callable
from decimal import Decimal

import msgspec
import pytest
from fabricated import MODEL, Fabricated, judged_by
from priced import proved_table

from tokenbench.figures import Code, Figure, Published, Refusal
from tokenbench.findings.matrix import compute
from tokenbench.ledger.prices import ModelPrices, Rates, Row, write

Fabricate = Callable[..., Fabricated]
D = Decimal
# 5 fresh, 1,000 written, 4,000 read and 100 of output cost 0.0125 USD by these.
RATES = Rates(D(10), D("6.5"), D(12), D("0.5"), D("39.5"), D("0.01"))
TABLE = proved_table(
    ModelPrices(model=MODEL, agent="claude", agent_version="2.1.332", rows=(Row(0, "standard", "", RATES),))
)
EACH = D("0.0125")


def usd(published: Published) -> Decimal:
    assert isinstance(published, Figure)
    assert isinstance(published.value, Decimal)
    return published.value


def code(published: Published) -> Code:
    assert isinstance(published, Refusal)
    return published.code


@pytest.fixture
def bench(fabricate: Fabricate) -> Fabricated:
    bench: Fabricated = fabricate(questions=2)
    write(bench.runs.prices, TABLE)
    return bench


def test_with_a_price_table_dollars_are_shown(bench: Fabricated) -> None:
    bench.run_all()
    bench.judge("ann", judged_by({"": "correct"}))
    bench.open()
    cost = compute(bench.loaded).cost["native"]
    assert usd(cost.total) == 2 * EACH
    assert usd(cost.per_correct) == EACH
    assert usd(cost.cache_neutral) == 2 * (5005 * 10 + 100 * D("39.5")) / D(10**6)
    assert usd(cost.cold) == usd(cost.total)
    assert usd(cost.warm) == 2 * (EACH - 1000 * D(6) / 10**6)
    assert isinstance(cost.cold, Figure)
    assert cost.cold.basis == "estimate"


def test_a_price_table_that_comes_later_is_taken(fabricate: Fabricate) -> None:
    bench: Fabricated = fabricate(questions=2)
    bench.run_all()
    assert code(compute(bench.loaded).cost["native"].total) == Code.PRICE_UNKNOWN
    write(bench.runs.prices, TABLE)
    assert usd(compute(bench.loaded).cost["native"].total) == 2 * EACH


def test_prices_that_the_runs_contradict_refuse_every_dollar(bench: Fabricated) -> None:
    (entry,) = TABLE.models
    dear = Row(0, "standard", "", msgspec.structs.replace(RATES, output=D(40)))
    write(bench.runs.prices, proved_table(msgspec.structs.replace(entry, rows=(dear,))))
    bench.run_all()
    cost = compute(bench.loaded).cost["native"]
    assert {code(each) for each in (cost.total, cost.cache_neutral, cost.cold, cost.warm)} == {Code.COST_UNRECONCILED}


def test_a_damaged_table_is_none(bench: Fabricated) -> None:
    bench.runs.prices.write_text("{")
    bench.run_all()
    assert code(compute(bench.loaded).cost["native"].total) == Code.PRICE_UNKNOWN


def test_caches_of_different_warmth_refuse_raw_dollars_and_no_others(bench: Fabricated) -> None:
    for cell in bench.cells:
        bench.run(cell, "One block holds 257 integers.", first_read=3000 if cell.arm == "native" else 0)
    bench.journal.write("runner_ended")
    cost = compute(bench.loaded).cost
    assert code(cost["native"].total) == Code.WARMTH_CONFOUNDED
    assert usd(cost["native"].cache_neutral) == usd(cost["hybrid"].cache_neutral)
    assert usd(cost["native"].cold) == usd(cost["hybrid"].cold) + 2 * 3000 * D(6) / 10**6
