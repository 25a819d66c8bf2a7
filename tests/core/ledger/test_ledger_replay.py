"""Costs replayed from a cold and from a warm cache: only what a run found at its start changes."""

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams import Script, ledger, text, tool

from tokenbench.ledger.model import Costs, Tokens
from tokenbench.ledger.prices import ModelPrices, PriceTable, Rates, Row

D = Decimal
MODEL = "claude-opus-4-8"
RATES = Rates(D(5), D("6.25"), D(10), D("0.5"), D(25), D("0.01"))
TABLE = PriceTable(
    (ModelPrices(model=MODEL, agent="claude", agent_version="2.1.332", rows=(Row(0, "standard", "", RATES),)),)
)


def costs(*calls: tuple[int, int, int, int]) -> Costs:
    """Of a run whose calls took in: input, 5-minute write, 1-hour write, read."""
    script = Script(MODEL)
    for number, usage in enumerate(calls):
        last = number == len(calls) - 1
        script.call(f"m{number}", (*usage, 1), text("done") if last else tool(f"t{number}"))
        if not last:
            script.result_of(f"t{number}")
    whole = (*(sum(column) for column in zip(*calls, strict=True)), 10)
    fresh, five, hour, read, output = whole
    cost = fresh * RATES.input + five * RATES.cache_write_5m + hour * RATES.cache_write_1h
    cost = (cost + read * RATES.cache_read + output * RATES.output) / 10**6
    script.end(whole, {MODEL: whole}, cost=str(cost))
    found = ledger(script.bytes(), prices=TABLE)
    assert found.cost_reconciled is True
    return found.cost_usd


def test_a_run_from_a_cold_cache_costs_what_it_costs_and_a_warm_start_reads_what_it_wrote_first() -> None:
    found = costs((3, 1_000, 0, 0), (3, 200, 0, 1_000))
    assert found.recomputed is not None
    assert found.cold == found.recomputed
    assert found.warm == found.recomputed - 1_000 * (D("6.25") - D("0.5")) / 10**6


def test_a_run_from_a_warm_cache_would_have_written_what_it_first_read() -> None:
    found = costs((3, 0, 0, 1_000), (3, 200, 0, 1_000))
    assert found.recomputed is not None
    assert found.warm == found.recomputed
    assert found.cold == found.recomputed + 1_000 * (D("6.25") - D("0.5")) / 10**6


def test_writes_live_as_long_as_the_runs_others_do() -> None:
    found = costs((3, 0, 0, 1_000), (3, 0, 200, 1_000))
    assert found.recomputed is not None
    assert found.cold == found.recomputed + 1_000 * (D(10) - D("0.5")) / 10**6


def test_a_run_that_wrote_nothing_does_not_say_how_long_a_write_would_live() -> None:
    found = costs((3, 0, 0, 1_000))
    assert found.cold is None
    assert found.warm == found.recomputed


def test_a_run_without_a_cache_costs_the_same_from_any_start() -> None:
    found = costs((1_000, 0, 0, 0), (1_200, 0, 0, 0))
    assert found.cold == found.warm == found.recomputed == found.cache_neutral


def test_calls_that_wait_longer_than_a_cache_lives_write_again_from_any_start() -> None:
    # The second call comes after the lifetime: it reads nothing and writes the whole prompt anew.
    cold = costs((3, 1_000, 0, 0), (3, 1_200, 0, 0), (3, 100, 0, 1_200))
    warm = costs((3, 0, 0, 1_000), (3, 1_200, 0, 0), (3, 100, 0, 1_200))
    assert cold.warm == warm.recomputed == warm.warm
    assert warm.cold == cold.recomputed == cold.cold


@pytest.mark.parametrize("hour", [False, True], ids=["5m", "1h"])
def test_a_start_is_replayed_at_the_lifetime_of_its_own_writes_whatever_those_of_later_calls(hour: bool) -> None:
    first = (3, 0, 500, 1_000) if hour else (3, 500, 0, 1_000)
    later = (3, 200, 0, 1_500) if hour else (3, 0, 200, 1_500)
    found = costs(first, later)
    assert found.recomputed is not None
    write = RATES.cache_write_1h if hour else RATES.cache_write_5m
    assert found.cold == found.recomputed + 1_000 * (write - RATES.cache_read) / 10**6
    assert found.warm == found.recomputed - 500 * (write - RATES.cache_read) / 10**6


def test_each_start_is_replayed_at_the_speed_of_its_call() -> None:
    fast = Rates(*(price * 3 for price in msgspec.structs.astuple(RATES)[:5]), RATES.web_search)
    (entry,) = TABLE.models
    table = PriceTable((msgspec.structs.replace(entry, rows=(*entry.rows, Row(0, "fast", "", fast))),))
    script = Script(MODEL)
    row = script.call("m1", (3, 500, 0, 1_000, 1), text("done"))
    row["message"]["usage"]["speed"] = "fast"
    whole = (3, 500, 0, 1_000, 10)
    script.end(whole, {MODEL: whole}, cost=str(fast.cost(Tokens.of(*whole))))
    found = ledger(script.bytes(), prices=table)
    assert found.cost_reconciled is True
    assert found.cost_usd.recomputed is not None
    assert found.cost_usd.cold == found.cost_usd.recomputed + 1_000 * (D("6.25") - D("0.5")) * 3 / 10**6
    assert found.cost_usd.warm == found.cost_usd.recomputed - 500 * (D("6.25") - D("0.5")) * 3 / 10**6


def with_subagents(*starts: tuple[int, int, int, int]) -> Costs:
    """Of a cold main loop of two calls, between which subagents of one call each ran."""
    script = Script(MODEL)
    first, last = (3, 1_000, 0, 0), (3, 200, 0, 1_000)
    script.call("m1", (*first, 5), *(tool(f"t{at}", name="Agent") for at in range(len(starts))), stop="tool_use")
    for at, usage in enumerate(starts):
        script.call(f"s{at}", (*usage, 7), text("found"), stop="end_turn", parent_tool_use_id=f"t{at}")
        script.result_of(f"t{at}")
    script.call("m2", (*last, 6), text("done"), stop="end_turn")
    main = (*(sum(column) for column in zip(first, last, strict=True)), 11)
    whole = tuple(sum(column) for column in zip(main, *((*usage, 7) for usage in starts), strict=True))
    script.end(main, {MODEL: whole}, cost=str(RATES.cost(Tokens.of(*whole))))
    found = ledger(script.bytes(), prices=TABLE)
    assert found.cost_reconciled is True
    return found.cost_usd


def test_a_subagent_that_reads_at_its_start_may_read_what_the_run_itself_left_so_that_cold_cannot_be_told() -> None:
    # The second one reads what the first one wrote: from a cold cache it would have done the same.
    found = with_subagents((3, 400, 0, 0), (3, 0, 0, 400))
    assert found.cold is None
    assert found.recomputed is not None
    assert found.warm == found.recomputed - 1_400 * (D("6.25") - D("0.5")) / 10**6


def test_subagents_that_read_nothing_at_their_start_were_cold() -> None:
    found = with_subagents((3, 400, 0, 0), (3, 300, 0, 0))
    assert found.cold == found.recomputed


count = st.integers(min_value=0, max_value=100_000)


@given(first=st.tuples(count, count.filter(bool), count), grown=st.tuples(count, count))
def test_replaying_the_cold_run_gives_the_warm_ones_cost_and_the_other_way_round(
    first: tuple[int, int, int], grown: tuple[int, int]
) -> None:
    fresh, prefix, beyond = first
    later = (*grown, 0, prefix + beyond)
    cold = costs((fresh, prefix + beyond, 0, 0), later, (0, 1, 0, 0))
    warm = costs((fresh, 0, 0, prefix + beyond), later, (0, 1, 0, 0))
    partly = costs((fresh, beyond, 0, prefix), later, (0, 1, 0, 0))
    assert cold.warm == warm.warm == partly.warm == warm.recomputed
    assert cold.cold == warm.cold == partly.cold == cold.recomputed
