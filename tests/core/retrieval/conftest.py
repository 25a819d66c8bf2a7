"""A small corpus and its index, made once for the tests that only ask it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tokenbench.retrieval.building import build_index

SHA = "a" * 64
REAL = Path(__file__).parents[2] / "data/corpus/click"


def quiet(text: str) -> None:
    """A progress that nobody watches."""


@pytest.fixture(scope="session")
def click_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index of five files of click."""
    folder = tmp_path_factory.mktemp("cache") / "indexes" / "click"
    build_index(REAL, folder, SHA, quiet)
    return folder


@pytest.fixture
def make_index(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """Makes the index of the files that it is given, by path."""

    def make(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / "corpus" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        build_index(tmp_path / "corpus", tmp_path / "index", SHA, quiet)
        return tmp_path / "index"

    return make
