"""Prompt caching, as the API documents it."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.clock import ManualClock
from tokenbench.ledger.model import Tokens
from tokenbench.rehearsal.caching import (
    LOOKBACK,
    Block,
    CacheMisuse,
    Lifetime,
    PromptCache,
    Settled,
    minimum_prefix,
)

MODEL = "claude-opus-5"


def block(name: str, tokens: int = 1000, breakpoint: Lifetime | None = None) -> Block:
    return Block(name.encode(), tokens, breakpoint)


class World:
    """A cache, its clock, and requests that are answered."""

    def __init__(self, minimum: int | None = 0) -> None:
        self.clock = ManualClock()
        self.cache = PromptCache(self.clock, minimum=minimum)

    def ask(self, *blocks: Block, model: str = MODEL) -> Settled:
        settled = self.cache.settle(model, blocks)
        self.cache.commit(settled)
        return settled

    def usage(self, *blocks: Block, model: str = MODEL) -> Tokens:
        return self.ask(*blocks, model=model).usage


def test_without_a_breakpoint_everything_is_fresh() -> None:
    world = World()
    world.usage(block("a"))
    assert world.usage(block("a")) == Tokens.of(input=1000)


def test_the_prefix_up_to_the_last_breakpoint_is_written_and_the_rest_is_fresh() -> None:
    settled = World().ask(block("a", 10), block("b", 20, "5m"), block("c", 3))
    assert settled.usage == Tokens.of(input=3, cache_write_5m=30)
    assert settled.states == ("write_5m", "write_5m", "fresh")


def test_the_same_prompt_again_is_read() -> None:
    world = World()
    world.usage(block("a", breakpoint="5m"), block("c", 3))
    settled = world.ask(block("a", breakpoint="5m"), block("c", 3))
    assert settled.usage == Tokens.of(input=3, cache_read=1000)
    assert settled.states == ("read", "fresh")


def test_a_breakpoint_that_has_moved_on_reads_what_the_one_before_it_wrote() -> None:
    world = World()
    world.usage(block("a", 10), block("b", 20, "5m"))
    assert world.usage(block("a", 10), block("b", 20), block("c", 40, "5m")) == Tokens.of(
        cache_read=30, cache_write_5m=40
    )


def test_a_prefix_that_no_breakpoint_ended_is_no_entry() -> None:
    world = World()
    world.usage(block("a"), block("b", breakpoint="5m"))
    assert world.usage(block("a", breakpoint="5m")) == Tokens.of(cache_write_5m=1000)


def test_one_changed_block_loses_everything_behind_it() -> None:
    world = World()
    world.usage(block("a", 10, "5m"), block("b", 20, "5m"), block("c", 40, "5m"))
    assert world.usage(block("a", 10, "5m"), block("B", 20, "5m"), block("c", 40, "5m")) == Tokens.of(
        cache_read=10, cache_write_5m=60
    )


def test_models_share_no_entries() -> None:
    world = World()
    world.usage(block("a", breakpoint="5m"))
    assert world.usage(block("a", breakpoint="5m"), model="claude-haiku-5-5").cache_read == 0


@pytest.mark.parametrize(("between", "read"), [(LOOKBACK - 2, True), (LOOKBACK - 1, False)])
def test_a_breakpoint_looks_back_over_twenty_blocks_its_own_among_them(between: int, read: bool) -> None:
    world = World()
    world.usage(block("start", breakpoint="5m"))
    later = [block(f"result {number}") for number in range(between)]
    usage = world.usage(block("start"), *later, block("end", breakpoint="5m"))
    assert (usage.cache_read > 0) is read


def test_an_earlier_breakpoint_looks_back_for_itself() -> None:
    world = World()
    world.usage(block("system", breakpoint="5m"))
    later = [block(f"result {number}") for number in range(30)]
    usage = world.usage(block("system", breakpoint="5m"), *later, block("end", breakpoint="5m"))
    assert usage == Tokens.of(cache_read=1000, cache_write_5m=31000)


@pytest.mark.parametrize(("lifetime", "seconds"), [("5m", 300.0), ("1h", 3600.0)])
def test_an_entry_lives_for_its_lifetime(lifetime: Lifetime, seconds: float) -> None:
    world = World()
    world.usage(block("a", breakpoint=lifetime))
    world.clock.advance(seconds - 1)
    assert world.cache.settle(MODEL, [block("a", breakpoint=lifetime)]).usage.cache_read == 1000
    world.clock.advance(1)
    assert world.cache.settle(MODEL, [block("a", breakpoint=lifetime)]).usage.cache_read == 0


def test_a_read_starts_the_lifetime_anew() -> None:
    world = World()
    world.usage(block("a", breakpoint="5m"))
    for _ in range(5):
        world.clock.advance(299)
        assert world.usage(block("a", breakpoint="5m")).cache_read == 1000


def test_a_read_keeps_the_shorter_entries_that_it_contains_alive() -> None:
    world = World()
    world.usage(block("a", breakpoint="5m"), block("b", breakpoint="5m"))
    world.clock.advance(299)
    world.usage(block("a"), block("b", breakpoint="5m"))
    world.clock.advance(299)
    assert world.usage(block("a", breakpoint="5m"), block("other")).cache_read == 1000


def test_a_request_that_was_settled_and_not_answered_leaves_no_trace() -> None:
    world = World()
    world.cache.settle(MODEL, [block("a", breakpoint="5m")])
    assert world.usage(block("a", breakpoint="5m")).cache_read == 0


def test_mixed_lifetimes_are_billed_by_what_lies_between_their_breakpoints() -> None:
    settled = World().ask(block("a", 10, "1h"), block("b", 20), block("c", 40, "5m"), block("d", 80))
    assert settled.usage == Tokens.of(input=80, cache_write_5m=60, cache_write_1h=10)
    assert settled.states == ("write_1h", "write_5m", "write_5m", "fresh")


def test_after_five_minutes_only_the_hour_is_left() -> None:
    world = World()
    world.usage(block("a", 10, "1h"), block("b", 20, "5m"))
    world.clock.advance(301)
    assert world.usage(block("a", 10, "1h"), block("b", 20, "5m")) == Tokens.of(cache_read=10, cache_write_5m=20)


def test_a_prefix_below_the_minimum_is_fresh_input_and_no_error() -> None:
    world = World(minimum=1024)
    for _ in range(2):
        assert world.usage(block("a", 1023, "5m")) == Tokens.of(input=1023)
    assert world.usage(block("b", 1000, "5m"), block("c", 24, "5m"), block("d", 9)) == Tokens.of(
        input=9, cache_write_5m=1024
    )


@pytest.mark.parametrize(
    ("model", "tokens"),
    [("claude-opus-5", 512), ("claude-haiku-4-5-20251001", 4096), ("claude-sonnet-4-5", 1024), ("a-model", 1024)],
)
def test_the_minimum_depends_on_the_model(model: str, tokens: int) -> None:
    assert minimum_prefix(model) == tokens
    world = World(minimum=None)
    assert world.usage(block("short", tokens - 1, "5m"), model=model) == Tokens.of(input=tokens - 1)
    assert world.usage(block("long", tokens, "5m"), model=model) == Tokens.of(cache_write_5m=tokens)


def test_a_fifth_breakpoint_is_rejected() -> None:
    with pytest.raises(CacheMisuse, match=r"maximum of 4 .* Found 5"):
        World().ask(*(block(str(number), breakpoint="5m") for number in range(5)))


def test_an_hour_after_five_minutes_is_rejected() -> None:
    with pytest.raises(CacheMisuse, match="must not come after"):
        World().ask(block("a", breakpoint="5m"), block("b", breakpoint="1h"))


conversations = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 400), st.sampled_from([None, None, "5m", "1h"])), min_size=1, max_size=6
)


def _valid(parts: Iterable[tuple[int, int, Lifetime | None]]) -> list[Block]:
    """At most three breakpoints, the long ones first."""
    blocks: list[Block] = []
    kept: list[Lifetime] = []
    for name, tokens, life in parts:
        allowed = life if len(kept) < 3 and not (life == "1h" and "5m" in kept) else None
        if allowed:
            kept.append(allowed)
        blocks.append(block(str(name), tokens, allowed))
    return blocks


@given(st.lists(st.tuples(conversations, st.integers(0, 400)), max_size=8))
def test_every_token_of_a_prompt_is_billed_exactly_once(requests: list) -> None:
    world = World(minimum=100)
    for parts, seconds in requests:
        world.clock.advance(seconds)
        blocks = _valid(parts)
        settled = world.ask(*blocks)
        assert settled.usage.billed_input == sum(one.tokens for one in blocks)
        by_state = dict.fromkeys(("read", "write_5m", "write_1h", "fresh"), 0)
        for one, state in zip(blocks, settled.states, strict=True):
            by_state[state] += one.tokens
        assert by_state == {
            "read": settled.usage.cache_read,
            "write_5m": settled.usage.cache_write_5m,
            "write_1h": settled.usage.cache_write_1h,
            "fresh": settled.usage.input,
        }
