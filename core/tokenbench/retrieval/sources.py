"""The files of a corpus, in one fixed order, as text; and those that are not indexed, each with its reason.

A corpus is hostile: nothing outside it is read (links are not followed), nothing that blocks is opened (FIFOs,
devices), and no name or encoding stops the walk.
"""

import codecs
import io
import os
import re
import stat
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

MAX_FILE_BYTES: Final = 4 << 20
MAX_LINE_CHARACTERS: Final = 50_000
"""A file with a longer line was written by a machine for a machine."""
_BINARY_PROBE: Final = 8192
"""Bytes at the start of a file in which a NUL means that it is binary."""
_LEFT_OUT_FOLDERS: Final = frozenset({b".git", b".hg", b".svn", b".bzr", b"__pycache__"})
_GENERATED: Final = re.compile(
    r"^[ \t]*(?:#|//|/?\*|<!--|;|--|%).*"
    r"(?:@generated|\b(?:auto-?)?generated (?:by|from|file|code|automatically)|\b(?:automatically|been) generated\b"
    r"|\bdo not (?:edit|modify)\b)",
    re.IGNORECASE | re.MULTILINE,
)
_GENERATED_PROBE: Final = 1500
"""Characters at the start of a file in which a comment may say that it is generated."""
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class Source(NamedTuple):
    """A file that is indexed."""

    path: str
    """Relative to the corpus, with `/`; bytes that are no UTF-8 stand as `\\xff`."""
    text: str
    size: int
    """Bytes on disk."""
    remarks: tuple[str, ...]
    """What a reader should know of it: that it says it is generated, that it is not UTF-8."""


class Skipped(NamedTuple):
    """A file or folder that is not indexed."""

    path: str
    reason: str


def read_sources(root: Path) -> Iterator[Source | Skipped]:
    """Every file below `root`, ordered by its path's bytes, each once.

    Raises:
        OSError: The root itself cannot be listed.
    """
    for found in sorted(_walk(os.fsencode(root)), key=lambda found: shown_path(found[0]).encode()):
        name, reason = found
        if reason:
            yield Skipped(shown_path(name), reason)
        else:
            yield _read(os.fsencode(root), name)


def shown_path(name: bytes) -> str:
    """A path as text that any encoder takes."""
    return name.decode("utf-8", "backslashreplace")


def _walk(root: bytes) -> Iterator[tuple[bytes, str]]:
    """Relative paths of files, each with the reason why it is left out, or ""."""
    folders = [b""]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(root + b"/" + folder) as entries:
                listed = list(entries)
        except OSError as error:
            if not folder:
                raise
            yield folder + b"/", f"cannot be listed: {error.strerror}"
            continue
        for entry in listed:
            name = folder + b"/" + entry.name if folder else entry.name
            if entry.is_symlink():
                yield name, "a link; links are not followed"
            elif entry.is_dir(follow_symlinks=False):
                if entry.name in _LEFT_OUT_FOLDERS:
                    yield name + b"/", "not part of the tree: version control or a cache"
                else:
                    folders.append(name)
            elif entry.is_file(follow_symlinks=False):
                yield name, ""
            else:
                yield name, "not a regular file"


def _read(root: bytes, name: bytes) -> Source | Skipped:
    path = shown_path(name)
    try:
        handle = os.open(root + b"/" + name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                return Skipped(path, "not a regular file")
            if found.st_size > MAX_FILE_BYTES:
                return Skipped(path, f"huge: {found.st_size} bytes, more than {MAX_FILE_BYTES}")
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        return Skipped(path, f"cannot be read: {error.strerror}")
    if not data.strip():
        return Skipped(path, "empty")
    decoded = _decode(data, python=name.endswith((b".py", b".pyi")))
    if decoded is None:
        return Skipped(path, "binary")
    text, remarks = decoded
    if (longest := max(map(len, text.split("\n")))) > MAX_LINE_CHARACTERS:
        return Skipped(path, f"generated: a line of {longest} characters")
    if _GENERATED.search(text, 0, _GENERATED_PROBE):
        remarks = (*remarks, "says that it is generated")
    return Source(path, text, len(data), remarks)


def _decode(data: bytes, *, python: bool) -> tuple[str, tuple[str, ...]] | None:
    """Text and remarks, or None for a binary file."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            try:
                text = data.decode(encoding)
            except UnicodeDecodeError:
                break
            return _encodable(text), (() if encoding == "utf-8-sig" else (f"read as {encoding.upper()}",))
    if b"\0" in data[:_BINARY_PROBE]:
        return None
    try:
        return data.decode("utf-8"), ()
    except UnicodeDecodeError:
        pass
    encoding = _declared(data) if python else None
    if encoding is not None:
        try:
            return _encodable(data.decode(encoding)), (f"read as {encoding}",)
        except (UnicodeDecodeError, LookupError):
            pass
    return data.decode("latin-1"), ("not UTF-8, read as Latin-1",)


def _encodable(text: str) -> str:
    """Without lone surrogates, which some codecs let through and no engine takes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _declared(data: bytes) -> str | None:
    """The encoding that a Python file declares in its first two lines (PEP 263), if it is not UTF-8."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except (SyntaxError, UnicodeDecodeError):
        return None
    try:
        info = codecs.lookup(encoding)
    except LookupError:
        return None
    return None if info.name.startswith("utf-8") else info.name
