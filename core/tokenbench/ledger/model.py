"""The ledger of one transcript, as it is shown, stored and printed by `ledger --json`."""

from decimal import Decimal
from typing import Literal

import msgspec

from tokenbench.figures import Code, Refusal
from tokenbench.ledger.attribution.threads import Thread
from tokenbench.transcripts.events import Announcement
from tokenbench.transcripts.evidence import Outcome

__all__ = [
    "Announcement",
    "CallRow",
    "Costs",
    "Equation",
    "Ledger",
    "Live",
    "ModelRow",
    "Remainder",
    "Role",
    "Tokens",
    "ToolRow",
    "withhold",
]

Role = Literal["main", "subagent", "sidecar"]


class Tokens(msgspec.Struct, frozen=True):
    """The counters of one call or of a sum of calls, in tokens."""

    input: int = 0
    """Fresh input, neither written to nor read from the cache."""
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    cache_read: int = 0
    output: int = 0
    billed_input: int = 0
    """input + cache writes + cache reads; kept as a field because it is part of the public JSON."""

    @classmethod
    def of(
        cls,
        input: int = 0,
        cache_write_5m: int = 0,
        cache_write_1h: int = 0,
        cache_read: int = 0,
        output: int = 0,
    ) -> "Tokens":
        """Counters with their billed input."""
        billed = input + cache_write_5m + cache_write_1h + cache_read
        return cls(input, cache_write_5m, cache_write_1h, cache_read, output, billed)

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(
            *(a + b for a, b in zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True))
        )

    def __sub__(self, other: "Tokens") -> "Tokens":
        return Tokens(
            *(a - b for a, b in zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True))
        )

    @property
    def total(self) -> int:
        """Billed input + output."""
        return self.billed_input + self.output


class ModelRow(msgspec.Struct, frozen=True):
    """What the CLI reports for one model of the process."""

    role: Role
    tokens: Tokens
    cost_usd: Decimal | None


class Costs(msgspec.Struct, frozen=True):
    """USD; None where unknown or refused."""

    reported: Decimal | None = None
    """The CLI's total."""
    own: Decimal | None = None
    """Without sidecars."""
    recomputed: Decimal | None = None
    """From a price table, sidecars included; None where none covers the models, or the cost is not certain."""
    cache_neutral: Decimal | None = None
    """Without sidecars, all input at the price of fresh input; `fees` are in it."""
    fees: Decimal | None = None
    """Web search fees of all models by the price table."""
    cold: Decimal | None = None
    """Without sidecars, replayed from an empty cache."""
    warm: Decimal | None = None
    """Without sidecars, replayed from the cache that the same run leaves."""


class ToolRow(msgspec.Struct, frozen=True):
    """What one tool was asked and gave."""

    name: str
    uses: int
    errors: int
    """Results marked as errors, denials not among them."""
    denied: int
    result_characters: int
    """Of the text that went to the model; denial texts are left out."""
    images: int = 0
    """Pictures in its results."""
    image_tokens: int | None = 0
    """Their tokens by pixels, an estimate; None where the size of one is unknown."""


class Equation(msgspec.Struct, frozen=True):
    """One thing that has to be equal, with both sides."""

    name: str
    left_label: str
    right_label: str
    left: Tokens | Decimal | None
    right: Tokens | Decimal | None
    holds: bool | None
    """None where one side does not exist, so that nothing could be checked."""
    note: str = ""
    """What explains a remainder, or why there is nothing to check."""


class CallRow(msgspec.Struct, frozen=True):
    """One billed API request, as far as the stream shows it."""

    number: int
    """1 is the first."""
    message_id: str
    model: str
    line: int
    """Line of the transcript on which it first appears."""
    tokens: Tokens
    output_is_partial: bool
    """Streamed output counts are placeholders unless partial messages were on."""
    parent: str | None
    """Tool use that started the subagent this call belongs to; None for the main loop."""
    then: tuple[str, ...]
    """Names of the tools it called, in order; empty for an answer."""
    speed: str = ""
    """As the reply states it, for its price."""
    region: str = ""


class Remainder(msgspec.Struct, frozen=True):
    """Tokens that the CLI's totals hold and the stream does not show, itemised."""

    what: str
    """sidecar, subagent, compaction, side call, unstreamed call."""
    model: str
    tokens: Tokens


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """One transcript, reconciled or refused."""

    transcript: str
    agent: str
    agent_version: str | None
    model: str | None
    outcome: Outcome
    token_reconciled: bool | None
    """None for a session file, where nothing is there to reconcile with."""
    cost_reconciled: bool | None
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...]
    calls: int
    abandoned_calls: int
    tokens: Tokens | None
    """Main loop, subagents and side calls of the run's own model; None where refused."""
    lower_bound: Tokens
    """What was seen all the same."""
    main: Tokens | None
    models: dict[str, ModelRow]
    remainder: tuple[Remainder, ...]
    cost_usd: Costs
    tools: tuple[ToolRow, ...]
    answer: str | None
    """None where the run gave none; withheld (None) where grading is blind and not yet opened."""

    equations: tuple[Equation, ...]
    call_rows: tuple[CallRow, ...]
    turns: int
    """Calls of the main loop."""
    session: str | None
    announced: Announcement | None
    bad_lines: tuple[str, ...]
    """`line N: what is wrong`, the first ones."""
    counts: dict[str, int]
    """Events by kind, unknown ones under their own names; `noise` for lines that are no events."""
    answer_withheld: bool = False
    threads: tuple[Thread, ...] = ()
    """What came into the prompts, for attribution; the JSON leaves it out."""

    def refused(self, code: Code) -> bool:
        """Whether this code is among the refusals."""
        return any(refusal.code == code for refusal in self.refusals)


class Live(msgspec.Struct, frozen=True):
    """A run under way, as far as its stream has come: lower bounds, never a ledger."""

    calls: int = 0
    turns: int = 0
    seen: Tokens = Tokens()
    prompt: int = 0
    """Billed input of the latest main-loop call, in tokens."""
    first_call: Tokens | None = None
    doing: str = "starting"
    """The tool that is being used, thinking, answering, retrying, done."""
    last_line: int = 0
    ended: bool = False
    """A result event has come."""


def withhold(ledger: Ledger) -> Ledger:
    """The ledger without its answer: what a counted run cost may be seen before grading, what it answered may not."""
    return msgspec.structs.replace(ledger, answer=None, answer_withheld=True)
