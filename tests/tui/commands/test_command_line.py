"""The command line: fast to say what it can do, one sentence for everything that goes wrong."""

import importlib
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tokenbench_tui.commands import COMMANDS

ROOT = Path(__file__).parents[3]
HEAVY = {"textual", "rich", "elasticsearch", "numpy", "tantivy", "aiohttp", "tree_sitter", "psutil", "claude_agent_sdk"}


def modules_after(code: str) -> set[str]:
    """Top-level modules that a fresh process has loaded after this code."""
    script = f"{code}\nimport sys; print(' '.join(sorted({{name.split('.')[0] for name in sys.modules}})))"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(out.stdout.splitlines()[-1].split())


def test_the_ledger_of_a_transcript_outside_an_experiment_loads_nothing_of_experiments(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"type":"system","subtype":"init","session_id":"s"}\n')
    code = "from tokenbench_tui.commands.ledger import ledger"
    read = f"{code}; ledger.main(['--json', {str(tmp_path / 't.jsonl')!r}], standalone_mode=False)"
    names = f"{read}\nimport sys; print(' '.join(sys.modules))"
    out = subprocess.run([sys.executable, "-c", names], capture_output=True, text=True, check=True)
    loaded = set(out.stdout.splitlines()[-1].split())
    assert "tokenbench.ledger.read" in loaded
    assert not {"tokenbench.findings", "tokenbench.grading", "tokenbench.runner", "multiprocessing"} & loaded


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tokenbench_tui", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
    )


def test_help_loads_nothing_heavy() -> None:
    code = (
        "from tokenbench_tui.__main__ import cli\ntry:\n    cli.main(['--help'], standalone_mode=True)\n"
        "except SystemExit:\n    pass"
    )
    assert not modules_after(code) & HEAVY


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_documents_itself_and_loads_nothing_heavy(name: str) -> None:
    entry = COMMANDS[name]
    command = getattr(importlib.import_module(f"tokenbench_tui.commands.{entry.module}"), entry.function)
    assert isinstance(command, click.Command)
    assert command.help
    assert not modules_after(f"import tokenbench_tui.commands.{entry.module}") & HEAVY


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_stands_in_the_readme(name: str) -> None:
    assert f"`{name}" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_without_an_experiment_it_says_how_to_make_one(tmp_path: Path) -> None:
    out = run(cwd=tmp_path)
    assert out.returncode == 2
    assert "tokenbench-tui demo" in out.stderr
    assert "Traceback" not in out.stderr


@pytest.mark.parametrize("arguments", [("nonsense",), ("--nonsense",), ("ledger",), ("cancel",)])
def test_bad_usage_is_exit_2_and_no_traceback(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    out = run(*arguments, cwd=tmp_path)
    assert out.returncode == 2
    assert "Traceback" not in out.stderr


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"demo", "init", "ledger", "xq", "cancel", "grade", "attach"}))
def test_every_command_on_a_folder_without_an_experiment_says_so(tmp_path: Path, name: str) -> None:
    out = run(name, cwd=tmp_path)
    assert out.returncode == 2
    assert "tokenbench.toml" in out.stderr
    assert "Traceback" not in out.stderr


def test_no_result_on_standard_output_before_an_error(tmp_path: Path) -> None:
    assert run("results", cwd=tmp_path).stdout == ""
