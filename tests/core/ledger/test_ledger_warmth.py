"""How warm a prefix was, call by call."""

from tokenbench.ledger.model import CallRow, Tokens
from tokenbench.ledger.warmth import of_calls, of_first, warmth


def row(number: int, tokens: Tokens, *, parent: str | None = None, model: str = "m") -> CallRow:
    return CallRow(
        number=number, message_id=f"msg_{number}", model=model, line=number, tokens=tokens, output_is_partial=False,
        parent=parent, then=(),
    )  # fmt: skip


def test_next_to_nothing_is_cold_and_nearly_all_is_warm() -> None:
    assert [warmth(share).word for share in (0.0, 0.049, 0.05, 0.75, 0.751, 1.0)] == [
        "cold", "cold", "part", "part", "warm", "warm",
    ]  # fmt: skip
    assert warmth(None).word is None


def test_of_a_first_call_the_prefix_is_its_whole_prompt() -> None:
    assert of_first(Tokens.of(input=10, cache_write_5m=90)) == ("cold", 0.0)
    assert of_first(Tokens.of(input=50, cache_read=50)) == ("part", 0.5)
    assert of_first(Tokens.of()).word is None


def test_of_a_later_call_the_prefix_is_what_the_one_before_left() -> None:
    calls = [
        row(1, Tokens.of(input=3, cache_write_5m=1_000)),
        row(2, Tokens.of(input=9_000, cache_write_5m=10, cache_read=1_000)),
        row(3, Tokens.of(input=3, cache_write_5m=1_010)),
        row(4, Tokens.of(input=3, cache_read=505)),
    ]
    assert [one.word for one in of_calls(calls)] == ["cold", "warm", "cold", "part"]
    assert of_calls(calls)[3].share == 0.5


def test_conversations_and_models_have_prefixes_of_their_own() -> None:
    calls = [
        row(1, Tokens.of(cache_write_1h=1_000)),
        row(2, Tokens.of(cache_write_5m=500), parent="toolu_1"),
        row(3, Tokens.of(cache_read=1_000)),
        row(4, Tokens.of(cache_write_5m=700), model="other"),
    ]
    assert [one.word for one in of_calls(calls)] == ["cold", "cold", "warm", "cold"]


def test_a_call_that_left_nothing_leaves_no_prefix() -> None:
    calls = [row(1, Tokens.of(input=10)), row(2, Tokens.of(input=20))]
    assert of_calls(calls)[1].word is None
