"""A request to the Messages API, read into counted blocks and into the conversation that it continues.

Blocks are canonical: a string is the same as a list of one text block, and `cache_control` is no part of the content. A
conversation only grows then, although the agent CLI moves its last breakpoint on with every call.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, cast

import msgspec

from tokenbench.rehearsal.caching import Block, Lifetime
from tokenbench.rehearsal.counting import Counter, image_tokens

Kind = Literal[
    "tool", "system", "user", "note", "assistant", "thinking", "tool_use", "tool_result", "image", "document", "other"
]
"""`tool` is a definition; `note` is text of the role `system` among the messages."""

FRAME: Final = 3
"""Tokens that every block costs beside its content."""
DOCUMENT: Final = 1500
"""Tokens of a document whose content is no text."""
MOST_HELD: Final = 16_000_000
"""Characters of texts whose count is remembered."""
TOOL_ID: Final = re.compile(r"toolu_scripted_[0-9a-z]+_(\d+)_(\d+)\Z")
THINKING_SIGNATURE: Final = re.compile(r"scripted-(\d+)-[0-9a-z]+\Z")

Json = dict[str, object]


class BadRequest(Exception):
    """A request that the API would reject; the text is what its error says."""


class Counted(msgspec.Struct, frozen=True, omit_defaults=True):
    """One block of a prompt or of a reply, and what it costs."""

    kind: Kind
    tokens: int
    tool: str = ""
    """Name of the tool it belongs to."""
    tool_use_id: str = ""
    cache: str = ""
    """`read`, `write_5m`, `write_1h` or `fresh`; empty in replies."""


class ToolOutcome(msgspec.Struct, frozen=True):
    """What one of the script's tool calls gave."""

    step: int
    """0 is the script's first step."""
    index: int
    """Place of the call within its step, from 0."""
    tool: str
    text: str
    is_error: bool


class Request(msgspec.Struct, frozen=True):
    """A request, counted."""

    model: str
    stream: bool
    thinking: bool
    """Whether the request lets the model think."""
    tools: Mapping[str, Json]
    """Input schemas of the tools that the agent offers, by name; server tools are left out."""
    counted: tuple[Counted, ...]
    blocks: tuple[Block, ...]
    opening: str
    """Text of the first user message."""
    asked: int
    """Steps of the script that have been answered, as the tool calls in the conversation tell."""
    outcomes: tuple[ToolOutcome, ...]
    closing: str = ""
    """The last text of the role `user`; tool results are none."""


class Meter:
    """Counts requests and replies by one rule, each text once."""

    def __init__(self, counter: Counter) -> None:
        self.counter = counter
        self._known: dict[str, int] = {}
        self._held = 0

    def text(self, text: str) -> int:
        """Tokens of a text without any frame."""
        tokens = self._known.get(text)
        if tokens is None:
            tokens = self.counter.text(text)
            self._held += len(text)
            if self._held > MOST_HELD:
                self._known.clear()
                self._held = len(text)
            self._known[text] = tokens
        return tokens

    def value(self, value: object) -> int:
        """Tokens of a JSON value, written compactly."""
        return self.text(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def read_request(body: bytes, meter: Meter) -> Request:
    """Read and count a request.

    Raises:
        BadRequest: It is no request of the Messages API.
    """
    data = _object(_json(body), "body")
    model = data.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequest("model: Field required")
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages: at least one message is required")
    reader = _Reader(meter)
    for at, tool in enumerate(_list(data.get("tools"), "tools")):
        reader.tool(_object(tool, f"tools.{at}"))
    for at, block in enumerate(_blocks(data.get("system"), "system")):
        reader.block("system", block, f"system.{at}")
    # The API starts message entries anew when these change, and leaves those of tools and system alone.
    reader.setting = _canonical([data.get("tool_choice"), data.get("thinking")])
    for at, entry in enumerate(cast("list[object]", messages)):
        reader.message(_object(entry, f"messages.{at}"), f"messages.{at}")
    if not reader.blocks:
        raise BadRequest("messages: at least one message must have content")
    if data.get("cache_control") is not None and reader.blocks[-1].breakpoint is None:
        reader.blocks[-1] = msgspec.structs.replace(reader.blocks[-1], breakpoint=_lifetime(data, "body"))
    thinking = data.get("thinking")
    return Request(
        model=model,
        stream=data.get("stream") is True,
        thinking=isinstance(thinking, dict) and cast("Json", thinking).get("type") in {"enabled", "adaptive"},
        tools=reader.schemas,
        counted=tuple(reader.counted),
        blocks=tuple(reader.blocks),
        opening=reader.opening or "",
        closing=reader.closing,
        asked=max((outcome.step + 1 for outcome in reader.outcomes), default=0),
        outcomes=tuple(sorted(reader.outcomes, key=lambda outcome: (outcome.step, outcome.index))),
    )


class _Reader:
    """Gathers the blocks of one request in their order."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.counted: list[Counted] = []
        self.blocks: list[Block] = []
        self.schemas: dict[str, Json] = {}
        self.outcomes: list[ToolOutcome] = []
        self.opening: str | None = None
        self.closing = ""
        self.setting = ""
        self._names: dict[str, str] = {}

    def tool(self, tool: Json) -> None:
        name = _text(tool.get("name"))
        schema = tool.get("input_schema")
        if isinstance(schema, dict):
            self.schemas[name] = cast("Json", schema)
        if tool.get("defer_loading") is True:
            return
        definition = {key: value for key, value in tool.items() if key != "cache_control"}
        self._add(
            Counted("tool", FRAME + self.meter.value(definition), tool=name),
            _canonical(["tool", definition]),
            _lifetime(tool, f"tools.{name}"),
        )

    def message(self, message: Json, where: str) -> None:
        role = message.get("role")
        if role not in {"user", "assistant", "system"}:
            raise BadRequest(f"{where}.role: Input should be 'user' or 'assistant'")
        blocks = _blocks(message.get("content"), f"{where}.content")
        if role == "user" and self.opening is None:
            self.opening = "\n".join(_text(block.get("text")) for block in blocks if block.get("type") == "text")
        if role == "user":
            texts = [_text(block.get("text")) for block in blocks if block.get("type") == "text"]
            self.closing = texts[-1] if texts else self.closing
        for at, block in enumerate(blocks):
            self.block(cast("Literal['user', 'assistant', 'system']", role), block, f"{where}.content.{at}", True)

    def block(
        self, role: Literal["user", "assistant", "system"], block: Json, where: str, in_messages: bool = False
    ) -> None:
        kind = block.get("type")
        if not isinstance(kind, str):
            raise BadRequest(f"{where}.type: Field required")
        lifetime = _lifetime(block, where)
        bare = {key: value for key, value in block.items() if key not in {"cache_control", "is_error"}}
        if block.get("is_error") is True:
            bare["is_error"] = True
        if kind == "text":
            if lifetime and not _text(block.get("text")):
                raise BadRequest(f"{where}: cache_control cannot be set for empty text blocks")
            label: Kind = "note" if role == "system" and in_messages else role
            counted = Counted(label, FRAME + self.meter.text(_text(block.get("text"))))
        elif kind in {"thinking", "redacted_thinking"}:
            counted = Counted("thinking", FRAME + self._thinking(block))
        elif kind == "tool_use":
            counted = self._tool_use(block)
        elif kind == "tool_result":
            content = _blocks(block.get("content", ""), f"{where}.content")
            bare["content"] = [
                {key: value for key, value in part.items() if key != "cache_control"} for part in content
            ]
            counted = self._tool_result(block, content)
        else:
            label = "image" if kind == "image" else "document" if kind == "document" else "other"
            counted = Counted(label, FRAME + self._part(block))
        setting = self.setting if in_messages else ""
        self._add(counted, _canonical([role, setting, bare]), lifetime)

    def _add(self, counted: Counted, canonical: str, lifetime: Lifetime | None) -> None:
        self.counted.append(counted)
        self.blocks.append(Block(canonical.encode(), counted.tokens, lifetime))

    def _thinking(self, block: Json) -> int:
        """What the model thought is billed again in full, whatever part of it the block shows."""
        signature = THINKING_SIGNATURE.match(_text(block.get("signature")))
        if signature:
            return int(signature.group(1))
        return self.meter.text(_text(block.get("thinking")) or _text(block.get("data")))

    def _tool_use(self, block: Json) -> Counted:
        name, identity = _text(block.get("name")), _text(block.get("id"))
        self._names[identity] = name
        tokens = FRAME + self.meter.text(name) + self.meter.value(block.get("input"))
        return Counted("tool_use", tokens, tool=name, tool_use_id=identity)

    def _tool_result(self, block: Json, content: Sequence[Json]) -> Counted:
        identity = _text(block.get("tool_use_id"))
        name = self._names.get(identity, "")
        ours = TOOL_ID.match(identity)
        if ours:
            text = "\n".join(_text(part.get("text")) for part in content if part.get("type") == "text")
            self.outcomes.append(
                ToolOutcome(int(ours.group(1)), int(ours.group(2)), name, text, block.get("is_error") is True)
            )
        tokens = FRAME + sum(map(self._part, content))
        return Counted("tool_result", tokens, tool=name, tool_use_id=identity)

    def _part(self, part: Json) -> int:
        """Tokens of text, an image, a document or anything else, without a frame."""
        source = part.get("source")
        data = _text(cast("Json", source).get("data")) if isinstance(source, dict) else ""
        match part.get("type"):
            case "text":
                return self.meter.text(_text(part.get("text")))
            case "image":
                return image_tokens(data)
            case "document":
                text = isinstance(source, dict) and cast("Json", source).get("type") == "text"
                return self.meter.text(data) if text else DOCUMENT
            case _:
                return self.meter.value({key: value for key, value in part.items() if key != "cache_control"})


def _json(body: bytes) -> object:
    try:
        return cast("object", json.loads(body))
    except (ValueError, RecursionError) as error:
        raise BadRequest("The request body is not valid JSON") from error


def _canonical(value: object) -> str:
    # Escaped to ASCII: a lone surrogate in a file that a tool has read is legal JSON, and no legal UTF-8.
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _object(value: object, where: str) -> Json:
    if not isinstance(value, dict):
        raise BadRequest(f"{where}: Input should be an object")
    return cast("Json", value)


def _list(value: object, where: str) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadRequest(f"{where}: Input should be a valid list")
    return cast("list[object]", value)


def _blocks(value: object, where: str) -> list[Json]:
    if isinstance(value, str):
        return [{"type": "text", "text": value}] if value else []
    return [_object(block, f"{where}.{at}") for at, block in enumerate(_list(value, where))]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _lifetime(holder: Json, where: str) -> Lifetime | None:
    control = holder.get("cache_control")
    if control is None:
        return None
    match _object(control, f"{where}.cache_control").get("ttl", "5m"):
        case "5m":
            return "5m"
        case "1h":
            return "1h"
        case _:
            raise BadRequest(f"{where}.cache_control.ttl: Input should be '5m' or '1h'")
