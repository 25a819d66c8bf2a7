"""Regular expressions of questions, searched where they can be stopped.

Python's `re` backtracks: an innocent pattern can take for ever on an unlucky text, holds the interpreter's lock
meanwhile, and cannot be interrupted. So each search is made by a small process of its own, which is ended when its time
is up. This file is that process too: run as a script it needs the standard library alone, and starts in about 15 ms.
"""

import atexit
import json
import re
import select
import subprocess
import sys
import threading
from typing import Final

SECONDS: Final = 2.0
"""Time of one search. A readable rule takes microseconds; what takes longer is in doubt, never a FAIL."""
_START_SECONDS: Final = 30.0


class Searcher:
    """Searches texts in a process that is started when it is first needed. May be used from several threads."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def search(self, pattern: str, text: str) -> bool | None:
        """Whether `re.search` finds the pattern; None if that could not be found out in time."""
        request = json.dumps([pattern, text]).encode() + b"\n"
        with self._lock:
            try:
                reply = self._ask(request)
            except OSError:
                reply = None
            if reply is None:
                self._end()
            return {b"1": True, b"0": False}.get(reply or b"")

    def close(self) -> None:
        """End the process; the next search starts another."""
        with self._lock:
            self._end()

    def _ask(self, request: bytes) -> bytes | None:
        process = self._process
        if process is None or process.poll() is not None:
            self._end()
            process = self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
            )
            if self._line(process, _START_SECONDS) is None:
                return None
        assert process.stdin is not None
        process.stdin.write(request)
        process.stdin.flush()
        return self._line(process, self._seconds)

    @staticmethod
    def _line(process: "subprocess.Popen[bytes]", seconds: float) -> bytes | None:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], seconds)
        line = process.stdout.readline() if ready else b""
        return line.strip() if line.endswith(b"\n") else None

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue  # what was still to be written is of no use to a process that has ended


def _serve() -> None:
    """Answer each line `[pattern, text]` with 1 (found), 0 (not found) or 2 (the pattern is none)."""
    print("ready", flush=True)
    for line in sys.stdin:
        pattern, text = json.loads(line)
        try:
            found = re.search(pattern, text) is not None
        except (re.error, OverflowError, RecursionError, MemoryError):
            print("2", flush=True)
            continue
        print("1" if found else "0", flush=True)


SEARCHER: Final = Searcher()
"""The one that rules use."""

if __name__ == "__main__":
    _serve()
else:
    atexit.register(SEARCHER.close)
