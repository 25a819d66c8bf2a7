"""Usage objects of the API and of the CLI as neutral counters; an impossible counter is named, never used."""

from decimal import Decimal
from typing import Final

from tokenbench.agents.claude.wire import ApiUsage, ModelUse
from tokenbench.transcripts.events import ModelUsage, Usage

MOST_TOKENS: Final = 10**12
"""A counter above this is damage: it is a million times the largest context window."""
MOST_USD: Final = 10**12
_FINEST: Final = -60
"""The last decimal place of a cost. No double that the CLI prints for one has more."""

_NAMES: Final = ("input", "cache_write", "cache_write_5m", "cache_write_1h", "cache_read", "output", "web_searches")


def usage_of(usage: ApiUsage | None) -> Usage | str:
    """The counters, or what is impossible about one of them."""
    if usage is None:
        return Usage()
    split = usage.cache_creation
    tools = usage.server_tool_use
    return _counters(
        input=usage.input_tokens,
        cache_write=usage.cache_creation_input_tokens,
        cache_write_5m=split.ephemeral_5m_input_tokens if split is not None else None,
        cache_write_1h=split.ephemeral_1h_input_tokens if split is not None else None,
        cache_read=usage.cache_read_input_tokens,
        output=usage.output_tokens,
        web_searches=tools.web_search_requests if tools is not None else None,
        speed=usage.speed,
        region=usage.inference_geo,
    )


def _counters(
    *,
    input: int | None,
    cache_write: int | None,
    cache_write_5m: int | None,
    cache_write_1h: int | None,
    cache_read: int | None,
    output: int | None,
    web_searches: int | None,
    speed: object = None,
    region: object = None,
) -> Usage | str:
    counters = (input, cache_write, cache_write_5m, cache_write_1h, cache_read, output, web_searches)
    for name, value in zip(_NAMES, counters, strict=True):
        if value is not None and not 0 <= value <= MOST_TOKENS:
            return f"{name} is {value}"
    if cache_write is None:
        cache_write = (cache_write_5m or 0) + (cache_write_1h or 0)
    return Usage(
        input or 0,
        cache_write,
        cache_write_5m,
        cache_write_1h,
        cache_read or 0,
        output or 0,
        web_searches or 0,
        speed if isinstance(speed, str) else "",
        region if isinstance(region, str) else "",
    )


def models_of(models: dict[str, ModelUse] | None) -> tuple[tuple[ModelUsage, ...] | None, list[str]]:
    """The models that can be read, and what is impossible about the others."""
    if models is None:
        return None, []
    found: list[ModelUsage] = []
    wrong: list[str] = []
    for name, use in models.items():
        usage = _counters(
            input=use.input_tokens,
            cache_write=use.cache_creation_input_tokens,
            cache_write_5m=use.cache_5m,
            cache_write_1h=use.cache_1h,
            cache_read=use.cache_read_input_tokens,
            output=use.output_tokens,
            web_searches=use.web_search_requests,
        )
        if isinstance(usage, str):
            wrong.append(f"{name}.{usage}")
        else:
            found.append(ModelUsage(name, usage, cost_of(use.cost), use.cost_basis))
    return tuple(found), wrong


def cost_of(usd: Decimal | None) -> Decimal | None:
    """A cost as printed; NaN, which adds up to nothing, where nobody can have paid it."""
    if usd is None:
        return None
    possible = usd.is_finite() and 0 <= usd <= MOST_USD and int(usd.as_tuple().exponent) >= _FINEST
    return usd if possible else Decimal("NaN")


def grown(begun: Usage, delta: Usage) -> Usage:
    """The counters of a finished message: a delta's are cumulative, and its zeros say nothing."""
    return Usage(
        delta.input or begun.input,
        delta.cache_write or begun.cache_write,
        begun.cache_write_5m if delta.cache_write_5m is None else delta.cache_write_5m,
        begun.cache_write_1h if delta.cache_write_1h is None else delta.cache_write_1h,
        delta.cache_read or begun.cache_read,
        delta.output or begun.output,
        delta.web_searches or begun.web_searches,
        delta.speed or begun.speed,
        delta.region or begun.region,
    )
