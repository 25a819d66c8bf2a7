"""What the ledger's tests share: captures of the real CLI, reported cases, and transcripts made by hand."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenbench.ledger.build import LedgerBuilder
from tokenbench.ledger.model import Ledger, Tokens
from tokenbench.ledger.prices import PriceTable
from tokenbench.transcripts.lines import LineSplitter

DATA = Path(__file__).parents[1] / "data"


def read(path: Path) -> bytes:
    """A file of the test data, which may be compressed."""
    packed = path.with_name(path.name + ".gz")
    return gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()


def ledger(data: bytes, *, piece: int | None = None, prices: PriceTable | None = None) -> Ledger:
    """The ledger of bytes that arrive in pieces of that many bytes."""
    builder = LedgerBuilder(transcript="t.jsonl", prices=prices)
    splitter = LineSplitter()
    size = piece or max(1, len(data))
    for start in range(0, len(data), size):
        for line in splitter.feed(data[start : start + size]):
            builder.feed(line)
    for line in splitter.close():
        builder.feed(line)
    return builder.finish()


def served(calls: bytes) -> Tokens:
    """What the API served: the truth that a reconciled total must equal."""
    total = Tokens()
    for row in map(json.loads, calls.splitlines()):
        usage = row.get("usage_final")
        if usage is None or not row.get("completed"):
            continue
        write = usage["cache_creation_input_tokens"]
        hour = min(usage["cache_creation"]["ephemeral_1h_input_tokens"], write)
        total += Tokens.of(
            usage["input_tokens"], write - hour, hour, usage["cache_read_input_tokens"], usage["output_tokens"]
        )
    return total


class Script:
    """Writes a stream-json transcript row by row."""

    def __init__(self, model: str = "claude-opus-4-8", **init: Any) -> None:
        self.model = model
        self.rows: list[dict[str, Any]] = []
        self.number = 0
        self.row("system", subtype="init", model=model, tools=["Read"], claude_code_version="2.1.332", **init)

    def row(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Any row."""
        self.number += 1
        row = {"type": kind, "session_id": "s", "uuid": f"row-{self.number}", "parent_tool_use_id": None, **fields}
        self.rows.append(row)
        return row

    def call(
        self,
        message_id: str | None,
        usage: Sequence[int],
        *content: dict[str, Any],
        model: str | None = None,
        stop: str | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """A row of a call; usage is input, 5-minute write, 1-hour write, read, output."""
        message = {
            "id": message_id,
            "model": model or self.model,
            "content": list(content),
            "stop_reason": stop,
            "usage": api_usage(usage),
        }
        return self.row("assistant", message=message, **fields)

    def result_of(self, tool_id: str, text: str = "ok", **fields: Any) -> dict[str, Any]:
        """A tool result."""
        block = {"type": "tool_result", "tool_use_id": tool_id, "content": text, **fields}
        return self.row("user", message={"role": "user", "content": [block]})

    def end(
        self,
        usage: Sequence[int] | None,
        models: dict[str, Sequence[int]] | None,
        text: str | None = "done",
        cost: str = "0.5",
        **fields: Any,
    ) -> dict[str, Any]:
        """A result event; the whole cost goes to the first model."""
        entries = None
        if models is not None:
            shares = [cost] + ["0"] * len(models)
            entries = {name: model_use(use, share) for (name, use), share in zip(models.items(), shares, strict=False)}
        return self.row(
            "result",
            subtype=fields.pop("subtype", "success"),
            is_error=fields.pop("is_error", False),
            result=text,
            stop_reason=fields.pop("stop_reason", "end_turn"),
            num_turns=fields.pop("num_turns", 1 + sum(row["type"] == "user" for row in self.rows)),
            usage=None if usage is None else api_usage(usage),
            total_cost_usd=float(cost),
            permission_denials=fields.pop("permission_denials", []),
            **({"modelUsage": entries} if entries is not None else {}),
            **fields,
        )

    def bytes(self) -> bytes:
        """The transcript."""
        return b"".join(json.dumps(row).encode() + b"\n" for row in self.rows)

    def ledger(self) -> Ledger:
        """Its ledger."""
        return ledger(self.bytes())


def api_usage(usage: Sequence[int]) -> dict[str, Any]:
    fresh, five, hour, read_, output = usage
    return {
        "input_tokens": fresh,
        "cache_creation_input_tokens": five + hour,
        "cache_read_input_tokens": read_,
        "output_tokens": output,
        "cache_creation": {"ephemeral_5m_input_tokens": five, "ephemeral_1h_input_tokens": hour},
    }


def model_use(usage: Sequence[int], cost: str) -> dict[str, Any]:
    fresh, five, hour, read_, output = usage
    return {
        "inputTokens": fresh,
        "outputTokens": output,
        "cacheReadInputTokens": read_,
        "cacheCreationInputTokens": five + hour,
        "webSearchRequests": 0,
        "costUSD": float(cost),
    }


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def tool(tool_id: str, name: str = "Read") -> dict[str, Any]:
    return {"type": "tool_use", "id": tool_id, "name": name, "input": {}}
