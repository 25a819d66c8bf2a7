"""How much of a call's prompt was in the cache before: warm, cold, or in part."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from tokenbench.ledger.model import CallRow, Tokens

COLD_BELOW: Final = 0.05
WARM_ABOVE: Final = 0.75
Word = Literal["cold", "warm", "part"]


class Warmth(NamedTuple):
    """How warm a call's prefix was."""

    word: Word | None
    """None where nothing was billed, or nothing was there to be read."""
    share: float | None
    """Of the prefix, what was read from cache; 0 to 1."""


def warmth(share: float | None) -> Warmth:
    """The word for a share that was read from cache."""
    if share is None:
        return Warmth(None, None)
    if share < COLD_BELOW:
        return Warmth("cold", share)
    return Warmth("warm" if share > WARM_ABOVE else "part", share)


def of_first(first: Tokens) -> Warmth:
    """How warm a run began: what its first call read from cache, of its billed input."""
    return warmth(first.cache_read / first.billed_input if first.billed_input else None)


def of_calls(rows: Sequence[CallRow]) -> tuple[Warmth, ...]:
    """How warm the prefix of each call was, in the order of the rows.

    Of the first call of a conversation the prefix is all of its prompt. Of a later one it is what the call before it
    left in the cache, what that one wrote and read; a compaction cuts it off, and shows as a share below one.
    """
    left: dict[tuple[str | None, str], int] = {}
    found: list[Warmth] = []
    for row in rows:
        tokens, whose = row.tokens, (row.parent, row.model)
        before = left.get(whose)
        if before is None:
            found.append(of_first(tokens))
        else:
            found.append(warmth(min(1.0, tokens.cache_read / before) if before else None))
        left[whose] = tokens.cache_read + tokens.cache_write_5m + tokens.cache_write_1h
    return tuple(found)
