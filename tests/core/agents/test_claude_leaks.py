"""What a run reached that its arm must not have is found in its transcript."""

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.agents.claude.leaks import find_leaks, only_retrieval
from tokenbench.agents.claude.stream import ClaudeReader
from tokenbench.experiment.model import Arm
from tokenbench.transcripts.events import Event, ToolResult, ToolUse
from tokenbench.transcripts.lines import read_lines

DATA = Path(__file__).parents[2] / "data" / "runner"
EMPTY = PurePosixPath("/w/empty")
RETRIEVAL = Arm(tools=("Bash",), prompt="p.md", folder="empty", retrieval=True)
HYBRID = Arm(tools=("Grep", "Read", "Bash"), prompt="p.md", retrieval=True)
READER = Arm(tools=("Read",), prompt="p.md", folder="empty")


@pytest.mark.parametrize(
    "command",
    [
        "xq a",
        "xq 'class Foo(Bar)' 5",
        'xq "a; b | c && d > e"',
        "xq a && xq b",
        "xq a; xq b",
        "xq a\nxq b",
        "xq a | head -5",
        "xq a | head -n 5 | cut -d: -f1 | sort -r | uniq -c",
        "xq a | grep -n 'def x'",
        "xq a | sed -n 1,20p",
        "xq a | sed 's/a/b/g'",
        "xq a | awk '{print $1}'",
        "xq a 2>&1",
        "xq a 2>/dev/null | tail",
        "cd /w/empty && xq a",
        "cd . && xq a",
        "xq a || true",
        "xq a; echo ---; xq b",
        "xq 'literal $(x) `y`'",
        'xq "an \\"escaped\\" quote"',
        "",
    ],
)
def test_asking_xq_and_cutting_what_it_says_is_no_leak(command: str) -> None:
    assert only_retrieval(command, EMPTY)


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "cat /corpus/a.py",
        "git log",
        "xq a; cat b",
        "xq a & cat b",
        "xq a\ncat b",
        'xq "$(cat /corpus/a.py)"',
        "xq `ls /corpus`",
        "xq a | cat /corpus/a.py",
        "xq a | grep x /corpus/a.py",
        "xq a | grep -r x",
        "xq a | grep -rn x .",
        "xq a | grep -ex /corpus/a.py",
        "xq a | grep --include=*.py x",
        "xq a | sed '1r /corpus/a.py'",
        "xq a | sed 's/a/b/;r /corpus/a.py'",
        "xq a | sed 's/a/b/e'",
        "xq a | awk 'BEGIN{while((getline l < \"/corpus/a.py\")>0) print l}'",
        "xq a | awk 'BEGIN{system(\"ls\")}'",
        "xq a | wc --files0-from=x",
        "xq a | xargs cat",
        "xq a | tee out",
        "xq < /corpus/a.py",
        "xq a 0</corpus/a.py",
        "xq <(cat /corpus/a.py)",
        "cd /corpus && xq a",
        "cd .. && xq a",
        "cd ~ && xq a",
        "cd $OLDPWD && xq a",
        "cd && xq a",
        "sh -c 'xq a'",
        "/usr/bin/xq a",
        "TOKENBENCH_XQ=/other xq a",
        "(cat b)",
        "xq 'open",
        'xq "open',
        "xq a >",
        "grep x",
    ],
)
def test_anything_else_that_ran_is_a_leak(command: str) -> None:
    assert not only_retrieval(command, EMPTY)


@given(st.text())
def test_no_command_confuses_the_reader(command: str) -> None:
    only_retrieval(command, EMPTY)


@given(
    st.text(alphabet="abc \t'\"\\", max_size=12),
    st.sampled_from(["cat /c", "ls", "rm x"]),
    st.sampled_from([";", "&", "\n", "&&", "||"]),
)
def test_a_foreign_command_after_any_readable_query_is_found(query: str, foreign: str, separator: str) -> None:
    if only_retrieval(f"xq {query}", EMPTY) and not query.endswith("\\"):
        assert not only_retrieval(f"xq {query}{separator}{foreign}", EMPTY)


def events(
    name: str, arguments: dict[str, object], *, text: str = "x", error: bool = False, denied: bool = False
) -> Iterable[Event]:
    yield ToolUse(3, "t1", name, arguments, "m1", None)
    yield ToolResult(4, "t1", error, denied, text, (), (), None)


def leaks(arm: Arm, name: str, arguments: dict[str, object], **result: object) -> tuple[str, ...]:
    return find_leaks(events(name, arguments, **result), arm, corpus=Path("/corpus"), folder=Path("/w/empty"))


def test_a_command_that_ran_is_named_with_its_line() -> None:
    (sentence,) = leaks(RETRIEVAL, "Bash", {"command": "cat /corpus/a.py"})
    assert sentence == "line 3: it ran something else than xq: cat /corpus/a.py"


@pytest.mark.parametrize("path", ["/corpus/src/a.py", "/home/somebody/tree/src/a.py"])
def test_the_corpus_is_known_by_its_path_outside_and_by_that_in_a_sandbox(path: str) -> None:
    reader = Arm(tools=("Read",), prompt="p.md", folder="empty")
    outside = Path("/home/somebody/tree")
    read = {"file_path": path}
    (sentence,) = find_leaks(
        events("Read", read), reader, corpus=outside, folder=Path("/empty"), inside=Path("/corpus")
    )
    assert sentence == f"line 3: Read reached the corpus: {path}"
    assert (
        find_leaks(
            events("Read", {"file_path": "/empty/a"}),
            reader,
            corpus=outside,
            folder=Path("/empty"),
            inside=Path("/corpus"),
        )
        == ()
    )
    assert (
        find_leaks(
            events("Read", read, error=True), reader, corpus=outside, folder=Path("/empty"), inside=Path("/corpus")
        )
        == ()
    )


def test_a_repository_that_is_not_there_was_not_read() -> None:
    said = "Exit code 128\nfatal: not a git repository (or any parent)\nStopping at filesystem boundary (… not set)."
    assert leaks(RETRIEVAL, "Bash", {"command": "git log"}, text=said, error=True) == ()
    assert leaks(RETRIEVAL, "Bash", {"command": "git log"}, text=f"{said}\ncommit 1234", error=True) != ()


def test_a_command_that_was_denied_reached_nothing() -> None:
    assert leaks(RETRIEVAL, "Bash", {"command": "cat /corpus/a.py"}, error=True, denied=True) == ()


@pytest.mark.parametrize(
    ("text", "leaked"),
    [
        ("Exit code 1\nclass Foo:\n    pass\ncat: b: No such file or directory", True),
        ("Exit code 2\nls: cannot access 'src': No such file or directory", False),
        ("Exit code 127\n/bin/bash: line 1: foo: command not found", False),
        ("Exit code 1", False),
    ],
)
def test_a_command_that_failed_after_it_had_shown_something_leaked(text: str, leaked: bool) -> None:
    assert bool(leaks(RETRIEVAL, "Bash", {"command": "cat a b"}, text=text, error=True)) is leaked


def test_a_path_in_the_corpus_is_a_leak_only_where_the_folder_is_empty() -> None:
    (sentence,) = leaks(READER, "Read", {"file_path": "/corpus/src/a.py"})
    assert "Read reached the corpus: /corpus/src/a.py" in sentence
    assert leaks(READER, "Read", {"file_path": "/w/empty/a.py"}) == ()
    assert leaks(READER, "Read", {"edits": [{"path": "/corpus/a"}]}) != ()
    assert leaks(HYBRID, "Read", {"file_path": "/corpus/src/a.py"}) == ()
    assert leaks(HYBRID, "Bash", {"command": "cat a"}) == ()


def test_a_tool_that_the_arm_has_not_is_a_leak_if_it_worked() -> None:
    (sentence,) = leaks(HYBRID, "WebFetch", {"url": "x"})
    assert sentence == "line 3: it used WebFetch, which its arm has not"
    assert leaks(HYBRID, "WebFetch", {"url": "x"}, error=True, denied=True) == ()


def test_a_command_that_is_no_text_is_not_trusted() -> None:
    assert leaks(RETRIEVAL, "Bash", {"command": ["xq", "a"]}) != ()
    assert leaks(RETRIEVAL, "Bash", {}) != ()


def test_a_captured_run_that_combined_xq_in_every_allowed_way() -> None:
    """It ran `xq` compounds and `cd src && xq`, and was denied redirection, `; curl` and a substitution."""
    reader = ClaudeReader()
    stream = [event for line in read_lines(DATA / "xq_compound.jsonl") for event in reader.feed(line)]
    assert find_leaks(stream, RETRIEVAL, corpus=Path("/corpus"), folder=Path("/srv/repo")) == ()
