"""tokenbench.toml: what is accepted, and how each fault names file, line, key and what would be right."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.errors import ConfigError, QuestionsError, TokenbenchError
from tokenbench.experiment.config import line_of, load, load_config
from tokenbench.rehearsal import demo

GOOD = """\
[experiment]
name = "click"
model = "claude-opus-5"
headline_arm = "hybrid"

[corpus]
kind = "folder"
path = "corpus"

[arms.native]
tools = ["Grep", "Read"]
prompt = "prompts/native.md"

[arms.hybrid]
tools = ["Grep", "Bash"]
prompt = "prompts/hybrid.md"
retrieval = true

[limits]
run_usd = 0.1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An experiment that loads."""
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "native.md").write_text("Answer from the tree.\n")
    (tmp_path / "prompts" / "hybrid.md").write_text("Use xq too.\n")
    (tmp_path / "questions.jsonl").write_text('{"id":"q01","class":"lookup","text":"Where?","truth":"There."}\n')
    (tmp_path / "tokenbench.toml").write_text(GOOD)
    return tmp_path


def refusal(folder: Path, text: str) -> ConfigError:
    (folder / "tokenbench.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(folder)
    return caught.value


def test_an_experiment_is_read_whole(folder: Path) -> None:
    loaded = load(folder)
    assert loaded.folder == folder
    assert loaded.prompts == {"native": "Answer from the tree.\n", "hybrid": "Use xq too.\n"}
    assert [question.id for question in loaded.questions] == ["q01"]
    assert loaded.config.arms["hybrid"].tools == ("Grep", "Bash")
    assert loaded.config.arms["hybrid"].folder == "corpus"
    assert str(loaded.config.limits.run_usd) == "0.1"
    assert loaded.config.experiment.repeats == 1


def test_the_shipped_rehearsal_loads() -> None:
    loaded = load(Path(demo.__file__).parent)
    assert set(loaded.prompts) == {"native", "retrieval", "hybrid"}
    assert len(loaded.questions) == 12


def test_a_byte_order_mark_and_crlf_do_no_harm(folder: Path) -> None:
    (folder / "tokenbench.toml").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    (folder / "prompts" / "native.md").write_bytes(b"\xef\xbb\xbfAnswer.\n")
    assert load(folder).prompts["native"] == "Answer.\n"


@pytest.mark.parametrize(
    "fault",
    [
        ('name = "click"', 'nmae = "click"', 2, "`experiment.nmae` is not a key", "Did you mean `name`?"),
        ("[limits]", "[limit]", 19, "`limit` is not a key", "Did you mean `limits`?"),
        ("retrieval = true", "retreival = true", 17, "`arms.hybrid.retreival`", "Did you mean `retrieval`?"),
        ("run_usd = 0.1", "run_tokens = 1", 20, "`limits.run_tokens`", "run_turns"),
        ('model = "claude-opus-5"', "", 1, "`experiment.model` is missing", "text in quotes"),
        ('model = "claude-opus-5"', 'model = " "', 3, "`experiment.model` is empty", "Write a name"),
        ('model = "claude-opus-5"', "model = 5", 3, "`experiment.model` is the number 5", "text in quotes"),
        ('name = "click"', 'name = "click"\nrepeats = "3"', 3, "is the text `3`", "a whole number"),
        ('name = "click"', 'name = "click"\nrepeats = true', 3, "`experiment.repeats` is true", "a whole number"),
        ('name = "click"', 'name = "click"\nrepeats = 2.5', 3, "is the number 2.5", "a whole number"),
        ('name = "click"', 'name = "click"\nrepeats = 0', 3, "`experiment.repeats` is 0", "1 or more"),
        ('name = "click"', 'name = "click"\nrepeats = 1000000000', 3, "is 1000000000", "1000 or less"),
        ('name = "click"', 'name = "click"\nconcurrency = 1000', 3, "`experiment.concurrency` is 1000", "256 or less"),
        ('name = "click"', 'name = "click"\nwarmups = 1001', 3, "`experiment.warmups` is 1001", "1000 or less"),
        ('name = "click"', 'name = "click"\nconcurrency = -1', 3, "`experiment.concurrency` is -1", "1 or more"),
        ('name = "click"', 'name = "click"\nwarmups = -1', 3, "`experiment.warmups` is -1", "0 or more"),
        ('name = "click"', 'name = "click"\nbaseline = "nativ"', 3, "no arm has that name", "native, hybrid"),
        (
            'headline_arm = "hybrid"',
            'headline_arm = "best"',
            4,
            "`experiment.headline_arm` is `best`",
            "native, hybrid",
        ),
        ("[arms.native]", "[arms.Native]", 10, "`arms.Native` cannot be the name", "a-z, 0-9"),
        ("[arms.native]", "[arms.my__arm]", 10, "`arms.my__arm` cannot be the name", "single underscores"),
        ("[arms.native]", '[arms."a/b"]', 10, "`arms.a/b` cannot be the name", "a-z, 0-9"),
        ('["Grep", "Read"]', '["Grep", "Grep"]', 11, "names Grep a second time", "Take one of the two out"),
        ('["Grep", "Read"]', '["Grep", 7]', 11, "`arms.native.tools[1]` is the number 7", "text in quotes"),
        ('["Grep", "Read"]', '"Grep"', 11, "`arms.native.tools` is the text", "a list"),
        ("retrieval = true", 'folder = "corpsu"', 17, "`arms.hybrid.folder` is `corpsu`", "Did you mean `corpus`?"),
        (
            "retrieval = true",
            'allowed = ["Bash"]\ndisallowed = ["Bash"]',
            18,
            "both allows and disallows Bash",
            "Decide",
        ),
        ('kind = "folder"', 'kind = "git"', 7, "`corpus.kind` is `git`", "Known are: folder, pypi"),
        ('path = "corpus"', "", 6, "`corpus.path` is missing", "add it"),
        ('path = "corpus"', 'path = "c"\npackage = "click==8.1.8"', 9, "does not belong", "Take it out"),
        ('kind = "folder"\npath = "corpus"', 'kind = "pypi"', 6, "`corpus.package` is missing", "add it"),
        (
            'kind = "folder"\npath = "corpus"',
            'kind = "pypi"\npackage = "click==8.1.8"',
            6,
            "`corpus.sha256` is missing",
            "add it",
        ),
        (
            'kind = "folder"\npath = "corpus"',
            'kind = "pypi"\npackage = "click --index-url x"\nsha256 = "00"',
            8,
            "`corpus.package` is `click --index-url x`",
            "click==8.1.8",
        ),
        ('path = "corpus"', 'path = "corpus"\nsha256 = "abc"', 9, "`corpus.sha256` is `abc`", "64 hexadecimal"),
        ("run_usd = 0.1", "run_usd = -0.1", 20, "`limits.run_usd` is -0.1", "above 0"),
        ("run_usd = 0.1", "run_wall_seconds = nan", 20, "`limits.run_wall_seconds` is no finite number", "Write"),
        ("run_usd = 0.1", "run_turns = 1.5", 20, "`limits.run_turns` is the number 1.5", "a whole number"),
        ("run_usd = 0.1", "[grading]\naudit_share = 1.5", 21, "`grading.audit_share` is 1.5", "from 0 to 1"),
        ("run_usd = 0.1", "[agents.cluade]", 20, "`agents.cluade` is `cluade`", "Did you mean `claude`?"),
        ('"prompts/native.md"', '"../native.md"', 12, "`arms.native.prompt` is `../native.md`", "below the experiment"),
        ('"prompts/native.md"', '"/etc/passwd"', 12, "`arms.native.prompt` is `/etc/passwd`", "below the experiment"),
    ],
)
def test_each_fault_names_the_line_the_key_and_what_would_be_right(
    folder: Path, fault: tuple[str, str, int, str, str]
) -> None:
    old, new, line, what, remedy = fault
    assert old in GOOD
    error = refusal(folder, GOOD.replace(old, new, 1))
    assert error.where == f"{folder / 'tokenbench.toml'}:{line}"
    assert what in error.what
    assert remedy in error.remedy


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("[experiment\nname = 1", 1, "is not TOML"),
        ("[experiment]\nname = 'a'\nname = 'b'\n", 3, "is not TOML"),
        ("a = " + "[" * 5000, None, "nested too deeply"),
        ("a = " + "9" * 5000, None, "cannot be read"),
    ],
)
def test_a_fault_of_the_syntax_names_its_line(folder: Path, text: str, line: int | None, what: str) -> None:
    error = refusal(folder, text)
    assert error.where == str(folder / "tokenbench.toml") + (f":{line}" if line else "")
    assert what in error.what


def test_what_is_no_utf8_names_its_line(folder: Path) -> None:
    (folder / "tokenbench.toml").write_bytes(GOOD.encode() + b"# \xff\n")
    with pytest.raises(ConfigError, match=r"tokenbench\.toml:21: is not UTF-8"):
        load(folder)


def test_a_folder_without_an_experiment_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no tokenbench\.toml here") as caught:
        load(tmp_path)
    assert "tokenbench-tui init DIR" in caught.value.remedy


def test_a_missing_prompt_says_whose_it_is_and_what_is_there(folder: Path) -> None:
    error = refusal(folder, GOOD.replace("prompts/native.md", "prompts/natve.md"))
    assert error.where == str(folder / "prompts/natve.md")
    assert "prompt of arm native does not exist" in error.what
    assert "Did you mean `prompts/native.md`?" in error.remedy


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"", "is empty"), (b" \n\t\n", "is empty"), (b"Answer \xff", "is not UTF-8"), (b"x" * 1_100_000, "is longer")],
)
def test_a_prompt_is_text_that_says_something(folder: Path, content: bytes, what: str) -> None:
    (folder / "prompts" / "native.md").write_bytes(content)
    with pytest.raises(ConfigError, match=what) as caught:
        load(folder)
    assert "prompts/native.md" in caught.value.where


def test_a_prompt_that_is_a_pipe_does_not_block(folder: Path) -> None:
    (folder / "prompts" / "native.md").unlink()
    os.mkfifo(folder / "prompts" / "native.md")
    with pytest.raises(ConfigError, match="is not a regular file"):
        load(folder)


def test_a_prompt_may_not_be_a_link_out_of_the_experiment(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "p.md"
    elsewhere.write_text("Answer.")
    (folder / "prompts" / "native.md").unlink()
    (folder / "prompts" / "native.md").symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="leads out of the experiment"):
        load(folder)


def test_missing_questions_are_a_fault_of_the_questions(folder: Path) -> None:
    (folder / "questions.jsonl").unlink()
    with pytest.raises(QuestionsError, match=r"questions\.jsonl: does not exist"):
        load(folder)


def test_hostile_keys_do_not_reach_the_terminal(folder: Path) -> None:
    error = refusal(folder, GOOD + '"\\u001b]0;owned\\u0007" = 1\n')
    assert "\x1b" not in str(error)
    assert "\x07" not in str(error)


def test_lines_are_found_by_table_and_key() -> None:
    text = 'a = """\n[b]\nc = 1\n"""\n[b]\n"c d" = 1\ne.f = 2\n'
    assert line_of(text, ("a",)) == 1
    assert line_of(text, ("b", "c d")) == 6
    assert line_of(text, ("b", "e", "f", 0)) == 7
    assert line_of(text, ("b", "missing")) == 5
    assert line_of(text, ("nothing",)) is None


def fault_of(path: Path) -> TokenbenchError | None:
    try:
        load_config(path)
    except TokenbenchError as error:
        return error
    return None


@given(st.text(max_size=300) | st.binary(max_size=300).map(lambda data: data.decode("latin-1")))
def test_any_text_gives_a_configuration_or_a_sentence(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("any") / "tokenbench.toml"
    path.write_text(GOOD.replace('"click"', text) if len(text) % 2 else text, encoding="utf-8", errors="surrogatepass")
    error = fault_of(path)
    assert error is None or (error.what and error.remedy)
