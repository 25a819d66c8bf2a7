"""`init` as a command."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from tokenbench.errors import ConfigError
from tokenbench.experiment import config
from tokenbench_tui.commands.init import init


def call(*arguments: str) -> str:
    return CliRunner().invoke(init, list(arguments), catch_exceptions=False, standalone_mode=False).output


def test_it_writes_an_experiment_and_says_what_is_next(tmp_path: Path) -> None:
    told = call(str(tmp_path / "bench"), "--corpus", "../src", "--model", "claude-sonnet-5")
    assert "questions.jsonl" in told
    assert told.endswith("then `tokenbench-tui check`.\n")
    loaded = config.load(tmp_path / "bench")
    assert loaded.config.experiment.model == "claude-sonnet-5"
    assert loaded.config.corpus.path == "../src"


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
