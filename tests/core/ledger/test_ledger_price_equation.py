"""The price equation: the cost by a price table equals the CLI's to 1e-9 USD, or both sides are shown."""

from decimal import Decimal

import pytest
from streams import DATA, Script, ledger, read, text, tool

from tokenbench.figures import Code
from tokenbench.ledger import plain
from tokenbench.ledger.model import Equation, Ledger
from tokenbench.ledger.prices import ModelPrices, PriceTable, Rates, Row
from tokenbench.ledger.pricing import Bill, price
from tokenbench.ledger.sums import Sum

D = Decimal
VERSION = "2.1.332"
TOLERANCE = D("1e-9")


def rates(*prices: str) -> Rates:
    """Input, output, read, write 5m, write 1h."""
    fresh, output, read_, five, hour = map(D, prices)
    return Rates(fresh, five, hour, read_, output, D("0.01"))


def model(name: str, *rows: Row, version: str = VERSION) -> ModelPrices:
    return ModelPrices(
        model=name, agent="claude", agent_version=version, rows=rows, plain_regions=("not_available", "global")
    )


def flat(name: str, *prices: str, version: str = VERSION) -> ModelPrices:
    return model(name, Row(0, "standard", "", rates(*prices)), version=version)


OPUS = ("5", "25", "0.5", "6.25", "10")
SONNET = ("3", "15", "0.3", "3.75", "6")
HAIKU = ("1", "5", "0.1", "1.25", "2")
KNOWN = PriceTable(
    tuple(
        entry
        for version in ("2.1.197", VERSION)
        for entry in (
            flat("claude-opus-4-8", *OPUS, version=version),
            flat("claude-opus-5", *OPUS, version=version),
            flat("claude-opus-5-5", "4", "20", "0.2", "5", "8", version=version),
            flat("claude-fable-5-1", "10", "50", "0.25", "12.5", "20", version=version),
            flat("claude-haiku-4-5", *HAIKU, version=version),
            flat("claude-sonnet-4-5", *SONNET, version=version),
        )
    )
)
SURCHARGED = PriceTable(
    (
        model(
            "claude-sonnet-4-5",
            Row(0, "standard", "", rates(*SONNET)),
            Row(200_000, "standard", "", rates("6", "22.5", "0.6", "7.5", "12")),
            version="2.1.197",
        ),
    )
)
TIERED = PriceTable(
    (
        model(
            "claude-opus-4-8",
            Row(0, "standard", "", rates("1", "10", "0.1", "1", "2")),
            Row(1_000, "standard", "", rates("2", "20", "0.2", "2", "4")),
            Row(0, "fast", "", rates("3", "30", "0.3", "3", "6")),
            Row(0, "standard", "us", rates("1.1", "11", "0.11", "1.1", "2.2")),
        ),
    )
)


def case(number: str, prices: PriceTable | None = KNOWN) -> Ledger:
    (path,) = (DATA / "cases").glob(f"{number}-*.jsonl")
    return ledger(path.read_bytes(), prices=prices)


def equation(found: Ledger) -> Equation:
    return next(row for row in found.equations if row.name == "price")


def one_call(cost: str, usage: tuple[int, ...] = (100, 0, 0, 200, 50), **stated: str) -> Script:
    script = Script()
    row = script.call("m1", usage, text("done"))
    row["message"]["usage"].update(stated)
    script.end(usage, {"claude-opus-4-8": usage}, cost=cost)
    return script


@pytest.mark.parametrize(
    ("number", "cost"),
    [("21", "0.38052"), ("25", "0.07653"), ("13", "0.04644"), ("07", "0.11348"), ("09", "0.0645"), ("18", "0.10119")],
)
def test_the_recomputed_cost_is_the_reported_one(number: str, cost: str) -> None:
    found = case(number)
    assert (found.cost_usd.reported, found.cost_usd.recomputed) == (D(cost), D(cost))
    assert (found.cost_reconciled, equation(found).holds) == (True, True)
    assert not found.refusals


def test_21_each_write_has_the_price_of_its_lifetime() -> None:
    found = case("21")
    assert found.cost_usd.recomputed == (4 * 5 + 12_000 * D("6.25") + 30_000 * 10 + 1_000 * D("0.5") + 200 * 25) / D(
        10**6
    )
    assert found.cost_usd.cache_neutral == (43_004 * 5 + 200 * 25) / D(10**6)


def test_23_the_tier_is_decided_call_by_call() -> None:
    found = case("23", SURCHARGED)
    assert found.cost_usd.recomputed == D("0.43611")
    assert found.cost_usd.reported is None
    assert not found.refused(Code.PRICE_UNKNOWN)


def test_25_search_fees_are_in_both_costs_and_named() -> None:
    costs = case("25").cost_usd
    assert (costs.fees, costs.recomputed) == (D("0.03"), D("0.07653"))
    assert costs.cache_neutral == (11_006 * 5 + 500 * 25) / D(10**6) + D("0.03")


def test_26_a_model_without_prices_has_no_cost_whatever_its_name_begins_with() -> None:
    found = case("26")
    assert found.cost_usd.recomputed is None
    assert found.cost_usd.own is None
    assert found.cost_reconciled is None
    assert found.refused(Code.PRICE_UNKNOWN)


def test_27_the_read_price_is_a_column_and_no_rule() -> None:
    assert case("27").cost_usd.recomputed == D("0.2394")


def test_an_explicit_price_of_nothing_is_no_missing_price() -> None:
    free = PriceTable((flat("claude-opus-4-8", "0", "0", "0", "0", "0"),))
    found = ledger(one_call("0").bytes(), prices=free)
    assert (found.cost_usd.recomputed, equation(found).holds) == (D(0), True)


CAPTURES = sorted(
    path.relative_to(DATA / "streams").as_posix().removesuffix(".gz").removesuffix(".jsonl")
    for folder in ("claude", "claude-2.1.332")
    for path in (DATA / "streams" / folder).glob("*.jsonl*")
    if ".calls." not in path.name
)


@pytest.mark.parametrize("name", CAPTURES)
def test_every_capture_that_settles_costs_what_the_cli_says(name: str) -> None:
    found = ledger(read(DATA / "streams" / f"{name}.jsonl"), prices=KNOWN)
    row = equation(found) if any(row.name == "price" for row in found.equations) else None
    if not found.token_reconciled:
        assert found.cost_usd.recomputed is None
        return
    assert row is not None
    if found.refused(Code.PRICE_UNKNOWN):
        assert set(found.models) - {entry.model for entry in KNOWN.models} or not found.models
        return
    assert not found.refused(Code.COST_UNRECONCILED)
    assert isinstance(row.left, Decimal)
    assert isinstance(row.right, Decimal)
    assert abs(row.left - row.right) <= TOLERANCE
    assert found.cost_reconciled is True


def test_a_cost_that_is_not_that_of_the_calls_is_refused_with_both_sides() -> None:
    found = ledger(one_call("0.0025").bytes(), prices=KNOWN)
    (refusal,) = found.refusals
    costs = found.cost_usd
    assert (costs.recomputed, costs.cache_neutral, costs.cold, costs.warm, costs.fees) == (None,) * 5
    assert refusal.code == Code.COST_UNRECONCILED
    assert found.token_reconciled
    assert found.cost_reconciled is False
    assert any("0.00185 USD by the price table, 0.0025 USD by the CLI" in line for line in refusal.evidence)


def test_the_cli_adds_doubles_and_is_equal_all_the_same() -> None:
    found = ledger(one_call("0.0018500000000000003").bytes(), prices=KNOWN)
    assert found.cost_reconciled is True
    assert found.cost_usd.recomputed == D("0.00185")


def test_prices_of_another_version_are_none() -> None:
    table = PriceTable((flat("claude-opus-4-8", *OPUS, version="2.1.400"),))
    found = ledger(one_call("0.00185").bytes(), prices=table)
    (refusal,) = found.refusals
    assert refusal.code == Code.PRICE_UNKNOWN
    assert "2.1.400" in refusal.reason
    assert VERSION in refusal.reason


@pytest.mark.parametrize(
    ("stated", "cost"),
    [
        ({}, "0.00062"),
        ({"speed": "standard", "inference_geo": "not_available"}, "0.00062"),
        ({"speed": "fast"}, "0.00186"),
        ({"inference_geo": "us"}, "0.000682"),
    ],
)
def test_speed_and_region_of_a_call_decide_its_price(stated: dict[str, str], cost: str) -> None:
    found = ledger(one_call(cost, **stated).bytes(), prices=TIERED)
    assert (found.cost_usd.recomputed, found.cost_reconciled) == (D(cost), True)


def test_a_speed_that_was_never_priced_is_unknown() -> None:
    found = ledger(one_call("0.00062", speed="warp").bytes(), prices=TIERED)
    (refusal,) = found.refusals
    assert refusal.code == Code.PRICE_UNKNOWN
    assert "warp" in refusal.reason


def two_calls(first: int, second: int, outputs: tuple[int, int], cost: str, *, final: bool = False) -> Script:
    """Two calls of that many fresh tokens; their streamed outputs are placeholders unless `final`."""
    script = Script()
    for number, (fresh, output) in enumerate(zip((first, second), outputs, strict=True)):
        shown = output if final else 1
        stop = ("tool_use", "end_turn")[number] if final else None
        script.call(f"m{number}", (fresh, 0, 0, 0, shown), text("x") if number else tool("t"), stop=stop)
        if not number:
            script.result_of("t")
    whole = (first + second, 0, 0, 0, sum(outputs))
    script.end(whole, {"claude-opus-4-8": whole}, cost=cost)
    return script


def test_calls_of_one_tier_need_no_outputs_of_their_own() -> None:
    found = ledger(two_calls(900, 1_000, (10, 20), "0.0022").bytes(), prices=TIERED)
    assert (found.cost_usd.recomputed, found.cost_reconciled) == (D("0.0022"), True)


def test_a_run_that_straddles_a_tier_says_what_cannot_be_checked() -> None:
    # 900 and 1,001 tokens of input at 1 and 2, outputs 10 and 20 at 10 and 20.
    found = ledger(two_calls(900, 1_001, (10, 20), "0.003402").bytes(), prices=TIERED)
    (refusal,) = found.refusals
    assert found.token_reconciled
    assert (found.cost_reconciled, found.cost_usd.recomputed, found.cost_usd.cache_neutral) == (None, None, None)
    assert refusal.code == Code.COST_UNRECONCILED
    assert "between 0.003202 and 0.003502 USD" in refusal.evidence[0]
    assert "1,000 tokens" in refusal.evidence[0]
    assert equation(found).holds is None
    assert "streamed" in equation(found).note or "output" in equation(found).note
    shown = plain.text(found)
    assert "dollars refused  COST-UNRECONCILED" in shown
    assert "prompts on both sides of 1,000 tokens" in shown
    assert "between 0.003202 and 0.003502 USD" in shown


def test_a_rest_that_costs_the_same_in_every_tier_has_a_cost_and_no_cache_neutral_one() -> None:
    # Both tiers charge reads alike and fresh input not.
    low, high = rates("1", "10", "0.1", "1", "2"), rates("2", "20", "0.1", "2", "4")
    table = PriceTable((model("m", Row(0, "standard", "", low), Row(1_000, "standard", "", high)),))
    found = price({"m": Bill(calls=(), whole=Sum(read=2_000), searches=0)}, table, VERSION)
    assert isinstance(found, dict)
    assert (found["m"].exact, found["m"].neutral) == (D("0.0002"), None)


def test_a_cost_outside_of_the_bounds_of_a_straddling_run_is_refused() -> None:
    found = ledger(two_calls(900, 1_001, (10, 20), "0.0036").bytes(), prices=TIERED)
    (refusal,) = found.refusals
    assert (refusal.code, found.cost_reconciled) == (Code.COST_UNRECONCILED, False)
    assert "between 0.003202 and 0.003502 USD by the price table, 0.0036 USD by the CLI" in refusal.evidence[0]


def test_the_cache_neutral_cost_leaves_sidecars_out() -> None:
    script = Script()
    usage = (100, 0, 0, 200, 50)
    script.call("m1", usage, text("done"))
    script.end(usage, {"claude-opus-4-8": usage, "claude-haiku-4-5": (10, 0, 0, 0, 2)}, cost="0.00185")
    script.rows[-1]["modelUsage"]["claude-haiku-4-5"]["costUSD"] = 0.00002
    script.rows[-1]["total_cost_usd"] = 0.00187

    found = ledger(script.bytes(), prices=KNOWN)

    assert (found.cost_usd.recomputed, found.cost_usd.own) == (D("0.00187"), D("0.00185"))
    assert found.cost_usd.cache_neutral == (300 * 5 + 50 * 25) / D(10**6)
    assert found.cost_reconciled is True
