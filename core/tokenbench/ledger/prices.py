"""Price tables: what the agent CLI was seen to charge, kept with the evidence. No price stands in the code.

A table is made by a probe of the CLI (`tokenbench.probes.prices`) or derived from paid transcripts
(`tokenbench.ledger.derive`), and comes to the ledger as a value. All arithmetic is exact (`Decimal`).
"""

import json
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Final, Literal

import msgspec

from tokenbench.errors import RunsError
from tokenbench.files import write_atomically
from tokenbench.ledger import names
from tokenbench.ledger.model import Tokens
from tokenbench.ledger.proof import fault
from tokenbench.text import one_line

MILLION: Final = Decimal(1_000_000)
Way = tuple[str, str]
"""Speed and region of a call, as it states them."""
STANDARD: Final = "standard"
"""The speed of a call that states none."""
MAKE_ONE: Final = "Make one with `tokenbench-tui prices --probe`; it costs nothing"


class Rates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices of one class of calls: USD per million tokens; searches USD a piece."""

    input: Decimal
    cache_write_5m: Decimal
    cache_write_1h: Decimal
    cache_read: Decimal
    output: Decimal
    web_search: Decimal

    def cost(self, tokens: Tokens, *, searches: int = 0) -> Decimal:
        """What a call with these counters costs, in USD, exactly."""
        return self.prompt(tokens) + tokens.output * self.output / MILLION + searches * self.web_search

    def prompt(self, tokens: Tokens) -> Decimal:
        """What its prompt alone costs, in USD."""
        return (
            tokens.input * self.input
            + tokens.cache_write_5m * self.cache_write_5m
            + tokens.cache_write_1h * self.cache_write_1h
            + tokens.cache_read * self.cache_read
        ) / MILLION

    def neutral(self, tokens: Tokens) -> Decimal:
        """What its prompt would cost without a cache: all of it at the price of fresh input, in USD."""
        return tokens.billed_input * self.input / MILLION


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The prices of one tier, speed and region."""

    above: int
    """Applies to calls whose whole prompt (input, writes and reads) has more tokens than this; 0 to all."""
    speed: str
    region: str
    """As calls state it; empty for a call that states none."""
    rates: Rates


class Sample(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A piece of evidence: what was served in one call, and what the CLI charged for it."""

    cost: Decimal
    """USD, as printed."""
    input: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    cache_read: int = 0
    output: int = 0
    searches: int = 0
    fetches: int = 0
    """Web fetches. A table holds no price of them: the probe takes no CLI that charges for them."""
    speed: str = ""
    region: str = ""

    @property
    def way(self) -> Way:
        """Speed and region, as a row names them."""
        return self.speed or STANDARD, self.region

    @property
    def tokens(self) -> Tokens:
        """Its counters."""
        return Tokens.of(self.input, self.cache_write_5m, self.cache_write_1h, self.cache_read, self.output)


class ModelPrices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one version of the CLI charges for one model."""

    model: str
    """As the CLI names it in its totals."""
    agent: str
    agent_version: str
    rows: tuple[Row, ...]
    """By tier, speed and region; of the tiers that a prompt is above, the highest counts."""
    plain_regions: tuple[str, ...] = ()
    """Regions that were seen to cost what a call without region costs."""
    largest: int = 0
    """The longest prompt that was tried, in tokens: what lies above was not seen."""
    made: float = 0.0
    """Seconds since the Unix epoch."""
    source: Literal["probe", "transcripts"] = "probe"
    evidence: tuple[Sample, ...] = ()

    def rates(self, prompt: int, *, speed: str = "", region: str = "") -> Rates | None:
        """The prices of a call, None where nobody has seen them.

        Args:
            prompt: Tokens of its whole prompt: input, cache writes and cache reads.
            speed: As the call states it; empty is the standard speed.
            region: As the call states it.
        """
        if self.largest and prompt > self.largest:
            return None
        plain = "" if region in self.plain_regions else region
        fitting = [
            row
            for row in self.rows
            if row.speed == (speed or STANDARD) and row.region == plain and (prompt > row.above or not row.above)
        ]
        return max(fitting, key=lambda row: row.above).rates if fitting else None

    def candidates(self, prompts: int, ways: Iterable[Way]) -> tuple[Rates, ...]:
        """The prices that calls may have of which only the sum is known; empty where one of them was never seen.

        Args:
            prompts: Tokens of all their prompts together.
            ways: Speeds and regions that they may have; none is the standard speed without a region.
        """
        sizes = [0, *(limit + 1 for limit in self.thresholds if prompts > limit)]
        found = [
            self.rates(size, speed=speed, region=region)
            for speed, region in (tuple(ways) or (("", ""),))
            for size in sizes
        ]
        known = [rates for rates in found if rates is not None]
        return tuple(dict.fromkeys(known)) if len(known) == len(found) else ()

    @property
    def thresholds(self) -> tuple[int, ...]:
        """Prompt sizes above which another tier begins, in tokens."""
        return tuple(sorted({row.above for row in self.rows if row.above}))

    def cost(self, tokens: Tokens, *, searches: int = 0, speed: str = "", region: str = "") -> Decimal | None:
        """What one call costs, in USD; its tier is decided by its own prompt."""
        rates = self.rates(tokens.billed_input, speed=speed, region=region)
        return None if rates is None else rates.cost(tokens, searches=searches)


class PriceTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that is known of prices; `runs/prices.json`."""

    models: tuple[ModelPrices, ...] = ()

    def find(self, model: str, version: str | None, *, agent: str = "claude") -> ModelPrices | None:
        """The prices of a model in one version of the CLI: the same name but for a date or `[1m]`, nothing looser."""
        known = {entry.model: entry for entry in self.models if entry.agent == agent and entry.agent_version == version}
        name = names.find(model, known)
        return known[name] if name is not None else None

    def versions(self, model: str, *, agent: str = "claude") -> tuple[str, ...]:
        """Versions of the CLI whose price of this model is known."""
        return tuple(
            entry.agent_version
            for entry in self.models
            if entry.agent == agent and names.find(model, {entry.model}) is not None
        )

    def merged(self, newer: "PriceTable") -> "PriceTable":
        """Both tables; of one model in one version the newer entry counts."""
        entries = {(entry.agent, entry.agent_version, entry.model): entry for entry in self.models}
        entries |= {(entry.agent, entry.agent_version, entry.model): entry for entry in newer.models}
        return PriceTable(tuple(entries[key] for key in sorted(entries)))


def read(path: Path) -> PriceTable | None:
    """The table at this path, None where there is none.

    Raises:
        RunsError: It is there, but it cannot be read as a price table, or its evidence says other prices.
    """
    remedy = f"Move it away. {MAKE_ONE}"
    try:
        data = path.read_bytes()
        json.loads(data, object_pairs_hook=_once)
        table = msgspec.json.decode(data, type=PriceTable)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, ArithmeticError, ValueError, RecursionError) as error:
        raise RunsError(f"is no price table: {one_line(str(error), 200)}", where=str(path), remedy=remedy) from error
    wrong = fault(table)
    if wrong is not None:
        raise RunsError(
            f"is a price table that its evidence does not bear out: {wrong}", where=str(path), remedy=remedy
        )
    return table


def _once(pairs: list[tuple[str, object]]) -> None:
    """Refuse a key that is given twice: of two prices nobody knows which one counts."""
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"`{one_line(twice, 60)}` is given twice")


def write(path: Path, table: PriceTable) -> None:
    """Store a table.

    Raises:
        RunsError: The disk is full, or the folder may not be written.
    """
    write_atomically(path, msgspec.json.format(msgspec.json.encode(table), indent=1) + b"\n")


def read_if_sound(path: Path) -> PriceTable | None:
    """The table at this path; None where there is none, or it is damaged: then costs are PRICE-UNKNOWN."""
    try:
        return read(path)
    except RunsError:
        return None
