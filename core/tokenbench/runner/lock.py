"""One runner per `runs/`: `runner.lock` is held by the kernel as long as the process lives, whatever kills it."""

import os
import socket
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tokenbench.clock import Clock
from tokenbench.decoding import UNREADABLE
from tokenbench.errors import RunnerError, RunsError
from tokenbench.files import only_one
from tokenbench.runner import processes
from tokenbench.text import one_line


class Owner(msgspec.Struct, frozen=True):
    """Who wrote the lock file."""

    pid: int
    host: str
    started: float
    """Seconds since the Unix epoch."""
    identity: str
    """`processes.identity` of the process."""


def read_owner(path: Path) -> Owner | None:
    """Who stands in the lock file, living or dead; None where nobody does."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Owner)
    except (OSError, *UNREADABLE):
        return None


def is_here(owner: Owner) -> bool:
    """Whether the owner's process is one of this machine's."""
    return owner.host == socket.gethostname()


def living_owner(path: Path) -> Owner | None:
    """The runner that is at work here, as far as this machine can tell, without touching the lock."""
    owner = read_owner(path)
    if owner is None or not is_here(owner):
        return owner
    return owner if processes.identity(owner.pid) == owner.identity else None


def _describe(owner: Owner | None) -> str:
    if owner is None:
        return "another process"
    since = datetime.fromtimestamp(owner.started, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"pid {owner.pid} on {one_line(owner.host, 60)}, since {since}"


def taken(path: Path, owner: Owner | None) -> RunnerError:
    """What a second runner is told."""
    return RunnerError(
        f"a runner is at work here already: {_describe(owner)}",
        where=str(path),
        remedy="Look at it with `tokenbench-tui attach`, or end it with `tokenbench-tui stop`",
    )


def _unlockable(path: Path, error: OSError) -> RunsError:
    return RunsError(
        f"could not be locked: {error.strerror or error}",
        where=str(path),
        remedy="Mend the permissions of runs/, or free space there",
    )


@contextmanager
def held(path: Path, clock: Clock) -> Generator[Owner | None]:
    """Be the runner of this folder for as long as the block lasts.

    Yields:
        Who held the lock before and did not end properly; None after an orderly end.

    Raises:
        RunnerError: Another runner is at work.
        RunsError: The lock file cannot be made.
    """
    host = socket.gethostname()
    with ExitStack() as stack:
        try:
            handle = stack.enter_context(only_one(path))
        except BlockingIOError as error:
            raise taken(path, read_owner(path)) from error
        except OSError as error:
            raise _unlockable(path, error) from error
        before = read_owner(path)
        if before is not None and before.host != host:
            # The kernel's lock may not reach over a network file system, so nobody here can know.
            raise RunnerError(
                f"the lock names a runner on another machine: {_describe(before)}",
                where=str(path),
                remedy="Stop it there; if that machine is gone, remove the lock file",
            )
        owner = Owner(os.getpid(), host, clock.now(), processes.identity(os.getpid()) or "")
        try:
            os.ftruncate(handle, 0)
            os.pwrite(handle, msgspec.json.encode(owner) + b"\n", 0)
        except OSError as error:
            raise _unlockable(path, error) from error
        # The file stays when it is over: to remove it would let two runners hold two files of one name.
        stack.callback(os.ftruncate, handle, 0)
        yield before
