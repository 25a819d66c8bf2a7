"""The shipped rehearsal with the real agent CLI, killed in the midst of its writes: nothing is lost, nothing repeated.

One question of the demo in its three arms, with their warm-ups, two runs at a time.
"""

import json
import os
import signal
import tarfile
from collections.abc import Generator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from killing import Nursery, check_whole, closed, ways

from tokenbench.rehearsal import demo
from tokenbench.runner import processes
from tokenbench.runner.places import BASE_VARIABLE, Places
from tokenbench.transcripts.evidence import Runs

ARCHIVE = Path(__file__).parents[1] / "data/demo/click-8.1.8.tar.gz"
KILLS = int(os.environ.get("TOKENBENCH_KILLS", "12"))
"""More of them where somebody has the time: each takes some eight seconds."""
QUESTION = "d01_exit_status"
CELLS = tuple(f"{arm}__{QUESTION}__r1" for arm in ("native", "retrieval", "hybrid"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "click-8.1.8"


@pytest.fixture(scope="module", autouse=True)
def work(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    with TemporaryDirectory(dir="/tmp", prefix="tbw") as place, pytest.MonkeyPatch.context() as patch:
        patch.setenv(BASE_VARIABLE, place)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def nursery() -> Generator[Nursery]:
    made = Nursery()
    yield made
    made.close()


def one_question(folder: Path, corpus: Path) -> Path:
    """The demo cut down to one question, at full speed, on a corpus that is there."""
    demo.install(folder)
    head, _, rest = (folder / "tokenbench.toml").read_text().partition("[corpus]")
    arms = rest[rest.index("# The agent with its own file tools.") :]
    corpus_table = f'[corpus]\nkind = "folder"\npath = "{corpus}"\n\n'
    (folder / "tokenbench.toml").write_text(head.replace("repeats = 2", "repeats = 1") + corpus_table + arms)
    for name in ("questions.jsonl", "scripts.jsonl"):
        rows = [json.loads(line) for line in (folder / name).read_text().splitlines() if line.strip()]
        kept = [row for row in rows if row.get("id", row.get("question", QUESTION)) == QUESTION]
        kept = [row for row in kept if row.get("kind") not in ("pace", "judge") and row.get("repeat", 1) == 1]
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in kept))
    return folder


@pytest.fixture(scope="module")
def points(nursery: Nursery, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    folder = one_question(tmp_path_factory.mktemp("undisturbed") / "demo", corpus)
    return nursery.points(folder, scripted=True)


@pytest.mark.parametrize("number", range(KILLS))
def test_the_demo_killed_at_a_write_loses_nothing_and_repeats_nothing(
    number: int, nursery: Nursery, corpus: Path, points: list[list[Any]], tmp_path: Path
) -> None:
    # What two runs at a time write to the journal comes in no fixed order: the lines are told by their number alone.
    kills = [(point, way) for point in points for way in ways(point)]
    point, way = kills[number * len(kills) // KILLS]
    folder = one_question(tmp_path / "demo", corpus)
    runs = Runs(folder / "runs")
    status, _ = nursery.run(folder, at=point, mode=way, scripted=True)
    assert status == -signal.SIGKILL, f"{way} {point} was not reached"
    before = closed(runs, CELLS)
    print("KILL |", way, "|", *point, "|", len(before) // 2)

    status, told = nursery.run(folder, scripted=True)
    assert status == 0, told
    check_whole(folder, CELLS, before)
    assert processes.marked(Places(runs.folder).marker_prefix) == []
