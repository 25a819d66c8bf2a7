"""Where an agent is started, in a sandbox or without one: argument list, environment and folder for a supervisor."""

import contextlib
import os
from collections.abc import AsyncGenerator, Generator, Mapping
from pathlib import Path
from typing import NamedTuple

from tokenbench.agents.claude import launch
from tokenbench.agents.claude.launch import Cli, Rooms
from tokenbench.errors import RunsError
from tokenbench.experiment.model import Arm, Limits
from tokenbench.files import write_atomically
from tokenbench.retrieval.access import write_access
from tokenbench.runner import exits, mcp, sandbox
from tokenbench.runner.sandbox import Confinement, Given, Mount, Sandbox


class Asked(NamedTuple):
    """What is to be started."""

    arm: Arm
    model: str
    limits: Limits
    marker: str
    """The value of `RUN_MARKER`."""
    key: str
    base_url: str | None
    """Address of the API, outside; None for the CLI's own."""
    corpus: Path | None = None
    """Root of the corpus, outside."""
    index_folder: Path | None = None
    """Folder of the index, outside."""
    corpus_sha256: str = ""
    access: Path | None = None
    """Where the access file of `xq` is written, outside."""
    log: Path | None = None
    """Where the queries of `xq` are written, outside."""
    values: Mapping[str, str] = {}
    """Of the operator's variables that MCP servers name."""


class Start(NamedTuple):
    """What a supervisor is given."""

    argv: tuple[str, ...]
    """Whole, with what confines it."""
    agent: tuple[str, ...]
    """The agent's own part of it."""
    confined_by: tuple[str, ...]
    """What stands before it; empty without a sandbox."""
    environment: Mapping[str, str]
    outside: Path
    """The folder that the process is started in."""
    inside: Path
    """The working folder as the agent sees it."""
    handed: tuple[int, ...]
    """Descriptors that it inherits."""


def folder_of(confinement: Confinement, arm: Arm, rooms: Rooms, corpus: Path) -> Path:
    """The working folder of a run as its agent sees it."""
    if confinement.sandbox is not None:
        return sandbox.folder_inside(arm)
    return corpus if arm.folder == "corpus" else rooms.empty


@contextlib.asynccontextmanager
async def entered(confinement: Confinement, cli: Cli, rooms: Rooms, asked: Asked) -> AsyncGenerator[Start]:
    """Everything that the start of an agent takes, for as long as it runs.

    Raises:
        AgentError: The API's address is none.
        RunsError: The access file or the log of `xq` cannot be written.
    """
    async with _servers(asked, confined=confinement.sandbox is not None) as servers:
        with _pipe(asked.key) as key:
            if confinement.sandbox is None:
                yield _unconfined(cli, rooms, asked, key=key, servers=servers)
                return
            async with _confined(confinement.sandbox, cli, rooms, asked, key=key, servers=servers) as start:
                yield start


class _Servers(NamedTuple):
    """The arm's MCP servers, at work."""

    path: Path
    """The file that tells of them, outside."""
    ways: tuple[exits.Destination, ...]
    mounts: tuple[Mount, ...]


@contextlib.asynccontextmanager
async def _servers(asked: Asked, *, confined: bool) -> AsyncGenerator[_Servers | None]:
    if not asked.arm.mcp:
        yield None
        return
    assert asked.access is not None
    access = asked.access.with_name("xq-mcp.json")
    if asked.arm.searches and asked.index_folder is not None:
        # Its server runs outside, whatever the agent is confined by.
        write_access(access, index=asked.index_folder, log=asked.log, corpus_sha256=asked.corpus_sha256)
    # Not below the run's own marker: what carries that one when the agent has ended has outlived it.
    wanted = mcp.Wanted(f"{asked.marker.rstrip('/')}~mcp/", access, asked.values, confined)
    async with mcp.served(asked.arm, wanted) as found:
        path = asked.access.with_name("mcp.json")
        write_atomically(path, found.config)
        try:
            yield _Servers(path, found.ways, (*found.mounts, Mount(path, str(sandbox.SERVERS))))
        finally:
            path.unlink(missing_ok=True)


def _searches(asked: Asked) -> bool:
    return asked.arm.retrieval and asked.index_folder is not None and asked.access is not None


def _unconfined(cli: Cli, rooms: Rooms, asked: Asked, *, key: int, servers: _Servers | None) -> Start:
    arm, searches = asked.arm, _searches(asked)
    if searches:
        _write_access(asked, index=asked.index_folder, log=asked.log)
    folder = asked.corpus if arm.folder == "corpus" and asked.corpus is not None else rooms.empty
    argv = launch.argv(cli, arm, asked.model, asked.limits, servers=servers.path if servers is not None else None)
    environment = launch.environment(
        rooms,
        arm,
        run=asked.marker,
        key=asked.key,
        base_url=asked.base_url,
        access=asked.access if searches else None,
        key_descriptor=key,
    )
    return Start(argv, argv, (), environment, folder, folder, (key,))


@contextlib.asynccontextmanager
async def _confined(
    room: Sandbox, cli: Cli, rooms: Rooms, asked: Asked, *, key: int, servers: _Servers | None
) -> AsyncGenerator[Start]:
    arm, searches = asked.arm, _searches(asked)
    more = servers.mounts if servers is not None else ()
    given = Given(asked.corpus if arm.folder == "corpus" else None, more=more)
    if searches:
        _write_access(asked, index=sandbox.INDEX, log=sandbox.QUERIES)
        given = given._replace(index_folder=asked.index_folder, access=asked.access, log=asked.log)
    to = exits.destination(asked.base_url)
    ways = (to, *(servers.ways if servers is not None else ()))
    told_of = sandbox.SERVERS if servers is not None else None
    agent = launch.argv(cli._replace(command=room.agent), arm, asked.model, asked.limits, servers=told_of)
    environment = launch.environment(
        sandbox.INSIDE,
        arm,
        run=asked.marker,
        key=asked.key,
        base_url=to.base_url,
        access=sandbox.ACCESS if searches else None,
        key_descriptor=key,
    )
    words = room.words(rooms, given)
    # Through a pipe: the first process inside is bwrap itself, and its argument list would tell what lies outside.
    closing = "".join(f"{word}\0" for word in words[1:])
    with _log(given.log), _pipe(closing) as told:
        async with exits.opened(ways) as descriptor:
            entrance = ("--", *room.entrance(descriptor, len(ways)))
            yield Start(
                argv=(words[0], "--args", str(told), *entrance, *agent),
                agent=agent,
                confined_by=(*words, *entrance),
                environment={**environment, **to.environment},
                outside=Path("/"),
                inside=sandbox.folder_inside(arm),
                handed=(descriptor, key, told),
            )


@contextlib.contextmanager
def _pipe(content: str) -> Generator[int]:
    """A pipe from which this can be read once: whoever reads after the first gets nothing."""
    reading, writing = os.pipe()
    try:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(os.fsencode(content))
        yield reading
    finally:
        os.close(reading)


def _write_access(asked: Asked, *, index: Path | None, log: Path | None) -> None:
    assert asked.access is not None
    assert index is not None
    write_access(asked.access, index=index, log=log, corpus_sha256=asked.corpus_sha256)


@contextlib.contextmanager
def _log(path: Path | None) -> Generator[None]:
    """A file can be mounted only if it exists; one to which nothing was written was not asked for."""
    if path is None:
        yield
        return
    try:
        path.touch(mode=0o600)
    except OSError as error:
        raise RunsError(
            f"could not be made: {error.strerror or error}",
            where=str(path),
            remedy="Free space or mend the permissions there, then start again; every run that had ended is kept",
        ) from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if path.stat().st_size == 0:
                path.unlink()
