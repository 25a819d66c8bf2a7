"""Replies that broke off in mid-stream: wherever a sign of one is seen, no total is published."""

from typing import Any

import pytest
from streams import Script, api_usage, text, tool

from tokenbench.figures import Code
from tokenbench.ledger.model import Ledger

OPUS = "claude-opus-4-8"
FIRST, SECOND = (3, 0, 5_000, 0, 2), (4, 0, 100, 5_000, 2)
BOTH = (7, 0, 5_100, 5_000, 90)
LOST = {"subtype": "api_retry", "attempt": 1, "error_status": None, "error": "unknown"}
MID_RESPONSE = "API Error: Server error mid-response. The response above may be incomplete."


def begin(script: Script, message_id: str, usage: tuple[int, ...]) -> None:
    message: dict[str, Any] = {"id": message_id, "model": OPUS, "content": [], "usage": api_usage(usage)}
    script.row("stream_event", event={"type": "message_start", "message": message})


def finish(script: Script, output: int) -> None:
    script.row("stream_event", event={"type": "message_delta", "usage": {"output_tokens": output}})
    script.row("stream_event", event={"type": "message_stop"})


def run(*, partial: bool = False, before_second: list[dict[str, Any]] | None = None) -> Script:
    """Two calls that reconcile, with other rows between them."""
    script = Script()
    if partial:
        begin(script, "m1", FIRST)
    script.call("m1", FIRST, tool("t1"))
    if partial:
        finish(script, 40)
    script.result_of("t1")
    for row in before_second or []:
        script.row(**row)
    if partial:
        begin(script, "m2", SECOND)
    script.call("m2", SECOND, text("done"))
    if partial:
        finish(script, 50)
    script.end(BOTH, {OPUS: BOTH})
    return script


def refusal(found: Ledger) -> str:
    assert found.token_reconciled is False
    assert found.tokens is None
    assert found.refused(Code.CALLS_UNRECONCILED)
    return found.refusals[0].evidence[0]


@pytest.mark.parametrize("partial", [False, True])
def test_a_run_without_a_break_reconciles(partial: bool) -> None:
    assert run(partial=partial).ledger().token_reconciled is True


@pytest.mark.parametrize("partial", [False, True])
def test_a_retry_without_a_status_hides_what_the_connection_took_along(partial: bool) -> None:
    script = run(partial=partial, before_second=[{"kind": "system", **LOST}])
    assert "the connection broke" in refusal(script.ledger())


@pytest.mark.parametrize("partial", [False, True])
def test_a_retry_with_a_status_costs_nothing(partial: bool) -> None:
    overloaded = {**LOST, "error_status": 529, "error": "overloaded"}
    assert run(partial=partial, before_second=[{"kind": "system", **overloaded}]).ledger().token_reconciled is True


def test_a_reply_that_the_cli_calls_incomplete_is_named() -> None:
    message = {"id": "x", "model": "<synthetic>", "content": [text(MID_RESPONSE)], "stop_reason": "tool_use"}
    script = run(before_second=[{"kind": "assistant", "message": message}])
    assert MID_RESPONSE in refusal(script.ledger())


def test_a_reply_that_began_and_did_not_end_is_named_even_where_the_totals_agree() -> None:
    script = Script()
    begin(script, "m1", FIRST)
    script.call("m1", FIRST, tool("t1"))
    script.row("stream_event", event={"type": "message_stop"})
    script.result_of("t1")
    begin(script, "m2", SECOND)
    script.call("m2", SECOND, text("done"))
    finish(script, 88)
    script.end(BOTH, {OPUS: BOTH})
    assert refusal(script.ledger()) == "line 2: a reply began and did not come to its end"


def test_a_reply_that_came_whole_among_streamed_ones_shows_a_stream_that_broke_before_it() -> None:
    script = run(partial=True)
    script.rows = [row for row in script.rows if (row.get("event") or {}).get("message", {}).get("id") != "m2"]
    answer = next(row for row in script.rows if row["type"] == "assistant" and row["message"]["id"] == "m2")
    answer["message"]["stop_reason"] = "end_turn"
    assert "came in one piece" in refusal(script.ledger())


def test_without_partial_messages_a_whole_reply_explains_no_gap() -> None:
    """The totals hold one call more, and the reply that took its place was not streamed: nothing confirms the rest."""
    script = Script()
    script.call("m1", (3, 0, 5_000, 0, 40), tool("t1"), stop="tool_use")
    script.result_of("t1")
    script.call("m2", SECOND, text("done"))
    more = (10, 0, 10_100, 5_000, 91)
    script.end(more, {OPUS: more})
    assert script.ledger().token_reconciled is False


def test_a_repeated_row_says_nothing_new_and_the_order_does_not_matter() -> None:
    script = run(partial=True)
    script.rows = [*script.rows[:-1], *script.rows[:-1], script.rows[-1]]
    assert script.ledger().token_reconciled is True
