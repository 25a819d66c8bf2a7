"""The parts of a run's billed input. Tokens are integers, and all parts together are the billed input exactly."""

from decimal import Decimal
from typing import Final, Literal, NamedTuple, Protocol

import msgspec

from tokenbench.figures import Refusal
from tokenbench.ledger.model import CallRow, Tokens
from tokenbench.ledger.shell import Use

Kind = Literal["prefix", "prompt", "result", "envelope", "own", "thinking", "denied", "summary", "side", "unattributed"]
KINDS: Final[dict[Kind, str]] = {
    "prefix": "system prompt, tool definitions and what the agent puts before the prompt",
    "prompt": "the prompt",
    "result": "tool results",
    "envelope": "heads and remarks of retrieval results: paths, scores",
    "own": "the model's own earlier words and tool calls",
    "thinking": "the model's own earlier thinking",
    "denied": "sentences that refused a tool",
    "summary": "what a compaction put in the conversation's place: its summary, and files that were attached anew",
    "side": "calls that the stream does not show",
    "unattributed": "notes of the agent, frames of blocks, and the error of all estimates",
}


class ClassPrices(NamedTuple):
    """USD per token of one call, by price class."""

    input: Decimal
    cache_write_5m: Decimal
    cache_write_1h: Decimal
    cache_read: Decimal
    output: Decimal


class Weights(Protocol):
    """What a price table is to attribution."""

    def of_call(self, call: CallRow) -> ClassPrices | None:
        """Prices of a call, by its own tier, speed and region; None where they are unknown."""
        ...

    def of_rest(self, model: str, tokens: Tokens) -> ClassPrices | None:
        """Prices of calls that no row shows; None where they are unknown or may be several."""
        ...


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a run's billed input."""

    kind: Kind
    name: str
    """The tool; for `prefix` and `prompt` whose they are, `main` or `subagent`; for `side` what it is."""
    use: Use | None = None
    """What a tool was used for."""
    unique: int
    """Tokens, each thing once."""
    billed: int
    """Tokens, once for each call that billed it."""
    bound_unique: int
    """How far `unique` may be off to either side, in tokens."""
    bound_billed: int
    usd: Decimal | None = None
    """None where no price table covers the run."""
    share_of_unique_context: float | None = None
    share_of_billed_input: float | None = None
    share_of_input_usd: float | None = None
    """Of what the run's billed input cost."""


class GrowthRow(msgspec.Struct, frozen=True, kw_only=True):
    """The second meter: by how much the prompt grew when this tool's results came in, the model's own words taken out.

    It holds everything else that came in as well (notes, re-sent thinking), so it is a bound from above.
    """

    tool: str
    use: Use
    unique: int
    billed: int
    split: bool
    """Some of it was shared out between tools that were used in parallel, by their characters."""


class Attribution(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run's billed input went: an estimate, all of it."""

    billed_input: int
    """The denominator of `share_of_billed_input`: the sum of `billed` over all parts."""
    unique_context: int
    """The denominator of `share_of_unique_context`: the sum of `unique` over all parts, the fixed prefix included."""
    usd: Decimal | None
    """The denominator of `share_of_input_usd`: what the billed input cost; None where no price table covers the run."""
    prompt_known: bool
    """Whether the prompt's size was told; otherwise `prefix` holds it."""
    parts: tuple[Part, ...]
    growth: tuple[GrowthRow, ...]

    def share_of_billed(self, *uses: Use) -> float:
        """Share of billed input that tool results of these uses are."""
        return sum(
            part.share_of_billed_input or 0.0
            for part in self.parts
            if part.kind in ("result", "envelope") and part.use in uses
        )


Attributed = Attribution | Refusal
