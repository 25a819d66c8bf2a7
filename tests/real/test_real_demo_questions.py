"""The demo's corpus as the package index has it, and every truth of its questions looked up in it."""

import fnmatch
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tokenbench.experiment.composition import measure
from tokenbench.experiment.config import load
from tokenbench.experiment.corpora import Corpus, obtain
from tokenbench.experiment.model import Check, Citation, Question
from tokenbench.rehearsal import demo

EXPERIMENT = load(Path(demo.__file__).parent)
TREE_SHA256 = "4a75948e6f02d6c36f4ce7a8fbd18fff07b57f8e63fd20fab023a1fad52958ce"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return obtain(
        EXPERIMENT.config.corpus,
        experiment=EXPERIMENT.folder,
        cache=tmp_path_factory.mktemp("cache"),
        progress=lambda said: None,
    )


def test_the_archive_unpacks_to_the_tree_that_is_known(corpus: Corpus) -> None:
    assert corpus.root.name == "click-8.1.8"
    assert corpus.sha256 == TREE_SHA256
    assert corpus.left_out == ()


def test_its_composition_is_what_was_counted_by_other_means(corpus: Corpus) -> None:
    whole = measure(corpus.root)
    assert (whole.files, whole.corpus_sha256) == (94, TREE_SHA256)
    python = next(row for row in whole.languages if row.name == "Python")
    assert (python.files, python.lines, python.bytes) == (46, 16_604, 533_077)
    assert (python.test_files, python.test_lines) == (29, 6_344)
    sources = measure(corpus.root / "src" / "click")
    assert sources.shares.comments == pytest.approx(0.365, abs=0.01)


def test_every_question_rests_on_the_corpus() -> None:
    assert all(question.citations or question.checks for question in EXPERIMENT.questions)


CITED = [(question, citation) for question in EXPERIMENT.questions for citation in question.citations]


@pytest.mark.parametrize(
    ("question", "citation"), CITED, ids=lambda part: part.id if isinstance(part, Question) else ""
)
def test_each_citation_stands_where_it_is_said_to(corpus: Corpus, question: Question, citation: Citation) -> None:
    first, last = map(int, citation.lines.split("-"))
    lines = (corpus.root / citation.path).read_text(encoding="utf-8").split("\n")
    assert last <= len(lines)
    quote = "\n".join(lines[first - 1 : last])
    assert hashlib.sha1(quote.encode()).hexdigest() == citation.quote_sha1_of_line_range


def texts(root: Path, check: Check) -> Iterator[str]:
    for path in sorted((root / check.path).rglob("*")):
        if path.is_file() and fnmatch.fnmatch(path.name, check.glob):
            yield path.read_text(encoding="utf-8")


CHECKED = [(question, check) for question in EXPERIMENT.questions for check in question.checks]


@pytest.mark.parametrize(("question", "check"), CHECKED, ids=lambda part: part.id if isinstance(part, Question) else "")
def test_each_count_and_absence_is_so(corpus: Corpus, question: Question, check: Check) -> None:
    found = list(texts(corpus.root, check))
    assert found
    if check.kind == "absent":
        assert not any(re.search(check.regex or "", text) for text in found)
    elif check.kind == "count_files":
        assert sum((check.text or "") in text for text in found) == check.equals
    else:
        assert sum((check.text or "") in line for text in found for line in text.split("\n")) == check.equals
