"""Settles the estimates of a step's results against what the prompt grew by (docs/ledger.md has the derivation)."""

from collections.abc import Sequence
from math import sqrt
from typing import Final

from tokenbench.ledger.attribution.items import Item
from tokenbench.ledger.attribution.rates import Z

NOTE: Final = 25
"""Tokens that a step adds beside what was said and what the tools gave, with a standard deviation of as many: frames of
blocks, and a note of 48 characters that the claude CLI 2.1.332 puts behind the results for some models."""
NOTES_MOST: Final = 200
"""Tokens that the notes of one step are taken to come to at most. An allowance: the longest note that was seen on the
wire of 2.1.332, on an MCP server that failed, has some 600 characters."""


def settle(results: Sequence[Item], grown: int | None, said: int, unsure: float, *, thinks: bool) -> list[Item]:
    """The results of one step, as sure as the growth of the prompt makes them.

    Args:
        results: As estimated from their characters.
        grown: Tokens that the prompt grew by after them; 0 or less where something was taken out of it, None where that
            is not known.
        said: Tokens of it that are the model's own words.
        unsure: How far `said` may be off.
        thinks: Thinking of unknown size is in the growth as well.

    Returns:
        The same items, moved: never above the growth, and up to it as far as the error of the estimates explains.
    """
    if grown is None:
        return list(results)
    room = grown - said
    if grown > 0 and sum(item.tokens for item in results) > grown:
        moved = _shared(results, max(0, room), [item.tokens for item in results])
    elif grown > 0 and not thinks:
        moved = _raised(results, room)
    else:
        moved = list(results)
    rest = 0 if thinks else room - sum(item.tokens for item in moved)
    loose = [
        item._replace(bound=item.bound + abs(item.tokens - before.tokens) + abs(rest))
        for item, before in zip(moved, results, strict=True)
    ]
    lost = sum(before.tokens for before in results) - sum(item.tokens for item in moved)
    if grown <= 0 or thinks or lost > Z * sqrt(sum(map(_variance, results))):
        return loose
    # The results of the step together lie between the room and the room less the most that notes can be.
    together = max(abs(rest), abs(NOTES_MOST - rest)) + unsure
    whole = sum(item.bound + item.scatter for item in loose)
    found: list[Item] = []
    for item in loose:
        free = item.bound + item.scatter
        pinned = together + whole - free
        found.append(item._replace(bound=pinned, scatter=0.0) if pinned < free else item)
    return found


def _raised(results: Sequence[Item], room: int) -> list[Item]:
    """Results with their share of what the prompt grew by beyond them and a usual note.

    Of two errors that add up to a known sum each has the share of its variance (the best linear estimate). What is out
    of all proportion to both is no error of an estimate, and stays unattributed.
    """
    variances = list(map(_variance, results))
    total = sum(variances)
    surplus = room - sum(item.tokens for item in results) - NOTE
    if not 0 < surplus <= Z * sqrt(total + NOTE**2) or total <= 0:
        return list(results)
    more = _shared(results, round(surplus * total / (total + NOTE**2)), variances)
    return [item._replace(tokens=item.tokens + part.tokens) for item, part in zip(results, more, strict=True)]


def _variance(item: Item) -> float:
    return (item.bound / Z) ** 2 + (item.scatter / Z) ** 2


def _shared(results: Sequence[Item], tokens: int, weights: Sequence[float]) -> list[Item]:
    """The items with so many tokens, shared out by weight, to the token."""
    total, passed, before = sum(weights), 0.0, 0
    found: list[Item] = []
    for item, weight in zip(results, weights, strict=True):
        passed += weight
        upto = tokens if passed >= total else int(tokens * passed // total)
        found.append(item._replace(tokens=upto - before))
        before = upto
    return found
