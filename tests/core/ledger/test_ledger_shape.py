"""The public JSON and the plain text of a ledger."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from streams import DATA, Script, ledger, read, text

from tokenbench.ledger import plain, shape
from tokenbench.ledger.notes import NOTES
from tokenbench.text import visible

KEYS = [
    "transcript",
    "agent",
    "agent_version",
    "model",
    "outcome",
    "token_reconciled",
    "cost_reconciled",
    "refusals",
    "notes",
    "calls",
    "abandoned_calls",
    "tokens",
    "lower_bound",
    "main",
    "models",
    "remainder",
    "cost_usd",
    "tools",
    "answer",
]
ONE = (3, 0, 5_000, 0, 20)


def answered(words: str) -> Script:
    script = Script()
    script.call("m1", ONE, text(words))
    script.end(ONE, {"claude-opus-4-8": ONE}, words)
    return script


def test_the_json_has_the_shape_of_the_design_and_more() -> None:
    found = json.loads(shape.line(ledger(read(DATA / "streams/claude/subagent.jsonl"))))
    assert list(found)[: len(KEYS)] == KEYS
    assert list(found["tokens"]) == [
        "input",
        "cache_write_5m",
        "cache_write_1h",
        "cache_read",
        "output",
        "billed_input",
    ]
    assert list(found["cost_usd"]) == ["reported", "own", "recomputed", "cache_neutral", "fees", "cold", "warm"]
    assert list(found["models"]["claude-opus-4-8"]) == ["role", "tokens", "cost_usd"]
    assert list(found["tools"][0])[:5] == ["name", "uses", "errors", "denied", "result_characters"]
    assert list(found["refusals"][0]) == ["code", "reason", "evidence", "remedy"]


def test_money_is_a_decimal_string_and_what_is_unknown_is_null() -> None:
    found = json.loads(shape.line(ledger(read(DATA / "streams/claude/normal3.jsonl"))))
    assert (found["cost_usd"]["reported"], found["cost_usd"]["recomputed"]) == ("0.17936000000000002", None)
    killed = json.loads(shape.line(ledger(read(DATA / "streams/claude/sigint_api.jsonl"))))
    assert (killed["tokens"], killed["main"], killed["cost_usd"]["reported"]) == (None, None, None)
    assert (killed["lower_bound"]["input"], killed["lower_bound"]["output"]) == (3, None)


@given(st.text(max_size=40))
def test_no_text_reaches_a_terminal_raw_and_the_json_reads_back_the_same(words: str) -> None:
    found = ledger(answered(words or "x").bytes())
    line = shape.line(found)
    assert line.isascii() or visible(line.decode()) == line.decode()
    assert json.loads(line)["answer"] == found.answer
    assert line.count(b"\n") == 0
    printed = plain.text(found)
    assert visible(printed) == printed


def test_the_text_puts_refusals_and_their_remedy_before_the_equations() -> None:
    lines = plain.text(ledger(read(DATA / "streams/claude/cut_text.jsonl"))).splitlines()
    refusal = next(n for n, line in enumerate(lines) if "CALLS-UNRECONCILED" in line)
    assert "run the cell again" in "\n".join(lines[refusal : refusal + 4])
    equation = next(n for n, line in enumerate(lines) if line == "  ≠ main loop")
    assert refusal < equation
    assert "input 7" in lines[equation + 1]
    assert "input 3" in lines[equation + 2]


def test_every_note_has_its_sentence() -> None:
    for path in sorted(DATA.glob("streams/claude*/*.jsonl")):
        if ".calls." not in path.name:
            assert set(ledger(path.read_bytes()).notes) <= set(NOTES)
    assert all(code == code.upper() and sentence and not sentence.endswith(".") for code, sentence in NOTES.items())


def test_a_long_answer_is_cut_in_the_text_and_whole_in_the_json() -> None:
    found = answered("y" * 5_000).ledger()
    assert "3,000 characters more" in plain.text(found)
    assert msgspec.json.decode(shape.line(found))["answer"] == "y" * 5_000
