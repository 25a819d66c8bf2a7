"""What MCP servers say of themselves: instructions and tool definitions stand in the prompt, and decide what it costs.

Each is asked before the runs, as the protocol has it; `runs/servers.json` keeps the words, and the seal a hash.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from tokenbench.agents.claude.launch import MCP_OUTPUT_TOKENS, SYSTEM_PATH
from tokenbench.errors import AgentError
from tokenbench.experiment.model import Arm
from tokenbench.files import write_atomically
from tokenbench.retrieval.mcp_server import MISSING
from tokenbench.runner.mcp import Wanted, served
from tokenbench.text import one_line

if TYPE_CHECKING:
    from mcp import ClientSession

_SECONDS: Final = 30.0


class Introduction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one server said."""

    server: str = ""
    """Its own name and version."""
    protocol: str = ""
    instructions: str = ""
    """Text that the agent puts into its prompt."""
    tools: Mapping[str, str] = {}
    """sha256 of each tool's definition, by its name."""
    definition_characters: int = 0
    """Of all definitions together, as JSON."""
    failed: str = ""
    """Why it said nothing."""

    @property
    def sha256(self) -> str | None:
        """Of all that it said; None where it said nothing."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest() if not self.failed else None


class Introductions(msgspec.Struct, frozen=True, kw_only=True):
    """`runs/servers.json`"""

    output_tokens: str = MCP_OUTPUT_TOKENS
    """The cap on a result of an MCP tool."""
    deferred: Mapping[str, bool]
    """By arm: whether definitions wait until the agent searches for them."""
    arms: Mapping[str, Mapping[str, Introduction]]

    def hashes(self) -> dict[str, str]:
        """sha256 of what each server said, by `arm.server`, for the seal; those that said nothing are left out."""
        return {
            f"{arm}.{name}": digest
            for arm, servers in self.arms.items()
            for name, said in servers.items()
            if (digest := said.sha256) is not None
        }


async def introductions(arms: Mapping[str, Arm], wanted: Wanted) -> Introductions:
    """Ask every server of these arms.

    Args:
        arms: Those that have servers.
        wanted: What servers are started with; the agent is not confined here, because there is none.

    Raises:
        AgentError: The `mcp` extra is not installed.
    """
    try:
        import mcp as _mcp
    except ImportError as error:
        raise AgentError(MISSING.partition(".")[0], remedy=MISSING.partition(". ")[2]) from error
    del _mcp
    found: dict[str, dict[str, Introduction]] = {}
    for name, arm in arms.items():
        async with served(arm, wanted) as at_work:
            entries = cast("dict[str, dict[str, Any]]", json.loads(at_work.config)["mcpServers"])
            found[name] = {server: await _introduction(entry) for server, entry in entries.items()}
    return Introductions(deferred={name: arm.defer_tools for name, arm in arms.items()}, arms=found)


def write(path: Path, found: Introductions) -> None:
    """Store them.

    Raises:
        RunsError: The disk is full, or the folder may not be written.
    """
    write_atomically(path, msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")


async def _introduction(entry: Mapping[str, Any]) -> Introduction:
    try:
        async with asyncio.timeout(_SECONDS), _session(entry) as session:
            hello = await session.initialize()
            tools = (await session.list_tools()).tools
    except Exception as error:  # noqa: BLE001  # a foreign server may do anything; its runs are quarantined
        return Introduction(failed=one_line(f"{type(error).__name__}: {error}", 200))
    definitions = {tool.name: tool.model_dump_json(by_alias=True, exclude_none=True) for tool in tools}
    return Introduction(
        server=f"{hello.server_info.name} {hello.server_info.version}",
        protocol=str(hello.protocol_version),
        instructions=hello.instructions or "",
        tools={name: hashlib.sha256(text.encode()).hexdigest() for name, text in sorted(definitions.items())},
        definition_characters=sum(map(len, definitions.values())),
    )


@asynccontextmanager
async def _session(entry: Mapping[str, Any]) -> "AsyncGenerator[ClientSession]":
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client

    if entry["type"] == "http":
        async with streamable_http_client(entry["url"]) as streams, ClientSession(*streams[:2]) as session:
            yield session
        return
    parameters = StdioServerParameters(
        command=entry["command"], args=list(entry["args"]), env={"PATH": SYSTEM_PATH, **entry["env"]}
    )
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        yield session
