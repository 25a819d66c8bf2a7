"""The folders that runs live in: private, short, the same every time, and empty."""

import os
import subprocess
from collections.abc import Generator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tokenbench.errors import RunnerError
from tokenbench.runner.places import BASE_VARIABLE, Places


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    with TemporaryDirectory(dir="/tmp", prefix="tbw") as folder:
        monkeypatch.setenv(BASE_VARIABLE, folder)
        yield Path(folder)


def test_the_paths_of_a_slot_are_the_same_for_every_runner_of_an_experiment(work: Path, tmp_path: Path) -> None:
    one, other = Places(tmp_path / "runs"), Places(tmp_path / "x" / ".." / "runs")
    assert one.rooms(1) == other.rooms(1)
    assert one.rooms(1) != one.rooms(2)
    assert one.rooms(1) != Places(tmp_path / "other" / "runs").rooms(1)
    assert one.marker_prefix == other.marker_prefix
    assert one.own_marks != other.own_marks
    assert one.marker("native__q1__r1", 2).startswith(one.own_marks)
    assert len({one.marker("native__q1__r1", 1), one.marker("native__q1__r1", 2), one.marker("native__q2__r1", 1)}) == 3
    assert "q1" not in one.marker("native__q1__r1", 2)


def test_sockets_fit_below_the_temporary_folder_of_the_usual_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(BASE_VARIABLE, raising=False)
    monkeypatch.setenv("TMPDIR", "/a/place/that/differs/from/login/to/login")
    rooms = Places(tmp_path / ("long" * 40) / "runs").rooms(64)
    assert len(os.fsencode(rooms.temporary)) < 50


def test_each_run_finds_its_rooms_empty_whatever_the_last_one_left(work: Path, tmp_path: Path) -> None:
    places = Places(tmp_path / "runs")
    places.prepare()
    rooms = places.clean(1)
    target = tmp_path / "kept"
    target.mkdir()
    (target / "file").touch()
    (rooms.home / "deep" / "er").mkdir(parents=True)
    (rooms.home / "deep" / "er" / "file").touch()
    (rooms.home / "deep" / "er").chmod(0)
    (rooms.temporary / "link").symlink_to(target)
    rooms.empty.rmdir()
    rooms.empty.symlink_to(target)
    assert places.clean(1) == rooms
    assert [list(folder.iterdir()) for folder in rooms[:3]] == [[], [], []]
    assert not rooms.empty.is_symlink()
    assert (target / "file").exists()
    assert {folder.stat().st_mode & 0o777 for folder in rooms[:3]} == {0o700}


def test_a_folder_that_others_may_enter_is_not_used(work: Path, tmp_path: Path) -> None:
    work.chmod(0o755)
    with pytest.raises(RunnerError, match="only you may enter") as caught:
        Places(tmp_path / "runs").prepare()
    assert BASE_VARIABLE in caught.value.remedy


def test_a_link_in_the_place_of_the_folder_is_not_followed(work: Path, tmp_path: Path) -> None:
    places = Places(tmp_path / "runs")
    places.folder.symlink_to(tmp_path)
    with pytest.raises(RunnerError, match="only you may enter"):
        places.prepare()


def test_xq_is_the_only_command_there_and_needs_nothing_of_the_environment(work: Path, tmp_path: Path) -> None:
    places = Places(tmp_path / "runs")
    places.prepare()
    rooms = places.clean(1)
    assert [path.name for path in rooms.bin.iterdir()] == ["xq"]
    done = subprocess.run([rooms.bin / "xq"], env={}, cwd=rooms.empty, capture_output=True, text=True)
    assert done.returncode == 2
    assert "usage: xq" in done.stderr
    asked = subprocess.run([rooms.bin / "xq", "a b", "3"], env={}, cwd=rooms.empty, capture_output=True, text=True)
    assert asked.returncode == 3
    assert "Traceback" not in asked.stderr
