"""What a price table says to attribution: the prices of each call, and nothing where they are not certain."""

from decimal import Decimal

import msgspec
from streams import DATA, ledger, read

from tokenbench.ledger.model import Ledger, Tokens
from tokenbench.ledger.prices import ModelPrices, PriceTable, Rates, Row
from tokenbench.ledger.weights import weights

D = Decimal
BASE = Rates(D(4), D(5), D(8), D("0.2"), D(20), D("0.01"))
HIGH = Rates(D(8), D(10), D(16), D("0.4"), D(40), D("0.01"))
TABLE = PriceTable(
    (
        ModelPrices(
            model="claude-opus-5-5",
            agent="claude",
            agent_version="2.1.332",
            rows=(Row(0, "standard", "", BASE), Row(500_000, "standard", "", HIGH)),
            plain_regions=("not_available",),
        ),
    )
)


def capture(prices: PriceTable | None = TABLE) -> Ledger:
    return ledger(read(DATA / "streams/claude-2.1.332/normal3.jsonl"), prices=prices)


def test_the_prices_of_the_calls_add_up_to_the_cost_of_their_prompts() -> None:
    found = capture()
    told = weights(found, TABLE)
    assert told is not None
    assert found.tokens is not None
    spent = D(0)
    for row in found.call_rows:
        prices = told.of_call(row.model, row.tokens)
        assert prices is not None
        spent += row.tokens.input * prices.input + row.tokens.cache_read * prices.cache_read
        spent += row.tokens.cache_write_5m * prices.cache_write_5m + row.tokens.cache_write_1h * prices.cache_write_1h
    assert spent + found.tokens.output * prices.output == found.cost_usd.recomputed


def test_each_call_has_the_prices_of_its_own_tier() -> None:
    told = weights(capture(), TABLE)
    assert told is not None
    low, high = (told.of_call("claude-opus-5-5", Tokens.of(size)) for size in (500_000, 500_001))
    assert low is not None
    assert high is not None
    assert (low.input, high.input) == (D("0.000004"), D("0.000008"))
    assert told.of_call("claude-opus-5", Tokens.of(1)) is None


def test_dollars_that_are_not_reconciled_weigh_nothing() -> None:
    assert weights(capture(None), TABLE) is None
    assert weights(capture(), None) is None


def test_calls_of_several_speeds_weigh_nothing() -> None:
    found = capture()
    first, *others = found.call_rows
    mixed = msgspec.structs.replace(found, call_rows=(msgspec.structs.replace(first, speed="fast"), *others))
    assert weights(mixed, TABLE) is None
