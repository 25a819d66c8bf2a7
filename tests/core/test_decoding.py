"""A file of an experiment that is nested without end is named in a sentence, or left out, like any other damage."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tokenbench.clock import ManualClock
from tokenbench.errors import TokenbenchError
from tokenbench.experiment import composition, seal
from tokenbench.grading.mapping import read_mapping
from tokenbench.grading.verdicts import read_log
from tokenbench.rehearsal.served import read_log as read_served
from tokenbench.retrieval.access import read_access, read_index_report
from tokenbench.retrieval.building import read_report
from tokenbench.retrieval.index import open_index
from tokenbench.runner.journal import Journal, JournalReader
from tokenbench.runner.lock import living_owner
from tokenbench.transcripts.evidence import Runs, read_record

BOTTOMLESS = b'{"unknown":' + b"[" * 200_000 + b"]" * 200_000 + b"}"


def _mapping(path: Path) -> object:
    return read_mapping(Runs(path.parent))


def _report(path: Path) -> object:
    return read_report(path.parent)


def _index(path: Path) -> object:
    return open_index(path.parent)


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("seal.json", seal.read),
        ("composition.json", composition.read),
        ("a__q__r1.json", read_record),
        ("blind.json", _mapping),
        ("rehearsal.jsonl", read_served),
        ("index.json", read_access),
        ("index.json", read_index_report),
        ("report.json", _report),
        ("stamp.json", _index),
    ],
)
def test_a_file_that_is_nested_without_end_is_an_error_that_names_it(
    tmp_path: Path, name: str, read: Callable[[Path], object]
) -> None:
    path = tmp_path / name
    path.write_bytes(BOTTOMLESS + b"\n")
    with pytest.raises(TokenbenchError) as caught:
        read(path)
    assert str(tmp_path) in (caught.value.where or "")
    assert caught.value.remedy


def test_a_journal_line_that_is_nested_without_end_loses_no_other(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, ManualClock(1.0))
    journal.write("paused")
    with path.open("ab") as file:
        file.write(BOTTOMLESS + b"\n")
    journal.write("resumed")
    reader = JournalReader(path)
    assert [entry.event for entry in reader.new()] == ["paused", "resumed"]
    assert reader.bad_lines == 1


def test_a_verdict_that_is_nested_without_end_is_left_out_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "ann.jsonl"
    path.write_bytes(BOTTOMLESS + b"\n")
    (problem,) = read_log(path).problems
    assert "ann.jsonl:1: is no verdict" in problem


def test_a_lock_that_is_nested_without_end_names_nobody(tmp_path: Path) -> None:
    path = tmp_path / "runner.lock"
    path.write_bytes(BOTTOMLESS)
    assert living_owner(path) is None
