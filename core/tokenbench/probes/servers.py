"""Which tools MCP servers offer: the agent CLI itself is asked, with a scripted model, so it costs nothing."""

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tokenbench.agents.claude import launch
from tokenbench.agents.claude.announce import CONNECTED
from tokenbench.clock import Clock
from tokenbench.errors import AgentError
from tokenbench.experiment.model import MCP_PREFIX, Arm, Limits, McpServer
from tokenbench.ledger.build import LedgerBuilder
from tokenbench.ledger.model import Live
from tokenbench.rehearsal.api import ScriptedApi
from tokenbench.rehearsal.scripts import ScriptBook
from tokenbench.rehearsal.served import RunKey
from tokenbench.runner.rooms import Asked, entered
from tokenbench.runner.sandbox import Confinement
from tokenbench.runner.supervise import Command, Interrupt, Patience, Supervisor
from tokenbench.text import one_line
from tokenbench.transcripts.lines import Line

_SECONDS: Final = 60.0


async def offered_tools(
    servers: Mapping[str, McpServer], *, clock: Clock, values: Mapping[str, str]
) -> tuple[str, ...]:
    """The full names of all tools of these servers, as the agent announces them.

    The servers are started as the user starts them, without a sandbox: this is his own machine and his own file.

    Args:
        servers: By name.
        clock: For limits.
        values: Of the variables that they name.

    Raises:
        AgentError: There is no agent CLI, or a server does not load.
    """
    with tempfile.TemporaryDirectory(prefix="tokenbench-servers-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        rooms = launch.Rooms(*(folder / room for room in launch.Rooms._fields))
        for room in rooms:
            room.mkdir(mode=0o700)
        cli = await asyncio.to_thread(launch.find, None, home=rooms.home, bundle_only=True)
        builder = LedgerBuilder(transcript="servers")
        interrupt = Interrupt()

        def observe(lines: list[Line]) -> Live:
            for line in lines:
                builder.feed(line)
            if builder.announced is not None:
                interrupt.set("stop")
            return builder.live()

        arm = Arm(tools=(), prompt="", folder="empty", mcp=dict(servers))
        async with ScriptedApi(ScriptBook(), clock=clock) as api:
            url = api.open_run(RunKey("cell", "servers", "q"), tools=(), folder=str(rooms.empty))
            marker = f"servers/{folder.name}/"
            asked = Asked(
                arm, "claude-opus-5", Limits(), marker, launch.DUMMY_KEY, url, access=folder / "xq.json", values=values
            )
            async with entered(Confinement(None, "not asked for"), cli, rooms, asked) as start:
                command = Command(
                    argv=start.argv,
                    environment=start.environment,
                    folder=start.outside,
                    handed=start.handed,
                    prompt=b"rehearsal\n",
                    transcript=folder / "transcript.jsonl",
                    stderr=folder / "stderr",
                    marker=marker,
                )
                await Supervisor(clock).run(command, Patience(_SECONDS, _SECONDS), observe=observe, interrupt=interrupt)
    said = builder.announced
    states = dict(said.mcp_servers) if said is not None else {}
    failed = [
        f"{one_line(name, 60)} ({states.get(name, 'not there')})" for name in servers if states.get(name) != CONNECTED
    ]
    if said is None or failed:
        raise AgentError(
            f"MCP servers did not load: {', '.join(failed)}",
            remedy="Start them by hand to see why, set the variables that they need, or name a file without them",
        )
    return tuple(tool for tool in said.tools if tool.startswith(MCP_PREFIX))
