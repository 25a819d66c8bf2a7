"""Each write keeps its promise, whatever a crash left behind."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.errors import RunsError
from tokenbench.files import append_line, only_one, own_folder, private_folder, write_atomically


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_written_file_is_whole_and_private_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "seal.json"
    write_atomically(target, b"one")
    write_atomically(target, b"two")
    assert target.read_bytes() == b"two"
    assert mode(target) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["seal.json"]


def test_a_write_that_fails_names_the_file_and_keeps_the_old_bytes(tmp_path: Path) -> None:
    target = tmp_path / "folder" / "seal.json"
    with pytest.raises(RunsError, match=r"seal\.json.*could not write"):
        write_atomically(target, b"x")


def test_a_folder_is_private(tmp_path: Path) -> None:
    assert mode(private_folder(tmp_path / "a" / "b")) == 0o700


def test_a_line_after_a_torn_one_stands_on_its_own(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(b'{"t":1}\n{"t":2,"ev')
    append_line(journal, b'{"t":3}')
    assert journal.read_bytes() == b'{"t":1}\n{"t":2,"ev\n{"t":3}\n'


@given(st.lists(st.binary().filter(lambda line: b"\n" not in line), max_size=8))
def test_what_is_appended_is_what_is_read(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("append") / "lines"
    for line in lines:
        append_line(path, line, durable=False)
    assert (path.read_bytes().split(b"\n")[:-1] if lines else []) == lines


def test_a_line_with_a_newline_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="newline"):
        append_line(tmp_path / "x", b"a\nb")


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious\n")
    link = tmp_path / "journal.jsonl"
    link.symlink_to(victim)
    with pytest.raises(RunsError):
        append_line(link, b"x")
    write_atomically(link, b"replaced")
    assert victim.read_bytes() == b"precious\n"


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with only_one(lock), pytest.raises(BlockingIOError), only_one(lock):
        pass
    with only_one(lock):
        pass


def test_a_folder_that_is_open_to_others_is_closed(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir(mode=0o755)
    own_folder(tmp_path / "runs")
    assert mode(tmp_path / "runs") == 0o700


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunsError, match="is a link"):
        own_folder(tmp_path / "runs")


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").mkdir(mode=0o755)
    monkeypatch.setattr("os.getuid", lambda: 4242)
    with pytest.raises(RunsError, match="belongs to another user"):
        own_folder(tmp_path / "runs")
    assert mode(tmp_path / "runs") == 0o755
