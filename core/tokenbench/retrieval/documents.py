"""Symbols cut into the documents that are indexed: none is longer than what `xq` shows of a hit.

A long function becomes several documents of the same name. So whatever a query finds is shown, and no line of a
corpus can be found but not read.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tokenbench.retrieval.analysis import indexed
from tokenbench.retrieval.sections import text_symbols
from tokenbench.retrieval.sources import Source
from tokenbench.retrieval.symbols import Symbol, python_symbols
from tokenbench.retrieval.template import HIT_CHARACTERS
from tokenbench.text import one_line, visible

SIGNATURE_CHARACTERS: Final = 300
_PYTHON: Final = (".py", ".pyi")
_EARLIEST_CUT: Final = 0.5
"""Share of a document that must be filled before a good place to cut it is looked for."""


class Document(NamedTuple):
    """What is shown of a hit, and the tokens that find it."""

    path: str
    line: int
    """Of the first line of `code`."""
    end_line: int
    kind: str
    name: str
    signature: str
    code: str
    """Lines as they are in the file, at most HIT_CHARACTERS, controls shown; a class tells which lines are left out."""
    symbol_line: int
    symbol_end_line: int
    """The span of the whole symbol, of which this may be a part."""
    code_tokens: str
    name_tokens: str
    sig_tokens: str
    doc_tokens: str


class _Row(NamedTuple):
    line: int
    last: int
    text: str
    """As it is in the file; "" for a hole."""
    shown: str


def documents_of(source: Source) -> tuple[list[Document], bool]:
    """The documents of a file in the order of their lines, and whether it is Python that does not parse.

    What is defined within a function, and shown whole by a document of that function, has no document of its own: it
    would take up a place among the hits and show nothing more.
    """
    symbols = python_symbols(source.path, source.text) if source.path.endswith(_PYTHON) else None
    unparsed = symbols is None and source.path.endswith(_PYTHON)
    if symbols is None:
        symbols = text_symbols(source.path, source.text)
    documents: list[Document] = []
    shown: list[Document] = []
    for symbol in symbols:
        first, last = symbol.lines
        shown = [part for part in shown if part.end_line >= first]
        if any(part.line <= first and last <= part.end_line for part in shown):
            continue
        parts = list(_cut(symbol))
        documents.extend(parts)
        if symbol.kind in {"function", "method"}:
            shown.extend(parts)
    return sorted(documents, key=lambda document: (document.line, document.end_line)), unparsed


def _cut(symbol: Symbol) -> Iterator[Document]:
    named = symbol.qualified if symbol.kind not in {"module", "text"} else symbol.name.rpartition(".")[0] or symbol.name
    name_tokens, sig_tokens = indexed(named), indexed(symbol.signature)
    comment = symbol.comment
    for rows in _parts(_rows(symbol)):
        first, last = symbol.docstring_lines or (0, 0)
        docstring = [row.text for row in rows if first <= row.line <= last]
        yield Document(
            path=symbol.path,
            line=rows[0].line,
            end_line=rows[-1].last,
            kind=symbol.kind,
            name=one_line(symbol.qualified, keep_keys=True),
            signature=one_line(symbol.signature, SIGNATURE_CHARACTERS, keep_keys=True),
            code="\n".join(row.shown for row in rows),
            symbol_line=symbol.lines[0],
            symbol_end_line=symbol.lines[1],
            code_tokens=indexed("\n".join(row.text for row in rows)),
            name_tokens=name_tokens,
            sig_tokens=sig_tokens,
            doc_tokens=indexed("\n".join([comment, *docstring])),
        )
        comment = ""


def _rows(symbol: Symbol) -> Iterator[_Row]:
    holes = dict(symbol.holes)
    hidden = 0
    for line, text in enumerate(symbol.body.split("\n"), symbol.lines[0]):
        if line in holes:
            hidden = holes[line]
            told = f"line {line}" if hidden == line else f"lines {line}-{hidden}"
            yield _Row(line, hidden, "", f"[{told} left out]")
        elif line > hidden:
            shown = visible(text.removesuffix("\r"), keep_keys=True)
            if len(shown) < HIT_CHARACTERS:
                yield _Row(line, line, text, shown)
            else:
                yield from (_Row(line, line, piece, piece) for piece in _pieces(shown))


def _pieces(line: str) -> list[str]:
    """A line that is longer than a document, in pieces that are cut between words where that can be."""
    pieces: list[str] = []
    while len(line) >= HIT_CHARACTERS:
        at = line.rfind(" ", HIT_CHARACTERS // 2, HIT_CHARACTERS - 1) + 1 or HIT_CHARACTERS - 1
        pieces.append(line[:at])
        line = line[at:]
    return [*pieces, line] if line else pieces


def _parts(rows: Iterator[_Row]) -> Iterator[list[_Row]]:
    """Rows in documents of at most HIT_CHARACTERS, cut at a blank line or where the indentation is least."""
    part: list[_Row] = []
    size = 0
    for row in rows:
        if size + len(row.shown) + 1 > HIT_CHARACTERS:
            at = _best_cut(part)
            yield from _unless_blank(part[:at])
            part = part[at:]
            size = sum(len(kept.shown) + 1 for kept in part)
        part.append(row)
        size += len(row.shown) + 1
    yield from _unless_blank(part)


def _best_cut(part: list[_Row]) -> int:
    """Where a part that is full ends: the index of the first row of the next."""
    best, best_rank = len(part), (2, 0)
    filled = 0
    total = sum(len(row.shown) + 1 for row in part)
    for index, row in enumerate(part):
        if filled >= total * _EARLIEST_CUT and row.shown.strip():
            after_blank = not part[index - 1].shown.strip()
            rank = (0 if after_blank else 1, len(row.shown) - len(row.shown.lstrip()))
            if rank <= best_rank:
                best, best_rank = index, rank
        filled += len(row.shown) + 1
    return best


def _unless_blank(rows: list[_Row]) -> Iterator[list[_Row]]:
    while rows and not rows[-1].shown.strip():
        rows = rows[:-1]
    while rows and not rows[0].shown.strip():
        rows = rows[1:]
    if rows:
        yield rows
