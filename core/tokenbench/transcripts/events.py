"""What an agent's transcript says, in words that are the same for every agent CLI.

A reader of `tokenbench.agents` turns a line into these events; the ledger and the runner know nothing else. Counters
are tokens. Texts are as the model or the tool wrote them: hostile until they have gone through `tokenbench.text`.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Literal, Protocol

import msgspec

from tokenbench.transcripts.lines import Line, Lines


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


class Usage(msgspec.Struct, frozen=True, gc=False):
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
    speed: str = ""
    """`fast` has a price of its own; empty where none was printed."""
    region: str = ""
    """Where the model ran, if a price can depend on it; empty where none was printed."""

    @property
    def consistent(self) -> bool:
        """Whether the split, where there is one, adds up to all cache writes."""
        if self.cache_write_5m is None and self.cache_write_1h is None:
            return True
        return (self.cache_write_5m or 0) + (self.cache_write_1h or 0) == self.cache_write


class CallSeen(msgspec.Struct, frozen=True, gc=False):
    """A snapshot of a billed API request; several of one message id are the same call."""

    line: int
    message_id: str | None
    row_id: str
    """Id of the line itself, for a snapshot that has no message id."""
    model: str | None
    usage: Usage
    final: bool
    """The counters are those of the finished message and replace earlier ones."""
    parent: str | None
    """Tool use that started the subagent this call belongs to; None for the main loop."""
    raw: bool = False
    """From a raw API event (partial messages), not from a whole message."""
    request_id: str | None = None
    """Of the API request: tells calls apart whose message ids collide, never makes one call two."""


class MessagePart(msgspec.Struct, frozen=True, gc=False):
    """A piece of what the model said."""

    line: int
    message_id: str | None
    parent: str | None
    kind: Literal["text", "thinking"]
    text: str


class ToolUse(msgspec.Struct, frozen=True, gc=False):
    """The model asks for a tool."""

    line: int
    id: str
    name: str
    input: dict[str, object]
    """Arguments; empty where they were no object."""
    message_id: str | None
    parent: str | None


class Image(msgspec.Struct, frozen=True):
    """A picture in a tool result, in pixels; None where its header could not be read."""

    width: int | None
    height: int | None


class ToolResult(msgspec.Struct, frozen=True, gc=False):
    """What went back to the model."""

    line: int
    tool_use_id: str
    is_error: bool
    """Marked as an error by the agent; a denial is one as well."""
    denied: bool
    """The agent was not allowed to run the tool; the text says so, or the agent's list of denials does."""
    text: str
    """All text blocks, joined; what the model saw, not what the tool produced."""
    images: tuple[Image, ...]
    other_blocks: tuple[str, ...]
    """Types of blocks that are neither text nor image."""
    parent: str | None


class UserRow(msgspec.Struct, frozen=True, gc=False):
    """A row of the user's side: tool results, a prompt, or a sentence that the agent CLI put there itself."""

    line: int
    row_id: str
    parent: str | None
    nudge: Literal["empty", "cut", "refused", "other"] | None = None
    """The agent's own words to the model: its reply was empty, was cut off, was refused, or something else."""
    replay: bool = False
    """A repetition of something said earlier; it starts no turn."""


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
    row_id: str


class Compaction(msgspec.Struct, frozen=True):
    """The conversation was replaced by a summary; earlier results are no longer in the prompt."""

    line: int
    kept: tuple[str, ...] = ()
    """Ids of the rows that stay in the prompt behind the summary."""


class Background(msgspec.Struct, frozen=True):
    """A task in the background began or ended; one that ends by itself wakes the agent for another turn."""

    line: int
    task_id: str
    state: Literal["running", "ended", "stopped"]
    """`stopped`: by the agent, which goes on to end itself."""


class ModelChange(msgspec.Struct, frozen=True):
    """The agent goes on with another model than the one that was asked for."""

    line: int
    model: str


class AgentNotice(msgspec.Struct, frozen=True):
    """A sentence that the agent CLI put where the model's words belong: no call, never an answer."""

    line: int
    text: str
    error: str | None
    """The agent's error code; None for a remark that reports no failure."""
    row_id: str
    parent: str | None


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
    row_id: str
    """Tells a repeated line from a second result."""


class Bad(msgspec.Struct, frozen=True):
    """A line that counts and cannot be read, or holds an impossible counter: damage."""

    line: int
    what: str
    kind: str | None = None
    """What the line was, as far as its beginning says; `nul` for zero bytes alone."""
    tail: bool = False
    """The last line, without a newline: cut off while it was written."""


class Mended(msgspec.Struct, frozen=True):
    """A line that is no strict JSON or UTF-8 and could be read all the same."""

    line: int


class Noise(msgspec.Struct, frozen=True):
    """A line that is no event: log text, or JSON that is no object."""

    line: int
    what: Literal["text", "json"]


class Other(msgspec.Struct, frozen=True):
    """An event of a kind that nothing here needs, known or unknown: kept and counted."""

    line: int
    kind: str
    """`type` or `type/subtype`, as the agent spells it."""


Event = (
    Announcement
    | CallSeen
    | MessagePart
    | ToolUse
    | ToolResult
    | UserRow
    | SubagentReport
    | Retry
    | Compaction
    | Background
    | ModelChange
    | AgentNotice
    | Superseded
    | Ended
    | Bad
    | Mended
    | Noise
    | Other
)


class Reader(Protocol):
    """What every agent's reader offers: fed line by line, it keeps only what later lines refer to."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Lines by kind, as the agent spells it; `noise` for lines that are no events."""
        ...

    @property
    def own_log(self) -> bool:
        """Whether this is the agent's own log of a session, which holds no result, and not its output."""
        ...

    def feed_many(self, lines: Lines) -> Iterator[Sequence[Event]]:
        """The events of many lines, line by line, in order, as they are asked for; those without may be left out."""
        ...

    def feed(self, line: Line) -> Sequence[Event]:
        """The events of one line, in order; any bytes whatever are accepted."""
        ...
