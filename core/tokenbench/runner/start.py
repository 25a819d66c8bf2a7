"""Starting the runner as a process of its own, which outlives the terminal it was started from."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from tokenbench.errors import RunnerError, RunsError, TokenbenchError
from tokenbench.experiment import config
from tokenbench.files import PRIVATE_FILE
from tokenbench.runner import lock
from tokenbench.text import one_line
from tokenbench.transcripts.evidence import Runs

LOG: Final = "runner.log"


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line from a runner that gets ready to the process that started it."""

    progress: str = ""
    """A sentence for a person."""
    ready: int = 0
    """Its pid: all is prepared, and it listens on its socket."""
    what: str = ""
    """An error, as in `TokenbenchError`: nothing was run."""
    where: str = ""
    remedy: str = ""


class Teller:
    """The runner's end: tells whoever started it, as long as he listens."""

    def __init__(self, handle: int | None) -> None:
        self._handle = handle

    def tell(self, note: Note) -> None:
        """Send a note; a parent that has gone is no error."""
        if self._handle is None:
            return
        try:
            os.write(self._handle, msgspec.json.encode(note) + b"\n")
        except OSError:
            self._handle = None

    def error(self, error: TokenbenchError) -> None:
        """Say what went wrong."""
        self.tell(Note(what=error.what, where=error.where, remedy=error.remedy))

    def ready(self) -> None:
        """Say that the runner is at work, and say no more."""
        self.tell(Note(ready=os.getpid()))
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def start_runner(
    folder: Path,
    *,
    scripts: Path | None = None,
    scripted: bool | None = None,
    only: Sequence[str] = (),
    rerun: Sequence[str] = (),
    reason: str = "",
    force: bool = False,
    progress: Callable[[str], None] = lambda _text: None,
) -> int:
    """Start the runner of an experiment, detached, and wait until it is at work.

    Args:
        folder: The experiment.
        scripts: Scripts of the model, for a rehearsal.
        scripted: Whether the model is scripted; None: if there are scripts.
        only: `arm=NAME`, `question=ID`, `repeat=N`: run these cells only.
        rerun: Cells to run again that have a run which counts; nothing else is run then but what `only` names.
        reason: Why; it goes into the journal.
        force: Run them again although the mapping is open.
        progress: Receives sentences while it gets ready: fetching a corpus can take minutes.

    Returns:
        Its pid.

    Raises:
        RunnerError: A runner is at work here already, or this one ended before it was ready.
        TokenbenchError: What kept the runner from starting, in its own words.
    """
    folder = folder.resolve()
    # A folder that holds no experiment is told so before anything is made in it.
    config.load(folder)
    runs = Runs(folder / "runs")
    owner = lock.living_owner(runs.lock)
    if owner is not None:
        raise lock.taken(runs.lock, owner)
    command = [sys.executable, "-P", "-m", "tokenbench.runner", str(folder)]
    if scripts is not None:
        command += ["--scripts", str(scripts.resolve())]
    if scripted if scripted is not None else scripts is not None:
        command.append("--scripted")
    for condition in only:
        command += ["--only", condition]
    # With `=`: a name or a reason that begins with a dash is no option.
    command += [f"--rerun={cell}" for cell in rerun]
    if reason:
        command.append(f"--reason={reason}")
    if force:
        command.append("--force")
    log = _open_log(runs)
    reading, writing = os.pipe()
    try:
        with log:
            process = subprocess.Popen(
                [*command, "--ready-fd", str(writing)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(writing,),
                cwd="/",
            )
    except OSError as error:
        os.close(reading)
        raise RunnerError(
            f"the runner could not be started: {error.strerror or error}",
            where=str(folder),
            remedy="Free memory or processes, then try again",
        ) from error
    finally:
        os.close(writing)
    # Somebody has to collect it when it ends, or it would be a zombie as long as this process lives.
    threading.Thread(target=process.wait, daemon=True).start()
    return _await(process, reading, runs, progress)


def _open_log(runs: Runs) -> BinaryIO:
    runs.prepare()
    path = runs.logs / LOG
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, PRIVATE_FILE)
    except OSError as error:
        raise RunsError(
            f"could not be opened: {error.strerror or error}",
            where=str(path),
            remedy="Free space or mend the permissions there, then start again",
        ) from error
    return os.fdopen(handle, "ab")


def _await(process: "subprocess.Popen[bytes]", reading: int, runs: Runs, progress: Callable[[str], None]) -> int:
    with os.fdopen(reading, "rb") as notes:
        for line in notes:
            note = msgspec.json.decode(line, type=Note)
            if note.ready:
                return note.ready
            if note.what:
                raise RunnerError(note.what, where=note.where, remedy=note.remedy)
            progress(note.progress)
    code = process.wait()
    raise RunnerError(
        f"the runner ended before it was ready (exit code {code}): {_last_line(runs.logs / LOG)}",
        where=str(runs.logs / LOG),
        remedy="Look at the end of that file, mend what it names, then start again",
    )


def _last_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - 4096))
            lines = file.read().decode("utf-8", "replace").strip().split("\n")
    except OSError:
        return ""
    return one_line(lines[-1], 200)
