"""Claude's rows as neutral events."""

import json
from typing import Any

import pytest

from tokenbench.agents.claude.stream import ClaudeReader
from tokenbench.transcripts.events import (
    AgentNotice,
    Announcement,
    Bad,
    CallSeen,
    Ended,
    Event,
    Mended,
    MessagePart,
    Noise,
    Other,
    Retry,
    ToolResult,
    ToolUse,
    Usage,
    UserRow,
)
from tokenbench.transcripts.lines import Line

USAGE = {"input_tokens": 3, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 2}


def events(*rows: dict[str, Any] | bytes, reader: ClaudeReader | None = None, complete: bool = True) -> list[Event]:
    reader = reader or ClaudeReader()
    found: list[Event] = []
    for number, row in enumerate(rows, 1):
        found += reader.feed(Line(number, row if isinstance(row, bytes) else json.dumps(row).encode(), complete))
    return found


def assistant(*content: dict[str, Any], **fields: Any) -> dict[str, Any]:
    message = {"id": "m1", "model": "opus", "content": list(content), "stop_reason": None, "usage": USAGE}
    return {"type": "assistant", "uuid": "u1", "session_id": "s", "message": message, **fields}


def result_of(content: object, **fields: Any) -> ToolResult:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": content, **fields}
    found = events({"type": "user", "uuid": "u", "session_id": "s", "message": {"content": [block]}})
    return next(event for event in found if isinstance(event, ToolResult))


def test_an_announcement_holds_what_an_arm_is_compared_with() -> None:
    row = {
        "type": "system",
        "subtype": "init",
        "cwd": "/srv/code",
        "session_id": "s",
        "tools": ["Read", "Grep"],
        "mcp_servers": [{"name": "dump", "status": "failed"}],
        "model": "claude-opus-4-8[1m]",
        "claude_code_version": "2.1.332",
    }
    assert events(row) == [
        Announcement(
            version="2.1.332",
            model="claude-opus-4-8[1m]",
            tools=("Read", "Grep"),
            mcp_servers=(("dump", "failed"),),
            folder="/srv/code",
            line=1,
            session="s",
        )
    ]


def test_a_row_of_a_reply_is_a_snapshot_of_its_call_and_what_it_says() -> None:
    row = assistant(
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "Look:"},
        {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a"}},
        {"type": "something_new"},
        parent_tool_use_id="p",
        request_id="r",
    )
    assert events(row) == [
        CallSeen(1, "m1", "u1", "opus", Usage(3, 10, None, None, 5, 2), False, "p", request_id="r"),
        MessagePart(1, "m1", "p", "thinking", "hm"),
        MessagePart(1, "m1", "p", "text", "Look:"),
        ToolUse(1, "t1", "Read", {"path": "a"}, "m1", "p"),
    ]


def test_the_cli_s_own_rows_are_no_calls() -> None:
    row = assistant({"type": "text", "text": "API Error: 529"}, error="overloaded")
    row["message"]["model"] = "<synthetic>"
    assert events(row) == [AgentNotice(1, "API Error: 529", "overloaded", "u1", None)]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
        ([], ""),
        (None, ""),
        ({"odd": 1}, ""),
        ("a\ud800b", "a\ufffdb"),
    ],
)
def test_a_result_is_the_text_that_went_to_the_model(content: object, text: str) -> None:
    assert result_of(content).text == text


def test_other_blocks_of_a_result_are_listed_and_not_counted() -> None:
    found = result_of([{"type": "image", "source": {"type": "base64", "data": "AAAA"}}, {"type": "document"}])
    assert (found.text, len(found.images), found.other_blocks) == ("", 1, ("document",))


@pytest.mark.parametrize(
    "text",
    [
        "Permission to use Bash with command node --version has been denied.",
        "File is in a directory that is denied by your permission settings.",
        "This command requires approval",
        "This Bash command contains multiple operations. The following part requires approval: curl x",
        "Claude requested permissions to write to /a, but you haven't granted it yet.",
        "Output redirection to '/tmp/out.txt' was blocked. For security, …",
        "Contains shell syntax (string) that cannot be statically analyzed",
        "<tool_use_error>Error: No such tool available: Grep. Grep exists but is not enabled.</tool_use_error>",
    ],
)
def test_a_denial_is_known_by_how_its_error_begins(text: str) -> None:
    assert result_of(text, is_error=True).denied
    assert not result_of(text).denied


def test_a_denial_is_known_by_what_newer_versions_add_to_the_row() -> None:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True}
    meta = [{"id": "t1", "permission_decision": {"decision": "reject"}}]
    row = {"type": "user", "uuid": "u", "message": {"content": [block]}, "tool_result_meta": meta}
    assert any(isinstance(event, ToolResult) and event.denied for event in events(row))
    del row["tool_result_meta"]
    denied = {"type": "system", "subtype": "permission_denied", "tool_use_id": "t1", "message": "no"}
    assert any(isinstance(event, ToolResult) and event.denied for event in events(denied, row))


def test_a_result_event_keeps_money_digit_for_digit() -> None:
    line = (
        b'{"type":"result","uuid":"u","total_cost_usd":0.17936000000000002,"modelUsage":'
        b'{"opus[1m]":{"inputTokens":1,"costUSD":1e-7,"costBasis":"unknown"}},"structured_output":{"a": 1}}'
    )
    (ended,) = events(line)
    assert isinstance(ended, Ended)
    assert ended.models is not None
    assert (str(ended.cost), ended.models[0].cost_basis, ended.structured_output) == (
        "0.17936000000000002",
        "unknown",
        '{"a": 1}',
    )
    assert (str(ended.models[0].cost), ended.models_since_last, ended.usage) == ("1E-7", None, None)


def test_a_retry_says_what_the_api_answered() -> None:
    row = {
        "type": "system",
        "subtype": "api_retry",
        "uuid": "u",
        "attempt": 2,
        "error_status": 529,
        "error": "overloaded",
    }
    assert events(row) == [Retry(1, 2, 529, "overloaded", "u")]


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"type": "rate_limit_event"}, "rate_limit_event"),
        ({"type": "system", "subtype": "brand_new"}, "system/brand_new"),
        ({"no": "type"}, "untyped"),
    ],
)
def test_an_unknown_row_is_kept_and_counted(row: dict[str, Any], kind: str) -> None:
    reader = ClaudeReader()
    assert events(row, reader=reader) == [Other(1, kind)]
    assert reader.counts == {kind: 1}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"[DEBUG] POST", "text"),
        (b"null", "json"),
        (b"123", "json"),
        (b'"x"', "json"),
        (b"[]", "json"),
        (b"{oops", "text"),
    ],
)
def test_what_is_no_object_is_noise(line: bytes, what: str) -> None:
    reader = ClaudeReader()
    assert events(line, reader=reader) == [Noise(1, what)]  # pyright: ignore[reportArgumentType]
    assert reader.counts == {"noise": 1}


@pytest.mark.parametrize("line", [b"", b"   ", b"\r", b"\t"])
def test_a_blank_line_is_nothing(line: bytes) -> None:
    assert events(line) == []


@pytest.mark.parametrize("kind", ["assistant", "user", "system", "result"])
def test_a_row_that_does_not_parse_is_damage_and_no_noise(kind: str) -> None:
    (bad,) = events(f'{{"type":"{kind}","message":'.encode())
    assert isinstance(bad, Bad)
    assert (bad.kind, bad.tail) == (kind, False)


def test_rows_whose_keys_stand_in_another_order_are_damage_too() -> None:
    assert [type(event) for event in events(b'{"duration_api_ms":81,"stop_rea')] == [Bad]


def test_the_last_line_without_a_newline_is_a_tail() -> None:
    (bad,) = events(b'{"type":"result","usage":{"in', complete=False)
    assert isinstance(bad, Bad)
    assert bad.tail


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        (b"\0" * 100, [Bad]),
        (b"\0\0\0" + json.dumps({"type": "x"}).encode(), [Bad, Mended, Other]),
        (b"log \0 text", [Bad]),
    ],
)
def test_nul_bytes_are_damage(line: bytes, kinds: list[type]) -> None:
    assert [type(event) for event in events(line)] == kinds


def test_a_row_can_be_nested_too_deeply() -> None:
    deep = b"[" * 200_000 + b"]" * 200_000
    assert [type(event) for event in events(b'{"type":"user","message":' + deep + b"}")] == [Bad]
    assert [type(event) for event in events(deep)] == [Noise]


def test_fields_of_another_kind_are_left_out_and_lose_nothing_else() -> None:
    row = assistant({"type": "text", "text": "a"}, parent_tool_use_id=7, request_id=["r"])
    found = events(row)
    assert [type(event) for event in found] == [CallSeen, MessagePart]
    user = {"type": "user", "uuid": "u", "message": "just words"}
    assert [type(event) for event in events(user)] == [UserRow]


def test_rows_of_a_session_file_announce_themselves_once() -> None:
    reader = ClaudeReader()
    row = {
        "type": "user",
        "uuid": "u",
        "sessionId": "s",
        "version": "2.1.197",
        "cwd": "/c",
        "message": {"content": "hi"},
    }
    found = events(row, row, reader=reader)
    announced = [event for event in found if isinstance(event, Announcement)]
    assert [(one.version, one.folder, one.session) for one in announced] == [("2.1.197", "/c", "s")]
    assert reader.own_log


def test_kinds_of_a_hostile_file_are_counted_within_a_limit() -> None:
    reader = ClaudeReader()
    events(*({"type": f"kind{n}"} for n in range(2_000)), reader=reader)
    assert (len(reader.counts) <= 501, sum(reader.counts.values())) == (True, 2_000)
