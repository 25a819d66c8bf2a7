"""Source archives, unpacked so that nothing they hold can reach outside, fill the disk, or be followed elsewhere."""

import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from tokenbench.errors import CorpusError
from tokenbench.experiment.tree import LeftOut
from tokenbench.text import one_line

_CHUNK: Final = 1 << 20
_FILE_MODE: Final = 0o444
_FOLDER_MODE: Final = 0o755
"""Writable by its owner, so that the cache can be cleared with `rm -r`."""


class Bounds(NamedTuple):
    """What an archive may unpack to."""

    total: int = 2 << 30
    """bytes"""
    file: int = 256 << 20
    """bytes of one file"""
    entries: int = 200_000
    """files and folders"""
    read: int = 64 << 20
    """bytes that the archive's own headers may ask for at once"""


HONEST: Final = Bounds()
"""Beyond these no source archive is known to go."""


class _Source(Protocol):
    def read(self, size: int, /) -> bytes: ...


_Stream = io.BufferedReader | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile


class _Entry(NamedTuple):
    name: str
    kind: str
    """file, folder, link, special file."""
    source: _Source | None


def unpack(archive: Path, folder: Path, bounds: Bounds = HONEST) -> tuple[LeftOut, ...]:
    """Unpack a .tar.gz, .tar.bz2, .tar.xz, .tar or .zip, whatever its name, into a new folder.

    Links and special files are left out and returned. Files get the mode 0444 and folders 0755, whatever the archive
    says.

    Args:
        archive: The archive.
        folder: Made here; it must not exist. After an error it holds an unusable part.
        bounds: What it may unpack to.

    Raises:
        CorpusError: The archive is damaged, holds a path that leads outside or one path twice, or is beyond the bounds.
        OSError: The disk is full, or the folder cannot be written.
    """
    folder.mkdir(mode=_FOLDER_MODE)
    folder.chmod(_FOLDER_MODE)
    left_out: list[LeftOut] = []
    total = 0
    seen = 0
    try:
        with _entries(archive, bounds) as entries:
            for entry in entries:
                seen += 1
                if seen > bounds.entries:
                    raise _refused(archive, f"holds more than {bounds.entries:,} entries")
                parts = _safe_parts(archive, entry.name)
                if entry.kind not in ("file", "folder"):
                    left_out.append(LeftOut("/".join(parts), entry.kind))
                elif entry.source is None:
                    _make_folder(folder, parts, archive)
                elif parts:
                    _make_folder(folder, parts[:-1], archive)
                    total += _write(folder.joinpath(*parts), entry, min(bounds.file, bounds.total - total), archive)
                else:
                    raise _refused(archive, "holds a file without a name")
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise CorpusError(
            f"is damaged: {one_line(str(error), 200) or type(error).__name__}",
            where=one_line(str(archive)),
            remedy="Fetch it anew; if it was pinned like this, pin another archive",
        ) from error
    return tuple(left_out)


_DAMAGE: Final = (
    tarfile.TarError,
    zipfile.BadZipFile,
    OSError,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    UnicodeError,
    NotImplementedError,
    ValueError,
    OverflowError,
    RuntimeError,
)
"""What the readers of the standard library raise on archives that are cut, changed, encrypted or made up.

An OSError is damage only where it has no number: the operating system's own have one.
"""


def _refused(archive: Path, what: str) -> CorpusError:
    return CorpusError(
        what,
        where=one_line(str(archive)),
        remedy="Nothing of it was kept; pin an archive that is an honest source tree",
    )


def _safe_parts(archive: Path, name: str) -> tuple[str, ...]:
    """The parts of a path that stays inside.

    Raises:
        CorpusError: It is absolute, climbs with `..`, or is no name.
    """
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if name.startswith("/") or "\0" in name or ".." in parts:
        raise _refused(archive, f"holds the path `{one_line(name, 100)}`, which leads out of its folder")
    return parts


def _make_folder(root: Path, parts: tuple[str, ...], archive: Path) -> None:
    path = root
    for part in parts:
        path /= part
        try:
            path.mkdir(mode=_FOLDER_MODE)
        except FileExistsError:
            if not stat.S_ISDIR(path.lstat().st_mode):
                raise _twice(archive, path) from None
        else:
            path.chmod(_FOLDER_MODE)


def _twice(archive: Path, path: Path) -> CorpusError:
    return _refused(archive, f"holds `{one_line(path.name, 100)}` twice, so its content is not certain")


def _write(path: Path, entry: _Entry, limit: int, archive: Path) -> int:
    """Write one new file, and return its size in bytes."""
    assert entry.source is not None
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise _twice(archive, path) from None
    size = 0
    with os.fdopen(handle, "wb") as file:
        while chunk := entry.source.read(_CHUNK):
            size += len(chunk)
            if size > limit:
                raise _refused(archive, f"unpacks to more than its bounds at `{one_line(entry.name, 100)}`")
            file.write(chunk)
        os.fchmod(handle, _FILE_MODE)
    return size


@contextmanager
def _entries(archive: Path, bounds: Bounds) -> Generator[Iterator[_Entry]]:
    with archive.open("rb") as file:
        start = file.read(6)
        file.seek(0)
        if start.startswith(b"PK"):
            with zipfile.ZipFile(file) as zipped:
                yield _zip_entries(zipped)
            return
        with (
            _decompressed(file, start) as plain,
            _Bounded(plain, archive, bounds) as bounded,
            tarfile.open(fileobj=bounded, mode="r:") as tar,
        ):
            yield _tar_entries(tar)


def _decompressed(file: io.BufferedReader, start: bytes) -> _Stream:
    """The tar stream in a file that begins like this."""
    if start.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=file)
    if start.startswith(b"BZh"):
        return bz2.BZ2File(file)
    if start.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMAFile(file)
    return file


def _tar_entries(tar: tarfile.TarFile) -> Iterator[_Entry]:
    while (info := tar.next()) is not None:
        if info.isdir():
            yield _Entry(info.name, "folder", None)
        elif info.isreg():
            yield _Entry(info.name, "file", tar.extractfile(info))
        else:
            yield _Entry(info.name, "link" if info.issym() or info.islnk() else "special file", None)


def _zip_entries(zipped: zipfile.ZipFile) -> Iterator[_Entry]:
    for info in zipped.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)
        if info.is_dir():
            yield _Entry(info.filename, "folder", None)
        elif kind in (0, stat.S_IFREG):
            with zipped.open(info) as source:
                yield _Entry(info.filename, "file", source)
        else:
            yield _Entry(info.filename, "link" if stat.S_ISLNK(kind) else "special file", None)


class _Bounded(io.RawIOBase):
    """A decompressed stream that stops where an honest archive would have ended, and never gives much at once."""

    def __init__(self, stream: _Stream, archive: Path, bounds: Bounds) -> None:
        self._stream = stream
        self._archive = archive
        self._most = bounds.read
        self._end = bounds.total + 2048 * bounds.entries  # a header and padding an entry

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= self._most:
            raise _refused(self._archive, "asks for more memory than a header may")
        data = self._stream.read(size)
        self._check()
        return data

    def seek(self, offset: int, whence: int = 0, /) -> int:
        if whence == 0 and offset > self._end:
            raise _refused(self._archive, "is longer than its bounds once it is unpacked")
        place = self._stream.seek(offset, whence)
        self._check()
        return place

    def tell(self) -> int:
        return self._stream.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def _check(self) -> None:
        if self._stream.tell() > self._end:
            raise _refused(self._archive, "is longer than its bounds once it is unpacked")
