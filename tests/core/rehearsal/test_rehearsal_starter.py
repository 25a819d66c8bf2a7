"""`init` lays out an experiment that loads, says what to fill in, and overwrites nothing."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.errors import ConfigError
from tokenbench.experiment import config
from tokenbench.experiment.model import CorpusSource
from tokenbench.rehearsal.starter import lay_out

FOLDER = CorpusSource(kind="folder", path="../code")


def test_what_is_laid_out_loads(tmp_path: Path) -> None:
    folder = tmp_path / "my bench"
    lay_out(folder, model="claude-opus-5", corpus=FOLDER, seed=7)
    loaded = config.load(folder)
    assert loaded.config.experiment.name == "my-bench"
    assert loaded.config.experiment.seed == 7
    assert loaded.config.corpus == FOLDER
    assert set(loaded.config.arms) == {"native", "retrieval", "hybrid"}
    assert {question.question_class for question in loaded.questions} == {"lookup", "index_hostile", "canary"}


def test_the_arm_that_is_commented_out_loads_too(tmp_path: Path) -> None:
    lay_out(tmp_path, model="claude-opus-5", corpus=FOLDER, seed=7)
    path = tmp_path / "tokenbench.toml"
    head, arm, rest = path.read_text().partition("# [arms.bare]\n")
    lines = rest.splitlines()
    switched = [line.removeprefix("# ") for line in lines[:3]]
    path.write_text(head + arm.removeprefix("# ") + "\n".join([*switched, *lines[3:]]) + "\n")
    assert config.load(tmp_path).config.arms["bare"].tools == ()


def test_a_pinned_archive_stands_in_it(tmp_path: Path) -> None:
    source = CorpusSource(kind="pypi", package="click==8.1.8", sha256="a" * 64)
    lay_out(tmp_path / "x", model="claude-opus-5", corpus=source, seed=1)
    assert config.load(tmp_path / "x").config.corpus == source


@given(path=st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1).filter(str.strip))
def test_any_path_of_a_corpus_comes_back_as_it_was(path: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("x") / "bench"
    lay_out(folder, model="claude-opus-5", corpus=CorpusSource(kind="folder", path=path), seed=1)
    assert config.load(folder).config.corpus.path == path


@pytest.mark.parametrize("name", ["tokenbench.toml", "questions.jsonl", "prompts/native.md"])
def test_nothing_that_is_there_is_overwritten_and_nothing_is_written_beside_it(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(ConfigError, match=name):
        lay_out(tmp_path, model="claude-opus-5", corpus=FOLDER, seed=7)
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()] == [name]
    assert (tmp_path / name).read_text() == "mine"
