"""A runner that is killed at a numbered point of its own writing: `python kill_points.py`, requests on standard input.

Every change of a file below `runs/` is a point: making, writing, syncing, renaming, cutting and removing it. One
process has everything imported and forks a runner for each request, so that a kill costs no start of Python.

A request is one line of JSON; the answer is one line: `{"status": …, "points": […]}`, with the exit status (negative
for a signal) and, where nothing was to be killed, the points in their order.
"""

import asyncio
import contextlib
import json
import os
import random
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenbench.clock import SystemClock
from tokenbench.errors import TokenbenchError
from tokenbench.runner import processes
from tokenbench.runner.schedule import Backoff
from tokenbench.runner.session import Session, Settings
from tokenbench.runner.supervise import Patience

TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{8}\.part\Z")
FAILING = ("open", "write", "pwrite", "fsync", "replace", "rename", "mkdir")
"""What can fail for want of space, rights or descriptors."""
QUICK = Patience(wall=20, silence=20, after_result=0.3, after_term=1, drain=1)


class Points:
    """Numbers what is done to files, and dies or fails at the one that was asked for.

    Args:
        below: The folder whose changes count.
        at: `[operation, file, number]`, 1 is the first; None to number them all.
        mode: before, after, half; or the errno with which it fails from then on.
        tell: Descriptor that the points are written to.
    """

    def __init__(self, below: Path, at: list[Any] | None, mode: str | int, tell: int) -> None:
        self._below = str(below.resolve()) + "/"
        self._at = tuple(at) if at is not None else None
        self._mode = mode
        self._tell = tell
        self._seen: Counter[tuple[str, str]] = Counter()
        self._lock = threading.RLock()
        self._failing = False
        self._write = os.write
        self._truncate = os.ftruncate

    def install(self) -> None:
        """Stand before the calls of `os` that everything else goes through."""
        for name in ("open", "write", "pwrite", "fsync", "replace", "rename", "unlink", "ftruncate", "mkdir"):
            setattr(os, name, self._guarded(name, getattr(os, name)))

    def _guarded(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*arguments: Any, **options: Any) -> Any:
            file = self._file(name, arguments)
            if file is None:
                return call(*arguments, **options)
            with self._lock:
                return self._pass(name, file, lambda: call(*arguments, **options), arguments)

        return guarded

    def _pass(self, name: str, file: str, do: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        self._seen[name, file] += 1
        point = (name, file, self._seen[name, file])
        if self._at is None:
            self._write(self._tell, json.dumps(point).encode() + b"\n")
            return do()
        if isinstance(self._mode, int):
            self._failing = self._failing or point == self._at
            if self._failing and name in FAILING:
                raise OSError(self._mode, os.strerror(self._mode), file)
            return do()
        if point != self._at:
            return do()
        if self._mode == "half" and name in ("write", "pwrite"):
            self._write(arguments[0], bytes(arguments[1])[: max(1, len(arguments[1]) // 2)])
        elif self._mode == "half":
            self._truncate(arguments[0], os.fstat(arguments[0]).st_size // 2)
        elif self._mode == "after":
            with contextlib.suppress(OSError):
                do()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("it lives")

    def _file(self, name: str, arguments: tuple[Any, ...]) -> str | None:
        if name == "open" and not (len(arguments) > 1 and arguments[1] & os.O_CREAT):
            return None
        where = arguments[0]
        path = str(Path(f"/proc/self/fd/{where}").readlink() if isinstance(where, int) else Path(where).absolute())
        if not path.startswith(self._below):
            return None
        shown = path.removeprefix(self._below)
        folder, _, last = shown.rpartition("/")
        if temporary := TEMPORARY.match(last):
            last = f"{temporary[1]} (temporary)"
        if name == "write" and last == "journal.jsonl" and b'"usage"' in bytes(arguments[1]):
            # Their number depends on the time that a run takes.
            last = "journal.jsonl (usage)"
        return f"{folder}/{last}" if folder else last


def run(request: dict[str, Any], tell: int) -> int:
    """The runner, in a process of its own."""
    os.environ.update(request["environment"])
    folder = Path(request["folder"])
    if request["count"] or request["at"] is not None:
        Points(folder / "runs", request["at"], request["mode"], tell).install()
    session = Session(
        Settings(
            folder=folder,
            scripted=request["scripted"],
            scripts=folder / "scripts.jsonl" if request["scripted"] else None,
            backoff=Backoff(first=0.01, longest=0.01),
            patience=QUICK,
        ),
        clock=SystemClock(),
        dice=random.Random(1),
        environment=os.environ,
        adopts=processes.adopt_orphans(),
        guards=True,
    )
    try:
        return asyncio.run(session.run())
    except TokenbenchError as error:
        os.write(tell, json.dumps(["error", str(error), 0]).encode() + b"\n")
        return 2


def forked(request: dict[str, Any]) -> dict[str, Any]:
    """Run a runner to its end, whatever that is."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        os.setsid()
        quiet = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(quiet, standard)
        code = 70
        try:
            code = run(request, writing)
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        points = [json.loads(line) for line in told]
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return {"status": status, "points": points}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(forked(json.loads(line))), flush=True)
