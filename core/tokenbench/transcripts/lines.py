"""Bytes of a transcript to its lines, whatever the size of the pieces they come in.

Lines end with the byte 0x0A and with nothing else: U+0085, U+2028 and U+2029 occur raw inside JSON strings. A line has
no length limit; memory is bounded by the longest one.
"""

import io
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Final, NamedTuple

from tokenbench.errors import TranscriptError

_BOM: Final = b"\xef\xbb\xbf"
_BUFFER: Final = 1 << 18
"""Bytes that are read in one go; they are worked on while they are still in the processor's cache."""
_TOGETHER: Final = 32
_PIECE: Final = 1 << 18


class Line(NamedTuple):
    """One line of a transcript."""

    number: int
    """1 is the first; blank lines count."""
    data: bytes
    """Without its newline, a CR before it, and a byte order mark at the start of the file."""
    complete: bool = True
    """False for a tail that no newline ended: a record that may have been cut."""


def _line(number: int, data: bytes, complete: bool = True) -> Line:
    if number == 1 and data.startswith(_BOM):
        data = data[len(_BOM) :]
    if data.endswith(b"\r"):
        data = data[:-1]
    return Line(number, data, complete)


class LineSplitter:
    """Splits bytes that arrive in pieces; the pieces may be cut anywhere, inside a character too."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._number = 0

    def feed(self, data: bytes) -> list[Line]:
        """The lines that this piece completes, in order."""
        head, *rest = data.split(b"\n")
        self._parts.append(head)
        if not rest:
            return []
        lines = [self._next(b"".join(self._parts))]
        lines.extend(self._next(part) for part in rest[:-1])
        self._parts = [rest[-1]]
        return lines

    def close(self) -> list[Line]:
        """The tail without a newline, as an incomplete line, if there is one."""
        tail = b"".join(self._parts)
        self._parts = []
        if not tail:
            return []
        self._number += 1
        return [_line(self._number, tail, complete=False)]

    def _next(self, data: bytes) -> Line:
        self._number += 1
        return _line(self._number, data)


class Lines(NamedTuple):
    """Lines that stand one behind the other in a file."""

    first: int
    """Number of the first of them."""
    data: list[bytes]
    """As they stand, newlines and all; only the last line of a file can be without one."""

    def line(self, index: int) -> Line:
        """One of them, from 0, as every reader takes it."""
        number, data = self.first + index, self.data[index]
        if number > 1 and data.endswith(b"}\n"):
            return Line(number, data[:-1])
        return _line(number, data[:-1]) if data.endswith(b"\n") else _line(number, data, complete=False)


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a file, read as they are asked for.

    Raises:
        TranscriptError: The file is not there, is a folder, or cannot be read.
    """
    for lines in read_many(path, together=1):
        yield from map(lines.line, range(len(lines.data)))


def read_many(path: Path, *, together: int = _TOGETHER, piece: int = _PIECE) -> Iterator[Lines]:
    """The lines of a file, some at a time.

    Nothing that was handed out is held on to: who lets go of it before asking for more never has two long lines.

    Args:
        path: The file; a pipe will do.
        together: The most lines that come together.
        piece: Bytes; a longer line is put together of pieces of this size.

    Raises:
        TranscriptError: The file is not there, is a folder, cannot be read, or has a line that memory does not hold.
    """
    number = 1
    try:
        with path.open("rb", buffering=_BUFFER) as file:
            pieces = iter(partial(file.readline, piece), b"")
            while lines := list(islice(pieces, together)):
                if max(map(len, lines)) >= piece:
                    lines = _joined(chain(lines, pieces), len(lines))
                count = len(lines)
                yield Lines(number, lines)
                del lines
                number += count
    except FileNotFoundError as error:
        raise TranscriptError(
            "there is no such file", where=str(path), remedy="Give the path of a transcript: the agent's JSON lines"
        ) from error
    except IsADirectoryError as error:
        raise TranscriptError(
            "this is a folder", where=str(path), remedy="Name the transcripts in it, for instance FOLDER/*.jsonl"
        ) from error
    except MemoryError as error:
        raise TranscriptError(
            f"its line {number} or one soon after it is longer than there is memory",
            where=str(path),
            remedy="Give the path of a transcript: the agent's JSON lines",
        ) from error
    except OSError as error:
        raise TranscriptError(
            f"cannot be read: {error.strerror or error}", where=str(path), remedy="Mend its permissions or its disk"
        ) from error


def _joined(pieces: Iterator[bytes], least: int) -> list[bytes]:
    """The lines that these pieces, and those behind them that the last line needs, make up."""
    lines: list[bytes] = []
    # It grows in place and hands over what it holds without a copy: a line of 100 MB takes 100 MB.
    line = io.BytesIO()
    for number, part in enumerate(pieces, 1):
        line.write(part)
        if part.endswith(b"\n"):
            lines.append(line.getvalue())
            line = io.BytesIO()
            if number >= least:
                return lines
    if line.tell():
        lines.append(line.getvalue())
    return lines
