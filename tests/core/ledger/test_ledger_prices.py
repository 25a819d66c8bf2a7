"""Price tables: exact arithmetic, a tier decided by each call's own prompt, nothing assumed."""

from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from priced import proved_table

from tokenbench.errors import RunsError
from tokenbench.ledger.model import Tokens
from tokenbench.ledger.prices import ModelPrices, PriceTable, Rates, Row, read, write

D = Decimal


def rates(*prices: str, search: str = "0.01") -> Rates:
    """Input, output, read, write 5m, write 1h."""
    fresh, output, read_, five, hour = map(D, prices)
    return Rates(fresh, five, hour, read_, output, D(search))


BASE = rates("3", "15", "0.3", "3.75", "6")
HIGH = rates("6", "22.5", "0.6", "7.5", "12")
TIERED = ModelPrices(
    model="claude-sonnet-4-5",
    agent="claude",
    agent_version="2.1.197",
    rows=(
        Row(0, "standard", "", BASE),
        Row(200_000, "standard", "", HIGH),
        Row(0, "fast", "us", rates("9", "9", "9", "9", "9")),
    ),
    plain_regions=("global",),
)


def test_the_prompt_at_a_threshold_is_below_it_and_one_token_more_reprices_the_whole_call() -> None:
    at = Tokens.of(1_000, 0, 9_000, 190_000, 100)
    over = Tokens.of(1_001, 0, 9_000, 190_000, 100)

    assert TIERED.cost(at) == D("0.1155")
    assert TIERED.cost(over) == D("0.230256")


def test_what_was_never_seen_has_no_price() -> None:
    assert TIERED.rates(10, speed="fast") is None
    assert TIERED.rates(10, region="us") is None
    assert TIERED.cost(Tokens.of(1), speed="warp") is None


def test_a_prompt_longer_than_any_that_was_tried_has_no_price() -> None:
    tried = msgspec.structs.replace(TIERED, largest=2_000_000)
    assert tried.rates(2_000_000) == HIGH
    assert tried.rates(2_000_001) is None


def test_a_region_that_was_seen_to_cost_the_same_is_none_of_its_own() -> None:
    assert TIERED.rates(10, region="global") == BASE
    assert TIERED.rates(10, speed="standard", region="global") == BASE


@pytest.mark.parametrize(
    ("name", "version", "found"),
    [
        ("claude-sonnet-4-5", "2.1.197", True),
        ("claude-sonnet-4-5[1m]", "2.1.197", True),
        ("claude-sonnet-4-5-20250929", "2.1.197", True),
        ("claude-sonnet-4", "2.1.197", False),
        ("claude-sonnet-4-5-1", "2.1.197", False),
        ("claude-sonnet-4-5", "2.1.332", False),
        ("claude-sonnet-4-5", None, False),
    ],
)
def test_a_model_is_found_by_its_name_and_the_version_alone(name: str, version: str | None, found: bool) -> None:
    assert (PriceTable((TIERED,)).find(name, version) is TIERED) is found


def test_a_newer_probe_replaces_the_same_model_in_the_same_version_only() -> None:
    newer = ModelPrices(model=TIERED.model, agent="claude", agent_version="2.1.197", rows=())
    other = ModelPrices(model=TIERED.model, agent="claude", agent_version="2.1.332", rows=())

    merged = PriceTable((TIERED,)).merged(PriceTable((newer, other)))

    assert merged.models == (newer, other)


def test_a_table_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    assert read(path) is None
    write(path, proved_table(TIERED))
    assert read(path) == proved_table(TIERED)


@pytest.mark.parametrize("damage", [b"", b"{", b'{"models": 3}', b'{"model": []}', b"\xff\xfe", b"[" * 5000])
def test_a_damaged_table_is_an_error_with_a_remedy(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "prices.json"
    path.write_bytes(damage)
    with pytest.raises(RunsError, match="no price table") as caught:
        read(path)
    assert "prices --probe" in caught.value.remedy


counter = st.integers(min_value=0, max_value=10**9)


@given(st.lists(st.tuples(counter, counter, counter, counter, counter), max_size=8))
def test_costs_are_exact_so_that_the_sum_of_calls_is_the_cost_of_their_sum(calls: list[tuple[int, ...]]) -> None:
    parts = [Tokens.of(*call) for call in calls]
    assert sum((BASE.cost(part) for part in parts), D(0)) == BASE.cost(sum(parts, Tokens()))


@given(counter, counter, counter, counter, counter)
def test_without_a_cache_every_prompt_token_has_the_fresh_price(a: int, b: int, c: int, d: int, e: int) -> None:
    tokens = Tokens.of(a, b, c, d, e)
    assert BASE.neutral(tokens) == BASE.prompt(Tokens.of(tokens.billed_input))
