"""A small process that outlives its runner by a moment: if the runner is killed, it ends the runner's agents.

An agent whose reader has gone goes on asking the API, and somebody pays for it. Nobody but another process can notice a
`kill -9`: the guard waits for the end of a pipe whose other end only the runner holds.
"""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

from tokenbench.errors import RunnerError
from tokenbench.runner.processes import end_marked


@contextmanager
def guarded(prefix: str) -> Generator[int]:
    """Have every process whose marker begins so ended when this process is, whatever ends it; yields the guard's pid.

    Raises:
        RunnerError: The guard could not be started.
    """
    command = [sys.executable, "-P", "-m", "tokenbench.runner.guard", prefix]
    try:
        # A session of its own: a signal to the runner's group must not reach it.
        guard = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
    except OSError as error:
        raise RunnerError(
            f"the guard could not be started: {error.strerror or error}",
            remedy="Free memory or processes, then start again",
        ) from error
    try:
        yield guard.pid
    finally:
        assert guard.stdin is not None
        guard.stdin.close()
        guard.wait()


def main() -> int:
    """Wait for the end of standard input, then end what carries the mark."""
    sys.stdin.buffer.read()
    end_marked(sys.argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
