"""The seal: what breaks it, what does not, and how it says so."""

from pathlib import Path

import msgspec
import pytest

from tokenbench.errors import RunsError
from tokenbench.experiment import seal
from tokenbench.experiment.config import load
from tokenbench.experiment.model import Loaded
from tokenbench.experiment.plan import plan_cells

CONFIG = """\
[experiment]
name = "click"
model = "claude-opus-5"
headline_arm = "native"
concurrency = 1
repeats = 2

[corpus]
kind = "folder"
path = "corpus"

[arms.native]
tools = ["Grep", "Read"]
prompt = "prompts/native.md"

[arms.bare]
tools = []
prompt = "prompts/bare.md"

[limits]
run_wall_seconds = 60
experiment_usd = 1.0
"""
QUESTIONS = (
    '{"id":"q01","class":"lookup","text":"Where?","truth":"There."}\n'
    '{"id":"q02","class":"canary","text":"What?","truth":"Nothing."}\n'
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "native.md").write_text("Answer from the tree.\n")
    (tmp_path / "prompts" / "bare.md").write_text("Answer from memory.\n")
    (tmp_path / "questions.jsonl").write_text(QUESTIONS)
    (tmp_path / "tokenbench.toml").write_text(CONFIG)
    return tmp_path


def sealed(loaded: Loaded) -> seal.Seal:
    return seal.seal_of(
        loaded,
        scripted=False,
        corpus_sha256="c" * 64,
        index_sha256="1" * 64,
        template_sha256="2" * 64,
        agents={"claude": "2.1.332"},
        environment={"LANG": "C.UTF-8"},
        plan=plan_cells(loaded.config, loaded.questions),
    )


def changed(folder: Path, file: str, old: str, new: str) -> tuple[str, ...]:
    """The differences after one edit of one file."""
    before = sealed(load(folder))
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))
    return seal.differences(before, seal.as_it_lies(before, load(folder)))


def test_a_seal_is_read_as_it_was_written(folder: Path) -> None:
    made = sealed(load(folder))
    seal.write(folder / "seal.json", made)
    assert seal.read(folder / "seal.json") == made
    assert seal.differences(made, seal.read(folder / "seal.json")) == ()
    assert len(made.plan) == 8
    assert made.files["questions.jsonl"] == seal.digest(folder / "questions.jsonl")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("concurrency = 1", "concurrency = 4"),
        ("experiment_usd = 1.0", "experiment_usd = 9.0\nexperiment_tokens = 5"),
        ("experiment_usd = 1.0", "attempts = 9"),
        ('path = "corpus"', 'path = "elsewhere"'),
        ("[limits]", '[agents.claude]\npath = "/opt/claude"\n[limits]'),
        ('name = "click"', '# a comment\nname = "click"\nseed = 0'),
        ("run_wall_seconds = 60", "run_wall_seconds = 60.0"),
    ],
)
def test_what_decides_nothing_that_is_measured_may_change(folder: Path, old: str, new: str) -> None:
    assert changed(folder, "tokenbench.toml", old, new) == ()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("repeats = 2", "repeats = 3", "tokenbench.toml: `experiment.repeats` was 2 and is now 3"),
        ("repeats = 2", "repeats = 2\nseed = 5", "tokenbench.toml: `experiment.seed` was 0 and is now 5"),
        (
            "run_wall_seconds = 60",
            "run_wall_seconds = 90",
            "tokenbench.toml: `limits.run_wall_seconds` was 60.0 and is now 90.0",
        ),
        (
            'tools = ["Grep", "Read"]',
            'tools = ["Grep"]',
            'tokenbench.toml: `arms.native.tools` was ["Grep","Read"] and is now ["Grep"]',
        ),
        (
            'headline_arm = "native"',
            'headline_arm = "bare"',
            'tokenbench.toml: `experiment.headline_arm` was "native" and is now "bare"',
        ),
        (
            "[limits]",
            "[grading]\naudit_share = 0\n[limits]",
            "tokenbench.toml: `grading.audit_share` was 0.2 and is now 0.0",
        ),
    ],
)
def test_a_changed_setting_is_named_with_both_values(folder: Path, old: str, new: str, sentence: str) -> None:
    assert changed(folder, "tokenbench.toml", old, new) == (sentence,)


def test_a_changed_model_is_named(folder: Path) -> None:
    found = changed(folder, "tokenbench.toml", "claude-opus-5", "claude-haiku-5-5")
    assert found[0] == "the model was claude-opus-5 and is now claude-haiku-5-5"


def test_a_question_that_changed_came_or_went_is_named(folder: Path) -> None:
    first, second = QUESTIONS.splitlines(keepends=True)
    assert changed(folder, "questions.jsonl", "There.", "Here.") == ("questions.jsonl: the question q01 has changed",)
    assert changed(folder, "questions.jsonl", second, "") == ("questions.jsonl: the question q02 was taken away",)
    added = '{"id":"q03","class":"lookup","text":"?","truth":"!"}\n'
    found = changed(folder, "questions.jsonl", first.replace("There", "Here"), first.replace("There", "Here") + added)
    assert found == ("questions.jsonl: the question q03 was added",)


def test_questions_in_another_order_are_another_plan(folder: Path) -> None:
    first, second = QUESTIONS.splitlines(keepends=True)
    found = changed(folder, "questions.jsonl", QUESTIONS, second + first)
    assert found == ("questions.jsonl: the questions stand in another order",)


def test_spaces_and_key_order_of_a_question_mean_nothing(folder: Path) -> None:
    assert changed(folder, "questions.jsonl", '{"id":"q01","class":"lookup"', '{ "class": "lookup", "id": "q01"') == ()


def test_a_changed_prompt_is_named_by_its_arm(folder: Path) -> None:
    assert changed(folder, "prompts/bare.md", "memory", "the tree") == ("the prompt of arm bare has changed",)


@pytest.mark.parametrize(
    ("change", "start"),
    [
        ({"scripted": True}, "the runs are sealed with a real model, and this is a scripted model"),
        ({"corpus_sha256": "d" * 64}, "the corpus has changed: sha256 ccccccccccc… was sealed, and now it is ddd"),
        ({"index_sha256": None}, "the retrieval index was taken away"),
        ({"template_sha256": "3" * 64}, "the query template of `xq` has changed"),
        ({"calibration_sha256": "4" * 64}, "calibration.json was added"),
        ({"agents": {"claude": "2.2.0"}}, "the version of the agent claude was 2.1.332 and is now 2.2.0"),
        ({"environment": {}}, "the agent's environment variable LANG was C.UTF-8 and is gone"),
        ({"environment": {"LANG": "C.UTF-8", "X": "\x1b[2J"}}, "the agent's environment variable X was not there"),
        ({"plan": ("native__q01__r1",)}, "the plan of cells is another"),
    ],
)
def test_whatever_else_changes_breaks_it(folder: Path, change: dict[str, object], start: str) -> None:
    made = sealed(load(folder))
    (sentence,) = seal.differences(made, msgspec.structs.replace(made, **change))
    assert sentence.startswith(start)
    assert "\x1b" not in sentence


CLOSED = seal.Confined(confined=True, tool="bubblewrap 0.8.0", argv=("bwrap", "--unshare-all"))
OPEN = seal.Confined(confined=False, reason="bwrap is not on PATH")


@pytest.mark.parametrize(
    ("before", "now", "sentence"),
    [
        (
            CLOSED,
            OPEN,
            "the agents were confined by bubblewrap 0.8.0 and are now not confined (bwrap is not on PATH)",
        ),
        (OPEN, CLOSED, "the agents were not confined (bwrap is not on PATH) and are now confined by bubblewrap 0.8.0"),
        (None, CLOSED, "the agents were started without a word on a sandbox and are now confined by bubblewrap 0.8.0"),
        (CLOSED, msgspec.structs.replace(CLOSED, argv=("bwrap",)), "the agents are confined in another way"),
    ],
)
def test_runs_with_and_without_a_sandbox_are_never_mixed(
    folder: Path, before: seal.Confined | None, now: seal.Confined, sentence: str
) -> None:
    made = sealed(load(folder))
    assert seal.differences(
        msgspec.structs.replace(made, sandbox=before), msgspec.structs.replace(made, sandbox=now)
    ) == (sentence,)


def test_a_later_bubblewrap_that_closes_the_same_room_may_take_its_place(folder: Path) -> None:
    made = sealed(load(folder))
    later = msgspec.structs.replace(CLOSED, tool="bubblewrap 0.11.0")
    assert (
        seal.differences(msgspec.structs.replace(made, sandbox=CLOSED), msgspec.structs.replace(made, sandbox=later))
        == ()
    )
    other = msgspec.structs.replace(OPEN, reason="bwrap failed")
    assert (
        seal.differences(msgspec.structs.replace(made, sandbox=OPEN), msgspec.structs.replace(made, sandbox=other))
        == ()
    )


def test_a_seal_is_not_overwritten_by_another(folder: Path) -> None:
    made = sealed(load(folder))
    path = folder / "seal.json"
    seal.write(path, made)
    seal.write(path, made)
    other = msgspec.structs.replace(made, model="another")
    with pytest.raises(RunsError, match="seals something else already: the model was"):
        seal.write(path, other)
    assert seal.read(path) == made
    seal.write(path, other, replace=True)
    assert seal.read(path) == other


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is not a seal"),
        (b"\0" * 100, "is not a seal"),
        (b'{"format": 1}', "is not a seal"),
        (b'{"format": 99}', "has format 99, and this version knows 1"),
        (b"[" * 100_000, "is not a seal"),
    ],
)
def test_a_damaged_seal_is_said_and_never_taken(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "seal.json"
    path.write_bytes(content)
    with pytest.raises(RunsError, match=what) as caught:
        seal.read(path)
    assert caught.value.where == str(path)


def test_no_seal_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RunsError, match="there is no seal"):
        seal.read(tmp_path / "seal.json")


def test_a_server_that_says_something_else_breaks_it_and_one_that_said_nothing_does_not(folder: Path) -> None:
    made = msgspec.structs.replace(sealed(load(folder)), servers={"mcp.code": "5" * 64})
    other = msgspec.structs.replace(made, servers={"mcp.code": "6" * 64, "mcp.late": "7" * 64})
    (sentence,) = seal.differences(made, other)
    assert sentence == "the MCP server mcp.code offers other tools or instructions than were sealed"
    assert seal.differences(made, msgspec.structs.replace(made, servers={})) == ()
