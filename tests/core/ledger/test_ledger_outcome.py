"""How a run ended and what it answered."""

from typing import Any

import pytest
from streams import Script, text, tool

from tokenbench.ledger.model import Ledger

OPUS = "claude-opus-4-8"
ONE = (3, 0, 5_000, 0, 20)


def ended(answer: str | None = "256", **fields: Any) -> Ledger:
    script = Script()
    script.call("m1", (3, 0, 5_000, 0, 2), *([text(answer)] if answer else []))
    script.end(ONE, {OPUS: ONE}, fields.pop("printed", answer), **fields)
    return script.ledger()


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({}, "answered"),
        ({"subtype": "error_max_turns", "is_error": True, "printed": None}, "max_turns"),
        ({"subtype": "error_max_budget_usd", "is_error": True, "printed": None}, "max_budget"),
        ({"is_error": True, "api_error_status": 529, "printed": "API Error: 529"}, "infrastructure"),
        ({"is_error": True, "api_error_status": 401, "printed": "Invalid API key"}, "infrastructure"),
        ({"api_error_status": 500, "printed": "API Error: 500"}, "infrastructure"),
        ({"subtype": "error_during_execution", "is_error": True, "printed": None}, "infrastructure"),
        ({"is_error": True, "stop_reason": "refusal", "printed": "API Error: refused"}, "answered"),
        ({"is_error": True, "api_error_status": 413, "printed": "Request too large"}, "answered"),
        ({"is_error": True, "api_error_status": 400, "printed": "Prompt is too long"}, "answered"),
        ({"is_error": True, "printed": "API Error: the response exceeded the 32000 output token maximum"}, "answered"),
        ({"subtype": "error_max_structured_output_retries", "is_error": True, "printed": None}, "answered"),
    ],
)
def test_the_error_and_the_api_s_status_outrank_the_subtype(fields: dict[str, Any], outcome: str) -> None:
    found = ended(**fields)
    assert found.outcome == outcome
    assert found.answer == ("256" if not fields else None)


@pytest.mark.parametrize(
    "sentence", ["API Error: 529 Overloaded", "Invalid API key · Please run /login", "Not logged in"]
)
def test_an_error_sentence_is_never_an_answer(sentence: str) -> None:
    script = Script()
    script.end((0, 0, 0, 0, 0), {}, sentence)
    found = script.ledger()
    assert (found.outcome, found.answer) == ("infrastructure", None)


def test_the_cli_s_own_error_row_at_the_end_makes_a_success_a_failure() -> None:
    script = Script()
    message = {"id": "x", "model": "<synthetic>", "content": [text("API Error: 500")], "usage": {}}
    script.row("assistant", message=message, error="server_error")
    script.end((0, 0, 0, 0, 0), {}, "API Error: 500")
    assert script.ledger().outcome == "infrastructure"


def test_what_was_said_before_a_tool_is_no_answer() -> None:
    script = Script()
    script.call("m1", ONE, text("Let me look."), tool("t1"))
    script.result_of("t1")
    script.end(ONE, {OPUS: ONE}, "", num_turns=2)
    found = script.ledger()
    assert (found.outcome, found.answer) == ("answered", None)


@pytest.mark.parametrize(
    ("printed", "note"),
    [
        ("Part one. Part two.", None),
        ("Part one. ", "RESULT-TEXT-SHORTER-THAN-STREAM"),
        ("", "RESULT-TEXT-SHORTER-THAN-STREAM"),
        ("Something else", "RESULT-TEXT-DIFFERS"),
    ],
)
def test_the_stream_outranks_the_text_of_the_result(printed: str, note: str | None) -> None:
    script = Script()
    script.call("m1", ONE, text("Part one. "))
    script.call("m1", ONE, text("Part two."))
    script.end(ONE, {OPUS: ONE}, printed)
    found = script.ledger()
    assert found.answer == "Part one. Part two."
    assert [code for code in found.notes if code.startswith("RESULT-TEXT")] == ([note] if note else [])


def test_a_row_that_is_repeated_does_not_repeat_the_answer() -> None:
    script = Script()
    row = script.call("m1", ONE, text("256"))
    script.rows.append(row)
    script.end(ONE, {OPUS: ONE}, "256")
    assert script.ledger().answer == "256"


def test_a_result_row_that_is_repeated_after_the_answer_does_not_erase_it() -> None:
    script = Script()
    script.call("m1", (1, 0, 0, 0, 1), tool("t1"))
    row = script.result_of("t1")
    script.call("m2", (2, 0, 0, 0, 1), text("256"))
    script.rows.append(row)
    script.end((3, 0, 0, 0, 9), {OPUS: (3, 0, 0, 0, 9)}, "256")
    found = script.ledger()
    assert (found.answer, "ANSWER-FROM-RESULT" in found.notes) == ("256", False)


def test_two_results_in_a_row_each_have_their_own_answer() -> None:
    script = Script()
    script.call("m1", (1, 0, 0, 0, 1), text("waiting"))
    script.call("m2", (2, 0, 0, 0, 1), text("256"))
    script.end((1, 0, 0, 0, 3), {OPUS: (3, 0, 0, 0, 9)}, "waiting")
    script.end((2, 0, 0, 0, 6), {OPUS: (3, 0, 0, 0, 9)}, "256", num_turns=1)
    assert script.ledger().answer == "256"


def test_an_earlier_answer_is_not_that_of_a_later_turn_that_said_nothing() -> None:
    script = Script()
    script.call("m1", ONE, text("started"))
    script.end(ONE, {OPUS: ONE}, "started")
    script.end((0, 0, 0, 0, 0), {OPUS: ONE}, "", num_turns=1)
    assert script.ledger().answer is None


def test_a_message_that_was_withdrawn_is_no_answer() -> None:
    script = Script()
    script.call("m1", (1, 0, 0, 0, 1), text("I can"))
    script.call("m2", (2, 0, 0, 0, 1), text("256"), supersedes=["row-2"])
    script.end((3, 0, 0, 0, 9), {OPUS: (3, 0, 0, 0, 9)}, "256")
    assert script.ledger().answer == "256"


def test_a_structured_answer_is_the_answer() -> None:
    script = Script()
    script.call("m1", ONE, tool("t1", "StructuredOutput"))
    script.result_of("t1")
    script.end(ONE, {OPUS: ONE}, '{"n":256}', num_turns=2, structured_output={"n": 256})
    assert script.ledger().answer == '{"n": 256}'
