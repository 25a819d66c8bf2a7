"""Texts of a corpus in the shapes in which tools return them, to be counted by the model's own tokenizer.

Characters per token differ by shape: line numbers, repeated paths and scores are not code. Pieces lie evenly spread
over the corpus, so that the same corpus always gives the same texts.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tokenbench.errors import CorpusError
from tokenbench.experiment.model import Loaded
from tokenbench.ledger.attribution.rates import Shape
from tokenbench.retrieval.sources import Source, read_sources

SIZES: Final = (1_000, 2_500, 6_000)
"""Characters of the pieces."""
PIECES: Final = 4
"""Pieces of each size and shape."""
_CODE: Final = frozenset(
    {
        "py",
        "pyi",
        "java",
        "kt",
        "scala",
        "go",
        "rs",
        "c",
        "h",
        "cc",
        "cpp",
        "hpp",
        "cs",
        "js",
        "jsx",
        "ts",
        "tsx",
        "rb",
        "php",
        "swift",
        "m",
        "sh",
        "lua",
        "pl",
        "r",
        "jl",
        "ex",
        "exs",
        "erl",
        "hs",
        "ml",
        "sql",
    }
)
"""Suffixes of source code; a corpus that has none is calibrated on all its text."""
_NAME: Final = re.compile(r"[A-Za-z_]\w{3,}")
_LEAST: Final = 200
"""Characters that a text has to have to be a point."""


class Text(NamedTuple):
    """One text that a prompt is made longer by."""

    shape: Shape
    piece: str
    text: str


class _Line(NamedTuple):
    path: str
    number: int
    text: str


def texts(root: Path, loaded: Loaded) -> tuple[Text, ...]:
    """All texts of a calibration.

    Args:
        root: Of the corpus.
        loaded: The experiment, for its prompts and questions.

    Raises:
        CorpusError: The corpus has too little text to measure anything.
    """
    sources = [source for source in read_sources(root) if isinstance(source, Source)]
    code = [source for source in sources if source.path.rsplit(".", 1)[-1].lower() in _CODE] or sources
    lines = [
        _Line(source.path, number, text)
        for source in code
        for number, text in enumerate(source.text.split("\n"), 1)
        if text.strip()
    ]
    found = [*_of_lines(lines), *_hits(lines)]
    found += _cut("list", [f"{source.path}\n" for source in sources])
    if sum(text.shape == "code" for text in found) < len(SIZES):
        characters = sum(len(line.text) for line in lines)
        raise CorpusError(
            f"has too little text to count characters per token on: {characters:,} characters",
            where=str(root),
            remedy="Shares need a larger corpus; token totals stand without",
        )
    words = "\n\n".join([*loaded.prompts.values(), *(question.text for question in loaded.questions)])
    halves = [words, words[: len(words) // 2], words[len(words) // 2 :]]
    return (*found, *(Text("prompt", "prompts", half) for half in halves if len(half) >= _LEAST))


def _of_lines(lines: Sequence[_Line]) -> Iterator[Text]:
    written: dict[Shape, Callable[[_Line], str]] = {
        "code": lambda line: f"{line.text}\n",
        "read": lambda line: f"{line.number}\t{line.text}\n",
        "envelope": _head,
        "call": _call,
    }
    total = PIECES * len(SIZES)
    for shape, write in written.items():
        for at in range(total):
            size = SIZES[at % len(SIZES)]
            begin = len(lines) * at // total
            # Heads of hits and tool calls are about all places, not about one line after the other.
            stride = 1 if shape in ("code", "read") else max(1, len(lines) // 997)
            text, where = _gather(lines, write, begin, stride, size)
            if len(text) >= _LEAST:
                yield Text(shape, where, text)


def _gather(
    lines: Sequence[_Line], write: Callable[[_Line], str], begin: int, stride: int, size: int
) -> tuple[str, str]:
    parts: list[str] = []
    length = 0
    at = begin
    for _ in range(len(lines)):
        if length >= size:
            break
        part = write(lines[at % len(lines)])
        parts.append(part)
        length += len(part)
        at += stride
    where = f"{lines[begin].path}:{lines[begin].number}" if lines else ""
    return "".join(parts), where


def _head(line: _Line) -> str:
    """As `xq` heads a hit; the score is any number of that form."""
    name = _NAME.search(line.text)
    if name is None:
        return ""
    score = (line.number * 7919 + len(line.text) * 104_729) % 90_000 / 1000 + 3
    return f"{line.path}:{line.number} [function] {name.group()} {score:.3f}\n"


def _call(line: _Line) -> str:
    """As a model asks for a tool: the name and compact JSON."""
    name = _NAME.search(line.text)
    if name is None:
        return ""
    if line.number % 2:
        return f'Read{{"file_path":"/home/agent/{line.path}","offset":{line.number},"limit":40}}\n'
    return f'Grep{{"pattern":"{name.group()}","path":"/home/agent/{line.path}","output_mode":"content","-n":true}}\n'


def _hits(lines: Sequence[_Line]) -> Iterator[Text]:
    """What searches for single names of the corpus would find, most frequent names left out."""
    places: dict[str, list[_Line]] = {}
    for line in lines:
        for name in set(_NAME.findall(line.text)):
            places.setdefault(name, []).append(line)
    names = sorted(
        (name for name, found in places.items() if 8 <= len(found) <= 400), key=lambda name: (len(places[name]), name)
    )
    total = PIECES * len(SIZES)
    for at in range(min(total, len(names))):
        name = names[len(names) * at // total]
        size = SIZES[at % len(SIZES)]
        text, _ = _gather(places[name], lambda line: f"{line.path}:{line.number}:{line.text}\n", 0, 1, size)
        if len(text) >= _LEAST:
            yield Text("search", name, text)


def _cut(shape: Shape, entries: Sequence[str]) -> Iterator[Text]:
    """Points from a list of paths, of which a small corpus has only a few: overlapping pieces are cut."""
    total = sum(map(len, entries))
    for number, size in enumerate((*SIZES, *(total // 3, total // 2, total))):
        begin = len(entries) * (number % 3) // 3
        parts: list[str] = []
        for entry in (*entries[begin:], *entries[:begin]):
            if sum(map(len, parts)) >= min(size, total):
                break
            parts.append(entry)
        text = "".join(parts)
        if _LEAST <= len(text) <= max(SIZES) * 2:
            yield Text(shape, entries[begin].strip(), text)
