"""Dollars of each part, by the price class under which each call billed it.

A cache holds prefixes: of a prompt the first tokens are read, the next ones written, the last ones fresh. So what
stands first in the prompt is what was read. Within the growth of one step its things stand in their order and what is
unattributed behind them; where they are estimated at more than the growth they are shrunk to it, for their place alone.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from tokenbench.ledger.attribution.items import Item, Key
from tokenbench.ledger.attribution.model import ClassPrices, Weights
from tokenbench.ledger.model import CallRow, Remainder, Tokens

_FINE: Final = 1000
"""Steps in which the share of a thing that falls into a price class is told."""
_STEP: Final = Decimal("1e-12")
"""USD to which a part of one call is rounded; what is left over is unattributed, so the sum is exact."""


class Layer(NamedTuple):
    """What one step added to the prompt."""

    items: tuple[Item, ...]
    grown: int
    """By how much the billed prompt grew, in tokens."""


class Prompt(NamedTuple):
    """One call's prompt."""

    call: CallRow
    layers: Sequence[Layer]
    """Its beginning is the prompt; later calls may have added more."""
    length: int


class Bill(NamedTuple):
    """USD of a run's billed input."""

    total: Decimal
    by_key: Mapping[Key, Decimal]
    left: Decimal
    """Of what is unattributed."""


def spend(prompts: Sequence[Prompt], weights: Weights, sides: Sequence[tuple[Key, Remainder]]) -> Bill | None:
    """The dollars of every part; None where a price is unknown."""
    by_key: dict[Key, Decimal] = defaultdict(Decimal)
    total = Decimal(0)
    for prompt in prompts:
        prices = weights.of_call(prompt.call)
        if prices is None:
            return None
        total += _input_usd(prompt.call.tokens, prices)
        for key, usd in _of_call(prompt, prices):
            by_key[key] += usd
    for key, item in sides:
        prices = weights.of_rest(item.model, item.tokens)
        if prices is None:
            return None
        usd = _input_usd(item.tokens, prices)
        total += usd
        by_key[key] += usd
    return Bill(total, by_key, total - sum(by_key.values(), Decimal(0)))


def _input_usd(tokens: Tokens, prices: ClassPrices) -> Decimal:
    return (
        tokens.input * prices.input
        + tokens.cache_write_5m * prices.cache_write_5m
        + tokens.cache_write_1h * prices.cache_write_1h
        + tokens.cache_read * prices.cache_read
    )


def _of_call(prompt: Prompt, prices: ClassPrices) -> Iterator[tuple[Key, Decimal]]:
    tokens = prompt.call.tokens
    writes = tokens.cache_write_5m + tokens.cache_write_1h
    written = Decimal(0)
    if writes:
        spent = tokens.cache_write_5m * prices.cache_write_5m + tokens.cache_write_1h * prices.cache_write_1h
        written = spent / writes
    read_end, write_end = tokens.cache_read, tokens.cache_read + writes
    position = 0.0
    for layer in prompt.layers[: prompt.length]:
        size = sum(item.tokens for item in layer.items)
        width = max(0, layer.grown)
        scale = min(1.0, width / size) if size > 0 else 0.0
        start = position
        for item in layer.items:
            end = start + item.tokens * scale
            read, write = _within(start, end, 0, read_end), _within(start, end, read_end, write_end)
            fresh = 1.0 - read - write
            price = _share(read) * prices.cache_read + _share(write) * written + _share(fresh) * prices.input
            yield item.key, (item.tokens * price).quantize(_STEP)
            start = end
        position += width


def _within(start: float, end: float, low: int, high: int) -> float:
    """Share of an interval that lies in another; a point lies in it or not."""
    if end <= start:
        return 1.0 if low <= start < high else 0.0
    return max(0.0, min(end, high) - max(start, low)) / (end - start)


def _share(value: float) -> Decimal:
    return Decimal(round(value * _FINE)) / _FINE
