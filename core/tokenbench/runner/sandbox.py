"""The closed room of an agent: with bubblewrap, what its arm is not given does not exist for it.

A run sees system folders, its CLI, a private HOME and a temporary folder, each at a path that never changes, and either
the corpus (read-only) or an empty folder; an arm with `xq` also sees the index (read-only) and one file to which its
queries are appended. It has process ids and a network of its own, and one way out (`runner.exits`). What is missing is
never worked around: without a working `bwrap` there is no `Sandbox` but a reason why.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, NamedTuple

from tokenbench.agents.claude.launch import SYSTEM_PATH, Cli, Rooms
from tokenbench.errors import RunnerError
from tokenbench.experiment.model import Arm
from tokenbench.files import private_folder, write_atomically
from tokenbench.runner.exits import PORT
from tokenbench.runner.places import XQ_PROGRAM
from tokenbench.text import one_line

Setting = Literal["auto", "required", "off"]
TOOL: Final = "bwrap"
INSIDE: Final = Rooms(Path("/home/agent"), Path("/tmp"), Path("/empty"), Path("/opt/xq/bin"))
"""The folders of a run as it sees them."""
CORPUS: Final = Path("/corpus")
INDEX: Final = Path("/index")
ACCESS: Final = Path("/opt/xq/access.json")
SERVERS: Final = Path("/opt/mcp.json")
"""Where the agent is told of its MCP servers."""
QUERIES: Final = Path("/queries.jsonl")
_LIBRARY: Final = "/opt/xq/lib"
_AGENT: Final = "/opt/claude"
_INTERPRETER: Final = "/opt/interpreter"
_PYTHON: Final = "/opt/python"
_ENTRANCE: Final = "/opt/entrance.py"
_SEALED: Final = "(private)"
_ALWAYS: Final = ("--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--hostname", "agent")
_LINKED: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""In the root of most systems these are links into /usr; where they are folders, they are mounted."""
_OF_ETC: Final = ("/etc/alternatives", "/etc/ld.so.cache")
"""Links of commands such as `awk`, and where libraries lie; no user, no host, no key."""
_PACKAGES: Final = ("/usr/lib/python3*/*-packages", "/usr/local/lib/python3*/*-packages", "/usr/local/lib/node_modules")
"""Where other copies of a corpus may lie that are nobody's business."""
_INSTALLED: Final = ("site-packages", "dist-packages")
_XQ_NEEDS: Final = ("tantivy",)
"""Packages that `xq` imports beside the standard library and its own."""
_TRIAL_SECONDS: Final = 30.0
_VERSION: Final = re.compile(r"\d+(\.\d+)+")


class Mount(NamedTuple):
    """A file or folder that exists inside."""

    source: Path
    target: str
    writable: bool = False

    @property
    def words(self) -> tuple[str, str, str]:
        """As `bwrap` is told."""
        return ("--bind" if self.writable else "--ro-bind", str(self.source), self.target)


class Given(NamedTuple):
    """What one run is given beside what all have."""

    corpus: Path | None
    """Root of the corpus, for an arm that works in it."""
    index_folder: Path | None = None
    """Folder of the index, for an arm that has `xq`."""
    access: Path | None = None
    """Its access file, which speaks of paths inside."""
    log: Path | None = None
    """The file that its queries are appended to; it must exist."""
    more: tuple[Mount, ...] = ()
    """What its MCP servers need."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A `bwrap` that was tried and works, and what every run sees in it."""

    bwrap: Path
    version: str
    """`0.8.0`"""
    system: tuple[str, ...]
    """Words for what belongs to this machine."""
    tools: tuple[Mount, ...]
    """The CLI, the entrance, and what it takes to run them."""
    retrieval: tuple[Mount, ...]
    """`xq` and what it takes to run it."""
    python: tuple[str, ...]
    """How the entrance is started, inside."""
    agent: tuple[str, ...]
    """How the agent's argv begins, inside."""

    @property
    def name(self) -> str:
        """`bubblewrap 0.8.0`"""
        return f"bubblewrap {self.version}"

    def words(self, rooms: Rooms, given: Given) -> tuple[str, ...]:
        """The argument list that closes the room: everything before the entrance.

        Args:
            rooms: The folders of the run's slot, outside.
            given: What its arm gets.
        """
        mounts = [
            Mount(rooms.temporary, str(INSIDE.temporary), writable=True),
            Mount(rooms.home, str(INSIDE.home), writable=True),
            *self.tools,
        ]
        if given.corpus is not None:
            mounts.append(Mount(given.corpus, str(CORPUS)))
        else:
            mounts.append(Mount(rooms.empty, str(INSIDE.empty), writable=True))
        if given.index_folder is not None and given.access is not None and given.log is not None:
            mounts += self.retrieval
            mounts += [Mount(given.index_folder, str(INDEX)), Mount(given.access, str(ACCESS))]
            mounts.append(Mount(given.log, str(QUERIES), writable=True))
        mounts += given.more
        folder = CORPUS if given.corpus is not None else INSIDE.empty
        return (
            str(self.bwrap),
            *_ALWAYS,
            *self.system,
            *(word for mount in mounts for word in mount.words),
            # What is in no mount cannot be written: a file in the root would outlive nothing, but could be read.
            *("--remount-ro", "/", "--chdir", str(folder)),
        )

    def sealed(self) -> tuple[str, ...]:
        """How runs are confined, without what belongs to this machine or differs between runs."""
        private = Path(_SEALED)
        plain = replace(self, bwrap=Path(TOOL), system=(), tools=(), retrieval=())
        return plain.words(Rooms(private, private, private, private), Given(private, private, private, private))

    def entrance(self, descriptor: int, ways: int = 1) -> tuple[str, ...]:
        """What stands between these words and the agent's own argument list.

        Args:
            descriptor: The inherited socket that the ways out are handed through.
            ways: Their number.
        """
        ports = ",".join(str(PORT + way) for way in range(ways))
        return (*self.python, _ENTRANCE, str(descriptor), ports, "PWD,LD_LIBRARY_PATH", "--")


class Confinement(NamedTuple):
    """Whether the runs of an experiment are confined."""

    sandbox: Sandbox | None
    reason: str
    """Why they are not; empty where they are."""

    @property
    def told(self) -> str:
        """The tool, or why there is none."""
        return self.sandbox.name if self.sandbox is not None else self.reason


def folder_inside(arm: Arm) -> Path:
    """The working folder of a confined run, as it sees it."""
    return CORPUS if arm.folder == "corpus" else INSIDE.empty


def find(
    setting: Setting, *, cli: Cli, scratch: Path, hidden: Iterable[Path] = (), search_path: str | None = None
) -> Confinement:
    """The sandbox that an experiment asks for, tried out; or why there is none.

    Args:
        setting: `experiment.sandbox`.
        cli: The agent's CLI.
        scratch: A private folder of the runner, for the `xq` command that is mounted.
        hidden: Folders that must not exist inside although a system folder may hold them: the corpus, the experiment.
        search_path: PATH to search for `bwrap`; that of this process if None.

    Raises:
        RunnerError: A sandbox is required, and there is none that works.
    """
    if setting == "off":
        return Confinement(None, 'experiment.sandbox is "off"')
    try:
        return Confinement(_find(cli, scratch, tuple(hidden), search_path), "")
    except _Unavailable as error:
        if setting == "required":
            raise RunnerError(
                f"experiment.sandbox is required, and there is none: {error}",
                remedy="Install bubblewrap and allow it user namespaces, or give the setting up: nothing was run",
            ) from error
        return Confinement(None, str(error))


class _Unavailable(Exception):
    """Why there is no sandbox, one sentence without a full stop."""


def _find(cli: Cli, scratch: Path, hidden: Sequence[Path], search_path: str | None) -> Sandbox:
    found = shutil.which(TOOL, path=search_path)
    if found is None:
        raise _Unavailable("bwrap is not on PATH")
    bwrap = Path(found).absolute()
    match = _VERSION.search(_tell([str(bwrap), "--version"]))
    python, interpreter = _python(private_folder(scratch / "nothing"))
    agent, tools = _agent(cli)
    here = Path(__file__)
    sandbox = Sandbox(
        bwrap=bwrap,
        version=match.group() if match else "of unknown version",
        system=(
            *_system(),
            *_masks(hidden),
            *(("--setenv", "LD_LIBRARY_PATH", f"{_PYTHON}/lib") if interpreter else ()),
        ),
        tools=(Mount(here.with_name("entrance.py"), _ENTRANCE), *interpreter, *tools),
        retrieval=_retrieval(python, here.parents[1], scratch),
        python=python,
        agent=agent,
    )
    _try(sandbox, scratch)
    return sandbox


def _tell(command: Sequence[str]) -> str:
    """Standard output of a command that must succeed; else its complaint is the reason."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TRIAL_SECONDS,
            env={"PATH": SYSTEM_PATH},
            cwd="/",
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Unavailable(f"bwrap could not be started: {one_line(str(error), 200)}") from error
    if done.returncode != 0:
        said = one_line(done.stderr.decode("utf-8", "replace").strip().partition("\n")[0], 200)
        raise _Unavailable(f"bwrap failed with exit code {done.returncode}: {said or 'it said nothing'}")
    return done.stdout.decode("utf-8", "replace")


def _try(sandbox: Sandbox, scratch: Path) -> None:
    """Close a room with nothing in it, and look whether its processes and its network are its own."""
    rooms = Rooms(*(private_folder(scratch / name) for name in Rooms._fields))
    # Not the entrance itself, but its interpreter, with nothing mounted but what it needs.
    probe = "import os,socket;print(os.getpid() < 9, [name for _, name in socket.if_nameindex()])"
    said = _tell([*sandbox.words(rooms, Given(None)), "--", *sandbox.python, "-c", probe]).strip()
    if said != "True ['lo']":
        raise _Unavailable(f"bwrap closed no room: process ids or network are not its own ({one_line(said, 60)})")


def _system() -> tuple[str, ...]:
    words: list[str] = ["--ro-bind", "/usr", "/usr"]
    for name in _LINKED:
        path = Path("/", name)
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    for name in _OF_ETC:
        if Path(name).exists():
            words += ["--ro-bind", name, name]
    return (*words, "--proc", "/proc", "--dev", "/dev")


def _in_system(path: Path) -> bool:
    """Whether a path exists inside because a system folder does."""
    return any(path.is_relative_to(folder) for folder in ("/usr", *(f"/{name}" for name in _LINKED)))


def _masks(hidden: Iterable[Path]) -> tuple[str, ...]:
    """Empty folders over what a system folder holds and no arm is given."""
    found = [path for pattern in _PACKAGES for path in Path("/").glob(pattern[1:])]
    found += [path.resolve() for path in hidden if _in_system(path.resolve())]
    return tuple(word for path in dict.fromkeys(found) if path.is_dir() for word in ("--tmpfs", str(path)))


def _python(nothing: Path) -> tuple[tuple[str, ...], tuple[Mount, ...]]:
    """How this Python is started inside, and what of it must be mounted: never its site packages.

    Args:
        nothing: An empty folder.
    """
    executable = Path(str(getattr(sys, "_base_executable", sys.executable))).resolve()
    library = Path(sysconfig.get_path("stdlib")).resolve()
    options = ("-I", "-S")
    if _in_system(executable) and _in_system(library):
        return (str(executable), *options), ()
    # Python finds its library beside its executable, wherever the two lie.
    command = f"{_PYTHON}/bin/{executable.name}"
    inside = f"{_PYTHON}/lib/{library.name}"
    mounts = [Mount(executable, command)]
    mounts.append(Mount(library, inside))
    # What is installed there may be another copy of the corpus.
    mounts += [Mount(nothing, f"{inside}/{name}") for name in _INSTALLED if (library / name).is_dir()]
    shared = sysconfig.get_config_var("INSTSONAME")
    place = sysconfig.get_config_var("LIBDIR")
    if shared and place and ".so" in str(shared) and (Path(str(place)) / str(shared)).is_file():
        mounts.append(Mount((Path(str(place)) / str(shared)).resolve(), f"{_PYTHON}/lib/{shared}"))
    return (command, *options), tuple(mounts)


def _agent(cli: Cli) -> tuple[tuple[str, ...], tuple[Mount, ...]]:
    """How the CLI is started inside, and what of it must be mounted."""
    mounts: list[Mount] = []
    *before, script = cli.command
    if before:
        interpreter = Path(before[0]).resolve()
        if not _in_system(interpreter):
            mounts.append(Mount(interpreter, _INTERPRETER))
            before[0] = _INTERPRETER
    path = Path(script).resolve()
    if _in_system(path):
        return (*before, str(path)), tuple(mounts)
    # A script of a package needs the package; a program is one file.
    root = next((folder for folder in path.parents if (folder / "package.json").is_file()), None) if before else None
    if root is None:
        mounts.append(Mount(path, _AGENT))
        return (*before, _AGENT), tuple(mounts)
    mounts.append(Mount(root, _AGENT))
    return (*before, f"{_AGENT}/{path.relative_to(root)}"), tuple(mounts)


def _retrieval(python: Sequence[str], package: Path, scratch: Path) -> tuple[Mount, ...]:
    """`xq` for the inside: of this package only what it needs, since others of its files speak of questions."""
    script = scratch / "xq"
    code = XQ_PROGRAM.format(path=[_LIBRARY])
    library = f"LD_LIBRARY_PATH={_PYTHON}/lib " if python[0].startswith(_PYTHON) else ""
    write_atomically(script, f'#!/bin/sh\n{library}exec {" ".join(python)} -c "{code}" "$@"\n'.encode(), mode=0o500)
    mounts = [Mount(script, f"{INSIDE.bin}/xq")]
    own = (*sorted(package.glob("*.py")), package / "__pycache__", package / "retrieval")
    mounts += [Mount(path, f"{_LIBRARY}/tokenbench/{path.name}") for path in own if path.exists()]
    for name in _XQ_NEEDS:
        place = next((Path(entry, name) for entry in sys.path if entry and Path(entry, name).is_dir()), None)
        if place is not None:
            mounts.append(Mount(place.resolve(), f"{_LIBRARY}/{name}"))
    return tuple(mounts)
