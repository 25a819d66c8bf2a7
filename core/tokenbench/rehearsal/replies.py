"""A turn as the Messages API would send it: counted blocks, server-sent events, or one JSON message."""

import json
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from tokenbench.ledger.model import Tokens
from tokenbench.rehearsal.playing import Turn
from tokenbench.rehearsal.request import FRAME, Counted, Json, Meter
from tokenbench.rehearsal.scripts import Place

PIECES: Final = 3
"""Pieces that the text of a block is streamed in."""


class Part(msgspec.Struct, frozen=True):
    """One block of a reply."""

    block: Json
    """As it stands in a whole message."""
    counted: Counted


class Reply(msgspec.Struct, frozen=True):
    """One billed reply."""

    id: str
    model: str
    parts: tuple[Part, ...]
    stop_reason: str
    prompt: Tokens
    """What the prompt is billed; `output` is 0."""
    stated_output: int | None = None
    """An output that is stated instead of that of the blocks, in tokens."""
    more: Json = {}
    """Further fields of its usage object."""

    @property
    def output(self) -> int:
        """Tokens of all blocks, or what is stated instead."""
        return output_of(self.parts) if self.stated_output is None else self.stated_output

    @property
    def thinking(self) -> int:
        """Tokens of the thinking blocks, which are part of `output`."""
        return sum(part.counted.tokens for part in self.parts if part.counted.kind == "thinking")


def output_of(parts: tuple[Part, ...]) -> int:
    """Billed output of these blocks, in tokens: at least 1, as an empty reply is billed too."""
    return max(1, sum(part.counted.tokens for part in parts))


def build_reply(
    turn: Turn, *, model: str, prompt: Tokens, thinks: bool, meter: Meter, token: Callable[[], str]
) -> Reply:
    """Count a turn and give it its ids.

    Args:
        turn: What the model says.
        model: The model asked for.
        prompt: What the prompt is billed.
        thinks: Whether the request allows thinking; without, the turn's thinking is left out and not billed.
        meter: The counting rule.
        token: A new unguessable word of lower-case letters and digits at each call.
    """
    parts: list[Part] = []
    if thinks and (turn.thinking or turn.thinking_tokens):
        tokens = meter.text(turn.thinking) if turn.thinking_tokens is None else turn.thinking_tokens
        block: Json = {
            "type": "thinking",
            "thinking": turn.thinking,
            "signature": f"scripted-{tokens}-{token()}",
        }
        parts.append(Part(block, Counted("thinking", FRAME + tokens)))
    if turn.text or not turn.uses:
        parts.append(Part({"type": "text", "text": turn.text}, Counted("assistant", FRAME + meter.text(turn.text))))
    batch = token()
    for index, use in enumerate(turn.uses):
        identity = f"toolu_scripted_{batch}_{turn.step}_{index}"
        tokens = FRAME + meter.text(use.name) + meter.value(use.input)
        parts.append(
            Part(
                {"type": "tool_use", "id": identity, "name": use.name, "input": dict(use.input)},
                Counted("tool_use", tokens, tool=use.name, tool_use_id=identity),
            )
        )
    return Reply(
        id=f"msg_scripted_{token()}",
        model=model,
        parts=tuple(parts),
        stop_reason="tool_use" if turn.uses else "end_turn",
        prompt=prompt,
    )


def usage_json(prompt: Tokens, output: int, thinking: int | None = None, more: Json | None = None) -> Json:
    """A usage object as the API prints it."""
    usage: Json = {
        "input_tokens": prompt.input,
        "cache_creation_input_tokens": prompt.cache_write_5m + prompt.cache_write_1h,
        "cache_read_input_tokens": prompt.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": prompt.cache_write_5m,
            "ephemeral_1h_input_tokens": prompt.cache_write_1h,
        },
        "output_tokens": output,
        "service_tier": "standard",
        **(more or {}),
    }
    if thinking is not None:
        usage["output_tokens_details"] = {"thinking_tokens": thinking}
    return usage


def whole(reply: Reply) -> bytes:
    """The reply to a request that did not ask for a stream."""
    return _json(
        {
            "id": reply.id,
            "type": "message",
            "role": "assistant",
            "model": reply.model,
            "content": [part.block for part in reply.parts],
            "stop_reason": reply.stop_reason,
            "stop_sequence": None,
            "usage": usage_json(reply.prompt, reply.output, reply.thinking, reply.more),
        }
    )


class Chunk(msgspec.Struct, frozen=True):
    """One server-sent event."""

    data: bytes
    after: Place
    """Where the stream stands once it is sent, in the words of a script's faults."""
    begun: int
    """Blocks that have been begun by then."""


def stream(reply: Reply) -> Iterator[Chunk]:
    """The reply as server-sent events."""
    message: Json = {
        "id": reply.id,
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage_json(reply.prompt, min(1, reply.output), more=reply.more),
    }
    yield Chunk(_event("message_start", {"message": message}), "start", 0)
    yield Chunk(_event("ping", {}), "start", 0)
    for index, part in enumerate(reply.parts):
        opening, deltas = _opened(part.block)
        yield Chunk(_event("content_block_start", {"index": index, "content_block": opening}), "start", index + 1)
        for at, delta in enumerate(deltas):
            place: Place = "block" if at == (len(deltas) - 1) // 2 else "start"
            yield Chunk(_event("content_block_delta", {"index": index, "delta": delta}), place, index + 1)
        last = index == len(reply.parts) - 1
        yield Chunk(_event("content_block_stop", {"index": index}), "blocks" if last else "start", index + 1)
    ending: Json = {
        "delta": {"stop_reason": reply.stop_reason, "stop_sequence": None},
        "usage": usage_json(reply.prompt, reply.output, reply.thinking, reply.more),
    }
    yield Chunk(_event("message_delta", ending), "usage", len(reply.parts))
    yield Chunk(_event("message_stop", {}), "usage", len(reply.parts))


def _opened(block: Json) -> tuple[Json, list[Json]]:
    """A block as a stream starts it, and the deltas that complete it."""
    match block["type"]:
        case "thinking":
            deltas: list[Json] = [
                {"type": "thinking_delta", "thinking": piece} for piece in _pieces(str(block["thinking"]))
            ]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case "tool_use":
            text = json.dumps(block["input"], ensure_ascii=False)
            return {**block, "input": {}}, [
                {"type": "input_json_delta", "partial_json": piece} for piece in _pieces(text)
            ]
        case _:
            return {"type": "text", "text": ""}, [
                {"type": "text_delta", "text": piece} for piece in _pieces(str(block["text"]))
            ]


def _pieces(text: str) -> list[str]:
    size = max(1, -(-len(text) // PIECES))
    return [text[at : at + size] for at in range(0, len(text), size)]


def _event(kind: str, data: Json) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + _json({"type": kind, **data}) + b"\n\n"


def _json(value: object) -> bytes:
    # ASCII: what a script took from a tool may hold lone surrogates, and JSON escapes carry them through.
    return json.dumps(value).encode()
