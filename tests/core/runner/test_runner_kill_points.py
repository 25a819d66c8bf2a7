"""The runner may be killed at any of its writes: no finished run is repeated, none is lost, and no half run counts.

docs/crash-safety.md has the table of points. A warm-up, a run, and a run whose first attempt the API spoils.
"""

import errno
import os
import re
import signal
from collections.abc import Generator
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from killing import Nursery, check_whole, closed, ways

from tokenbench.runner.places import BASE_VARIABLE

from .conftest import Lab

KILLS = 200
FAULTS = {"ENOSPC": errno.ENOSPC, "EACCES": errno.EACCES, "EIO": errno.EIO, "EMFILE": errno.EMFILE}
FAILING = ("open", "write", "pwrite", "fsync", "replace", "rename", "mkdir")
FAULTY = 40
"""Kinds of operations on kinds of files, rounded up; the rest are tried twice."""
CELLS = ("native__q1__r1", "native__q2__r1")


@pytest.fixture(scope="module")
def nursery() -> Generator[Nursery]:
    made = Nursery()
    yield made
    made.close()


@pytest.fixture(scope="module")
def points(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    with TemporaryDirectory(dir="/tmp", prefix="tbw") as work, pytest.MonkeyPatch.context() as patch:
        patch.setenv(BASE_VARIABLE, work)
        patch.setenv("XDG_CACHE_HOME", work)
        return nursery.points(written(Lab(tmp_path_factory.mktemp("undisturbed"))).folder)


def written(lab: Lab) -> Lab:
    return lab.write(["PLAIN", "OVERLOADED-AT 1"], warmups=1)


def kind(file: str) -> str:
    """The file without the names of cells."""
    return re.sub(r"native__\w+", "CELL", file)


@pytest.mark.parametrize("number", range(KILLS))
def test_killed_at_any_write_it_loses_nothing_and_repeats_nothing(
    number: int, lab: Lab, nursery: Nursery, points: list[list[Any]]
) -> None:
    kills = [(point, way) for point in points for way in ways(point)]
    point, way = kills[number * len(kills) // KILLS]
    written(lab)
    status, _ = nursery.run(lab.folder, at=point, mode=way)
    assert status == -signal.SIGKILL, f"{way} {point} was not reached"
    before = closed(lab.runs, CELLS)
    print("KILL |", way, "|", *point, "|", len(before) // 2)

    status, told = nursery.run(lab.folder)
    assert status == 0, told
    check_whole(lab.folder, CELLS, before)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("number", range(FAULTY))
def test_a_disk_that_fails_stops_it_with_a_sentence_and_it_goes_on_when_mended(
    number: int, fault: str, lab: Lab, nursery: Nursery, points: list[list[Any]]
) -> None:
    # The first point of each kind of operation on each kind of file, so that every kind fails.
    kinds = {(operation, kind(file)): [operation, file, nth] for operation, file, nth in reversed(points)}
    failing = [point for point in reversed(kinds.values()) if point[0] in FAILING]
    assert len(failing) <= FAULTY
    point = failing[number % len(failing)]
    written(lab)
    status, told = nursery.run(lab.folder, at=point, mode=FAULTS[fault])
    before = closed(lab.runs, CELLS)
    assert status == 2, f"{fault} at {point} went unnoticed"
    (sentence,) = [what for kind, what, _ in told if kind == "error"]
    assert str(lab.runs.folder) in sentence or str(lab.folder) in sentence
    assert os.strerror(FAULTS[fault]) in sentence
    assert sentence.endswith(".")

    status, told = nursery.run(lab.folder)
    assert status == 0, told
    check_whole(lab.folder, CELLS, before)
