"""Texts of a corpus in the shapes in which tools return them."""

from importlib.resources import as_file, files
from pathlib import Path

import pytest

from tokenbench.errors import CorpusError
from tokenbench.experiment.config import load
from tokenbench.experiment.model import Loaded
from tokenbench.ledger.attribution.kinds import envelope_of
from tokenbench.ledger.attribution.rates import SHAPES
from tokenbench.probes.shapes import SIZES, Text, texts
from tokenbench.rehearsal import demo

CORPUS = Path(__file__).parents[2] / "data/corpus/click"


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    with as_file(files(demo)) as folder:
        return load(folder)


@pytest.fixture(scope="module")
def found(loaded: Loaded) -> tuple[Text, ...]:
    return texts(CORPUS, loaded)


def test_the_same_corpus_gives_the_same_texts(found: tuple[Text, ...], loaded: Loaded) -> None:
    assert texts(CORPUS, loaded) == found


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "list"])
def test_every_shape_has_points_enough_for_a_rate(found: tuple[Text, ...], shape: str) -> None:
    assert sum(text.shape == shape for text in found) >= 3


def test_there_are_several_sizes_and_several_pieces(found: tuple[Text, ...]) -> None:
    code = [text for text in found if text.shape == "code"]
    assert len({text.piece for text in code}) == len(code)
    assert {min(SIZES, key=lambda size: abs(size - len(text.text))) for text in code} == set(SIZES)


def test_heads_of_hits_look_like_those_of_xq(found: tuple[Text, ...]) -> None:
    for text in found:
        if text.shape == "envelope":
            # The last line break opens an empty line, which counts as one as well.
            assert envelope_of(text.text) == len(text.text) + 1


def test_a_corpus_without_text_is_refused(loaded: Loaded, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    with pytest.raises(CorpusError, match="too little text"):
        texts(tmp_path, loaded)
