"""Words that give an arm away are masked, and the mask is seen; the words of the question stay."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.grading.masking import MARK, mask, normalised

_CASE = Path(__file__).parents[2] / "data" / "cases" / "51-judge-key-leak.jsonl"


@pytest.mark.parametrize("row", [json.loads(line) for line in _CASE.read_text().splitlines()])
def test_case_51_an_answer_that_names_a_tool_is_masked_and_counted(row: dict[str, object]) -> None:
    masked = mask(str(row["answer"]))
    leaks = [leak for leak in row["leak"] if str(leak).startswith("answer:")]  # pyright: ignore
    assert (masked.count > 0) == bool(leaks)
    assert (MARK in masked.text) == bool(leaks)
    for word in ("xq", "Grep", "Read"):
        assert word not in masked.text


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        ("xq says 256", f"{MARK} says 256"),
        ("I ran `grep -rn BLOCK` and 256 came", f"I ran `{MARK} -rn BLOCK` and 256 came"),
        ("Allowed was Bash(xq:*)", f"Allowed was {MARK}"),
        ("The first hit says 256", f"The {MARK} says 256"),
        ("According to the index it is 256", f"According to {MARK} it is 256"),
        ("The search results agree", f"The {MARK} agree"),
        ("grep shows 256", f"{MARK} shows 256"),
        ("I grepped for it", f"I {MARK} for it"),
        ("Read tool output: 256", f"{MARK} {MARK}: 256"),
    ],
)
def test_words_of_an_arm_are_masked(answer: str, seen: str) -> None:
    assert mask(answer).text == seen


@pytest.mark.parametrize(
    "answer",
    [
        "256 (src/click/types.py:603)",
        "I read it in shell_completion.py:17; BashComplete and _bash.py exist",
        "`grep.py` holds the class Grepper",
        "Readers should already know",
    ],
)
def test_words_that_only_look_like_it_stay(answer: str) -> None:
    assert mask(answer) == mask(mask(answer).text)
    assert mask(answer).count == 0


def test_the_folder_of_the_run_goes_and_the_file_name_stays_for_the_judge() -> None:
    masked = mask("See /home/agent/corpus/src/block.py:7 and src/block.py", folders=["/home/agent/corpus"])
    assert masked.text == f"See {MARK}/src/block.py:7 and src/block.py"
    assert masked.count == 1
    assert mask("in `/tmp/claude-0/x/block.py:7`").text == f"in `{MARK}/block.py:7`"
    assert mask("in ~/.cache/tokenbench/ab12/src/a.py").text == f"in {MARK}/a.py"


def test_what_the_question_is_about_stays_unless_it_was_used() -> None:
    subject = "Which shells complete: Bash, Fish or Zsh? The index writer commits the index."
    assert mask("Bash, Fish and Zsh; the index is committed.", subject=subject).count == 0
    assert mask("I used Bash to find out.", subject=subject).text == f"I used {MARK} to find out."
    assert mask("~/.cache/my-app/x", subject="It returns ~/.cache/my-app/ here").count == 0


def test_controls_are_shown_and_never_reach_a_judges_terminal() -> None:
    assert "\x1b" not in mask("\x1b]0;title\x07 256\x08\x08\x08128").text


@given(st.text(max_size=300), st.text(max_size=60))
def test_masking_never_fails_and_leaves_nothing_more_to_mask(answer: str, subject: str) -> None:
    once = mask(answer, subject=subject)
    assert mask(once.text, subject=subject).count == 0
    assert once.text.count(MARK) >= once.count or MARK in answer


def test_two_answers_are_one_if_only_white_space_differs() -> None:
    assert normalised(" 256\n\n (a.py) ") == normalised("256 (a.py)")
