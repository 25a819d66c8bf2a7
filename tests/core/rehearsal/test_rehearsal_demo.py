"""The shipped rehearsal as data: its arms, prompts and scripts hold together."""

import hashlib
import re
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from tokenbench.errors import RehearsalError
from tokenbench.experiment.config import load
from tokenbench.experiment.model import Loaded
from tokenbench.experiment.plan import plan_cells
from tokenbench.rehearsal import demo
from tokenbench.rehearsal.playing import judge_text
from tokenbench.rehearsal.scripts import ScriptBook, load_scripts, placeholders, scripts_for, strangers

ARCHIVE = Path(__file__).parents[2] / "data" / "demo" / "click-8.1.8.tar.gz"


@pytest.fixture(scope="module")
def folder() -> Path:
    with as_file(files(demo)) as path:
        return path


@pytest.fixture(scope="module")
def loaded(folder: Path) -> Loaded:
    return load(folder)


@pytest.fixture(scope="module")
def book(folder: Path) -> ScriptBook:
    return load_scripts(folder / demo.SCRIPTS)


def test_every_cell_has_a_script_and_every_script_a_cell(loaded: Loaded, book: ScriptBook) -> None:
    used = {
        script.where
        for cell in plan_cells(loaded.config, loaded.questions)
        if (script := book.cell(cell.arm, cell.question, cell.repeat))
    }
    assert len(plan_cells(loaded.config, loaded.questions)) == 72
    assert used == {script.where for script in book.cells}
    for cell in plan_cells(loaded.config, loaded.questions):
        assert book.cell(cell.arm, cell.question, cell.repeat), cell.name


def test_no_script_is_a_stranger(loaded: Loaded, book: ScriptBook) -> None:
    assert strangers(book, loaded) == ()


def test_scripts_that_can_never_play_are_told(loaded: Loaded, tmp_path: Path) -> None:
    path = tmp_path / "scripts.jsonl"
    path.write_text(
        '{"question": "d01", "answer": "a"}\n'
        '{"question": "d01_exit_status", "arm": ["nativ", "hybrid"], "answer": "a"}\n'
        '{"question": "d01_exit_status", "repeat": 3, "answer": "a"}\n'
        '{"kind": "warmup", "arm": "bare", "answer": "a"}\n'
        '{"kind": "judge", "question": "d02", "rules": []}\n'
    )
    told = strangers(load_scripts(path), loaded)
    assert [re.sub(r".*jsonl:", "", sentence) for sentence in told] == [
        "1: the experiment has no question `d01`",
        "5: the experiment has no question `d02`",
        "2: the experiment has no arm `nativ`",
        "4: the experiment has no arm `bare`",
        "3: there is no repeat 3; the experiment has 2",
    ]
    with pytest.raises(RehearsalError, match=r"scripts\.jsonl:\d+: the experiment has no .* \(and \d+ more like it\)"):
        scripts_for(path, loaded)


def test_a_script_calls_the_tools_of_its_arm(loaded: Loaded, book: ScriptBook) -> None:
    for script in book.cells:
        called = {call.name for step in script.steps for call in step.tools}
        for arm in script.arms:
            assert called <= set(loaded.config.arms[arm].tools), script.where


def test_one_tool_that_is_not_allowed_is_tried_once(loaded: Loaded, book: ScriptBook) -> None:
    commands = [
        str(call.input["command"])
        for cell in plan_cells(loaded.config, loaded.questions)
        if (script := book.cell(cell.arm, cell.question, cell.repeat))
        for step in script.steps
        for call in step.tools
        if call.name == "Bash"
    ]
    assert [command.split()[0] for command in commands if not command.startswith("xq ")] == ["python3"]


def test_answers_that_hold_what_tools_returned_take_it_from_them(book: ScriptBook) -> None:
    """An answer that takes nothing is one that a model gives without looking: from memory, or an abstention."""
    for script in book.cells:
        if not set(placeholders(script.last.text)):
            assert script.last.text.startswith("NOT FOUND") or script.note, script.where


def test_people_have_few_answers_to_judge(book: ScriptBook) -> None:
    answers = {(script.question, script.last.text) for script in book.cells}
    assert len({answer for answer in answers if not answer[1].startswith("NOT FOUND")}) <= 20


def test_every_question_has_a_judge_that_never_calls_an_abstention_right(loaded: Loaded, book: ScriptBook) -> None:
    for question in loaded.questions:
        script = book.judge(question.id)
        assert script is not None
        assert judge_text(script, "NOT FOUND").endswith('{"verdict": "abstained"}')
        assert judge_text(script, "Something else altogether.").endswith('{"verdict": "wrong"}')


def test_the_corpus_is_pinned_to_the_published_archive(loaded: Loaded) -> None:
    assert loaded.config.corpus.package == "click==8.1.8"
    assert loaded.config.corpus.sha256 == hashlib.sha256(ARCHIVE.read_bytes()).hexdigest()


def test_arms_have_the_tools_they_are_described_by(loaded: Loaded) -> None:
    web = {"WebSearch", "WebFetch", "Task"}
    arms = loaded.config.arms
    assert {name: (set(arm.allowed), set(arm.disallowed), arm.folder, arm.retrieval) for name, arm in arms.items()} == {
        "native": ({"Grep", "Glob", "Read"}, {"Bash", *web}, "corpus", False),
        "retrieval": ({"Bash(xq:*)"}, {"Grep", "Glob", "Read", *web}, "empty", True),
        "hybrid": ({"Grep", "Glob", "Read", "Bash(xq:*)"}, web, "corpus", True),
    }


SHARED = (
    "Answer only from what you read in this session.",
    "This tree may differ from what you remember",
    "Cite `path:line` for every fact",
    "Be concise",
    "open your answer with NOT FOUND",
)


def test_all_arms_are_told_the_same_word_for_word(loaded: Loaded) -> None:
    lists = {prompt.split("\n\nThe tree is")[0] for prompt in loaded.prompts.values()}
    assert len(lists) == 1
    told = " ".join(lists.pop().split())
    for rule in SHARED:
        assert rule in told


def test_only_arms_that_have_the_index_hear_of_it(loaded: Loaded) -> None:
    assert "xq" not in loaded.prompts["native"]
    told = [loaded.prompts[arm].split("Search the index")[1].split("\n\n")[0] for arm in ("retrieval", "hybrid")]
    assert told[0].strip() == told[1].strip()
    assert "backward-compatibility" in told[0]
    assert "cheapest" in loaded.prompts["hybrid"]
    assert "cheapest" not in loaded.prompts["retrieval"]


def test_no_prompt_gives_an_answer_away(loaded: Loaded) -> None:
    paths = {part for q in loaded.questions for c in q.citations for part in (c.path, Path(c.path).name)}
    symbols = {
        name
        for question in loaded.questions
        for name in re.findall(r"\w+_\w+|\w+\.\w+|[A-Z]\w+[A-Z]\w+", question.truth)
        if len(name) > 4
    }
    words = {rule.word for question in loaded.questions for rule in question.must if isinstance(rule.word, str)}
    for prompt in loaded.prompts.values():
        for hint in paths | symbols | {word for word in words if len(word) > 4} | {"click"}:
            assert hint.lower() not in prompt.lower(), hint
