"""What an agent's transcript says, in words that are the same for every agent CLI.

A reader of `tokenbench.agents` turns a line into these events; the ledger and the runner know nothing else. Counters are
tokens. Texts are as the model or the tool wrote them: hostile until they have gone through `tokenbench.text`.
"""

from decimal import Decimal
from typing import Literal

import msgspec


class Announcement(msgspec.Struct, frozen=True):
    """What the agent says about itself at its start."""

    version: str | None
    model: str | None
    tools: tuple[str, ...]
    mcp_servers: tuple[tuple[str, str], ...]
    """Name and status."""
    folder: str | None
    """The agent's working folder."""
    line: int
    session: str | None = None


class Usage(msgspec.Struct, frozen=True):
    """The counters of one usage object, as they were printed; absent and null ones are 0."""

    input: int = 0
    """Fresh input; cache reads and writes are not in it."""
    cache_write: int = 0
    """All cache writes."""
    cache_write_5m: int | None = None
    """Part of `cache_write`; None where no split was printed."""
    cache_write_1h: int | None = None
    cache_read: int = 0
    output: int = 0
    web_searches: int = 0
    """Server-side searches, billed by the piece."""

    @property
    def consistent(self) -> bool:
        """Whether the split, where there is one, adds up to all cache writes."""
        if self.cache_write_5m is None and self.cache_write_1h is None:
            return True
        return (self.cache_write_5m or 0) + (self.cache_write_1h or 0) == self.cache_write


class CallSeen(msgspec.Struct, frozen=True):
    """A snapshot of a billed API request; several of one message id are the same call."""

    line: int
    message_id: str | None
    row_id: str | None
    """Id of the line itself, for a snapshot that has no message id."""
    model: str | None
    usage: Usage
    final: bool
    """The counters are those of the finished message and replace earlier ones."""
    parent: str | None
    """Tool use that started the subagent this call belongs to; None for the main loop."""
    from_stream: bool = False
    """From a raw API event (partial messages), not from a whole message."""
    session: str | None = None
    timestamp: str | None = None
    request_id: str | None = None


class MessagePart(msgspec.Struct, frozen=True):
    """A piece of what the model said."""

    line: int
    message_id: str | None
    parent: str | None
    kind: Literal["text", "thinking"]
    text: str


class ToolUse(msgspec.Struct, frozen=True):
    """The model asks for a tool."""

    line: int
    id: str
    name: str
    input: dict[str, object]
    """Arguments; empty where they were no object."""
    message_id: str | None
    parent: str | None


class ToolResult(msgspec.Struct, frozen=True):
    """What went back to the model."""

    line: int
    tool_use_id: str
    is_error: bool
    """Marked as an error by the agent; a denial is one as well."""
    denied: bool
    """The agent was not allowed to run the tool; the text says so, or the agent's list of denials does."""
    text: str
    """All text blocks, joined; what the model saw, not what the tool produced."""
    images: int
    other_blocks: tuple[str, ...]
    """Types of blocks that are neither text nor image."""
    parent: str | None


class SubagentReport(msgspec.Struct, frozen=True):
    """An agent's summary of a subagent that has ended; it repeats calls and is never added to them."""

    line: int
    tool_use_id: str
    model: str | None
    usage: Usage | None
    """Of the subagent's last call."""
    total_tokens: int | None


class Retry(msgspec.Struct, frozen=True):
    """The API failed and the agent asks again; a reply that had begun is abandoned."""

    line: int
    attempt: int | None
    status: int | None
    """HTTP status; None where there was no reply."""
    error: str


class Compaction(msgspec.Struct, frozen=True):
    """The conversation was replaced by a summary; earlier results are no longer in the prompt."""

    line: int


class AgentNotice(msgspec.Struct, frozen=True):
    """A sentence that the agent CLI put where the model's words belong: no call, never an answer."""

    line: int
    text: str
    error: str | None
    """The agent's error code."""
    status: int | None = None


class Superseded(msgspec.Struct, frozen=True):
    """Messages that were withdrawn: they may have been billed, but they are no answer."""

    line: int
    message_ids: tuple[str, ...]
    row_ids: tuple[str, ...]


class ModelUsage(msgspec.Struct, frozen=True):
    """What the agent reports for one model of its process."""

    model: str
    """As printed, context suffix and all."""
    usage: Usage
    cost: Decimal | None
    """USD, by its decimal text."""
    cost_basis: str | None = None
    """`unknown`: the agent priced the model as another one."""


class Denial(msgspec.Struct, frozen=True):
    """A tool use that the agent lists as denied."""

    tool_use_id: str
    tool: str


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A result event: the agent's own account of a turn. A process can print several."""

    line: int
    subtype: str | None
    is_error: bool
    api_status: int | None
    terminal_reason: str | None
    stop_reason: str | None
    text: str | None
    errors: tuple[str, ...]
    usage: Usage | None
    """Of the main loop of this turn."""
    models: tuple[ModelUsage, ...] | None
    """Of the process so far (and of the sessions it resumed); None where the agent reports none."""
    models_since_last: tuple[ModelUsage, ...] | None
    """Since the last result event of this process."""
    cost: Decimal | None
    """USD of the process so far."""
    denials: tuple[Denial, ...]
    turns: int | None
    structured_output: str | None
    """JSON text of the structured answer."""
    session: str | None
    origin: str | None = None
    """What woke the agent for this turn, where it was not the prompt."""


class Bad(msgspec.Struct, frozen=True):
    """A line that counts and cannot be read, or holds an impossible counter: damage."""

    line: int
    what: str


class Noise(msgspec.Struct, frozen=True):
    """A line that is no event: log text, or JSON that is no object."""

    line: int
    what: Literal["text", "json"]


class Other(msgspec.Struct, frozen=True):
    """An event of a kind that nothing here needs, known or unknown: kept and counted."""

    line: int
    kind: str
    """`type` or `type/subtype`, as the agent spells it."""


class Remark(msgspec.Struct, frozen=True):
    """Something a reader of the ledger must know about this line, in CODE form."""

    line: int
    code: str


Event = (
    Announcement
    | CallSeen
    | MessagePart
    | ToolUse
    | ToolResult
    | SubagentReport
    | Retry
    | Compaction
    | AgentNotice
    | Superseded
    | Ended
    | Bad
    | Noise
    | Other
    | Remark
)
