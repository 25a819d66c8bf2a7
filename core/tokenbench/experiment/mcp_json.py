"""`.mcp.json`, in which agent CLIs keep their MCP servers, as servers of an arm.

Values of variables and headers are not taken over: they may be secrets, and tokenbench.toml is sealed and shown. What
has to be set in the environment instead is said.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tokenbench.decoding import UNREADABLE
from tokenbench.errors import ConfigError
from tokenbench.experiment.model import McpServer
from tokenbench.experiment.reading import UnreadableError, read_text
from tokenbench.experiment.servers import SERVER, URL, VARIABLE
from tokenbench.text import one_line

_BYTES: Final = 1 << 20
_WHOLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}\Z")
_PART: Final = re.compile(r"\$\{[^}]*\}")


class Servers(NamedTuple):
    """What stood in the file."""

    servers: dict[str, McpServer]
    to_set: tuple[str, ...]
    """Sentences on variables that have to be set before a run."""


class _Entry(msgspec.Struct):
    type: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}


class _File(msgspec.Struct):
    servers: dict[str, _Entry] = msgspec.field(name="mcpServers")


def read_mcp_json(path: Path) -> Servers:
    """The servers of this file.

    Raises:
        ConfigError: It cannot be read, or a server in it can be no server of an arm.
    """
    where = one_line(str(path), 200)
    try:
        found = msgspec.json.decode(read_text(path, _BYTES), type=_File)
    except UnreadableError as error:
        what = "there is no such file" if error.missing else error.what
        raise ConfigError(what, where=where, remedy=error.remedy) from error
    except UNREADABLE as error:
        raise ConfigError(
            f"is no file of MCP servers: {one_line(str(error), 200)}",
            where=where,
            remedy='It must be JSON: {"mcpServers": {"NAME": {"command": "…", "args": []}}}, or with "url"',
        ) from error
    servers: dict[str, McpServer] = {}
    to_set: list[str] = []
    for name, entry in found.servers.items():
        at = f"{where}: mcpServers.{one_line(name, 60)}"
        if not SERVER.match(name):
            raise ConfigError(
                "cannot be the name of a server", where=at, remedy="Use letters, digits, - and single underscores"
            )
        servers[name] = _http(name, entry, at, to_set) if entry.url is not None else _stdio(entry, at, to_set)
    if not servers:
        raise ConfigError("names no server", where=where, remedy="Name another file")
    return Servers(servers, tuple(to_set))


def _stdio(entry: _Entry, at: str, to_set: list[str]) -> McpServer:
    if not entry.command:
        raise ConfigError("has neither a command nor a url", where=at, remedy="Give it one of the two")
    words = (entry.command, *entry.args)
    if filled := next((word for word in words if _PART.search(word)), None):
        raise ConfigError(
            f"has a variable in its command: {one_line(filled, 80)}", where=at, remedy="Write the command out in full"
        )
    for variable, value in entry.env.items():
        if not VARIABLE.match(variable):
            raise ConfigError(
                f"names the variable {one_line(variable, 40)}", where=at, remedy="Mend its name, or take it out"
            )
        known = _WHOLE.match(value)
        if known is None or known[1] != variable:
            to_set.append(f"set {variable} as {at} does")
    return McpServer(command=words, environment=tuple(entry.env))


def _http(name: str, entry: _Entry, at: str, to_set: list[str]) -> McpServer:
    url = entry.url or ""
    if not URL.match(url) or _PART.search(url):
        raise ConfigError(
            f"has the address {one_line(url, 80)}", where=at, remedy="Write it as https://HOST/PATH, without a password"
        )
    headers: dict[str, str] = {}
    for header, value in entry.headers.items():
        known = _WHOLE.match(value)
        variable = known[1] if known is not None else _variable(name, header)
        if known is None:
            to_set.append(f"set {variable} to the whole value of the header {one_line(header, 60)}")
        headers[header] = variable
    return McpServer(url=url, headers=headers)


def _variable(server: str, header: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9]+", "_", f"{server}_{header}").strip("_").upper()
    return plain if VARIABLE.match(plain) else f"MCP_{plain}"
