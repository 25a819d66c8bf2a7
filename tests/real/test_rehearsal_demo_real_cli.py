"""Cells of the shipped rehearsal, played by the real agent CLI on the real corpus: the scripts work as written."""

import asyncio
import json
import sys
import tarfile
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tokenbench.agents.claude import launch
from tokenbench.clock import SystemClock
from tokenbench.experiment.config import load
from tokenbench.grading.mechanical import Stage, assess
from tokenbench.ledger.model import Tokens
from tokenbench.rehearsal import demo
from tokenbench.rehearsal.api import ScriptedApi
from tokenbench.rehearsal.playing import judge_text
from tokenbench.rehearsal.scripts import load_scripts
from tokenbench.rehearsal.served import RunKey, read_log
from tokenbench.retrieval.access import write_access
from tokenbench.retrieval.building import build_index

ARCHIVE = Path(__file__).parents[1] / "data" / "demo" / "click-8.1.8.tar.gz"


class Material(NamedTuple):
    """The corpus and its index."""

    corpus: Path
    index: Path


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    folder = tmp_path_factory.mktemp("demo")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    corpus = folder / "click-8.1.8"
    build_index(corpus, folder / "index", "0" * 64, lambda _: None)
    return Material(corpus, folder / "index")


class Case(NamedTuple):
    arm: str
    question: str
    repeat: int
    stage: Stage
    verdict: str
    answer: str
    """Beginning of the answer."""
    errors: int = 0
    """Tool results that are errors."""
    failed: int = 0
    """Requests that the API failed."""


CASES = (
    Case("native", "d09_no_args_status", 1, "NEEDS-JUDGE", "correct", "With 0: MultiCommand.parse_args", failed=1),
    Case("native", "d10_count_versionchanged", 1, "NEEDS-JUDGE", "correct", "13 lines, in 4 files."),
    Case("retrieval", "d04_help_width", 1, "NEEDS-JUDGE", "wrong", "The terminal's columns capped at 80"),
    Case("retrieval", "d07_app_dir", 1, "NEEDS-JUDGE", "correct", "~/.config/my-cool-app", errors=1),
    Case("retrieval", "d11_powershell", 2, "FAIL", "wrong", "PowerShellComplete"),
    Case("hybrid", "d05_exit_nonstandalone", 1, "NEEDS-JUDGE", "correct", "main catches Exit (src/click/core.py:1108)"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.arm}-{case.question}")
async def test_a_cell_of_the_demo_runs_as_scripted(case: Case, material: Material, tmp_path: Path) -> None:
    with as_file(files(demo)) as folder:
        loaded, book = load(folder), load_scripts(folder / demo.SCRIPTS)
    arm, question = loaded.config.arms[case.arm], loaded.question(case.question)
    rooms = launch.Rooms(*(tmp_path / name for name in launch.Rooms._fields))
    for room in rooms:
        room.mkdir()
    (rooms.bin / "xq").symlink_to(Path(sys.executable).with_name("xq"))
    write_access(tmp_path / "access.json", index=material.index, log=None)
    log = tmp_path / "rehearsal.jsonl"
    where = material.corpus if arm.folder == "corpus" else rooms.empty

    async with ScriptedApi(book, clock=SystemClock(), log=log) as api:
        url = api.open_run(RunKey("cell", case.arm, case.question, case.repeat), tools=arm.tools, folder=where)
        events = await run(
            launch.argv(
                launch.find(None, home=rooms.home, bundle_only=True),
                arm,
                loaded.config.experiment.model,
                loaded.config.limits,
            ),
            launch.environment(
                rooms, arm, run="test", key=launch.DUMMY_KEY, base_url=url, access=tmp_path / "access.json"
            ),
            launch.prompt(loaded.prompts[case.arm], question.text),
            where,
        )
    result = next(event for event in reversed(events) if event["type"] == "result")
    served = read_log(log)
    results = [block for event in events if event["type"] == "user" for block in event["message"]["content"]]

    assert result["result"].startswith(case.answer)
    assert not any(call.fell_back for call in served)
    assert assess(question, result["result"]).stage == case.stage
    judge = book.judge(case.question)
    assert judge_text(judge, f"<answer>{result['result']}</answer>").endswith(f'{{"verdict": "{case.verdict}"}}')
    assert sum(1 for block in results if block.get("is_error")) == case.errors
    assert sum(1 for call in served if call.status != 200) == case.failed
    billed = sum((call.usage for call in served), Tokens())
    assert result["usage"]["output_tokens"] == billed.output
    assert result["usage"]["cache_read_input_tokens"] == billed.cache_read
    assert result["usage"]["cache_creation_input_tokens"] == billed.cache_write_5m
    assert result["usage"]["input_tokens"] == billed.input


async def run(argv: tuple[str, ...], environment: dict[str, str], prompt: bytes, folder: Path) -> list[dict[str, Any]]:
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment,
        cwd=folder,
    )
    try:
        output, _ = await process.communicate(prompt)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return [json.loads(line) for line in output.splitlines()]
