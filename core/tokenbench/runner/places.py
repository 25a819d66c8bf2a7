"""Where runs live while they run: private folders of constant path, outside the corpus and outside `runs/`.

The paths are short, because the agent makes Unix sockets below TMPDIR and their paths hold 107 bytes at most.
"""

import hashlib
import os
import secrets
import shlex
import shutil
import stat
import sys
from pathlib import Path
from typing import Final

from tokenbench.agents.claude.launch import Rooms
from tokenbench.errors import RunnerError
from tokenbench.files import private_folder
from tokenbench.text import one_line

BASE_VARIABLE: Final = "TOKENBENCH_WORK"
"""Names another base folder, for a machine whose /tmp will not do."""
XQ_PROGRAM: Final = (
    "import sys;sys.argv[0]='xq';sys.path[1:1]={path!r};from tokenbench.retrieval.xq import main;sys.exit(main())"
)


def _base() -> Path:
    chosen = os.environ.get(BASE_VARIABLE)
    # Not tempfile.gettempdir(): TMPDIR differs from login to login, and with it the path.
    return Path(chosen).absolute() if chosen else Path("/tmp").resolve() / f"tokenbench-{os.getuid()}"


def _own(folder: Path) -> Path:
    """Make a private folder in a place where others may write too, and be sure that it is ours."""
    private_folder(folder)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise RunnerError(
            "is not a folder that only you may enter",
            where=one_line(str(folder), 200),
            remedy=f"Remove it, or set {BASE_VARIABLE} to a folder of your own",
        )
    return folder


def _wipe(folder: Path) -> None:
    """Empty a folder: what an earlier run left in it must not reach the next."""

    def unlock(function: object, path: str, _error: object) -> None:
        del function
        # A tool can take away its own permissions on a folder.
        Path(path).parent.chmod(0o700)
        if Path(path).is_dir() and not Path(path).is_symlink():
            Path(path).chmod(0o700)
            shutil.rmtree(path)
        else:
            Path(path).unlink(missing_ok=True)

    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder, onerror=unlock)
    private_folder(folder)


class Places:
    """The working folders of one experiment's runner."""

    def __init__(self, runs: Path) -> None:
        """
        Args:
            runs: The experiment's `runs/`; its path decides the names, so that two experiments never share a HOME.
        """
        self.id = hashlib.sha256(os.fsencode(runs.resolve())).hexdigest()[:12]
        """Names this `runs/` on this machine."""
        self.folder = _base() / self.id
        self._runner = secrets.token_hex(4)

    def prepare(self) -> None:
        """Make the folders and the `xq` command.

        Raises:
            RunnerError: Somebody else's folder is in the way.
            RunsError: The disk is full, or the folder may not be written.
        """
        _own(self.folder.parent)
        _own(self.folder)
        self._make_xq(private_folder(self.folder / "bin"))

    def _make_xq(self, folder: Path) -> None:
        # -I -S and the search path spelled out: no site packages are scanned (5 to 8 ms of 60), and it works from any
        # environment without being installed anywhere.
        path = [entry for entry in sys.path if entry and Path(entry).is_absolute()]
        code = shlex.quote(XQ_PROGRAM.format(path=path))
        script = folder / "xq"
        try:
            script.unlink(missing_ok=True)
            script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -S -c {code} "$@"\n', "utf-8")
            script.chmod(0o500)
        except OSError as error:
            raise RunnerError(
                f"could not be written: {error.strerror or error}",
                where=one_line(str(script), 200),
                remedy=f"Free space there, or set {BASE_VARIABLE} to a folder of your own",
            ) from error

    def rooms(self, slot: int) -> Rooms:
        """The folders of a slot: names alone, nothing is made."""
        folder = self.folder / f"s{slot}"
        return Rooms(folder / "home", folder / "tmp", folder / "empty", self.folder / "bin")

    def clean(self, slot: int) -> Rooms:
        """The folders of a slot, empty, as each run finds them.

        Raises:
            RunnerError: What an earlier run left cannot be removed.
        """
        rooms = self.rooms(slot)
        for folder in (rooms.home, rooms.temporary, rooms.empty):
            try:
                _wipe(folder)
            except OSError as error:
                raise RunnerError(
                    f"could not be emptied: {error.strerror or error}",
                    where=one_line(str(folder), 200),
                    remedy="Remove the folder, then start again",
                ) from error
        return rooms

    def access(self, slot: int) -> Path:
        """The access file of `xq` for a slot's run."""
        return self.folder / f"s{slot}" / "xq.json"

    @property
    def sandbox(self) -> Path:
        """What the runner makes for its sandboxes."""
        return self.folder / "sandbox"

    @property
    def socket(self) -> Path:
        """A short path for the control socket, where that of `runs/` is too long."""
        return self.folder / "control.sock"

    def marker(self, stem: str, attempt: int) -> str:
        """The run marker of an attempt of this runner.

        The agent's tools can read it, so it names neither arm nor question.
        """
        name = hashlib.sha256(f"{self._runner}/{stem}".encode()).hexdigest()[:12]
        return f"{self.own_marks}{name}/{attempt}/"

    @property
    def own_marks(self) -> str:
        """How the markers of this runner's runs begin."""
        return f"{self.marker_prefix}{self._runner}/"

    @property
    def marker_prefix(self) -> str:
        """How the markers of every run of this experiment begin, whichever runner started it."""
        return f"{self.id}/"
