"""The MCP servers of one run: what is started for it, and what its agent is told of them.

A server that speaks HTTP, and the product's own, run outside of the agent's room: the agent is given an address, and in
a sandbox one more way out that leads there and nowhere else. A server with a command is started by the agent itself, in
its room.
"""

import contextlib
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tokenbench.agents.claude.launch import ACCESS, RUN_MARKER, SYSTEM_PATH
from tokenbench.errors import AgentError
from tokenbench.experiment.model import Arm, Loaded, McpServer
from tokenbench.runner.exits import PORT, Destination
from tokenbench.runner.headers import HOST, HeaderProxy
from tokenbench.runner.sandbox import Mount
from tokenbench.text import one_line

_SECONDS: Final = 5.0
"""That a server of ours may take to end."""


class Wanted(NamedTuple):
    """What an arm's servers are started with."""

    marker: str
    """The run marker of what is started here."""
    access: Path
    """The access file of the product's own server; it speaks of paths outside."""
    values: Mapping[str, str]
    """Values of the operator's variables that servers name."""
    confined: bool
    """Whether the agent runs in a sandbox."""


class Served(NamedTuple):
    """What the agent of a run is told and given."""

    config: bytes
    """For `--mcp-config`, as the agent sees it."""
    ways: tuple[Destination, ...]
    """Further ways out of a sandbox, behind that to the API."""
    mounts: tuple[Mount, ...]


def named_values(loaded: Loaded, environment: Mapping[str, str]) -> dict[str, str]:
    """Values of all the variables that servers of the experiment's arms name.

    Raises:
        AgentError: One is not set; which server needs it is said.
    """
    found: dict[str, str] = {}
    for name, arm in loaded.config.arms.items():
        found |= values_of(arm.mcp, environment, where=f"tokenbench.toml: arms.{name}.mcp")
    return found


def values_of(servers: Mapping[str, McpServer], environment: Mapping[str, str], *, where: str) -> dict[str, str]:
    """Values of the variables that these servers name.

    Args:
        servers: By name.
        environment: The operator's.
        where: What names them.

    Raises:
        AgentError: One is not set; which server needs it is said.
    """
    found: dict[str, str] = {}
    for name, server in servers.items():
        for variable in (*server.environment, *server.headers.values()):
            if variable not in environment:
                raise AgentError(
                    f"the variable {one_line(variable, 60)} is not set, and the server {one_line(name, 60)} needs it",
                    where=one_line(where, 200),
                    remedy=f"Set {one_line(variable, 60)} in the environment; its value is kept in no file",
                )
            found[variable] = environment[variable]
    return found


@contextlib.asynccontextmanager
async def served(arm: Arm, wanted: Wanted) -> AsyncGenerator[Served]:
    """Start what an arm's servers need outside, for as long as its run lasts.

    Raises:
        AgentError: A server of ours could not be started.
    """
    entries: dict[str, object] = {}
    ways: list[Destination] = []
    mounts: list[Mount] = []
    async with contextlib.AsyncExitStack() as running:
        for name, server in arm.mcp.items():
            if server.command:
                entries[name] = _started_by_the_agent(server, wanted)
                mounts += [Mount(Path(path), path) for path in server.mounts]
                continue
            if server.builtin is not None:
                address = running.enter_context(_own(wanted))
            else:
                headers = {header: wanted.values[variable] for header, variable in server.headers.items()}
                address = await running.enter_async_context(HeaderProxy(server.url or "", headers).serving())
            port, _, path = address.rpartition(":")[2].partition("/")
            if wanted.confined:
                ways.append(Destination(HOST, int(port), False, None))
                address = f"http://{HOST}:{PORT + len(ways)}/{path}"
            entries[name] = {"type": "http", "url": address}
        yield Served(msgspec.json.encode({"mcpServers": entries}), tuple(ways), tuple(mounts))


def _started_by_the_agent(server: McpServer, wanted: Wanted) -> dict[str, object]:
    command, *arguments = server.command
    values = {variable: wanted.values[variable] for variable in server.environment}
    return {"type": "stdio", "command": command, "args": arguments, "env": values}


@contextlib.contextmanager
def _own(wanted: Wanted) -> Generator[str]:
    """The product's own server, as a process; yields its address, which answers from now on."""
    path = f"/{secrets.token_hex(16)}"
    with socket.create_server((HOST, 0)) as door:
        command = [sys.executable, "-P", "-m", "tokenbench.retrieval.mcp_server", "--socket", str(door.fileno()), path]
        environment = {
            "PATH": SYSTEM_PATH,
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if Path(entry).is_absolute()),
            RUN_MARKER: wanted.marker,
            ACCESS: str(wanted.access),
        }
        address = f"http://{HOST}:{door.getsockname()[1]}{path}"
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd="/",
                start_new_session=True,
                pass_fds=(door.fileno(),),
            )
        except OSError as error:
            raise AgentError(
                f"the MCP server of xq could not be started: {error.strerror or error}",
                remedy="Free memory or processes, then try again",
            ) from error
    try:
        yield address
    finally:
        process.terminate()
        try:
            process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
