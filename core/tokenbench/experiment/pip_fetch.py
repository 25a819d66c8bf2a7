"""Run `pip download` for one pinned source archive, and stop it before any code of that archive could run.

pip cannot merely download a source distribution: it unpacks it and runs its build backend to learn its metadata. But
pip alone knows the user's index, proxy, certificates and credentials. So pip runs here under an audit hook
(https://peps.python.org/pep-0578/): as soon as pip opens a complete archive with the wanted sha256 for reading, before
it has unpacked anything, the archive is copied and the process ends. Every attempt to start a process is refused.

Usage: python -P pip_fetch.py SHA256 TARGET PIP_ARGUMENT…

Exit code 0 without TARGET: pip ended without opening such an archive. This file needs the standard library and pip.
"""

import hashlib
import importlib.util
import os
import runpy
import shutil
import sys
from pathlib import Path

ARCHIVES = (".tar.gz", ".tgz", ".zip", ".tar.bz2", ".tar.xz", ".tar")
PROCESSES = frozenset(
    {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn"}
)


class Guard:
    """The audit hook."""

    def __init__(self, wanted: str, target: Path) -> None:
        self.wanted = wanted
        self.target = target
        self.looking = False

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        """Refuse processes; look at every archive that is opened for reading."""
        if event in PROCESSES:
            raise PermissionError("no process may be started while an archive is fetched")
        if event != "open" or self.looking or not arguments:
            return
        opened = arguments[0]
        mode = arguments[1] if len(arguments) > 1 else None
        if isinstance(opened, str) and opened.endswith(ARCHIVES) and (mode is None or mode in ("r", "rb")):
            self.look(Path(opened))

    def look(self, archive: Path) -> None:
        """Take the archive and end the process, if it is the wanted one and complete."""
        self.looking = True
        try:
            if not archive.is_file() or digest(archive) != self.wanted:
                return
            part = self.target.with_name(self.target.name + ".part")
            shutil.copyfile(archive, part)
            if digest(part) != self.wanted:
                return
            part.replace(self.target)
        except OSError as error:
            print(f"ERROR: could not keep the archive: {error.strerror}", file=sys.stderr, flush=True)
            os._exit(3)
        finally:
            self.looking = False
        os._exit(0)


def digest(path: Path) -> str:
    """sha256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    if importlib.util.find_spec("pip") is None:
        sys.exit("No module named pip")
    sys.addaudithook(Guard(sys.argv[1], Path(sys.argv[2])))
    sys.argv = ["pip", *sys.argv[3:]]
    runpy.run_module("pip", run_name="__main__")
