"""Estimates of a step's results against what the prompt grew by."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.ledger.attribution.items import Item, Key
from tokenbench.ledger.attribution.rates import Z
from tokenbench.ledger.attribution.settling import NOTE, NOTES_MOST, settle


def result(tokens: int, *, relative: float = 0.1, tool: str = "Read") -> Item:
    """An estimate with that relative standard deviation."""
    return Item(Key("result", tool, "read"), tokens, 0.0, Z * relative * tokens)


def settled(*items: Item, grown: int | None, said: int = 40, thinks: bool = False) -> list[Item]:
    return settle(items, grown, said, 5.0, thinks=thinks)


def test_a_rest_as_small_as_a_note_moves_nothing() -> None:
    (found,) = settled(result(1000), grown=1040 + NOTE)
    assert found.tokens == 1000


def test_what_the_error_of_the_estimate_explains_is_the_results() -> None:
    (found,) = settled(result(1000), grown=1040 + NOTE + 100)
    # Variances 100² and 25²: the result has 16/17 of what is left beside a note.
    assert found.tokens == 1000 + round(100 * 16 / 17)


def test_what_it_cannot_explain_stays_unattributed_and_in_the_bound() -> None:
    (found,) = settled(result(1000), grown=1040 + 900)
    assert found.tokens == 1000
    assert found.bound + found.scatter >= 900


def test_parallel_results_share_by_their_variances() -> None:
    sure, unsure = settled(result(1000, relative=0.01), result(1000, relative=0.1), grown=2040 + NOTE + 100)
    assert unsure.tokens - 1000 > 50 * (sure.tokens - 1000)


def test_the_growth_pins_a_result_better_than_its_rate() -> None:
    (found,) = settled(result(10_000), grown=10_040)
    assert (found.bound, found.scatter) == (NOTES_MOST + 5.0, 0.0)


def test_beside_another_result_it_is_as_unsure_as_that_one() -> None:
    small, large = settled(result(100), result(10_000), grown=10_140)
    assert small.bound + small.scatter == pytest.approx(Z * 10)
    assert large.bound == pytest.approx(NOTES_MOST + 5.0 + Z * 10)


def test_where_growth_and_estimate_contradict_each_other_neither_is_trusted() -> None:
    (found,) = settled(result(10_000), grown=1040)
    assert found.tokens == 1000
    assert found.bound + found.scatter >= 9000


@pytest.mark.parametrize(("grown", "thinks"), [(None, False), (2000, True), (0, False), (-300, False)])
def test_without_a_growth_that_tells_anything_an_estimate_stays_what_it_was(grown: int | None, thinks: bool) -> None:
    (found,) = settled(result(1000), grown=grown, thinks=thinks)
    assert found.tokens == 1000
    assert found.bound + found.scatter >= Z * 100


@given(
    tokens=st.lists(st.tuples(st.integers(0, 50_000), st.floats(0, 0.5)), max_size=5),
    grown=st.none() | st.integers(-1000, 200_000),
    said=st.integers(0, 5_000),
    thinks=st.booleans(),
)
def test_results_are_never_raised_above_the_growth_and_no_bound_is_below_zero(
    tokens: list[tuple[int, float]], grown: int | None, said: int, thinks: bool
) -> None:
    items = [result(count, relative=relative) for count, relative in tokens]
    found = settled(*items, grown=grown, said=said, thinks=thinks)
    before, after = sum(item.tokens for item in items), sum(item.tokens for item in found)
    assert [item.key for item in found] == [item.key for item in items]
    assert all(item.tokens >= 0 and item.bound >= 0 and item.scatter >= 0 for item in found)
    if after > before:
        assert grown is not None
        assert after <= grown - said
    if grown is not None and grown > 0:
        assert after <= grown


@given(
    pieces=st.lists(
        st.tuples(st.integers(0, 20_000), st.floats(0, 0.3), st.floats(-1, 1)),
        min_size=1,
        max_size=4,
    ),
    notes=st.integers(0, NOTES_MOST),
    said=st.integers(0, 2_000),
)
def test_a_bound_holds_wherever_the_rates_and_the_allowance_for_notes_do(
    pieces: list[tuple[int, float, float]], notes: int, said: int
) -> None:
    items = [result(tokens, relative=relative) for tokens, relative, _ in pieces]
    truth = [max(0, round(tokens * (1 + Z * relative * off))) for tokens, relative, off in pieces]
    found = settle(items, said + sum(truth) + notes, said, 0.0, thinks=False)
    for item, tokens in zip(found, truth, strict=True):
        assert abs(item.tokens - tokens) <= item.bound + item.scatter + 1
