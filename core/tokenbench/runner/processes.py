"""Ending what a run started, and finding what outlived it.

The Bash tool of an agent runs its commands in sessions of their own, so that a signal to the agent's group does not
reach them: they are found by the run's marker in their environment.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import psutil

from tokenbench.agents.claude.launch import RUN_MARKER

_PR_SET_CHILD_SUBREAPER: Final = 36
_GONE_SECONDS: Final = 2.0


def adopt_orphans() -> bool:
    """Make this process the parent of what its descendants leave behind, so that no zombie of theirs stays.

    Returns:
        Whether the system can (Linux); without it orphans belong to init.
    """
    if sys.platform != "linux":
        return False
    return ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to the process group that this process leads; a group that is gone is no error."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        # PermissionError: macOS, for a group of zombies.
        return


def marked(prefix: str) -> list[psutil.Process]:
    """Living processes whose environment holds the run marker with a value that begins so."""
    found: list[psutil.Process] = []
    me = os.getpid()
    for process in psutil.process_iter():
        if process.pid == me:
            continue
        try:
            if process.environ().get(RUN_MARKER, "").startswith(prefix) and _lives(process):
                found.append(process)
        except (psutil.Error, OSError):
            # Gone meanwhile, or not ours to look at.
            continue
    return found


def end_marked(prefix: str) -> int:
    """Kill every process with that marker until none is left, and return how many there were.

    A process may start another while it is being killed, hence the rounds; the last one finds nothing.
    """
    ended = 0
    for _ in range(10):
        processes = marked(prefix)
        if not processes:
            break
        for process in processes:
            try:
                process.kill()
                ended += 1
            except psutil.Error:
                continue
        deadline = time.monotonic() + _GONE_SECONDS
        while any(map(_lives, processes)) and time.monotonic() < deadline:
            time.sleep(0.005)
    return ended


def _lives(process: psutil.Process) -> bool:
    """Zombies do not: whoever is their parent may be slow to collect them."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def reap(keep: Iterable[int]) -> None:
    """Collect adopted orphans that have ended; `keep` are the pids that somebody else waits for."""
    kept = set(keep)
    try:
        children = psutil.Process().children()
    except psutil.Error:
        return
    for child in children:
        if child.pid in kept:
            continue
        try:
            if child.status() == psutil.STATUS_ZOMBIE:
                os.waitpid(child.pid, os.WNOHANG)
        except (psutil.Error, ChildProcessError):
            continue


def identity(pid: int) -> str | None:
    """What tells this process from a later one of the same pid, whatever the wall clock does; None if there is none."""
    try:
        if sys.platform == "linux":
            boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
            stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
            # Fields 3 and 22, counted behind the command's name, which may hold anything.
            fields = stat.rpartition(")")[2].split()
            return None if fields[0] in "ZX" else f"{boot}/{fields[19]}"
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except (psutil.Error, OSError, IndexError):
        return None
