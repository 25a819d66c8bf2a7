"""Building the embedded index: files to symbols to documents to the engine, then a test that it finds them."""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import tantivy

from tokenbench.decoding import UNREADABLE
from tokenbench.errors import RunsError, SearchIndexError
from tokenbench.files import only_one, private_folder, sync_folder, write_atomically
from tokenbench.retrieval.documents import Document, documents_of
from tokenbench.retrieval.index import (
    ENGINE,
    ENGINE_FOLDER,
    FORMAT,
    NUMBER,
    REPORT,
    STAMP,
    STORED,
    SearchIndexMissing,
    digest,
    open_index,
)
from tokenbench.retrieval.sources import Skipped, Source, read_sources
from tokenbench.retrieval.template import FIELDS, TEMPLATE_SHA256, query_tokens
from tokenbench.text import one_line

_HEAP_BYTES: Final = 64_000_000
_PROBES: Final = 50
"""Symbols that the self-test asks for, spread evenly over the corpus."""
_PROGRESS_FILES: Final = 250


class FileNote(msgspec.Struct, frozen=True):
    """A file, and what there is to say of it."""

    path: str
    reason: str


class IndexReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an index was made of and what it cost: `report.json` in its folder, `index.json` in `runs/`."""

    sha256: str
    """Of the documents, their tokens, the template and the engine: the same corpus gives the same, on any machine."""
    corpus_sha256: str
    template_sha256: str
    engine: str
    documents: int
    symbols: int
    """Documents of a definition or a section; the others are remainders and windows."""
    files: int
    """Files that are indexed."""
    source_bytes: int
    """Of those files."""
    bytes: int
    """Of the index on disk."""
    wall_seconds: float
    cpu_seconds: float
    unparsed: tuple[str, ...]
    """Python files that do not parse; they are indexed as text."""
    skipped: tuple[FileNote, ...]
    """Files and folders that are not indexed."""
    noted: tuple[FileNote, ...]
    """Files that are indexed, with something a reader should know."""


def read_report(folder: Path) -> IndexReport:
    """The report of the index in this folder.

    Raises:
        SearchIndexMissing: There is none.
        SearchIndexError: It cannot be read.
    """
    path = folder / REPORT
    try:
        return msgspec.json.decode(path.read_bytes(), type=IndexReport)
    except FileNotFoundError as error:
        raise SearchIndexMissing(
            "there is no index of the corpus", where=str(folder), remedy="Build it with `tokenbench-tui index`"
        ) from error
    except (OSError, *UNREADABLE) as error:
        raise SearchIndexError(
            f"the report of the index cannot be read: {one_line(str(error), 120)}",
            where=str(path),
            remedy="Build the index again with `tokenbench-tui index`",
        ) from error


def ensure_index(
    corpus_root: Path, folder: Path, corpus_sha256: str, progress: Callable[[str], None]
) -> tuple[IndexReport, bool]:
    """The report of a sound index of this corpus, and whether it had to be built for that.

    Raises:
        SearchIndexError: It could not be built.
    """
    try:
        open_index(folder, corpus_sha256=corpus_sha256, thorough=True)
        return read_report(folder), False
    except SearchIndexMissing:
        pass
    except SearchIndexError as error:
        progress(f"Building the index again: {error.what}")
    return build_index(corpus_root, folder, corpus_sha256, progress), True


def build_index(
    corpus_root: Path,
    folder: Path,
    corpus_sha256: str,
    progress: Callable[[str], None],
    *,
    wall: Callable[[], float] = time.monotonic,
    cpu: Callable[[], float] = time.process_time,
) -> IndexReport:
    """Index a corpus; the folder appears whole or not at all, and replaces what was there.

    Args:
        corpus_root: The tree; nothing outside it is read.
        folder: Where the index will lie.
        corpus_sha256: Of the tree's content; whoever opens the index may ask for it.
        progress: Receives sentences for a person.
        wall: A clock in seconds.
        cpu: A clock of processor time in seconds.

    Raises:
        SearchIndexError: Nothing to index, no space, another process builds the same index, or the new index does not
            find what it should.
    """
    try:
        parent = private_folder(folder.parent)
        with only_one(parent / f".{folder.name}.lock"):
            for left_behind in parent.glob(f".{folder.name}.*.part"):
                shutil.rmtree(left_behind)
            part = private_folder(parent / f".{folder.name}.{os.getpid()}.part")
            try:
                report = _Build(corpus_root, part, corpus_sha256, progress).run(wall, cpu)
                _put_in_place(part, folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    except BlockingIOError as error:
        raise SearchIndexError(
            "another process is building this index",
            where=str(folder),
            remedy="Wait until it has ended, then try again",
        ) from error
    except OSError as error:
        raise SearchIndexError(
            f"the index could not be built: {error.strerror or error}",
            where=str(error.filename or folder),
            remedy="Free space or mend the permissions there, then try again",
        ) from error
    except RunsError as error:
        raise SearchIndexError(error.what, where=error.where, remedy=error.remedy) from error
    return report


class _Build:
    def __init__(self, root: Path, part: Path, corpus_sha256: str, progress: Callable[[str], None]) -> None:
        self._root = root
        self._part = part
        self._corpus_sha256 = corpus_sha256
        self._progress = progress
        self._sha = hashlib.sha256(f"{FORMAT} {TEMPLATE_SHA256} {ENGINE}\n".encode())
        self._documents = 0
        self._symbols = 0
        self._named: list[tuple[int, str]] = []
        """Number and name of every definition."""
        self._files = 0
        self._source_bytes = 0
        self._unparsed: list[str] = []
        self._skipped: list[FileNote] = []
        self._noted: list[FileNote] = []

    def run(self, wall: Callable[[], float], cpu: Callable[[], float]) -> IndexReport:
        wall_start, cpu_start = wall(), cpu()
        engine = private_folder(self._part / ENGINE_FOLDER)
        self._fill(engine)
        self._stamp(engine)
        self._prove()
        report = IndexReport(
            sha256=self._sha.hexdigest(),
            corpus_sha256=self._corpus_sha256,
            template_sha256=TEMPLATE_SHA256,
            engine=ENGINE,
            documents=self._documents,
            symbols=self._symbols,
            files=self._files,
            source_bytes=self._source_bytes,
            bytes=sum(file.stat().st_size for file in engine.iterdir()),
            wall_seconds=round(wall() - wall_start, 3),
            cpu_seconds=round(cpu() - cpu_start, 3),
            unparsed=tuple(self._unparsed),
            skipped=tuple(self._skipped),
            noted=tuple(self._noted),
        )
        write_atomically(self._part / REPORT, msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
        return report

    def _fill(self, engine: Path) -> None:
        index = tantivy.Index(_schema(), path=str(engine))
        # Two writer threads change the order of equal documents, and so which of them are found.
        writer = index.writer(heap_size=_HEAP_BYTES, num_threads=1)
        for found in read_sources(self._root):
            if isinstance(found, Skipped):
                self._skipped.append(FileNote(found.path, found.reason))
                continue
            self._add(found, writer)
            if self._files % _PROGRESS_FILES == 0:
                self._progress(f"Indexed {self._files} files, {self._documents} documents")
        if not self._documents:
            raise SearchIndexError(
                "the corpus holds no text to index",
                where=str(self._root),
                remedy="Check what [corpus] in tokenbench.toml names",
            )
        writer.commit()
        writer.wait_merging_threads()

    def _add(self, source: Source, writer: tantivy.IndexWriter) -> None:
        documents, unparsed = documents_of(source)
        self._files += 1
        self._source_bytes += source.size
        if unparsed:
            self._unparsed.append(source.path)
        self._noted.extend(FileNote(source.path, remark) for remark in source.remarks)
        for document in documents:
            stored = _stored(document)
            if document.kind not in {"module", "text"}:
                self._symbols += 1
                self._named.append((self._documents, document.name))
            engine_document = tantivy.Document()
            for field, text in zip(
                (field for field, _ in FIELDS),
                (document.code_tokens, document.name_tokens, document.sig_tokens, document.doc_tokens),
                strict=True,
            ):
                engine_document.add_text(field, text)
                self._sha.update(text.encode() + b"\n")
            engine_document.add_integer(NUMBER, self._documents)
            engine_document.add_bytes(STORED, stored)
            self._sha.update(stored + b"\n")
            writer.add_document(engine_document)
            self._documents += 1

    def _stamp(self, engine: Path) -> None:
        stamp = {
            "format": FORMAT,
            "template_sha256": TEMPLATE_SHA256,
            "engine": ENGINE,
            "corpus_sha256": self._corpus_sha256,
            "documents": self._documents,
            "files": {
                file.name: (file.stat().st_size, digest(file))
                for file in sorted(engine.iterdir())
                if not file.name.endswith(".lock")
            },
        }
        write_atomically(self._part / STAMP, msgspec.json.format(msgspec.json.encode(stamp), indent=1) + b"\n")

    def _prove(self) -> None:
        """Ask for symbols that are known to be there: an index that does not find them is refused."""
        index = open_index(self._part, corpus_sha256=self._corpus_sha256)
        step = max(1, len(self._named) // _PROBES)
        for number, name in self._named[::step]:
            if query_tokens(name) and not (index.search(name, 1) and index.holds(name, number)):
                raise SearchIndexError(
                    f"the new index does not find {one_line(name, 80)}, which is in the corpus",
                    where=str(self._root),
                    remedy="Nothing was put in place; report this corpus and file, an index like this would lie",
                )
        self._progress(f"Indexed {self._files} files, {self._documents} documents; its self-test found what it should")


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    for field, _ in FIELDS:
        builder.add_text_field(field, stored=False, tokenizer_name="whitespace", index_option="freq")
    # Unsigned fields panic in this engine's Python binding; integers do not.
    builder.add_integer_field(NUMBER, stored=False, indexed=True, fast=True)
    builder.add_bytes_field(STORED, stored=True, indexed=False)
    return builder.build()


def _stored(document: Document) -> bytes:
    return json.dumps(
        [
            document.path,
            document.line,
            document.end_line,
            document.kind,
            document.name,
            document.signature,
            document.code,
            document.symbol_line,
            document.symbol_end_line,
        ],
        ensure_ascii=False,
        separators=(",", ":"),
    ).encode()


def _put_in_place(part: Path, folder: Path) -> None:
    """Let the finished folder appear under its name; an older one stands until then."""
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old.part")
    if folder.exists():
        folder.rename(old)
    part.rename(folder)
    sync_folder(folder.parent)
    shutil.rmtree(old, ignore_errors=True)
