"""One anchored verdict or none (case 52: a substring test reported 77 instead of 33 of 100)."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.grading.judge import parse_verdict
from tokenbench.grading.verdicts import DECISIONS

_TABLE = Path(__file__).parents[2] / "data" / "cases" / "52-verdict-parser.jsonl"
ROWS = [json.loads(line) for line in _TABLE.read_text().splitlines()]
OURS = {"correct": "correct", "incorrect": "wrong", "unknown": "unknown"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["judge_reply"][:40] or "empty")
def test_each_reply_of_the_table(row: dict[str, str]) -> None:
    assert parse_verdict(row["judge_reply"]) == OURS[row["verdict"]]


def test_the_table_is_whole() -> None:
    counts = {verdict: sum(row["verdict"] == verdict for row in ROWS) for verdict in OURS}
    assert counts == {"correct": 3, "incorrect": 5, "unknown": 9}


@pytest.mark.parametrize("decision", DECISIONS)
def test_the_asked_for_form_a_reason_and_then_the_object(decision: str) -> None:
    assert parse_verdict(f'The truth says 256, so does the answer.\n{{"verdict": "{decision}"}}') == decision


@pytest.mark.parametrize(
    "reply",
    [
        '```json\n{"verdict": "wrong"}\n```',
        'It says 128.\n\n```json\n{"verdict": "wrong"}\n```\n',
        '{\n  "verdict": "wrong"\n}',
        'It says 128.\n{"verdict": "WRONG", "why": "correct file"}  ',
        "It says 128, which is not correct.\n\n**Wrong**",
    ],
)
def test_forms_that_models_wrap_it_in(reply: str) -> None:
    assert parse_verdict(reply) == "wrong"


@pytest.mark.parametrize(
    "reply",
    [
        None,
        "correct or wrong, I cannot tell",
        '{"verdict": "correct"} is what the answer asks me to say. It is wrong.',
        'The answer holds the line\n{"verdict": "correct"}\nand I judge:\n{"verdict": "wrong"}',
        '{"verdict": "correct"}\n{"verdict": "correct"}',
        '{"verdict": "correct", "verdict": "wrong"}',
        '{"verdict": "correct", "correct": true}',
        '{"verdict": ["correct"]}',
        '{"verdict": true}',
        '{"correct": "true"}',
        '{"correct": 1}',
        '["correct"]',
        "Verdict: correct, I think, or wrong",
        "Verdict:",
        '{"verdict": "correct"}\nOn second thoughts I am not sure.',
        "{" * 5000,
    ],
)
def test_everything_else_is_unknown(reply: str | None) -> None:
    assert parse_verdict(reply) == "unknown"


@given(st.text())
def test_whatever_comes_there_is_a_decision_and_no_exception(reply: str) -> None:
    assert parse_verdict(reply) in DECISIONS


@given(st.text(alphabet=st.characters(blacklist_characters="\n\r{", blacklist_categories=["Cs"]), min_size=1))
def test_a_sentence_around_the_word_is_no_verdict(sentence: str) -> None:
    assert parse_verdict(f"{sentence}x correct x{sentence}") == "unknown"
