"""A code tree on disk: which of its files belong to the corpus, and the one hash that names their content."""

import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tokenbench.errors import CorpusError
from tokenbench.text import one_line

GIT: Final = ".git"
"""Left out at every depth: history is not the tree, and differs between clones."""


class TreeFile(NamedTuple):
    """One regular file."""

    relative: str
    """Path below the root, with `/`; bytes that are not UTF-8 stand as lone surrogates (os.fsdecode)."""
    path: Path
    size: int
    """bytes"""


class LeftOut(NamedTuple):
    """What lies in the folder and is no part of the corpus."""

    relative: str
    reason: str
    """link, git folder, special file."""


class Tree(NamedTuple):
    """All files of a tree in one order: by the bytes of their paths."""

    files: tuple[TreeFile, ...]
    left_out: tuple[LeftOut, ...]


def walk(root: Path) -> Tree:
    """List a tree. Links are not followed, and neither they nor sockets, pipes and devices belong to it.

    Raises:
        CorpusError: A folder below cannot be read.
    """
    files: list[TreeFile] = []
    left_out: list[LeftOut] = []
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    relative = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.is_symlink():
                        left_out.append(LeftOut(relative, "link"))
                    elif entry.name == GIT:
                        left_out.append(LeftOut(relative, "git folder"))
                    elif entry.is_dir(follow_symlinks=False):
                        folders.append(relative)
                    elif entry.is_file(follow_symlinks=False):
                        size = entry.stat(follow_symlinks=False).st_size
                        files.append(TreeFile(relative, root / relative, size))
                    else:
                        left_out.append(LeftOut(relative, "special file"))
        except OSError as error:
            raise unreadable(root / folder, error) from error
    return Tree(
        tuple(sorted(files, key=lambda file: os.fsencode(file.relative))),
        tuple(sorted(left_out, key=lambda entry: os.fsencode(entry.relative))),
    )


def tree_sha256(tree: Tree) -> str:
    """The hash that names a tree's content: sha256 over one record a file, in the order of `walk`.

    A record is the path's bytes, a NUL, the sha256 of the content as 64 hexadecimal digits, a newline. Paths hold no
    NUL, so no two trees have the same records. Permissions, times and empty folders are no part of it.

    Raises:
        CorpusError: A file cannot be read.
    """
    whole = hashlib.sha256()
    for file in tree.files:
        whole.update(os.fsencode(file.relative) + b"\0" + file_sha256(file.path).encode() + b"\n")
    return whole.hexdigest()


def file_sha256(path: Path) -> str:
    """sha256 of a regular file, in hexadecimal digits; a link is not followed.

    Raises:
        CorpusError: It cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise CorpusError(
                    "is no regular file any more", where=one_line(str(path)), remedy="Leave the corpus alone, and retry"
                )
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> CorpusError:
    """The error for a part of a corpus that cannot be read."""
    return CorpusError(
        f"cannot be read: {error.strerror or error}",
        where=one_line(str(path)),
        remedy="Make the whole corpus readable for you, or take this part out of it",
    )


def sentences(left_out: Sequence[LeftOut], shown: int = 3) -> tuple[str, ...]:
    """What was left out, a sentence a reason, without a final full stop: `2 links left out: a, b`."""
    reasons: dict[str, list[str]] = {}
    for entry in left_out:
        reasons.setdefault(entry.reason, []).append(entry.relative)
    found: list[str] = []
    for reason, paths in reasons.items():
        names = ", ".join(one_line(path, 80) for path in paths[:shown])
        more = f" and {len(paths) - shown} more" if len(paths) > shown else ""
        found.append(f"{len(paths)} {reason}{'s' if len(paths) > 1 else ''} left out: {names}{more}")
    return tuple(found)
