"""`xq`: exit codes that keep absence, faults and a missing corpus apart, and output that a script can rely on."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tokenbench.retrieval.access import VARIABLE, write_access
from tokenbench.retrieval.index import ENGINE_FOLDER, Hit, open_index
from tokenbench.retrieval.xq import FAULT, HITS, NO_MATCH, NOT_LOADED, Answer, answer, show

Make = Callable[[dict[str, str]], Path]
TABLE = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data/cases/63-query-chars-exit-codes.jsonl").read_text().splitlines()
]
SHA = "a" * 64
LAZY = {"aiohttp", "asyncio", "click", "elasticsearch", "msgspec", "numpy", "rich", "textual", "tree_sitter"}


def ask(*arguments: str, index: Path, log: Path | None = None) -> Answer:
    access = index.parent / "access.json"
    write_access(access, index=index, log=log, corpus_sha256=SHA)
    return answer(
        arguments, environment={VARIABLE: str(access)}, folder=Path("/"), now=lambda: 5.0, monotonic=lambda: 1.0
    )


def process(arguments: Sequence[str], index: Path) -> subprocess.CompletedProcess[bytes]:
    access = index.parent / "access.json"
    write_access(access, index=index, log=None, corpus_sha256=SHA)
    return subprocess.run(
        [sys.executable, "-m", "tokenbench.retrieval.xq", *arguments],
        env={VARIABLE: str(access), "PATH": os.environ["PATH"]},
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def table_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tokenbench.retrieval.building import build_index

    folder = tmp_path_factory.mktemp("table")
    (folder / "corpus").mkdir()
    for number, text in enumerate(TABLE[0]["corpus"]):
        (folder / "corpus" / f"{number}.java").write_text(text)
    build_index(folder / "corpus", folder / "index", SHA, lambda text: None)
    return folder / "index"


@pytest.mark.parametrize("row", TABLE, ids=lambda row: repr(row["query"][:20]))
def test_the_signs_of_code_are_a_query_and_each_end_has_its_exit_code(row: dict[str, Any], table_index: Path) -> None:
    done = process([row["query"]], table_index)
    allowed = row["exit"] if isinstance(row["exit"], list) else [row["exit"]]
    assert done.returncode in allowed
    assert bool(done.stdout) is (done.returncode == HITS)
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        ((), FAULT),
        (("",), FAULT),
        ((" \t\n\u3000",), FAULT),
        (("int",), HITS),
        (("int", "3"), HITS),
        (("int", "-3"), HITS),
        (("int", "9" * 5000), HITS),
        (("int", "three"), FAULT),
        (("int", "3.0"), FAULT),
        (("int", ""), FAULT),
        (("int", "final"), FAULT),
        (("int", "final", "3"), FAULT),
        (("256",), HITS),
        (("256", "1"), HITS),
        (("--",), NO_MATCH),
        (("--help",), NO_MATCH),
    ],
)
def test_there_is_one_query_and_perhaps_a_number(arguments: tuple[str, ...], exit_code: int, table_index: Path) -> None:
    told = ask(*arguments, index=table_index)
    assert told.exit == exit_code
    assert bool(told.out) is (exit_code == HITS)
    assert bool(told.err) is (exit_code != HITS)


def test_k_is_five_unless_told_and_held_to_ten(make_index: Make) -> None:
    folder = make_index({"a.py": "def same(): pass\n" * 20})
    for arguments, shown in ((("same",), 5), (("same", "2"), 2), (("same", "0"), 1), (("same", "1000"), 10)):
        assert ask(*arguments, index=folder).out.endswith(f"\n{shown} of 20 shown\n")


def test_a_hit_is_its_place_its_kind_its_name_its_score_and_its_code(make_index: Make) -> None:
    folder = make_index({"pkg/a.py": "import os\n\n\n@final\nclass Door:\n    '''Opens.'''\n"})
    (hit,) = open_index(folder).search("door", 5)
    assert ask("door", index=folder) == Answer(
        HITS, f"pkg/a.py:4 [class] Door {hit.score:.3f}\n@final\nclass Door:\n    '''Opens.'''\n\n1 of 1 shown\n"
    )


def test_a_part_of_a_function_says_where_it_begins_and_goes_on(make_index: Make, tmp_path: Path) -> None:
    body = "".join(f"    value_{number} = {number}\n" for number in range(200))
    out = ask("value_180", "1", index=make_index({"a.py": f"def long(x):\n{body}"})).out
    assert "\ndef long(x): [begins at line 1]\n" in out
    assert "    value_180 = 180\n" in out
    first = ask("value_8", "1", index=tmp_path / "index").out
    assert first.startswith("a.py:1 [function] long ")
    assert "\n[goes on to line 201]\n" in first


def test_more_code_than_fits_is_cut_at_a_line_with_a_mark() -> None:
    code = "\n".join(f"line {number:03}" for number in range(300))
    text = show(Hit("a", 1, 300, "text", "a", 1.0, "", code, 1, 300))
    kept = text.split("\n")[1:-2]
    assert len("\n".join(kept)) <= 1600
    assert kept[-1] == f"line {len(kept) - 1:03}"
    assert f"[cut here; {300 - len(kept)} more lines]" in text


def test_controls_are_shown_wherever_they_come_from() -> None:
    text = show(Hit("a\nb\x1b", 1, 1, "text", "n\tm\u202e", 1.0, "", "\x1b]0;title\x07", 1, 1))
    assert text == "a\u240ab\u241b:1 [text] n\u2409m<202E> 1.000\n\u241b]0;title\u2407\n"


def test_each_query_is_logged_with_what_it_found(make_index: Make, tmp_path: Path) -> None:
    folder, log = make_index({"a.py": "x = 1\n"}), tmp_path / "q.jsonl"
    ask("x", "3", index=folder, log=log)
    ask("nothing", index=folder, log=log)
    ask("two\nlines", "words", index=folder, log=log)
    ask("a\udcff" + "z" * 9000, index=folder, log=log)
    lines = [json.loads(line) for line in log.read_bytes().splitlines()]
    (hit,) = open_index(folder).search("x", 3)
    assert lines[0] == {
        "t": 5.0,
        "query": "x",
        "query_characters": 1,
        "k": 3,
        "hits": [{"path": "a.py", "line": 1, "end_line": 1, "score": hit.score}],
        "total": 1,
        "milliseconds": 0.0,
        "exit": 0,
    }
    assert [(line["query"][:9], line["k"], line["exit"]) for line in lines[1:]] == [
        ("nothing", 5, NO_MATCH),
        ("two\nlines", None, FAULT),
        ("a\\udcffzz", 5, NO_MATCH),
    ]
    assert lines[3]["query_characters"] == 9002


def test_a_query_that_cannot_be_logged_is_not_answered(make_index: Make, tmp_path: Path) -> None:
    told = ask("x", index=make_index({"a.py": "x = 1\n"}), log=tmp_path / "gone" / "q.jsonl")
    assert (told.exit, told.out) == (FAULT, "")
    assert "could not be logged" in told.err


def test_a_missing_index_is_three_and_a_stale_or_damaged_one_two(make_index: Make, tmp_path: Path) -> None:
    assert ask("x", index=tmp_path / "gone").exit == NOT_LOADED
    assert answer(["x"], environment={}, folder=tmp_path).exit == NOT_LOADED
    folder = make_index({"a.py": "x = 1\n"})
    write_access(tmp_path / "other.json", index=folder, log=None, corpus_sha256="b" * 64)
    stale = answer(["x"], environment={VARIABLE: str(tmp_path / "other.json")}, folder=tmp_path)
    assert (stale.exit, stale.out) == (FAULT, "")
    (folder / ENGINE_FOLDER / "meta.json").unlink()
    damaged = ask("x", index=folder)
    assert (damaged.exit, damaged.out) == (FAULT, "")
    assert "tokenbench-tui index" in damaged.err


def test_words_behind_the_limit_are_told(make_index: Make) -> None:
    out = ask("x " + " ".join(f"w{number}" for number in range(100)), index=make_index({"a.py": "x = 1\n"})).out
    assert out.endswith("1 of 1 shown; only the first 64 words of the query were searched for\n")


def test_the_process_loads_no_more_than_it_needs(click_index: Path) -> None:
    write_access(click_index.parent / "access.json", index=click_index, log=None)
    code = (
        "import sys, tokenbench.retrieval.xq as xq\n"
        "status = xq.run(['ClickException', '1'])\n"
        "print(status, *sorted(name for name in sys.modules if '.' not in name), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={VARIABLE: str(click_index.parent / "access.json")},
        capture_output=True,
        timeout=60,
        check=True,
    )
    status, *modules = done.stderr.decode().split()
    assert status == "0"
    assert done.stdout.startswith(b"src/click/exceptions.py:25 [class] ClickException ")
    assert "tantivy" in modules
    assert not LAZY & set(modules)


def test_a_reader_that_goes_away_is_no_error(click_index: Path) -> None:
    write_access(click_index.parent / "access.json", index=click_index, log=None)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "tokenbench.retrieval.xq", "def", "10"],
            env={VARIABLE: str(click_index.parent / "access.json")},
            stdout=closed,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (HITS, b"")


def test_a_disk_that_is_full_is_told(click_index: Path) -> None:
    write_access(click_index.parent / "access.json", index=click_index, log=None)
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tokenbench.retrieval.xq", "def"],
            env={VARIABLE: str(click_index.parent / "access.json")},
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert done.returncode == FAULT
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr


def test_an_argument_that_is_no_text_and_a_locale_that_is_no_utf8_are_no_error(click_index: Path) -> None:
    write_access(click_index.parent / "access.json", index=click_index, log=None)
    for query in (b"exceptions\xff", "Größe exceptions".encode()):
        done = subprocess.run(
            [sys.executable.encode(), b"-m", b"tokenbench.retrieval.xq", query],
            env={VARIABLE: str(click_index.parent / "access.json"), "LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0"},
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (HITS, b"")
