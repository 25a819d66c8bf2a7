"""Writes that a crash cannot halve: each function makes one promise about what a reader may find."""

import fcntl
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tokenbench.errors import RunsError

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


def _failed(path: Path, doing: str, error: OSError) -> RunsError:
    return RunsError(
        f"could not {doing}: {error.strerror or error}",
        where=str(path),
        remedy="Free space or mend the permissions there, then start again; nothing that was finished is lost",
    )


def private_folder(path: Path) -> Path:
    """Make a folder (and its parents) that only its owner may enter, and return it."""
    try:
        path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    except OSError as error:
        raise _failed(path, "make the folder", error) from error
    return path


def own_folder(path: Path) -> Path:
    """Make a private folder, or take one that is there only if it is one's own: no link, and closed to others.

    Raises:
        RunsError: It is a link, somebody else's, or cannot be made or closed.
    """
    private_folder(path)
    try:
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            raise RunsError(
                "is a link, and nothing is written through links",
                where=str(path),
                remedy="Put a real folder in its place; to use another disk, keep the whole experiment there",
            )
        if found.st_uid != os.getuid():
            raise RunsError(
                f"belongs to another user (uid {found.st_uid})",
                where=str(path),
                remedy="Run as that user, or make a copy of the experiment that is your own",
            )
        if stat.S_IMODE(found.st_mode) & 0o077:
            path.chmod(PRIVATE_FOLDER)
    except OSError as error:
        raise _failed(path, "close the folder to others", error) from error
    return path


def sync_folder(folder: Path) -> None:
    """Make renames and new names in this folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomically(path: Path, data: bytes, *, mode: int = PRIVATE_FILE) -> None:
    """Replace a file whole: a reader finds the old bytes or the new ones, never a part.

    Raises:
        RunsError: The disk is full, or the folder may not be written.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise _failed(path, "write the file", error) from error


def append_line(path: Path, line: bytes, *, mode: int = PRIVATE_FILE, durable: bool = True) -> None:
    """Append one line as a single write under a lock; a torn last line of an earlier crash is closed off first.

    Args:
        path: The append-only file; made if it is not there.
        line: The line without its newline; it must hold none.
        mode: Permissions of a new file.
        durable: Whether to wait until the line is on the disk.

    Raises:
        RunsError: The disk is full, or the file may not be written.
    """
    if b"\n" in line:
        raise ValueError("a line holds no newline")
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, mode)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            size = os.fstat(handle).st_size
            torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
            data = (b"\n" if torn else b"") + line + b"\n"
            written = os.write(handle, data)
            if written != len(data):
                os.ftruncate(handle, size)
                raise OSError(28, "No space left on device")
            if durable:
                os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise _failed(path, "append a line", error) from error


@contextmanager
def only_one(path: Path) -> Generator[int]:
    """Hold an exclusive lock on a file for as long as the block lasts; yields its descriptor.

    Raises:
        BlockingIOError: Somebody else holds it.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield handle
    finally:
        os.close(handle)
