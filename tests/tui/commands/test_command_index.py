"""`index` and `xq` as commands, on an experiment of the smallest kind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOML = """\
[experiment]
name = "small"
model = "claude-opus-4-8"

[corpus]
kind = "folder"
path = "code"

[arms.native]
tools = ["Read"]
prompt = "prompts/native.md"

[arms.hybrid]
tools = ["Read", "Bash"]
prompt = "prompts/native.md"
retrieval = true
"""
QUESTION = {"id": "q1", "class": "lookup", "text": "Where is the door?", "truth": "In a.py."}


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    folder = tmp_path / "bench"
    (folder / "code").mkdir(parents=True)
    (folder / "prompts").mkdir()
    (folder / "code" / "a.py").write_text("def door():\n    pass\n")
    (folder / "prompts" / "native.md").write_text("Answer.")
    (folder / "questions.jsonl").write_text(json.dumps(QUESTION) + "\n")
    (folder / "tokenbench.toml").write_text(TOML)
    return folder


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "TOKENBENCH_XQ"}
    return subprocess.run(
        [sys.executable, "-m", "tokenbench_tui", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment | {"XDG_CACHE_HOME": str(folder.parent / "cache")},
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


def test_before_the_index_there_is_nothing_to_ask(experiment: Path) -> None:
    told = run("xq", "door", folder=experiment)
    assert (told.returncode, told.stdout) == (3, "")
    assert "tokenbench-tui index" in told.stderr


def test_the_index_is_built_once_and_xq_finds_it_from_the_folder(experiment: Path) -> None:
    built = run("index", "--json", folder=experiment)
    assert built.returncode == 0, built.stderr
    document = json.loads(built.stdout)
    assert document["built"] is True
    assert (document["report"]["documents"], document["report"]["files"]) == (1, 1)
    assert Path(document["index"]).is_relative_to(experiment.parent / "cache" / "tokenbench" / "indexes")

    again = run("index", folder=experiment)
    assert again.returncode == 0, again.stderr
    assert "already there: 1 documents of 1 files" in again.stdout
    assert "built: 1" in run("index", "--rebuild", folder=experiment).stdout

    hit = run("xq", "door", folder=experiment / "code")
    assert hit.returncode == 0
    assert hit.stdout.startswith("a.py:1 [function] door ")
    assert run("xq", "--help", folder=experiment).returncode == 1
    assert run("xq", folder=experiment).returncode == 2


def test_a_corpus_without_text_is_one_sentence(experiment: Path) -> None:
    (experiment / "code" / "a.py").write_bytes(b"\0\1\2")
    told = run("index", folder=experiment)
    assert told.returncode == 2
    assert "no text to index" in told.stderr
    assert "Traceback" not in told.stderr
