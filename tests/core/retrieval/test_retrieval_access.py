"""What `xq` is told, and by whom."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tokenbench.errors import SearchIndexError
from tokenbench.retrieval.access import (
    VARIABLE,
    Access,
    find_access,
    read_access,
    read_index_report,
    write_access,
    write_index_report,
)
from tokenbench.retrieval.building import read_report
from tokenbench.retrieval.index import SearchIndexMissing

Make = Callable[[dict[str, str]], Path]


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write_access(tmp_path / "a.json", index=Path("/cache/x"), log=Path("/runs/q.jsonl"), corpus_sha256="a" * 64)
    assert read_access(tmp_path / "a.json") == Access(Path("/cache/x"), Path("/runs/q.jsonl"), "a" * 64)
    write_access(tmp_path / "b.json", index=Path("x"), log=None)
    assert read_access(tmp_path / "b.json") == Access(tmp_path / "x", None, None)


def test_the_environment_comes_before_the_folder(tmp_path: Path, make_index: Make) -> None:
    folder = make_index({"a.py": "x = 1\n"})
    (tmp_path / "tokenbench.toml").touch()
    (tmp_path / "runs").mkdir()
    report = read_report(folder)
    write_index_report(tmp_path / "runs/index.json", index=folder, report=report)
    (tmp_path / "deep/er").mkdir(parents=True)
    assert find_access({}, tmp_path / "deep/er") == Access(folder, None, report.corpus_sha256)
    assert find_access({VARIABLE: ""}, tmp_path).folder == folder
    assert read_index_report(tmp_path / "runs/index.json") == (folder, report)
    write_access(tmp_path / "a.json", index=Path("other"), log=None)
    assert find_access({VARIABLE: str(tmp_path / "a.json")}, tmp_path).folder == tmp_path / "other"


def test_where_nothing_names_an_index_it_is_missing(tmp_path: Path) -> None:
    for environment, folder in (({}, tmp_path), ({VARIABLE: "gone.json"}, tmp_path)):
        with pytest.raises(SearchIndexMissing):
            find_access(environment, folder)
    (tmp_path / "tokenbench.toml").touch()
    with pytest.raises(SearchIndexMissing, match="tokenbench-tui index"):
        find_access({}, tmp_path)
    with pytest.raises(SearchIndexMissing):
        read_index_report(tmp_path / "runs/index.json")


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"[]", b"{}", b'{"index": ""}', b'{"index": "x", "log": 3}', b"[" * 100_000]
)
def test_a_file_that_does_not_say_it_is_an_error_and_not_a_missing_index(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(SearchIndexError, match="does not say which index") as caught:
        read_access(tmp_path / "a.json")
    assert not isinstance(caught.value, SearchIndexMissing)


def test_an_index_report_without_a_report_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text('{"index": "x", "log": null, "corpus_sha256": null}')
    with pytest.raises(SearchIndexError, match="does not say"):
        read_index_report(tmp_path / "index.json")
