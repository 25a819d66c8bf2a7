"""Reading a request: canonical blocks, what each costs, and how far the script has come."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.rehearsal.counting import PieceCounter
from tokenbench.rehearsal.request import DOCUMENT, FRAME, BadRequest, Meter, Request, read_request


def read(messages: Any, **fields: object) -> Request:
    body = json.dumps({"model": "claude-opus-5", "messages": messages, **fields})
    return read_request(body.encode(), Meter(PieceCounter()))


def user(*content: object) -> dict[str, object]:
    return {"role": "user", "content": list(content)}


def text(words: str, **more: object) -> dict[str, object]:
    return {"type": "text", "text": words, **more}


def contents(request: Request) -> list[bytes]:
    return [block.content for block in request.blocks]


CONTROL = {"type": "ephemeral"}


def test_a_string_is_the_same_block_as_a_list_of_one_text() -> None:
    plain = read([{"role": "user", "content": "Where is it?"}])
    listed = read([user(text("Where is it?", cache_control=CONTROL))])
    assert contents(plain) == contents(listed)
    assert [block.breakpoint for block in listed.blocks] == ["5m"]


def test_cache_control_is_no_part_of_any_block() -> None:
    def request(control: dict[str, object]) -> Request:
        return read(
            [
                user(
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": [text("256", **control)],
                        **control,
                    }
                )
            ],
            system=[text("Be concise.", **control)],
            tools=[{"name": "Grep", "input_schema": {}, **control}],
        )

    marked, plain = request({"cache_control": {"type": "ephemeral", "ttl": "1h"}}), request({})
    assert contents(marked) == contents(plain)
    assert [block.breakpoint for block in marked.blocks] == ["1h", "1h", "1h"]
    assert [block.tokens for block in marked.blocks] == [block.tokens for block in plain.blocks]


def test_a_tool_result_in_words_is_the_same_as_one_in_a_list() -> None:
    plain = read([user({"type": "tool_result", "tool_use_id": "t", "content": "256"})])
    listed = read([user({"type": "tool_result", "tool_use_id": "t", "content": [text("256")], "is_error": False})])
    failed = read([user({"type": "tool_result", "tool_use_id": "t", "content": "256", "is_error": True})])
    assert contents(plain) == contents(listed) != contents(failed)


def test_the_same_words_in_another_place_are_another_block() -> None:
    blocks = read([user(text("a")), {"role": "system", "content": "a"}, {"role": "assistant", "content": "a"}]).blocks
    assert len({block.content for block in blocks}) == 3


def test_blocks_stand_in_the_order_tools_system_messages() -> None:
    request = read(
        [user(text("q")), {"role": "system", "content": "today"}],
        system="Be concise.",
        tools=[{"name": "Grep", "input_schema": {"type": "object"}}],
    )
    assert [block.kind for block in request.counted] == ["tool", "system", "user", "note"]


def test_a_deferred_tool_is_neither_billed_nor_part_of_the_prefix() -> None:
    tools = [{"name": "Grep", "input_schema": {}}, {"name": "Later", "input_schema": {}, "defer_loading": True}]
    assert [block.tool for block in read([user(text("q"))], tools=tools).counted] == ["Grep", ""]


def test_each_kind_of_block_has_its_price() -> None:
    request = read(
        [
            user(text("answer"), {"type": "document", "source": {"type": "text", "data": "answer"}}),
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "answer", "signature": "another"},
                    {"type": "thinking", "thinking": "", "signature": "scripted-777-abc"},
                    {"type": "redacted_thinking", "data": "answer"},
                    text("answer"),
                    {"type": "tool_use", "id": "t", "name": "Read", "input": {}},
                ],
            },
            user(
                {
                    "type": "tool_result",
                    "tool_use_id": "t",
                    "content": [text("answer"), {"type": "image", "source": {"data": ""}}],
                },
                {"type": "document", "source": {"type": "base64", "data": "JVBERi0="}},
            ),
        ]
    )
    assert [(block.kind, block.tokens - FRAME) for block in request.counted] == [
        ("user", 1),
        ("document", 1),
        ("thinking", 1),
        ("thinking", 777),
        ("thinking", 1),
        ("assistant", 1),
        ("tool_use", 1 + 2),
        ("tool_result", 1 + 1600),
        ("document", DOCUMENT),
    ]
    assert request.counted[7].tool == "Read"
    assert request.counted[7].tool_use_id == "t"


def test_another_setting_of_thinking_starts_the_messages_anew_and_leaves_the_system_alone() -> None:
    plain = read([user(text("q"))], system="s")
    thinking = read([user(text("q"))], system="s", thinking={"type": "adaptive"})
    assert plain.blocks[0] == thinking.blocks[0]
    assert plain.blocks[1] != thinking.blocks[1]
    assert (plain.thinking, thinking.thinking) == (False, True)


def test_a_breakpoint_for_the_whole_request_falls_on_its_last_block() -> None:
    request = read([user(text("a"), text("b"))], cache_control={"type": "ephemeral", "ttl": "1h"})
    assert [block.breakpoint for block in request.blocks] == [None, "1h"]


def _results(*steps: int) -> list[dict[str, object]]:
    return [
        user(
            {"type": "tool_result", "tool_use_id": f"toolu_scripted_ab12_{step}_1", "content": f"second {step}"},
            {"type": "tool_result", "tool_use_id": f"toolu_scripted_ab12_{step}_0", "content": "no", "is_error": True},
        )
        for step in steps
    ]


def test_the_tool_calls_in_the_conversation_tell_how_far_the_script_has_come() -> None:
    assert read([user(text("q"))]).asked == 0
    assert read([user(text("q")), *_results(0, 1)]).asked == 2
    assert (
        read([user(text("q")), user({"type": "tool_result", "tool_use_id": "toolu_other", "content": ""})]).asked == 0
    )


def test_results_are_given_in_the_order_of_calling_whatever_came_back_first() -> None:
    outcomes = read([user(text("q")), *_results(0)]).outcomes
    assert [(outcome.index, outcome.text, outcome.is_error) for outcome in outcomes] == [
        (0, "no", True),
        (1, "second 0", False),
    ]


def test_lone_surrogates_in_a_tool_result_are_counted() -> None:
    body = rb'{"model": "m", "messages": [{"role": "user", "content": "\ud800 \udc00"}]}'
    assert read_request(body, Meter(PieceCounter())).blocks[0].tokens > FRAME


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[]", "body"),
        (b'{"messages": [{"role": "user", "content": "q"}]}', "model"),
        (b'{"model": "m"}', "messages"),
        (b'{"model": "m", "messages": []}', "messages"),
        (b'{"model": "m", "messages": ["q"]}', "messages.0"),
        (b'{"model": "m", "messages": [{"role": "robot", "content": "q"}]}', "messages.0.role"),
        (b'{"model": "m", "messages": [{"role": "user", "content": 7}]}', "messages.0.content"),
        (b'{"model": "m", "messages": [{"role": "user", "content": ""}]}', "content"),
        (b'{"model": "m", "messages": [{"role": "user", "content": [{"text": "q"}]}]}', "messages.0.content.0.type"),
        (
            b'{"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "q", '
            b'"cache_control": {"type": "ephemeral", "ttl": "2h"}}]}]}',
            "ttl",
        ),
        (
            b'{"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "", '
            b'"cache_control": {"type": "ephemeral"}}]}]}',
            "empty text",
        ),
        (b'{"model": "m", "system": 3, "messages": [{"role": "user", "content": "q"}]}', "system"),
        (b'{"model": "m", "tools": [3], "messages": [{"role": "user", "content": "q"}]}', "tools.0"),
    ],
)
def test_what_the_api_would_reject_is_rejected_with_the_place(body: bytes, complaint: str) -> None:
    with pytest.raises(BadRequest, match=complaint.replace(".", r"\.")):
        read_request(body, Meter(PieceCounter()))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
_KEYS = st.sampled_from(
    ["type", "text", "content", "input", "id", "name", "source", "data", "cache_control", "signature"]
)
_BLOCKS = st.dictionaries(
    _KEYS, json_values | st.sampled_from(["text", "tool_use", "tool_result", "thinking", "image"])
)


@given(
    json_values | st.lists(st.fixed_dictionaries({"role": st.just("user"), "content": st.lists(_BLOCKS, max_size=3)}))
)
def test_whatever_is_sent_is_counted_or_rejected(messages: object) -> None:
    try:
        request = read(messages)
    except BadRequest:
        return
    assert [block.tokens for block in request.counted] == [block.tokens for block in request.blocks]
