"""`init` as a command."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tokenbench.errors import AgentError, ConfigError
from tokenbench.experiment import config
from tokenbench_tui.commands.init import init


def call(*arguments: str) -> str:
    return CliRunner().invoke(init, list(arguments), catch_exceptions=False, standalone_mode=False).output


def test_it_writes_an_experiment_and_says_what_is_next(tmp_path: Path) -> None:
    told = call(str(tmp_path / "bench"), "--model", "claude-sonnet-5")
    assert "questions.jsonl" in told
    assert told.endswith("then `tokenbench-tui check`.\n")
    loaded = config.load(tmp_path / "bench")
    assert loaded.config.experiment.model == "claude-sonnet-5"
    assert loaded.config.corpus.path == "../corpus"


@pytest.mark.parametrize(
    ("given", "written"),
    [("src", "../src"), ("bench/../src/", "../src"), ("../other", "../../other"), ("/usr", "/usr")],
)
def test_a_corpus_is_named_from_where_one_stands_and_written_from_where_the_experiment_is(
    given: str, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bench").mkdir()
    monkeypatch.chdir(tmp_path)
    call("bench", "--corpus", given)
    assert config.load(Path("bench")).config.corpus.path == written


def test_the_servers_of_a_user_become_an_arm_with_the_tools_that_they_offer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "s3cret")
    root = Path(__file__).parents[3]
    spec = {"command": sys.executable, "args": [str(root / "tests/support/mcp_server.py"), str(root)]}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"code": {**spec, "env": {"KEY": "other"}}}}))
    told = call(str(tmp_path / "bench"), "--mcp", str(tmp_path / ".mcp.json"))
    assert "1 MCP server offers 2 tools" in told
    assert "before a run, set KEY" in told
    arm = config.load(tmp_path / "bench").config.arms["mcp"]
    assert set(arm.tools) == set(arm.allowed) == {"mcp__code__search", "mcp__code__body"}
    assert arm.mcp["code"].environment == ("KEY",)
    assert "s3cret" not in (tmp_path / "bench" / "tokenbench.toml").read_text()


def test_a_server_that_does_not_load_is_said_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"code": {"command": "/bin/false"}}}))
    with pytest.raises(AgentError, match=r"did not load: code \(failed\)"):
        call(str(tmp_path / "bench"), "--mcp", str(tmp_path / ".mcp.json"))
    assert not (tmp_path / "bench").exists()


def test_two_experiments_have_two_seeds(tmp_path: Path) -> None:
    seeds = set()
    for name in ("a", "b", "c"):
        call(str(tmp_path / name))
        seeds.add(config.load(tmp_path / name).config.experiment.seed)
    assert len(seeds) > 1


@pytest.mark.parametrize("given", [("--pypi", "click==8.1.8"), ("--sha256", "a" * 64)])
def test_an_archive_is_named_with_its_hash(given: tuple[str, str], tmp_path: Path) -> None:
    result = CliRunner().invoke(init, [str(tmp_path / "x"), *given])
    assert result.exit_code == 2
    assert "go together" in result.output
    assert not (tmp_path / "x").exists()


def test_a_name_that_is_no_pin_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Pin one version"):
        call(str(tmp_path / "x"), "--pypi", "click", "--sha256", "a" * 64)
