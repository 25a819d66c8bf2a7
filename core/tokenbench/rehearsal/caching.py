"""Prompt caching as the Messages API documents it, on an injected clock.

Rules played here (https://platform.claude.com/docs/en/build-with-claude/prompt-caching):

- a prompt is its blocks in order: tools, system, messages; an entry is a prefix that ends at a breakpoint;
- for each breakpoint the prefixes that end there or at the 19 blocks before it are looked up: 20 in all;
- the longest prefix found is read, what lies between it and the last breakpoint is written, the rest is fresh input;
- where lifetimes are mixed, what lies up to the last 1 h breakpoint is written for an hour, the remainder for 5
  minutes, and a longer lifetime has to stand before a shorter one;
- a prefix below the model's minimum is neither written nor an error; at most four breakpoints a request;
- a read starts the lifetime anew, of the entry and of the shorter ones that it contains.
"""

import hashlib
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from tokenbench.clock import Clock
from tokenbench.ledger.model import Tokens

Lifetime = Literal["5m", "1h"]
LIFETIMES: Final[dict[Lifetime, float]] = {"5m": 300.0, "1h": 3600.0}
"""Seconds."""
LOOKBACK: Final = 20
"""Prefixes looked up for one breakpoint, its own among them."""
MOST_BREAKPOINTS: Final = 4
MINIMUM_PREFIXES: Final[tuple[tuple[str, int], ...]] = (
    ("claude-opus-5", 512),
    ("claude-fable-5", 512),
    ("claude-mythos-5", 512),
    ("claude-opus-4-7", 2048),
    ("claude-opus-4-6", 4096),
    ("claude-opus-4-5", 4096),
    ("claude-haiku-4-5", 4096),
    ("claude-3-5-haiku", 2048),
    ("claude-3-haiku", 2048),
)
"""Shortest prefix that is cached, in tokens, by the beginning of the model's name; as users of the API report it in
2026, from no primary source: `PromptCache(minimum=…)` overrides it."""
MINIMUM_PREFIX: Final = 1024
"""Of every other model."""

BlockState = Literal["read", "write_5m", "write_1h", "fresh"]


class Block(msgspec.Struct, frozen=True):
    """One block of a prompt, as far as the cache and the bill are concerned."""

    content: bytes
    """What makes it the same block as another: its canonical bytes, without cache_control."""
    tokens: int
    breakpoint: Lifetime | None = None


class CacheMisuse(Exception):
    """A request whose breakpoints the API would reject; the text is the API's."""


class Settled(msgspec.Struct, frozen=True):
    """What a request reads from the cache and will write to it; nothing has been changed yet."""

    usage: Tokens
    """`output` is 0."""
    states: tuple[BlockState, ...]
    """Of each block."""
    reads: tuple[bytes, ...]
    """Entries whose lifetime starts anew."""
    writes: tuple[tuple[bytes, Lifetime], ...]


class _Entry(msgspec.Struct):
    lifetime: float
    expires: float


def minimum_prefix(model: str) -> int:
    """The shortest prefix of a model that is cached, in tokens."""
    return next((tokens for start, tokens in MINIMUM_PREFIXES if model.startswith(start)), MINIMUM_PREFIX)


class PromptCache:
    """The cache of one organisation: shared by all runs, kept apart by model."""

    def __init__(self, clock: Clock, *, minimum: int | None = None) -> None:
        """Start empty.

        Args:
            clock: What lifetimes are measured on.
            minimum: Shortest cached prefix in tokens, whatever the model; None takes the model's own.
        """
        self._clock = clock
        self._minimum = minimum
        self._entries: dict[bytes, _Entry] = {}

    def settle(self, model: str, blocks: Sequence[Block]) -> Settled:
        """What a prompt is billed now, without touching the cache.

        Raises:
            CacheMisuse: Too many breakpoints, or a short lifetime before a long one.
        """
        breakpoints: list[tuple[int, Lifetime]] = [
            (at, block.breakpoint) for at, block in enumerate(blocks) if block.breakpoint is not None
        ]
        _check(breakpoints)
        prefixes, lengths = _prefixes(model, blocks)
        now = self._clock.monotonic()

        def found(at: int) -> bool:
            entry = self._entries.get(prefixes[at])
            return entry is not None and entry.expires > now

        hit = -1
        for at, _ in breakpoints:
            window = range(at, max(-1, at - LOOKBACK), -1)
            hit = max(hit, next((place for place in window if found(place)), -1))
        minimum = minimum_prefix(model) if self._minimum is None else self._minimum
        writable: list[tuple[int, Lifetime]] = [
            (at, life) for at, life in breakpoints if at > hit and lengths[at] >= minimum
        ]
        last_hour = max((at for at, life in writable if life == "1h"), default=hit)
        last = max((at for at, _ in writable), default=hit)

        read = lengths[hit] if hit >= 0 else 0
        up_to_hour = lengths[last_hour] if last_hour >= 0 else 0
        up_to_last = lengths[last] if last >= 0 else 0
        total = lengths[-1] if lengths else 0
        return Settled(
            usage=Tokens.of(
                input=total - up_to_last,
                cache_write_5m=up_to_last - up_to_hour,
                cache_write_1h=up_to_hour - read,
                cache_read=read,
            ),
            states=tuple(
                "read" if at <= hit else "write_1h" if at <= last_hour else "write_5m" if at <= last else "fresh"
                for at in range(len(blocks))
            ),
            reads=tuple(prefixes[at] for at in range(hit + 1) if found(at)),
            writes=tuple((prefixes[at], life) for at, life in writable),
        )

    def commit(self, settled: Settled) -> None:
        """Let a request that is being answered read and write; one that failed never gets here."""
        now = self._clock.monotonic()
        self._entries = {prefix: entry for prefix, entry in self._entries.items() if entry.expires > now}
        for prefix in settled.reads:
            entry = self._entries.get(prefix)
            if entry is not None:
                entry.expires = now + entry.lifetime
        for prefix, life in settled.writes:
            known = self._entries.get(prefix)
            seconds = max(LIFETIMES[life], known.lifetime if known else 0.0)
            self._entries[prefix] = _Entry(seconds, now + seconds)


def _check(breakpoints: Sequence[tuple[int, Lifetime]]) -> None:
    if len(breakpoints) > MOST_BREAKPOINTS:
        raise CacheMisuse(
            f"A maximum of {MOST_BREAKPOINTS} blocks with cache_control may be provided. Found {len(breakpoints)}."
        )
    short = False
    for _, life in breakpoints:
        if life == "1h" and short:
            raise CacheMisuse(
                "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
                "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
            )
        short = short or life == "5m"


def _prefixes(model: str, blocks: Sequence[Block]) -> tuple[list[bytes], list[int]]:
    """For each block the digest and the tokens of the prompt up to and with it."""
    digest = hashlib.blake2b(model.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    prefixes: list[bytes] = []
    lengths: list[int] = []
    length = 0
    for block in blocks:
        digest = hashlib.blake2b(digest + block.content, digest_size=16).digest()
        length += block.tokens
        prefixes.append(digest)
        lengths.append(length)
    return prefixes, lengths
