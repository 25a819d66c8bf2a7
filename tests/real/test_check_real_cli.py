"""`check` with the real agent CLI: each arm is tried, what it trips over is told, and nothing of it stays."""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ARCHIVE = Path(__file__).parents[1] / "data/demo/click-8.1.8.tar.gz"


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    call(tmp_path, "init", "bench", "--corpus", str(tmp_path / "click-8.1.8"))
    questions = tmp_path / "bench" / "questions.jsonl"
    questions.write_text(questions.read_text().replace("REPLACE ME", ""))
    return tmp_path / "bench"


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "HOME": str(folder),
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "ANTHROPIC_API_KEY": "sk-ant-nowhere",
        **{name: value for name, value in os.environ.items() if name == "TOKENBENCH_WORK"},
    }
    return subprocess.run(
        [sys.executable, "-m", "tokenbench_tui", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=100,
    )


def checked(bench: Path) -> tuple[int, dict[str, list[dict[str, str]]]]:
    done = call(bench, "check", "--json")
    document = json.loads(done.stdout)
    found: dict[str, list[dict[str, str]]] = {}
    for point in document["points"]:
        found.setdefault(point["name"], []).append(point)
    assert document["ready"] is (done.returncode == 0)
    return done.returncode, found


def test_arms_that_work_are_ready_and_nothing_is_left_behind(bench: Path) -> None:
    code, found = checked(bench)
    assert code == 0
    assert [found[f"arm {arm}"][0]["state"] for arm in ("native", "retrieval", "hybrid")] == ["ok"] * 3
    assert not (bench / "runs").exists()


def test_a_rule_that_is_missing_is_told_as_a_denied_tool(bench: Path) -> None:
    config = bench / "tokenbench.toml"
    config.write_text(config.read_text().replace('allowed = ["Bash(xq:*)"]', 'allowed = ["Bash(nothing:*)"]'))
    code, found = checked(bench)
    assert code == 1
    assert "was denied the tool Bash" in found["arm retrieval"][0]["what"]
    assert found["arm native"][0]["state"] == "ok"


def test_a_tool_that_the_agent_has_not_is_told_as_a_quarantine(bench: Path) -> None:
    config = bench / "tokenbench.toml"
    config.write_text(config.read_text().replace('tools = ["Grep", "Glob", "Read"] ', 'tools = ["Grep", "Search"] '))
    code, found = checked(bench)
    assert code == 1
    assert "it lacks tools of the arm: Search" in found["arm native"][0]["what"]
