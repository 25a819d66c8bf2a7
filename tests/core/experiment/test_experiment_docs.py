"""docs/experiment.md names every key, and its example is an experiment."""

import re
from pathlib import Path

import msgspec
import pytest

from tokenbench.experiment import model
from tokenbench.experiment.config import load_config

PAGE = (Path(__file__).parents[3] / "docs" / "experiment.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "struct",
    [
        model.Question,
        model.Rule,
        model.Citation,
        model.Check,
        model.Arm,
        model.McpServer,
        model.CorpusSource,
        model.Limits,
        model.Experiment,
        model.AgentSettings,
        model.Grading,
    ],
)
def test_every_key_is_documented(struct: type[msgspec.Struct]) -> None:
    for key in struct.__struct_encode_fields__:
        assert re.search(rf"\b{key}\b", PAGE), key


@pytest.mark.parametrize("name", model.CLASSES)
def test_every_class_is_documented(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_the_example_is_a_configuration(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "tokenbench.toml"
    path.write_text(example)
    config = load_config(path)
    assert set(config.arms) == {"native", "retrieval"}
