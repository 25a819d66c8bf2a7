"""Prices derived from what runs cost: only where they determine it, and never silently another one than the table's."""

from collections.abc import Sequence
from decimal import Decimal

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from streams import Script, text, tool

from tokenbench.figures import Code
from tokenbench.ledger.derive import COUNTERS, derive, differences
from tokenbench.ledger.model import Ledger, Tokens
from tokenbench.ledger.prices import ModelPrices, PriceTable, Rates, Row

D = Decimal
MODEL = "claude-opus-4-8"
OPUS = Rates(D(5), D("6.25"), D(10), D("0.5"), D(25), D("0.01"))


def run(*usage: int, rates: Rates = OPUS, cost: str | None = None) -> Ledger:
    """A run of one call: input, 5-minute write, 1-hour write, read, output."""
    script = Script(MODEL)
    script.call("m1", usage, text("done"))
    # As the CLI prints it: a double.
    script.end(usage, {MODEL: usage}, cost=cost or repr(float(rates.cost(Tokens.of(*usage)))))
    return script.ledger()


def table(rates: Rates) -> PriceTable:
    row = Row(0, "standard", "", rates)
    return PriceTable((ModelPrices(model=MODEL, agent="claude", agent_version="2.1.332", rows=(row,)),))


FIVE = [(7, 100, 0, 3_000, 90), (11, 0, 40, 2_000, 80), (3, 500, 70, 1_000, 10), (9, 1, 2, 3, 4), (90, 10, 5, 1, 600)]


def test_enough_different_runs_determine_every_price() -> None:
    (found,) = derive(run(*usage) for usage in FIVE).found
    assert found.prices == {name: getattr(OPUS, name) for name in COUNTERS}
    assert (found.model, found.agent_version, len(found.runs), found.problem) == (MODEL, "2.1.332", 5, "")


def test_runs_that_do_not_determine_a_price_say_nothing_of_it() -> None:
    (found,) = derive([run(10, 0, 0, 20, 30), run(20, 0, 0, 40, 61)]).found
    assert found.prices == {"output": D(25)}


def test_one_run_with_one_counter_is_enough_for_it() -> None:
    (found,) = derive([run(0, 0, 0, 4_000, 0)]).found
    assert found.prices == {"cache_read": D("0.5")}


def test_runs_of_several_prices_determine_none() -> None:
    dear = msgspec.structs.replace(OPUS, input=D(50), output=D(250))
    (found,) = derive([*(run(*usage) for usage in FIVE), run(5, 6, 7, 8, 900, rates=dear)]).found
    assert (found.prices, bool(found.problem)) == ({}, True)


def test_what_is_not_reconciled_or_not_priced_is_left_out() -> None:
    broken = Script(MODEL)
    broken.call("m1", (1, 0, 0, 0, 1), text("x"))
    assert derive([broken.ledger()]).found == ()


def test_a_cost_that_nobody_can_have_paid_is_left_out_and_said() -> None:
    derived = derive([run(0, 0, 0, 4_000, 0), run(0, 0, 0, 8_000, 0, cost="-1")])
    assert derived.found[0].prices == {"cache_read": D("0.5")}
    assert [one.why for one in derived.left_out] == ["its printed cost is none that can have been paid"]


def test_the_same_prices_as_in_the_table_are_no_difference() -> None:
    assert differences(derive(run(*usage) for usage in FIVE).found, table(OPUS)) == ()


def test_another_price_than_in_the_table_is_a_refusal_with_both_sides() -> None:
    cheaper = msgspec.structs.replace(OPUS, cache_read=D("0.2"))
    (refusal,) = differences(derive(run(*usage) for usage in FIVE).found, table(cheaper))
    assert refusal.code == Code.COST_UNRECONCILED
    assert "cache_read: 0.5 USD per million tokens by the runs, 0.2 by the table" in refusal.evidence


def test_runs_that_fit_no_prices_are_a_refusal() -> None:
    dear = msgspec.structs.replace(OPUS, input=D(50), output=D(250))
    derived = derive([*(run(*usage) for usage in FIVE), run(5, 6, 7, 8, 900, rates=dear)]).found
    (refusal,) = differences(derived, table(OPUS))
    assert "no prices fit" in refusal.evidence[0]


counters = st.tuples(*[st.integers(min_value=0, max_value=200_000)] * 5).filter(any)


@given(st.lists(counters, min_size=1, max_size=12))
def test_what_is_derived_is_right_whatever_the_runs(usages: Sequence[tuple[int, ...]]) -> None:
    (found,) = derive(run(*usage) for usage in usages).found
    assert not found.problem
    assert found.prices == {name: getattr(OPUS, name) for name in found.prices}


def stated(way: dict[str, str], usages: Sequence[tuple[int, ...]], rates: Rates, name: str = MODEL) -> Ledger:
    """A run of calls that state a speed and a region, each with its own output printed."""
    script = Script(name)
    for number, usage in enumerate(usages):
        last = number == len(usages) - 1
        content = text("done") if last else tool(f"t{number}")
        row = script.call(f"m{number}", usage, content, stop="end_turn" if last else "tool_use")
        row["message"]["usage"].update(way)
        if not last:
            script.result_of(f"t{number}")
    whole = tuple(sum(column) for column in zip(*usages, strict=True))
    cost = sum((rates.cost(Tokens.of(*usage)) for usage in usages), D(0))
    script.end(whole, {name: whole}, cost=repr(float(cost)))
    return script.ledger()


FAST = Rates(*(price * 2 for price in msgspec.structs.astuple(OPUS)[:5]), OPUS.web_search)
CLASSES = PriceTable(
    (
        ModelPrices(
            model=MODEL,
            agent="claude",
            agent_version="2.1.332",
            rows=(Row(0, "standard", "", OPUS), Row(0, "fast", "", FAST), Row(100_000, "standard", "", FAST)),
        ),
    )
)


def test_each_speed_and_region_has_prices_of_its_own() -> None:
    fast = stated({"speed": "fast"}, [(0, 0, 0, 0, 40)], FAST)
    found = derive([run(0, 0, 0, 0, 40), fast], CLASSES).found
    assert {(one.speed, one.prices["output"]) for one in found} == {("standard", D(25)), ("fast", D(50))}
    assert differences(found, CLASSES) == ()


def test_fast_runs_at_the_standard_price_are_a_difference_although_another_row_has_it() -> None:
    found = derive([stated({"speed": "fast"}, [(0, 0, 0, 0, 40)], OPUS)], CLASSES).found
    (refusal,) = differences(found, CLASSES)
    assert "output: 25 USD per million tokens by the runs, 50 by the table" in refusal.evidence


def test_a_tier_has_prices_of_its_own() -> None:
    found = derive([run(100_000, 0, 0, 0, 0), run(100_001, 0, 0, 0, 0, rates=FAST)], CLASSES).found
    assert {(one.above, one.prices["input"]) for one in found} == {(0, D(5)), (100_000, D(10))}
    assert differences(found, CLASSES) == ()


def test_a_speed_that_the_table_does_not_know_is_no_difference() -> None:
    found = derive([stated({"speed": "warp"}, [(0, 0, 0, 0, 40)], FAST)], CLASSES).found
    assert found[0].prices == {"output": D(50)}
    assert differences(found, CLASSES) == ()


def test_a_run_on_both_sides_of_a_tier_is_left_out_and_said() -> None:
    straddling = stated({}, [(90_000, 0, 0, 0, 1), (100_001, 0, 0, 0, 1)], OPUS)
    found = derive([straddling], CLASSES)
    assert found.found == ()
    (one,) = found.left_out
    assert "both sides of 100,000 tokens" in one.why


def test_a_run_of_several_speeds_is_left_out_and_said() -> None:
    mixed = stated({}, [(9, 0, 0, 0, 1), (10, 0, 0, 0, 1)], OPUS)
    first, second = mixed.call_rows
    mixed = msgspec.structs.replace(mixed, call_rows=(first, msgspec.structs.replace(second, speed="fast")))
    (one,) = derive([mixed], CLASSES).left_out
    assert "several speeds" in one.why
