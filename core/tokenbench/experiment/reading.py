"""Files that a person wrote: read whole, but never from a pipe, never endless, and as UTF-8."""

import os
import stat
from pathlib import Path
from typing import Final

BOM: Final = b"\xef\xbb\xbf"


class UnreadableError(Exception):
    """A file that cannot be taken as text.

    Attributes:
        missing: Whether there is no such file.
        what: What is wrong, without the file's name.
        remedy: What to do.
        line: The line it was found on, from 1; None where there is none.
    """

    def __init__(self, what: str, remedy: str, *, missing: bool = False, line: int | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy
        self.missing = missing
        self.line = line


def read_text(path: Path, limit: int) -> str:
    """The text of a regular file of at most `limit` bytes, without its byte order mark.

    Raises:
        UnreadableError: No such file, no regular file, not readable, too long, or not UTF-8.
    """
    try:
        # O_NONBLOCK: a pipe without a writer would block the open for ever.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise UnreadableError("is not a regular file", "Put a file of text there")
            data = file.read(limit + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UnreadableError("does not exist", "Write it", missing=True) from error
    except OSError as error:
        raise UnreadableError(
            f"cannot be read: {error.strerror or error}", "Put a file there that you may read"
        ) from error
    except ValueError as error:
        raise UnreadableError("is no name of a file", "Name a file", missing=True) from error
    if len(data) > limit:
        raise UnreadableError(f"is longer than {limit:,} bytes", "Shorten it")
    try:
        return data.removeprefix(BOM).decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableError("is not UTF-8", "Save the file as UTF-8", line=line) from error
