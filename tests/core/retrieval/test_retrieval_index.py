"""The embedded index: it finds what is there in one fixed order, and refuses to be a wrong index."""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tokenbench.errors import SearchIndexError
from tokenbench.files import only_one
from tokenbench.retrieval import building, documents, index
from tokenbench.retrieval.analysis import SENTINEL
from tokenbench.retrieval.building import build_index, ensure_index, read_report
from tokenbench.retrieval.index import (
    ENGINE_FOLDER,
    STAMP,
    SearchIndexMissing,
    index_folder,
    open_index,
)
from tokenbench.retrieval.template import TEMPLATE_SHA256

Make = Callable[[dict[str, str]], Path]
SHA = "a" * 64
REAL = Path(__file__).parents[2] / "data/corpus/click"


def quiet(text: str) -> None: ...


@pytest.mark.parametrize(
    ("query", "path", "line"),
    [
        ("ClickException exit_code", "src/click/exceptions.py", 28),
        ("UsageError exit_code", "src/click/exceptions.py", 64),
        ("BOOL true false strings", "src/click/types.py", 605),
        ("boolean parameter type true yes on", "src/click/types.py", 605),
        ("terminal width help formatter 80", "src/click/formatting.py", 125),
        ("get_app_dir XDG_CONFIG_HOME", "src/click/utils.py", 490),
        ("_posixify", "src/click/utils.py", 29),
        ("CliRunner mix_stderr", "src/click/testing.py", 185),
        ("result.stderr not separately captured", "src/click/testing.py", 148),
        ("Redistribution in binary form", "LICENSE.txt", 9),
    ],
)
def test_in_real_code_words_find_the_lines_that_answer(click_index: Path, query: str, path: str, line: int) -> None:
    hits = open_index(click_index, corpus_sha256=SHA).search(query, 5)
    assert any(hit.path == path and hit.line <= line <= hit.end_line for hit in hits), hits


def test_the_code_of_a_hit_is_what_stands_at_its_lines(click_index: Path) -> None:
    (hit,) = open_index(click_index).search("_posixify", 1)
    lines = (REAL / hit.path).read_text().split("\n")
    assert hit.code.split("\n") == lines[hit.line - 1 : hit.end_line]
    assert (hit.kind, hit.name, hit.signature) == ("function", "_posixify", "def _posixify(name: str) -> str:")


def test_the_exact_name_stands_before_names_that_share_a_part(make_index: Make) -> None:
    folder = make_index(
        {
            "a.py": "def user(): pass\n\n\ndef get_user(): pass\n\n\ndef by_id(id, user): pass\n",
            "b.py": "def get_user_by_id(): pass\n",
        }
    )
    names = [hit.name for hit in open_index(folder).search("get_user_by_id", 5)]
    assert names[0] == "get_user_by_id"
    assert len(names) == 4
    assert [hit.name for hit in open_index(folder).search("getUserById", 1)] == ["get_user_by_id"]


def test_ties_stand_by_path_then_line_however_many_there_are(make_index: Make) -> None:
    function = "def same():\n    return same\n\n\n"
    folder = make_index(dict.fromkeys(("b.py", "a/z.py", "a.py", "C.py"), function * 40))
    found = open_index(folder).find("same", 10)
    assert found.total == 160
    assert [(hit.path, hit.line) for hit in found.hits] == [("C.py", 1 + 4 * number) for number in range(10)]
    assert len({hit.score for hit in found.hits}) == 1
    assert open_index(folder).search("same", 3) == found.hits[:3]


def test_a_better_score_stands_before_path_and_line(make_index: Make) -> None:
    folder = make_index({"a.py": "x = 'rare and many other words that make it long'\n", "z.py": "rare = 1\n"})
    assert [hit.path for hit in open_index(folder).search("rare", 5)] == ["z.py", "a.py"]


def test_empty_fields_count_as_one_word_in_every_document(make_index: Make) -> None:
    folder = make_index({"a.txt": "word", "b.py": "def word():\n    '''Word.'''\n"})
    assert open_index(folder).find(SENTINEL, 5).total == 0


def test_k_is_held_and_a_query_without_words_finds_nothing(click_index: Path) -> None:
    opened = open_index(click_index)
    assert len(opened.search("def", 99)) == 10
    assert len(opened.search("def", 0)) == 1
    assert opened.find("~!@#", 5) == ((), 0, 0, 0)


def test_words_behind_the_limit_are_left_out_and_counted(click_index: Path) -> None:
    found = open_index(click_index).find(" ".join(f"w{number}x" for number in range(100)), 5)
    assert found.asked == 64
    assert found.left_out > 36


def test_the_report_says_what_was_indexed_and_what_was_not(tmp_path: Path) -> None:
    root = tmp_path / "corpus"
    root.mkdir()
    (root / "a.py").write_text("def f(): pass\n")
    (root / "bad.py").write_text("def (:\n")
    (root / "g.py").write_text("# @generated\nx = 1\n")
    (root / "b.bin").write_bytes(b"\0\1")
    seconds = iter([10.0, 12.5])
    report = building.build_index(root, tmp_path / "index", SHA, quiet, wall=lambda: next(seconds), cpu=lambda: 1.0)
    assert (report.documents, report.symbols, report.files, report.source_bytes) == (4, 2, 3, 40)
    assert (report.wall_seconds, report.cpu_seconds) == (2.5, 0.0)
    assert (report.corpus_sha256, report.template_sha256) == (SHA, TEMPLATE_SHA256)
    assert report.unparsed == ("bad.py",)
    assert [(note.path, note.reason) for note in report.skipped] == [("b.bin", "binary")]
    assert [(note.path, note.reason) for note in report.noted] == [("g.py", "says that it is generated")]
    assert report.bytes > 0
    assert read_report(tmp_path / "index") == report


def test_the_same_corpus_gives_the_same_sha256_and_another_one_another(tmp_path: Path) -> None:
    shas: list[str] = []
    for name, text in (("one", "x = 1\n"), ("two", "x = 1\n"), ("three", "x = 2\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text(text)
        shas.append(build_index(tmp_path / name, tmp_path / "cache" / name, SHA, quiet).sha256)
    assert shas[0] == shas[1] != shas[2]


def test_an_index_of_another_corpus_is_stale(click_index: Path) -> None:
    with pytest.raises(SearchIndexError, match="stale: it was made for corpus aaaa"):
        open_index(click_index, corpus_sha256="b" * 64)


@pytest.mark.parametrize(
    ("key", "value"), [("template_sha256", "0" * 64), ("engine", "tantivy v0.1"), ("format", 0), ("format", None)]
)
def test_an_index_of_another_template_or_engine_is_stale(make_index: Make, key: str, value: str | int | None) -> None:
    folder = make_index({"a.py": "x = 1\n"})
    stamp = json.loads((folder / STAMP).read_bytes())
    (folder / STAMP).write_text(json.dumps(stamp | {key: value}))
    with pytest.raises(SearchIndexError, match="stale"):
        open_index(folder)


def test_an_index_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SearchIndexMissing, match="tokenbench-tui index"):
        open_index(tmp_path / "gone")


@pytest.mark.parametrize("stamp", [b"", b"{", b"[]", b"{}", b'{"files": 3}', None, b"\xff"])
def test_a_stamp_that_cannot_be_read_is_damage(make_index: Make, stamp: bytes | None) -> None:
    folder = make_index({"a.py": "x = 1\n"})
    if stamp is None:
        (folder / STAMP).unlink()
    else:
        (folder / STAMP).write_bytes(stamp)
    with pytest.raises(SearchIndexError, match=r"damaged|stale") as caught:
        open_index(folder)
    assert not isinstance(caught.value, SearchIndexMissing)


def test_a_file_that_is_cut_or_gone_is_damage(make_index: Make) -> None:
    folder = make_index({"a.py": "x = 1\n"})
    for path in (folder / ENGINE_FOLDER).iterdir():
        if path.name.endswith(".lock"):
            continue
        data = path.read_bytes()
        path.write_bytes(data[:-1])
        with pytest.raises(SearchIndexError, match="another size"):
            open_index(folder)
        path.unlink()
        with pytest.raises(SearchIndexError, match="No such file"):
            open_index(folder)
        path.write_bytes(data)
    assert open_index(folder).search("x", 1)


def test_noise_in_a_file_never_panics_and_a_thorough_look_always_sees_it(make_index: Make) -> None:
    folder = make_index({"a.py": "def word(): pass\n" * 50})
    for path in (folder / ENGINE_FOLDER).iterdir():
        if path.name.endswith((".lock", ".json")):
            continue
        data = path.read_bytes()
        path.write_bytes(bytes(byte ^ 0x5A for byte in data[:40]) + data[40:])
        with pytest.raises(SearchIndexError, match="another content"):
            open_index(folder, thorough=True)
        with suppress(SearchIndexError):
            open_index(folder).search("word", 5)
        path.write_bytes(data)


def test_an_open_index_goes_on_answering_when_its_folder_is_replaced(make_index: Make) -> None:
    folder = make_index({"a.py": "old = 1\n"})
    opened = open_index(folder)
    make_index({"a.py": "new = 1\n"})
    assert [hit.name for hit in opened.search("old", 1)] == ["old"]
    assert open_index(folder).search("old", 1) == ()


def test_an_index_on_a_read_only_mount_answers_and_leaves_nothing_behind(
    make_index: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_index({"a.py": "word = 1\n"})
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()

    def access(path: object, mode: int) -> bool:
        return mode != os.W_OK

    monkeypatch.setattr(index.os, "access", access)
    assert [hit.name for hit in open_index(folder).search("word", 1)] == ["word"]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_an_index_that_does_not_find_what_is_there_is_refused_and_the_old_one_stays(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_index({"a.py": "word = 1\n"})
    monkeypatch.setattr(documents, "indexed", lambda text: SENTINEL)
    with pytest.raises(SearchIndexError, match="does not find word"):
        make_index({"a.py": "word = 2\n"})
    assert open_index(folder).search("word", 1)
    assert sorted(path.name for path in folder.parent.iterdir()) == [".index.lock", "corpus", "index"]


def test_a_corpus_without_text_is_refused(make_index: Make) -> None:
    with pytest.raises(SearchIndexError, match="no text to index"):
        make_index({"empty.py": ""})


def test_a_corpus_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SearchIndexError, match="No such file"):
        build_index(tmp_path / "gone", tmp_path / "index", SHA, quiet)


def test_two_processes_do_not_build_the_same_index_at_once(make_index: Make, tmp_path: Path) -> None:
    with only_one(tmp_path / ".index.lock"), pytest.raises(SearchIndexError, match="another process"):
        make_index({"a.py": "x = 1\n"})


def test_what_a_killed_build_left_behind_goes_with_the_next(make_index: Make, tmp_path: Path) -> None:
    (tmp_path / ".index.123.part" / ENGINE_FOLDER).mkdir(parents=True)
    make_index({"a.py": "x = 1\n"})
    assert not (tmp_path / ".index.123.part").exists()


def test_a_sound_index_is_not_built_twice_and_a_damaged_one_is(make_index: Make, tmp_path: Path) -> None:
    folder = make_index({"a.py": "x = 1\n"})
    report, built = ensure_index(tmp_path / "corpus", folder, SHA, quiet)
    assert not built
    assert report == read_report(folder)
    shutil.rmtree(folder / ENGINE_FOLDER)
    assert ensure_index(tmp_path / "corpus", folder, SHA, quiet)[1]
    assert ensure_index(tmp_path / "corpus", folder, "b" * 64, quiet)[1]
    assert not ensure_index(tmp_path / "corpus", folder, "b" * 64, quiet)[1]


def test_the_index_of_a_corpus_lies_in_the_cache_under_corpus_and_template(tmp_path: Path) -> None:
    assert index_folder(tmp_path, "c" * 64) == tmp_path / "indexes" / f"{'c' * 16}-{TEMPLATE_SHA256[:12]}"
