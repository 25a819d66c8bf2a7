"""What a price table says to attribution: the prices of each call, and nothing where they are not certain."""

from decimal import Decimal

import msgspec
import pytest
from streams import DATA, ledger, read

from tokenbench.ledger.model import CallRow, Ledger, Tokens
from tokenbench.ledger.prices import ModelPrices, PriceTable, Rates, Row
from tokenbench.ledger.weights import TableWeights, weights

D = Decimal
BASE = Rates(D(4), D(5), D(8), D("0.2"), D(20), D("0.01"))
HIGH = Rates(D(8), D(10), D(16), D("0.4"), D(40), D("0.01"))
FAST = Rates(D(9), D(10), D(16), D("0.4"), D(40), D("0.01"))
TABLE = PriceTable(
    (
        ModelPrices(
            model="claude-opus-5-5",
            agent="claude",
            agent_version="2.1.332",
            rows=(Row(0, "standard", "", BASE), Row(500_000, "standard", "", HIGH), Row(0, "fast", "", FAST)),
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
        prices = told.of_call(row)
        assert prices is not None
        spent += row.tokens.input * prices.input + row.tokens.cache_read * prices.cache_read
        spent += row.tokens.cache_write_5m * prices.cache_write_5m + row.tokens.cache_write_1h * prices.cache_write_1h
    assert spent + found.tokens.output * prices.output == found.cost_usd.recomputed


def call(size: int, speed: str = "", region: str = "") -> CallRow:
    """A row of that many fresh tokens."""
    first = capture().call_rows[0]
    return msgspec.structs.replace(first, tokens=Tokens.of(size), speed=speed, region=region)


def fresh(told: TableWeights, row: CallRow) -> Decimal | None:
    """USD per million tokens of fresh input."""
    prices = told.of_call(row)
    return None if prices is None else prices.input * 10**6


def test_each_call_has_the_prices_of_its_own_tier_speed_and_region() -> None:
    told = TableWeights(TABLE, version="2.1.332")
    found = [fresh(told, call(size)) for size in (500_000, 500_001)]
    assert found == [4, 8]
    assert fresh(told, call(1, "standard", "not_available")) == 4
    assert fresh(told, call(1, "fast")) == 9


@pytest.mark.parametrize(("speed", "region"), [("fast", "us"), ("warp", ""), ("", "us")])
def test_a_call_whose_row_is_missing_never_has_the_standard_price(speed: str, region: str) -> None:
    assert TableWeights(TABLE, version="2.1.332").of_call(call(1, speed, region)) is None


def test_a_call_of_another_model_or_version_has_no_price() -> None:
    assert TableWeights(TABLE, version="2.1.333").of_call(call(1)) is None
    other = msgspec.structs.replace(call(1), model="claude-opus-5")
    assert TableWeights(TABLE, version="2.1.332").of_call(other) is None


def test_calls_that_no_row_shows_have_a_price_only_where_all_that_are_possible_are_the_same() -> None:
    model, tokens = "claude-opus-5-5", Tokens.of(1_000)
    assert TableWeights(TABLE, version="2.1.332", ways=[("", ""), ("standard", "")]).of_rest(model, tokens) is not None
    assert TableWeights(TABLE, version="2.1.332", ways=[("", ""), ("fast", "")]).of_rest(model, tokens) is None
    assert TableWeights(TABLE, version="2.1.332", ways=[("", ""), ("warp", "")]).of_rest(model, tokens) is None
    assert TableWeights(TABLE, version="2.1.332").of_rest(model, Tokens.of(500_001)) is None


def test_dollars_that_are_not_reconciled_weigh_nothing() -> None:
    assert weights(capture(None), TABLE) is None
    assert weights(capture(), None) is None
