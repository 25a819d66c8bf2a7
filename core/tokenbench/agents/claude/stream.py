"""Claude's stream-json, and the session files below `~/.claude/projects`, as neutral events.

What the rows mean was seen on claude 2.1.197 and 2.1.332. A row of a kind that is not known here is kept and counted,
never an error.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, Literal

import msgspec
from msgspec import UNSET, Raw

from tokenbench.agents.claude import wire
from tokenbench.agents.claude.counters import cost_of, grown, models_of, usage_of
from tokenbench.agents.claude.wire import Block, Row, WholeBlock, WholeRow
from tokenbench.transcripts.events import (
    AgentNotice,
    Announcement,
    Background,
    Bad,
    CallSeen,
    Compaction,
    Denial,
    Ended,
    Event,
    Image,
    Mended,
    MessagePart,
    ModelChange,
    Noise,
    Other,
    Retry,
    SubagentReport,
    Superseded,
    ToolResult,
    ToolUse,
    Usage,
    UserRow,
)
from tokenbench.transcripts.images import image_size
from tokenbench.transcripts.lines import Line, Lines

SYNTHETIC: Final = "<synthetic>"
"""Model of the rows that the CLI writes itself; they are no calls."""
SUBAGENT_TOOLS: Final = frozenset({"Agent", "Task"})
_MOST_KINDS: Final = 500
"""Kinds of rows that are counted apart; a hostile file could name as many as it has lines."""
_BOM: Final = b"\xef\xbb\xbf"
_BEGINNING: Final = re.compile(rb'\{\s*"type"\s*:\s*"(\w+)"')
_DENIALS: Final = re.compile(
    r"Permission to use .{1,2000} has been denied"
    r"|.{0,200}\bdenied by your permission settings"
    r"|This command requires approval"
    r"|This Bash command contains multiple operations\. The following parts? requires? approval"
    r"|Claude requested permissions? to .{1,2000} but you haven't granted it yet"
    r"|Output redirection to .{1,2000} was blocked"
    r"|.{0,200}was blocked\. For security, Claude Code may only"
    r"|Contains .{1,200} that cannot be statically analyzed"
    r"|The user doesn't want to (?:proceed with|take) this"
    r"|(?:<tool_use_error>)?(?:Error: )?No such tool available: ",
    re.DOTALL,
)
"""How a refused tool use reads in the result that the model sees, from its first character on."""
_Nudge = Literal["empty", "cut", "refused", "other"]
_NUDGES: Final[tuple[tuple[str, _Nudge], ...]] = (
    ("[Your previous response had no visible output", "empty"),
    ("Your response above was cut off", "cut"),
    ("Your response above was stopped by a safety classifier", "refused"),
)
_COUNTED: Final = frozenset({"assistant", "result"})


class ClaudeReader:
    """Reads one transcript line by line; it keeps message ids and tool use ids, no content."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._log_rows = 0
        self._stream_rows = 0
        self._open: dict[str | None, tuple[str | None, str | None, Usage]] = {}
        self._raw_seen: set[str] = set()
        self._subagents: set[str] = set()
        self._refused: set[str] = set()
        self._announced = False
        self._latest: tuple[wire.ApiUsage | None, Usage | str] = (None, Usage())

    @property
    def counts(self) -> Mapping[str, int]:
        """Lines by `type` or `type/subtype`; `noise` for lines that are no events, `damaged` for unreadable ones."""
        return self._counts

    @property
    def own_log(self) -> bool:
        """Whether the rows are those of a session file of `~/.claude/projects`."""
        return self._log_rows > 0 and self._stream_rows == 0

    def feed_many(self, lines: Lines) -> Iterator[list[Event]]:
        """The events of many lines, as `feed` gives them one by one; lines without any may be left out."""
        number = lines.first
        for is_delta, run in groupby(lines.data, wire.begins_delta):
            together = tuple(run)
            if is_delta and wire.are_deltas(together):
                self._deltas(len(together))
                number += len(together)
                continue
            for data in together:
                row = None if is_delta else wire.whole_row(data)
                if row is None or not row.uuid:
                    # Whatever is not plain; a row without an id is known by its bytes, without their newline.
                    yield self.feed(lines.line(number - lines.first))
                else:
                    found: list[Event] = []
                    self._events(number, data, row, found)
                    yield found
                number += 1

    def feed(self, line: Line) -> list[Event]:
        """The events of one line; any bytes whatever are accepted."""
        data = line.data
        if wire.is_delta(data):
            self._deltas(1)
            return []
        if data.startswith(_BOM):
            data = data[len(_BOM) :]
        if not data or data.isspace():
            return []
        try:
            row = wire.decode_row(data)
        except msgspec.ValidationError:
            return self._rejected(line, data, strict=True)
        except wire.Unreadable:
            return self._rejected(line, data, strict=False)
        found: list[Event] = []
        self._events(line.number, data, row, found)
        return found

    def _rejected(self, line: Line, data: bytes, *, strict: bool) -> list[Event]:
        """Noise, damage, or a row that could be mended; `strict` JSON only holds a field of another kind."""
        text = data.strip(b"\0 \t\r")
        found: list[Event] = []
        if not text:
            self._count("damaged")
            return [Bad(line.number, "nothing but NUL bytes", "nul", not line.complete)]
        if data[:1] == b"\0" or data[-1:] == b"\0":
            found.append(Bad(line.number, "NUL bytes where other bytes must have been"))
        if not text.startswith(b"{"):
            if b"\0" in data and not found:
                found.append(Bad(line.number, "NUL bytes inside the line"))
            self._count("damaged" if found else "noise")
            return found or [Noise(line.number, "json" if wire.is_json(text) else "text")]
        mended = wire.mend(text, Row)
        if mended is None:
            if not text.startswith((b'{"', b"{ ", b"{\t")) and not found:
                self._count("noise")
                return [Noise(line.number, "text")]
            self._count("damaged")
            beginning = _BEGINNING.match(text)
            kind = beginning[1].decode("ascii", "replace") if beginning else None
            what = "the last line was cut off" if not line.complete else "a row that does not parse as JSON"
            return [Bad(line.number, what, kind, not line.complete)]
        row, problems = mended
        if not strict:
            found.append(Mended(line.number))
        counters = [problem for problem in problems if problem.path.startswith("message.usage")]
        if row.type == "assistant":
            found.extend(Bad(line.number, f"{problem.path} is {problem.value}", "assistant") for problem in counters)
        self._events(line.number, text, row, found, damaged=bool(counters))
        return found

    def _events(
        self, line: int, data: bytes, row: Row | WholeRow, found: list[Event], *, damaged: bool = False
    ) -> None:
        if row.session_id is not None:
            self._stream_rows += 1
        elif row.session_id_of_log is not None:
            self._log_rows += 1
        kind = row.type or "untyped"
        self._count(f"{kind}/{row.subtype}" if kind == "system" and row.subtype else kind)
        row_id = row.uuid or _row_id(None, data)
        match kind:
            case "assistant":
                self._assistant(line, row_id, row, found, damaged)
            case "user":
                self._user(line, row_id, row, found)
            case "stream_event":
                found.extend(self._raw_event(line, row_id, row))
            case "result":
                self._stream_rows += 1
                found.extend(self._result(line, data))
            case "system":
                found.extend(self._system(line, row_id, data, row))
            case _:
                found.append(Other(line, kind))
        if row.session_id is None and row.session_id_of_log is not None and not self._announced:
            self._announced = True
            found.append(Announcement(row.version, None, (), (), row.cwd, line, row.session_id_of_log))

    def _assistant(self, line: int, row_id: str, row: Row | WholeRow, found: list[Event], damaged: bool) -> None:
        message = row.message
        if message is None:
            found.append(Bad(line, "an assistant row without its message", "assistant"))
            return
        blocks = message.content if type(message.content) is list else _blocks(message.content)
        parent = row.parent_tool_use_id or _parent(row)
        if message.model == SYNTHETIC or row.is_api_error_message or row.is_api_error_of_log:
            text = "".join(block.text or "" for block in blocks)
            found.append(AgentNotice(line, text, wire.optional(row.error, str), row_id, parent))
            return
        usage = self._usage(message.usage)
        if isinstance(usage, str):
            found.append(Bad(line, f"message.usage.{usage}", "assistant"))
        elif not damaged:
            request_id = row.request_id or row.request_id_of_log
            final = message.stop_reason is not None
            found.append(CallSeen(line, message.id, row_id, message.model, usage, final, parent, False, request_id))
        if row.supersedes is not wire.EMPTY:
            superseded = wire.optional(row.supersedes, list[str])
            if superseded:
                found.append(Superseded(line, (), tuple(superseded)))
        for block in blocks:
            match block.type:
                case "text":
                    found.append(MessagePart(line, message.id, parent, "text", block.text or ""))
                case "thinking":
                    found.append(MessagePart(line, message.id, parent, "thinking", block.thinking or ""))
                case "tool_use" | "server_tool_use" if block.id is not None:
                    if block.name in SUBAGENT_TOOLS:
                        self._subagents.add(block.id)
                    arguments = wire.arguments_of(block.input)
                    found.append(ToolUse(line, block.id, block.name or "", arguments, message.id, parent))
                case "web_search_tool_result" | "web_fetch_tool_result" if block.tool_use_id is not None:
                    found.append(ToolResult(line, block.tool_use_id, False, False, "", (), (block.type,), parent))
                case _:
                    pass

    def _usage(self, usage: wire.ApiUsage | None) -> Usage | str:
        """The counters; the rows of one message repeat them."""
        if usage is None or usage != self._latest[0]:
            self._latest = usage, usage_of(usage)
        return self._latest[1]

    def _user(self, line: int, row_id: str, row: Row | WholeRow, found: list[Event]) -> None:
        parent = _parent(row)
        blocks = _blocks(row.message.content if row.message is not None else None)
        nudge: _Nudge | None = None
        if row.is_synthetic or row.is_meta:
            nudge = _nudge(next((block.text for block in blocks if block.type == "text" and block.text), ""))
        found.append(UserRow(line, row_id, parent, nudge, bool(row.is_replay)))
        metas = (
            wire.optional(row.tool_result_meta, list[wire.ResultMeta]) or ()
            if row.tool_result_meta is not wire.EMPTY
            else ()
        )
        rejected = {
            meta.id for meta in metas if meta.permission_decision and meta.permission_decision.decision == "reject"
        }
        for block in blocks:
            if block.type != "tool_result" or block.tool_use_id is None:
                continue
            text, images, others = _contents(block.content)
            denied = block.tool_use_id in rejected or block.tool_use_id in self._refused
            is_error = bool(block.is_error)
            if is_error and not denied:
                denied = _DENIALS.match(text) is not None
            found.append(ToolResult(line, block.tool_use_id, is_error, denied, text, images, others, parent))
            if block.tool_use_id in self._subagents:
                found.extend(self._report(line, block.tool_use_id, row))

    def _report(self, line: int, tool_use_id: str, row: Row | WholeRow) -> Iterator[Event]:
        raw = row.tool_use_result if memoryview(row.tool_use_result) else row.tool_use_result_of_log
        report = wire.optional(raw, wire.AgentResult)
        if report is None or (report.usage is None and report.total_tokens is None):
            return
        usage = usage_of(report.usage) if report.usage is not None else None
        total = report.total_tokens
        yield SubagentReport(line, tool_use_id, report.resolved_model, None if isinstance(usage, str) else usage, total)

    def _raw_event(self, line: int, row_id: str, row: Row | WholeRow) -> Iterator[Event]:
        event, problems = wire.read(row.event, wire.StreamEvent)
        if event is None or event.type not in {"message_start", "message_delta", "message_stop"}:
            return
        if row_id in self._raw_seen:
            return
        self._raw_seen.add(row_id)
        for problem in problems:
            if "usage" in problem.path:
                yield Bad(line, f"event.{problem.path} is {problem.value}", "stream_event")
                return
        parent = _parent(row)
        if event.type == "message_start":
            message = event.message
            usage = usage_of(message.usage if message is not None else None)
            if message is None or isinstance(usage, str):
                yield Bad(
                    line, f"event.message.usage.{usage}" if isinstance(usage, str) else "no message", "stream_event"
                )
                return
            self._open[parent] = (message.id, message.model, usage)
            yield CallSeen(line, message.id, row_id, message.model, usage, False, parent, raw=True)
            return
        if event.type == "message_stop":
            self._open.pop(parent, None)
            return
        started = self._open.get(parent)
        if started is None or event.usage is None:
            return
        delta = usage_of(event.usage)
        if isinstance(delta, str):
            yield Bad(line, f"event.usage.{delta}", "stream_event")
            return
        message_id, model, begun = started
        yield CallSeen(line, message_id, row_id, model, grown(begun, delta), True, parent, raw=True)

    def _system(self, line: int, row_id: str, data: bytes, row: Row | WholeRow) -> Iterator[Event]:
        match row.subtype:
            case "init":
                init, _ = wire.read(data, wire.Init)
                if init is None:
                    yield Bad(line, "an announcement that cannot be read", "system")
                    return
                servers = tuple((server.name or "", server.status or "") for server in init.mcp_servers or ())
                yield Announcement(
                    version=init.claude_code_version,
                    model=init.model,
                    tools=tuple(init.tools or ()),
                    mcp_servers=servers,
                    folder=init.cwd,
                    line=line,
                    session=init.session_id,
                )
            case "api_retry":
                retry = wire.read(data, wire.RetryRow)[0] or wire.RetryRow()
                error = wire.optional(retry.error, str)
                yield Retry(line, retry.attempt, retry.error_status, error or "", row_id)
            case "compact_boundary":
                boundary, _ = wire.read(data, wire.BoundaryRow)
                yield Compaction(line, boundary.kept if boundary is not None else ())
            case "task_started" | "task_updated" | "task_notification":
                task, _ = wire.read(data, wire.TaskRow)
                state = _state(row.subtype, task)
                if task is not None and task.task_id is not None and state is not None:
                    yield Background(line, task.task_id, state)
                yield Other(line, f"system/{row.subtype}")
            case "model_fallback" | "model_refusal_fallback":
                fallback, _ = wire.read(data, wire.FallbackRow)
                if fallback is not None and fallback.fallback_model:
                    yield ModelChange(line, fallback.fallback_model)
                yield Other(line, f"system/{row.subtype}")
            case "permission_denied":
                denial, _ = wire.read(data, wire.DenialRow)
                if denial is not None and denial.tool_use_id is not None:
                    self._refused.add(denial.tool_use_id)
                yield Other(line, "system/permission_denied")
            case _:
                yield Other(line, f"system/{row.subtype}")

    def _result(self, line: int, data: bytes) -> Iterator[Event]:
        result, problems = wire.read(data, wire.Result)
        if result is None:
            yield Bad(line, "a result that cannot be read", "result")
            return
        for problem in problems:
            if problem.path.startswith(("usage", "modelUsage", "model_usage_since_last_result")):
                yield Bad(line, f"{problem.path} is {problem.value}", "result")
        usage = usage_of(result.usage) if result.usage is not None else None
        if isinstance(usage, str):
            yield Bad(line, f"usage.{usage}", "result")
            usage = None
        models, wrong = models_of(result.models)
        since, wrong_since = models_of(None if result.since is UNSET else result.since)
        for path in wrong:
            yield Bad(line, f"modelUsage.{path}", "result")
        for path in wrong_since:
            yield Bad(line, f"model_usage_since_last_result.{path}", "result")
        structured = bytes(result.structured_output).decode("utf-8", "replace")
        yield Ended(
            line=line,
            subtype=result.subtype,
            is_error=bool(result.is_error),
            api_status=result.api_error_status,
            terminal_reason=result.terminal_reason,
            stop_reason=result.stop_reason,
            text=wire.optional(result.result, str),
            errors=tuple(wire.optional(result.errors, list[str]) or []),
            usage=usage,
            models=models,
            models_since_last=since,
            cost=cost_of(result.cost),
            denials=tuple(
                Denial(denial.tool_use_id or "", denial.tool_name or "") for denial in result.permission_denials or ()
            ),
            turns=result.num_turns,
            structured_output=structured if structured not in {"", "null"} else None,
            row_id=_row_id(result.uuid, data),
        )

    def _deltas(self, number: int) -> None:
        self._stream_rows += number
        self._count("stream_event", number)

    def _count(self, kind: str, number: int = 1) -> None:
        if kind not in self._counts and len(self._counts) >= _MOST_KINDS:
            kind = "other kinds"
        self._counts[kind] = self._counts.get(kind, 0) + number


def _parent(row: Row | WholeRow) -> str | None:
    if row.parent_tool_use_id is not None:
        return row.parent_tool_use_id
    return (row.agent_id or "sidechain") if row.is_sidechain else None


def _state(subtype: str, task: wire.TaskRow | None) -> Literal["running", "ended", "stopped"] | None:
    if subtype == "task_started" or task is None:
        return "running"
    status = task.status or (task.patch.status if task.patch is not None else None)
    if status in {"completed", "failed"}:
        return "ended"
    return "stopped" if status in {"stopped", "killed", "cancelled"} else None


def _nudge(text: str) -> _Nudge:
    for beginning, kind in _NUDGES:
        if text.startswith(beginning):
            return kind
    return "other"


def _row_id(uuid: str | None, data: bytes) -> str:
    """What tells two rows apart: their uuid, or for a row without one its bytes."""
    return uuid or f"bytes:{hashlib.blake2b(data, digest_size=12).hexdigest()}"


_Content = Raw | str | Sequence[Block | WholeBlock] | None


def _blocks(content: _Content) -> Sequence[Block | WholeBlock]:
    """Content blocks; a plain string is one text block."""
    blocks = wire.blocks_of(content) if isinstance(content, Raw) else content
    return (Block(type="text", text=blocks),) if isinstance(blocks, str) else blocks or ()


def _contents(content: _Content) -> tuple[str, tuple[Image, ...], tuple[str, ...]]:
    """Text, images and the types of other blocks of a tool result."""
    if isinstance(content, str):
        return content, (), ()
    texts: list[str] = []
    images: list[Image] = []
    others: list[str] = []
    for block in _blocks(content):
        if block.type == "text":
            texts.append(block.text or "")
        elif block.type == "image":
            source = wire.optional(block.source, wire.Source)
            size = image_size(source.data) if source is not None and source.data is not None else None
            images.append(Image(*(size or (None, None))))
        else:
            others.append(block.type or "untyped")
    return "".join(texts), tuple(images), tuple(others)
