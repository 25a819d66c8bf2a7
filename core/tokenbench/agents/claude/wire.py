"""The lines of claude's stream-json and session files as flat structs, and how a line that msgspec rejects is mended.

A line is decoded once, by msgspec, into the few fields that count. Where its content is not what it should be, it is
decoded again with raw content, which is then read as far as that goes. A line that msgspec rejects even so (a lone
surrogate, NaN, a counter that is no integer, invalid UTF-8 in a field that counts) is read again by the standard
library, mended, and decoded from what was left.
"""

import json
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType, inspect

EMPTY: Final = Raw()
_T = TypeVar("_T")


class CacheCreation(msgspec.Struct, gc=False):
    ephemeral_5m_input_tokens: int | None = None
    ephemeral_1h_input_tokens: int | None = None


class ServerTools(msgspec.Struct, gc=False):
    web_search_requests: int | None = None


class ApiUsage(msgspec.Struct, gc=False):
    """The API's usage object."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation: CacheCreation | None = None
    server_tool_use: ServerTools | None = None
    # Of any type: what only a price depends on must not cost the counters.
    speed: Any = None
    inference_geo: Any = None


class ModelUse(msgspec.Struct, gc=False, rename="camel"):
    """One entry of `modelUsage`."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_5m: int | None = msgspec.field(default=None, name="cacheCreationEphemeral5mInputTokens")
    cache_1h: int | None = msgspec.field(default=None, name="cacheCreationEphemeral1hInputTokens")
    web_search_requests: int | None = None
    cost: Decimal | None = msgspec.field(default=None, name="costUSD")
    cost_basis: str | None = None


class _Block(msgspec.Struct, gc=False):
    """A content block of either side."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = EMPTY
    tool_use_id: str | None = None
    is_error: bool | None = None
    source: Raw = EMPTY


class Block(_Block, gc=False):
    content: Raw = EMPTY


class WholeBlock(_Block, gc=False):
    content: str | list[Block] | None = None


class _Message(msgspec.Struct, gc=False):
    id: str | None = None
    model: str | None = None
    usage: ApiUsage | None = None
    stop_reason: str | None = None


class Message(_Message, gc=False):
    content: Raw = EMPTY


class WholeMessage(_Message, gc=False):
    content: str | list[WholeBlock] | None = None


class _Row(msgspec.Struct, gc=False):
    """What every line may hold."""

    type: str | None = None
    subtype: str | None = None
    parent_tool_use_id: str | None = None
    uuid: str | None = None
    session_id: str | None = None
    session_id_of_log: str | None = msgspec.field(default=None, name="sessionId")
    request_id: str | None = None
    request_id_of_log: str | None = msgspec.field(default=None, name="requestId")
    agent_id: str | None = msgspec.field(default=None, name="agentId")
    is_sidechain: bool | None = msgspec.field(default=None, name="isSidechain")
    is_synthetic: bool | None = msgspec.field(default=None, name="isSynthetic")
    is_meta: bool | None = msgspec.field(default=None, name="isMeta")
    is_replay: bool | None = msgspec.field(default=None, name="isReplay")
    is_api_error_message: bool | None = None
    is_api_error_of_log: bool | None = msgspec.field(default=None, name="isApiErrorMessage")
    version: str | None = None
    cwd: str | None = None
    timestamp: str | None = None
    error: Raw = EMPTY
    tool_use_result: Raw = EMPTY
    tool_use_result_of_log: Raw = msgspec.field(default=EMPTY, name="toolUseResult")
    tool_result_meta: Raw = EMPTY
    supersedes: Raw = EMPTY
    event: Raw = EMPTY


class Row(_Row, gc=False):
    """A line whose content stays raw, so that a fault in it costs nothing else."""

    message: Message | None = None


class WholeRow(_Row, gc=False):
    """A line that is decoded in one go, content and all."""

    message: WholeMessage | None = None


class Delta(msgspec.Struct, gc=False):
    """A raw event of which nothing counts, with what tells its line from one of a session file."""

    session_id: str


class Server(msgspec.Struct):
    name: str | None = None
    status: str | None = None


class Init(msgspec.Struct):
    """`system/init`."""

    cwd: str | None = None
    session_id: str | None = None
    tools: list[str] | None = None
    mcp_servers: list[Server] | None = None
    model: str | None = None
    claude_code_version: str | None = None


class RetryRow(msgspec.Struct):
    """`system/api_retry`."""

    attempt: int | None = None
    error_status: int | None = None
    error: Raw = EMPTY


class TaskPatch(msgspec.Struct):
    status: str | None = None


class TaskRow(msgspec.Struct):
    """`system/task_started`, `task_updated`, `task_notification`."""

    task_id: str | None = None
    status: str | None = None
    patch: TaskPatch | None = None


class Preserved(msgspec.Struct):
    """The rows that a compaction left in the prompt."""

    uuids: list[str] | None = None


class CompactMetadata(msgspec.Struct):
    """What a compaction tells of itself."""

    preserved_messages: Preserved | None = None


class BoundaryRow(msgspec.Struct):
    """`system/compact_boundary`."""

    compact_metadata: CompactMetadata | None = None

    @property
    def kept(self) -> tuple[str, ...]:
        """Ids of the rows that stay in the prompt."""
        preserved = self.compact_metadata.preserved_messages if self.compact_metadata is not None else None
        return tuple(preserved.uuids or ()) if preserved is not None else ()


class FallbackRow(msgspec.Struct):
    """`system/model_fallback`, `model_refusal_fallback`."""

    fallback_model: str | None = None


class DenialRow(msgspec.Struct):
    tool_name: str | None = None
    tool_use_id: str | None = None


class Result(msgspec.Struct):
    """`result`."""

    subtype: str | None = None
    is_error: bool | None = None
    api_error_status: int | None = None
    terminal_reason: str | None = None
    stop_reason: str | None = None
    result: Raw = EMPTY
    errors: Raw = EMPTY
    usage: ApiUsage | None = None
    models: dict[str, ModelUse] | None = msgspec.field(default=None, name="modelUsage")
    since: dict[str, ModelUse] | UnsetType | None = msgspec.field(default=UNSET, name="model_usage_since_last_result")
    cost: Decimal | None = msgspec.field(default=None, name="total_cost_usd")
    permission_denials: list[DenialRow] | None = None
    num_turns: int | None = None
    structured_output: Raw = EMPTY
    uuid: str | None = None


class StreamEvent(msgspec.Struct):
    """A raw API event inside `stream_event`."""

    type: str | None = None
    message: Message | None = None
    usage: ApiUsage | None = None


class Source(msgspec.Struct):
    """The source of an image block."""

    type: str | None = None
    data: str | None = None


class Decision(msgspec.Struct):
    decision: str | None = None


class ResultMeta(msgspec.Struct):
    """One entry of `tool_result_meta`."""

    id: str | None = None
    permission_decision: Decision | None = None


class AgentResult(msgspec.Struct):
    """`tool_use_result` of a subagent that has ended."""

    resolved_model: str | None = msgspec.field(default=None, name="resolvedModel")
    total_tokens: int | None = msgspec.field(default=None, name="totalTokens")
    agent_id: str | None = msgspec.field(default=None, name="agentId")
    usage: ApiUsage | None = None


_DECODERS: Final[dict[object, msgspec.json.Decoder[Any]]] = {}
_SHAPES: Final[dict[object, inspect.Type]] = {}
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_LONGEST_INT: Final = 18
"""Digits; a longer integer is kept as a decimal, so that its size costs nothing."""

Unreadable = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What `decode` raises for bytes that are not of the kind asked for."""


class Problem(NamedTuple):
    """A value of a kind that its field cannot hold; the field was left empty."""

    path: str
    """`message.usage.input_tokens`."""
    value: str
    """The value as JSON, cut short."""


_ROW: Final = msgspec.json.Decoder(Row)
_WHOLE_ROW: Final = msgspec.json.Decoder(WholeRow)
_DELTA: Final = msgspec.json.Decoder(Delta)
_DELTA_BEGINS: Final = b'{"type":"stream_event","event":{"type":"content_block_'
_ARGUMENTS: Final = msgspec.json.Decoder(dict[str, object])
_CONTENT: Final = msgspec.json.Decoder(str | list[Block])


def decode_row(data: bytes) -> Row | WholeRow:
    """A line, as whole as it can be read.

    Raises:
        MsgspecError, UnicodeDecodeError, RecursionError: The bytes are no row (`Unreadable`).
    """
    try:
        return _WHOLE_ROW.decode(data)
    except Unreadable:
        return _ROW.decode(data)


def whole_row(line: bytes) -> WholeRow | None:
    """A line, with or without its newline, that can be decoded in one go; None for any other."""
    try:
        return _WHOLE_ROW.decode(line)
    except Unreadable:
        return None


def is_delta(data: bytes) -> bool:
    """Whether a line, without its newline, is a piece of a content block in a live stream."""
    if not data.startswith(_DELTA_BEGINS):
        return False
    try:
        _DELTA.decode(data)
    except Unreadable:
        return False
    return True


def begins_delta(line: bytes) -> bool:
    """Whether a line begins as a piece of a content block, as most of partial messages do, and ends as an object."""
    return line.startswith(_DELTA_BEGINS) and line.endswith(b"}\n")


def are_deltas(lines: Sequence[bytes]) -> bool:
    """Whether lines that begin as pieces of content blocks all are just that, each one object of a live stream.

    They are decoded in one go. A newline cannot have been taken for part of an object: inside a string it is refused,
    and outside one no object goes on with `}`, newline, `{`. So as many objects as lines means one a line.
    """
    try:
        return len(_DELTA.decode_lines(b"".join(lines))) == len(lines)
    except Unreadable:
        return False


def blocks_of(content: Raw) -> str | list[Block]:
    """Raw content of either side: a plain string, or blocks, mended where that helps; none where it is neither."""
    if content is EMPTY:
        return []
    try:
        return _CONTENT.decode(content)
    except Unreadable:
        start = bytes(memoryview(content)[:1])
        if start == b'"':
            return optional(content, str) or ""
        return (optional(content, list[Block]) or []) if start == b"[" else []


def arguments_of(data: Raw) -> dict[str, object]:
    """The arguments of a tool use; empty where they are no object."""
    try:
        return _ARGUMENTS.decode(data)
    except Unreadable:
        return optional(data, dict[str, object]) or {}


def decode(data: bytes | Raw, kind: type[_T]) -> _T:
    """Decode by msgspec alone.

    Raises:
        MsgspecError, UnicodeDecodeError, RecursionError: The bytes are not of that kind (`Unreadable`).
    """
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    return cast(_T, decoder.decode(data))


def mend(data: bytes | Raw, kind: type[_T]) -> tuple[_T, tuple[Problem, ...]] | None:
    """Decode what msgspec rejects, as far as it is JSON at all.

    Bytes that are no UTF-8 and lone surrogates become U+FFFD, NaN becomes null, and a value that its field cannot hold
    is left out and reported.

    Returns:
        The value and what was left out; None if the bytes are no JSON.
    """
    try:
        loaded = json.loads(
            bytes(data).decode("utf-8", "replace"),
            parse_float=Decimal,
            parse_int=_integer,
            parse_constant=lambda _: None,
        )
        shape = _SHAPES.get(kind)
        if shape is None:
            shape = _SHAPES[kind] = inspect.type_info(kind)
        problems: list[Problem] = []
        fitted = _fit(shape, loaded, "", problems)
        return decode(_ENCODER.encode(fitted), kind), tuple(problems)
    except (ValueError, InvalidOperation, OverflowError, *Unreadable):
        return None


def is_json(data: bytes) -> bool:
    """Whether the bytes are JSON of any kind."""
    try:
        json.loads(data.decode("utf-8", "replace"), parse_int=_integer)
    except (ValueError, RecursionError):
        return False
    return True


def optional(data: Raw, kind: type[_T]) -> _T | None:
    """Decode a part that may be absent or of another kind, mended where that helps."""
    if data is EMPTY or not memoryview(data):
        return None
    return read(data, kind)[0]


def read(data: bytes | Raw, kind: type[_T]) -> tuple[_T | None, tuple[Problem, ...]]:
    """The bytes as that kind, and what had to be left out; None where they are not of that kind at all."""
    try:
        return decode(data, kind), ()
    except Unreadable:
        return mend(data, kind) or (None, ())


def _integer(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= _LONGEST_INT else Decimal(digits)


def _fit(shape: inspect.Type, value: object, path: str, problems: list[Problem]) -> object:
    """The value as far as the shape can hold it."""
    match shape:
        case inspect.UnionType():
            if value is None:
                return None
            return _fit(next(t for t in shape.types if not isinstance(t, inspect.NoneType)), value, path, problems)
        case inspect.RawType() | inspect.AnyType():
            return _scrub(value)
        case inspect.StrType() if isinstance(value, str):
            return _scrub(value)
        case inspect.BoolType() if isinstance(value, bool):
            return value
        case inspect.IntType() if isinstance(value, int) and not isinstance(value, bool):
            return value
        case inspect.DecimalType() if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
            return value
        case inspect.ListType() if isinstance(value, list):
            items = cast("list[object]", value)
            fitted = [_fit(shape.item_type, item, f"{path}[{n}]", problems) for n, item in enumerate(items)]
            return [item for item in fitted if item is not None]
        case inspect.DictType() if isinstance(value, dict):
            entries = cast("dict[str, object]", value)
            return {
                cast(str, _scrub(key)): _fit(shape.value_type, item, _join(path, key), problems)
                for key, item in entries.items()
            }
        case inspect.StructType() if isinstance(value, dict):
            entries = cast("dict[str, object]", value)
            return {
                field.encode_name: _fit(
                    field.type, entries[field.encode_name], _join(path, field.encode_name), problems
                )
                for field in shape.fields
                if field.encode_name in entries
            }
        case _:
            if value is not None:
                problems.append(Problem(path, _ENCODER.encode(_scrub(value))[:60].decode("utf-8", "replace")))
            return None


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _scrub(value: object) -> object:
    """The value without lone surrogates, which no encoder takes."""
    match value:
        case str():
            return _SURROGATES.sub("\ufffd", value)
        case list():
            return [_scrub(item) for item in cast("list[object]", value)]
        case dict():
            return {_scrub(key): _scrub(item) for key, item in cast("dict[str, object]", value).items()}
        case _:
            return value
