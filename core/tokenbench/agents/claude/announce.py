"""Whether the agent that was started is the one that the arm asks for, by its own word."""

import re
from pathlib import Path
from typing import Final

from tokenbench.experiment.model import Arm
from tokenbench.text import one_line
from tokenbench.transcripts.events import Announcement

CONNECTED: Final = "connected"
"""What the CLI calls a server whose tools it can use."""
_CONTEXT_SUFFIX: Final = re.compile(r"\[[^\[\]]*\]$")


def _names(names: set[str]) -> str:
    return ", ".join(sorted(one_line(name, 60) for name in names))


def base_model(model: str) -> str:
    """The model's name without the suffix for its context window: `claude-opus-5[1m]` is `claude-opus-5`."""
    return _CONTEXT_SUFFIX.sub("", model)


def _same_folder(announced: str | None, folder: Path) -> bool:
    if announced is None:
        return False
    try:
        return Path(announced).resolve() == folder.resolve()
    except (OSError, ValueError):
        return False


def mismatches(
    announcement: Announcement | None, arm: Arm, model: str, version: str, *, folder: Path | None = None
) -> tuple[str, ...]:
    """What the agent announces that is not its arm: a sentence each; any of them quarantines the run.

    Args:
        announcement: What it said; None if it ended without having said anything.
        arm: What it should be.
        model: The model asked for.
        version: The CLI's version, as sealed.
        folder: The working folder it was started in, if that is to be compared.
    """
    if announcement is None:
        return ("the agent never announced its tools, model and version",)
    at = f"line {announcement.line}: "
    wrong: list[str] = []
    announced, wanted = set(announcement.tools), set(arm.tools)
    if announced - wanted:
        wrong.append(f"{at}it has tools that the arm has not: {_names(announced - wanted)}")
    if wanted - announced:
        wrong.append(f"{at}it lacks tools of the arm: {_names(wanted - announced)}")
    servers = dict(announcement.mcp_servers)
    if strange := {f"{server} ({status})" for server, status in servers.items() if server not in arm.mcp}:
        wrong.append(f"{at}it has MCP servers that the arm has not: {_names(strange)}")
    if lacking := {
        f"{server} ({servers.get(server, 'not there')})" for server in arm.mcp if servers.get(server) != CONNECTED
    }:
        wrong.append(f"{at}MCP servers of the arm did not load: {_names(lacking)}")
    if announcement.version != version:
        wrong.append(f"{at}it is version {one_line(str(announcement.version), 40)}, sealed is {version}")
    if announcement.model is None or base_model(announcement.model) != base_model(model):
        wrong.append(
            f"{at}its model is {one_line(str(announcement.model), 80)}, asked for was {one_line(model, 80)}"
            " (a model is asked for by its full name)"
        )
    if folder is not None and not _same_folder(announcement.folder, folder):
        wrong.append(f"{at}it works in {one_line(str(announcement.folder), 200)}, not in {one_line(str(folder), 200)}")
    return tuple(wrong)
