"""MCP servers of an arm, as tokenbench.toml names them."""

import re
from collections.abc import Callable
from typing import Final, NoReturn

from tokenbench.experiment import decoding
from tokenbench.experiment.decoding import key_path, named
from tokenbench.experiment.model import MCP_PREFIX, Arm
from tokenbench.text import one_line

SERVER: Final = re.compile(r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*\Z")
"""Names of MCP servers: `mcp__SERVER__TOOL` must have one reading."""
URL: Final = re.compile(r"https?://[^\s/?#@]+(?:[/?][^\s#]*)?\Z")
"""Without a user and password in it, which would be a secret in a file that is sealed and shown."""
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

Fail = Callable[[decoding.Path, str, str], NoReturn]
"""Raises the ConfigError of a key path, with what is wrong and the remedy."""


def check_servers(name: str, arm: Arm, fail: Fail) -> None:
    """Whether the MCP servers of an arm can be started, and belong to its tools.

    Args:
        name: Of the arm.
        arm: The arm.
        fail: Is called with the first thing that is wrong.
    """
    for server, spec in arm.mcp.items():
        where = ("arms", name, "mcp", server)
        shown = key_path(where)
        if not SERVER.match(server):
            fail(where, f"`{shown}` cannot be the name of a server", "Use letters, digits, - and single underscores")
        kinds = [
            key for key, given in (("builtin", spec.builtin), ("command", spec.command), ("url", spec.url)) if given
        ]
        if len(kinds) != 1:
            fail(
                where, f"`{shown}` has {named(kinds) or 'none'} of builtin, command and url", "Give exactly one of them"
            )
        for key, given, belongs in (
            ("environment", spec.environment, "command"),
            ("mounts", spec.mounts, "command"),
            ("headers", spec.headers, "url"),
        ):
            if given and belongs not in kinds:
                fail((*where, key), f"`{shown}.{key}` belongs to a server with `{belongs}`", "Take it out")
        if spec.url is not None and not URL.match(spec.url):
            fail((*where, "url"), f"`{shown}.url` is `{one_line(spec.url, 80)}`", "Write it as https://HOST/PATH")
        for variable in (*spec.environment, *spec.headers.values()):
            if not VARIABLE.match(variable):
                fail(
                    where,
                    f"`{shown}` names the variable `{one_line(variable, 40)}`",
                    "Write the name of an environment variable, never a value: values stand in no file",
                )
        if relative := [path for path in spec.mounts if not path.startswith("/") or "\0" in path]:
            fail((*where, "mounts"), f"`{shown}.mounts` holds {named(relative)}", "Give absolute paths")
        if spec.usd_per_call is not None and spec.usd_per_call < 0:
            fail((*where, "usd_per_call"), f"`{shown}.usd_per_call` is below 0", "Write what a call costs, or 0")
        if not any(tool.startswith(f"{MCP_PREFIX}{server}__") for tool in arm.tools):
            fail(
                where,
                f"`{shown}` is a server of which the arm has no tool",
                f"Name its tools in `arms.{name}.tools`, as `{MCP_PREFIX}{server}__TOOL`",
            )
    for tool in arm.tools:
        if tool.startswith(MCP_PREFIX) and tool.removeprefix(MCP_PREFIX).split("__")[0] not in arm.mcp:
            fail(
                ("arms", name, "tools"),
                f"`arms.{name}.tools` names {one_line(tool, 80)}, and the arm has no such server",
                f"Add [arms.{name}.mcp.SERVER], or take the tool out",
            )
