"""The embedded index: opening it and asking it.

That is all that `xq` needs, so this module loads neither tree-sitter nor anything that only building needs.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar, cast

import tantivy
from tantivy import Occur, Query

from tokenbench.errors import SearchIndexError
from tokenbench.retrieval.template import FIELDS, QUERY_TOKENS, SCORE_DECIMALS, TEMPLATE_SHA256, held, query_tokens
from tokenbench.text import one_line

ENGINE: Final = str(vars(tantivy)["__version__"])
"""Library and index format, as the library says it."""
FORMAT: Final = 1
"""Of the stamp and of what a document stores."""
STAMP: Final = "stamp.json"
REPORT: Final = "report.json"
ENGINE_FOLDER: Final = "tantivy"
STORED: Final = "stored"
NUMBER: Final = "number"
"""The field that holds a document's place in the order by path, then line."""
_Result = TypeVar("_Result")
_REBUILD: Final = "Build it again with `tokenbench-tui index`"


class _SearchResult(Protocol):
    """What a search of the engine gives; its own stub leaves out `count`."""

    hits: "list[tuple[float, tantivy.DocAddress]]"
    count: int
    """Documents that match, however many were fetched."""


class SearchIndexMissing(SearchIndexError):
    """There is no index: nothing was built, or nothing says where it is."""


class Hit(NamedTuple):
    """A document that was found."""

    path: str
    line: int
    end_line: int
    kind: str
    name: str
    score: float
    """Rounded to SCORE_DECIMALS."""
    signature: str
    code: str
    symbol_line: int
    symbol_end_line: int
    """The span of the symbol, of which `line` to `end_line` may be a part."""


class Found(NamedTuple):
    """The answer to a query."""

    hits: tuple[Hit, ...]
    total: int
    """Documents that match, those that are not among the hits included."""
    asked: int
    """Distinct tokens that were searched for."""
    left_out: int
    """Distinct tokens of the query behind the limit."""


def index_folder(cache: Path, corpus_sha256: str) -> Path:
    """Where the index of a corpus lies below the user's cache; another template has another folder."""
    return cache / "indexes" / f"{corpus_sha256[:16]}-{TEMPLATE_SHA256[:12]}"


def open_index(folder: Path, *, corpus_sha256: str | None = None, thorough: bool = False) -> "SearchIndex":
    """Open an index for searching.

    Args:
        folder: What `build_index` made.
        corpus_sha256: Refuse the index of any other corpus.
        thorough: Also read every file of the index and compare its sha256: for before a run, not for each query.

    Raises:
        SearchIndexMissing: There is none.
        SearchIndexError: It is damaged, of another corpus, or made with another template or engine.
    """
    stamp = _read_stamp(folder)
    for what, here, wanted in (
        ("format", stamp.get("format"), FORMAT),
        ("template", stamp.get("template_sha256"), TEMPLATE_SHA256),
        ("engine", stamp.get("engine"), ENGINE),
        ("corpus", stamp.get("corpus_sha256"), corpus_sha256 or stamp.get("corpus_sha256")),
    ):
        if here != wanted:
            raise SearchIndexError(
                f"the index is stale: it was made for {what} {_short(here)}, wanted is {_short(wanted)}",
                where=str(folder),
                remedy=_REBUILD,
            )
    _check_files(folder, stamp.get("files"), thorough=thorough)
    return SearchIndex(folder, documents=stamp.get("documents"))


class SearchIndex:
    """An open index. It goes on answering from what it opened when the folder is replaced."""

    def __init__(self, folder: Path, *, documents: object) -> None:
        self._folder = folder
        self._searcher, self._schema = self._guarded(lambda: _open_engine(folder / ENGINE_FOLDER))
        if self._searcher.num_docs != documents:
            raise self._damaged(f"it holds {self._searcher.num_docs} documents, its stamp says {documents}")

    def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """The best `k` documents (held to the template's bounds), ties by path and line; see `find`."""
        return self.find(query, k).hits

    def find(self, query: str, k: int) -> Found:
        """Ask the fixed query.

        Args:
            query: Any text; it is analysed, never parsed.
            k: How many hits; held to the template's bounds.

        Raises:
            SearchIndexError: The index turns out to be damaged.
        """
        words = query_tokens(query)
        asked = words[:QUERY_TOKENS]
        if not asked:
            return Found((), 0, 0, 0)
        hits, total = self._guarded(lambda: self._best(self._query(asked), held(k)))
        return Found(hits, total, len(asked), len(words) - len(asked))

    def holds(self, query: str, number: int) -> bool:
        """Whether the query matches the document of this number; for the self-test of a new index."""
        words = query_tokens(query)[:QUERY_TOKENS]
        one = Query.term_query(self._schema, NUMBER, number)
        both = Query.boolean_query([(Occur.Must, one), (Occur.Must, self._query(words))])
        return self._guarded(lambda: self._fetch(both, 1)).count == 1

    def _query(self, words: list[str]) -> Query:
        """One `dis_max` over the boosted fields for each word; at least one must match."""
        return Query.boolean_query(
            [
                (
                    Occur.Should,
                    Query.disjunction_max_query(
                        [
                            Query.boost_query(Query.term_query(self._schema, field, word, "freq"), boost)
                            for field, boost in FIELDS
                        ]
                    ),
                )
                for word in words
            ]
        )

    def _best(self, query: Query, k: int) -> tuple[tuple[Hit, ...], int]:
        """Fetches on until the rounded score drops below that of the last hit wanted, then orders the ties."""
        limit = k + 1
        while True:
            result = self._fetch(query, limit)
            scored = result.hits
            last_wanted = round(scored[min(k, len(scored)) - 1][0], SCORE_DECIMALS) if scored else 0.0
            if len(scored) < limit or round(scored[-1][0], SCORE_DECIMALS) < last_wanted:
                break
            limit *= 4
        numbers = cast("list[int]", self._searcher.fast_field_values(NUMBER, [address for _, address in scored]))
        ordered = sorted(
            (-round(score, SCORE_DECIMALS), number, address)
            for (score, address), number in zip(scored, numbers, strict=True)
        )
        hits = tuple(self._hit(-score, address) for score, _, address in ordered[:k])
        return hits, result.count

    def _fetch(self, query: Query, limit: int) -> _SearchResult:
        return cast("_SearchResult", self._searcher.search(query, limit))

    def _hit(self, score: float, address: tantivy.DocAddress) -> Hit:
        stored = self._searcher.doc(address).get_first(STORED)
        try:
            path, line, end_line, kind, name, signature, code, symbol_line, symbol_end_line = json.loads(
                cast("bytes", stored)
            )
        except (ValueError, TypeError) as error:
            raise self._damaged("a stored document cannot be read") from error
        return Hit(path, line, end_line, kind, name, score, signature, code, symbol_line, symbol_end_line)

    def _guarded(self, action: Callable[[], _Result]) -> _Result:
        try:
            return action()
        except (ValueError, OSError, RuntimeError) as error:
            raise self._damaged(one_line(str(error), 200)) from error
        except BaseException as error:
            # A panic of the engine is a BaseException of a type that no module offers by name.
            if type(error).__name__ != "PanicException":
                raise
            raise self._damaged(one_line(str(error), 200)) from error

    def _damaged(self, what: str) -> SearchIndexError:
        return SearchIndexError(f"the index is damaged: {what}", where=str(self._folder), remedy=_REBUILD)


def _read_stamp(folder: Path) -> dict[str, object]:
    """The few facts that every opening checks."""
    try:
        stamp: object = json.loads((folder / STAMP).read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        if folder.is_dir():
            raise SearchIndexError(
                f"the index is damaged: it holds no {STAMP}", where=str(folder), remedy=_REBUILD
            ) from error
        raise SearchIndexMissing(
            "there is no index of the corpus", where=str(folder), remedy="Build it with `tokenbench-tui index`"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise SearchIndexError(
            f"the index is damaged: {STAMP} cannot be read ({one_line(str(error), 120)})",
            where=str(folder),
            remedy=_REBUILD,
        ) from error
    if not isinstance(stamp, dict):
        raise SearchIndexError(f"the index is damaged: {STAMP} is no object", where=str(folder), remedy=_REBUILD)
    return cast("dict[str, object]", stamp)


def _check_files(folder: Path, files: object, *, thorough: bool) -> None:
    """Every file of the engine is there and has its size; asked thoroughly, its content too."""
    wrong = ""
    if not isinstance(files, dict) or not files:
        wrong = f"{STAMP} names no files"
    else:
        for name, (size, sha256) in cast("dict[str, tuple[int, str]]", files).items():
            path = folder / ENGINE_FOLDER / name
            try:
                if path.stat().st_size != size:
                    wrong = f"{name} has another size than when it was built"
                elif thorough and digest(path) != sha256:
                    wrong = f"{name} has another content than when it was built"
            except OSError as error:
                wrong = f"{name}: {error.strerror}"
    if wrong:
        raise SearchIndexError(f"the index is damaged: {wrong}", where=str(folder), remedy=_REBUILD)


def digest(path: Path) -> str:
    """The sha256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _open_engine(folder: Path) -> tuple[tantivy.Searcher, tantivy.Schema]:
    """A searcher over the folder; where the folder is read-only, over links to its files.

    The engine writes a lock file when it opens, which a read-only mount forbids. What it has opened stays open, so the
    folder of links can go at once.
    """
    if os.access(folder, os.W_OK):
        index = tantivy.Index.open(str(folder))
        return index.searcher(), index.schema
    links = Path(os.environ.get("TMPDIR") or "/tmp") / f"xq-{os.getpid()}-{time.monotonic_ns():x}"
    links.mkdir(mode=0o700)
    try:
        for file in folder.iterdir():
            if not file.name.endswith(".lock"):
                (links / file.name).symlink_to(file)
        index = tantivy.Index.open(str(links))
        return index.searcher(), index.schema
    finally:
        for link in links.iterdir():
            link.unlink()
        links.rmdir()


def _short(value: object) -> str:
    return one_line(str(value), 80)
