"""What the scripted model says, given a script and a conversation."""

import pytest

from tokenbench.rehearsal.playing import (
    ANY_CODE,
    Turn,
    Unfilled,
    Use,
    answer_part,
    fill,
    judge_text,
    play,
    play_default,
)
from tokenbench.rehearsal.request import Request, ToolOutcome
from tokenbench.rehearsal.scripts import Answer, CellScript, JudgeRule, JudgeScript, Step, Take, ToolCall


def conversation(*outcomes: ToolOutcome, opening: str = "Where is it?", tools: dict | None = None) -> Request:
    return Request(
        model="m",
        stream=True,
        thinking=True,
        tools=tools or {},
        counted=(),
        blocks=(),
        opening=opening,
        asked=max((outcome.step + 1 for outcome in outcomes), default=0),
        outcomes=outcomes,
    )


def grep(text: str, *, step: int = 0, index: int = 0, is_error: bool = False) -> ToolOutcome:
    return ToolOutcome(step, index, "Grep", text, is_error)


SCRIPT = CellScript(
    question="q1",
    steps=(
        Step(
            (ToolCall("Grep", {"pattern": "SIZE"}), ToolCall("Grep", {"pattern": "HALF"}, "half")), thinking="Search."
        ),
        Step((ToolCall("Read", {"file_path": "{corpus}/{path}", "offset": "{line:d}", "limit": 1}),)),
    ),
    take=(
        Take("Grep", r"(?P<path>\S+):(?P<line>\d+): SIZE"),
        Take("half", r"HALF = (?P<half>\d+)"),
    ),
    answer=Answer("{half} at {path}:{line}, {{literally}}", fallback="I could not see it."),
)
FOUND = (grep("src/a.py:12: SIZE = 256"), grep("HALF = 128", index=1))


def test_steps_follow_each_other_and_the_answer_comes_last() -> None:
    read = ToolOutcome(1, 0, "Read", "12\tSIZE = 256", False)

    assert play(SCRIPT, conversation(), "/corpus").thinking == "Search."
    assert play(SCRIPT, conversation(*FOUND), "/corpus").uses == (
        Use("Read", {"file_path": "/corpus/src/a.py", "offset": 12, "limit": 1}),
    )
    last = play(SCRIPT, conversation(*FOUND, read), "/corpus")
    assert last == Turn(2, "128 at src/a.py:12, {literally}")


def test_a_label_means_one_call_alone() -> None:
    turned = (grep("HALF = 1"), grep("HALF = 128 src/a.py:12: SIZE", index=1))
    read = ToolOutcome(1, 0, "Read", "", False)
    assert play(SCRIPT, conversation(*turned, read), "/corpus").text.startswith("128 at")


@pytest.mark.parametrize(
    "outcomes",
    [
        (grep("No files found"), grep("HALF = 128", index=1)),
        (grep("src/a.py:12: SIZE = 256", is_error=True), grep("HALF = 128", index=1)),
    ],
)
def test_where_a_tool_failed_the_script_ends_with_its_fallback(outcomes: tuple[ToolOutcome, ...]) -> None:
    turn = play(SCRIPT, conversation(*outcomes), "/corpus")
    assert (turn.text, turn.uses, turn.fell_back) == ("I could not see it.", (), True)


def test_a_missing_value_of_the_answer_alone_gives_the_fallback_too() -> None:
    read = ToolOutcome(1, 0, "Read", "", False)
    turn = play(SCRIPT, conversation(grep("src/a.py:12: SIZE"), grep("nothing", index=1), read), "/corpus")
    assert (turn.text, turn.fell_back) == ("I could not see it.", True)


def test_placeholders_are_filled_at_any_depth_and_numbers_become_numbers() -> None:
    value = {"a": ["{x}", {"b": "{n:d}"}], "c": "line {n:d}", "d": 4}
    assert fill(value, {"x": "y", "n": "12"}) == {"a": ["y", {"b": 12}], "c": "line 12", "d": 4}
    with pytest.raises(Unfilled):
        fill("{x:d}", {"x": "y"})


def test_a_value_with_braces_is_not_filled_again() -> None:
    assert fill("{x}", {"x": "{corpus}", "corpus": "/c"}) == "{corpus}"


SCHEMA = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "k": {"type": "integer"}, "mode": {"enum": ["fast"]}},
    "required": ["query", "k", "mode"],
}


def test_without_a_script_every_tool_is_called_once_with_a_harmless_input() -> None:
    tools = ("Grep", "Glob", "Read", "Bash", "Write", "mcp__docs__search")
    first = play_default(tools, conversation(tools={"mcp__docs__search": SCHEMA}), "/corpus")
    assert {use.name: use.input for use in first.uses} == {
        "Grep": {"pattern": ".", "head_limit": 1},
        "Glob": {"pattern": "*"},
        "Bash": {"command": "ls", "description": "Rehearsal"},
        "mcp__docs__search": {"query": "rehearsal", "k": 1, "mode": "fast"},
    }
    second = play_default(tools, conversation(grep("Found 1 file\nsrc/a.py")), "/corpus")
    assert second.uses == (Use("Read", {"file_path": "/corpus/src/a.py", "limit": 1}),)
    read = ToolOutcome(1, 0, "Read", "1\tx", False)
    assert play_default(tools, conversation(grep("src/a.py"), read), "/corpus").text == "rehearsal"


def test_without_a_script_bash_calls_the_search_command_that_the_prompt_speaks_of() -> None:
    turn = play_default(("Bash",), conversation(opening='Ask the index: xq "words"'), "/empty")
    assert turn.uses[0].input["command"] == f'xq "{ANY_CODE}"'


def test_an_arm_without_tools_answers_at_once() -> None:
    assert play_default((), conversation(), "/empty") == Turn(0, "rehearsal")


JUDGE = JudgeScript("q1", (JudgeRule("(?i)not 128", "wrong"), JudgeRule("128", "correct")), otherwise="abstained")


@pytest.mark.parametrize(
    ("answer", "last_line"),
    [
        ("It is 128.", '{"verdict": "correct"}'),
        ("It is NOT 128.", '{"verdict": "wrong"}'),
        ("NOT FOUND", '{"verdict": "abstained"}'),
    ],
)
def test_the_first_rule_that_fits_the_answer_decides(answer: str, last_line: str) -> None:
    prompt = f"The truth is 128. Judge:\n<answer>\n{answer}\n</answer>\nEnd with JSON."
    assert judge_text(JUDGE, prompt).splitlines()[-1] == last_line


def test_a_judge_without_a_rule_gives_no_verdict() -> None:
    assert "verdict" not in judge_text(None, "<answer>128</answer>")
    assert "verdict" not in judge_text(JudgeScript("q1", (JudgeRule("x", "wrong"),)), "<answer>128</answer>")


def test_an_answer_cannot_end_its_own_part_of_the_prompt() -> None:
    assert answer_part("a <answer>x</answer> y</answer> b") == "x</answer> y"
    assert answer_part("no marks") == "no marks"
