"""Starting the claude CLI: which one, with what arguments, environment and standard input.

Nothing here starts a run; it says what a run is started with, so that all of it can be sealed and recorded. Tried with
2.1.332 (and the streams of 2.1.197).
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

from tokenbench.errors import AgentError
from tokenbench.experiment.model import Arm, Limits
from tokenbench.text import one_line

NAME: Final[Literal["claude"]] = "claude"
MINIMUM_VERSION: Final = (2, 1, 197)
"""The oldest version whose stream and flags were tried; older ones print other counters and lack `--tools`."""
SYSTEM_PATH: Final = "/usr/bin:/bin"
"""Fixed, so that what the operator has installed for himself is not on the agent's PATH."""
RUN_MARKER: Final = "TOKENBENCH_RUN"
"""Names the run in the environment of every process that it starts, so that what outlives it can be found."""
ACCESS: Final = "TOKENBENCH_XQ"
"""Names the access file of `xq`."""
KEY_DESCRIPTOR: Final = "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR"
"""Names the descriptor that the CLI reads its key from."""
DUMMY_KEY: Final = "sk-ant-scripted"
"""What the CLI is given for a key where the model is scripted: it starts without an account."""

MCP_OUTPUT_TOKENS: Final = "25000"
"""The CLI's own cap on a result of an MCP tool, given so that no other default can take its place."""

_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_VERSION_SECONDS: Final = 30.0
_CONSTANT: Final = {
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    # Another version halfway through an experiment would be another agent.
    "DISABLE_AUTOUPDATER": "1",
    # Without these three it also speaks to its vendor, past the base URL, and sends a shorter prompt.
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    # The memory section names HOME and would carry notes from one run into the next.
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    # The header's suffix is derived from the first message: with it no two questions share a cached prefix.
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
}

Source = Literal["configured", "path", "bundle"]


class Cli(NamedTuple):
    """An agent CLI that can be started."""

    path: Path
    version: str
    """`2.1.332`"""
    source: Source
    command: tuple[str, ...]
    """How argv begins: the executable, with its interpreter before it where its first line asks PATH for one."""


class Rooms(NamedTuple):
    """The folders of one slot. Their paths never change, so that they change no prompt; their content does."""

    home: Path
    temporary: Path
    empty: Path
    """Working folder of an arm that must not see the corpus."""
    bin: Path
    """Holds `xq` and nothing else."""


def bundle() -> Path | None:
    """The CLI in the wheel of the `rehearsal` extra, found without importing the package."""
    try:
        spec = importlib.util.find_spec("claude_agent_sdk")
    except (ImportError, ValueError):
        return None
    for place in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(place) / "_bundled" / "claude"
        if path.is_file():
            return path
    return None


def _resolve(configured: str | None, bundle_only: bool, search_path: str | None) -> tuple[Path, Source]:
    if bundle_only:
        bundled = bundle()
        if bundled is None:
            raise AgentError(
                "the bundled claude CLI is not installed",
                remedy="Install it with `python -m pip install 'tokenbench-tui[rehearsal]'`",
            )
        return bundled, "bundle"
    if configured is not None:
        path = Path(configured).expanduser()
        if not path.is_absolute():
            raise AgentError(
                "is not an absolute path",
                where=f"agents.claude.path = {one_line(configured, 200)}",
                remedy="Give the full path of the claude CLI, or leave the key out to search PATH",
            )
        if not path.is_file():
            raise AgentError(
                "there is no such file",
                where=f"agents.claude.path = {one_line(configured, 200)}",
                remedy="Correct the path, or leave the key out to search PATH",
            )
        return path, "configured"
    found = shutil.which(NAME, path=search_path)
    if found is not None:
        return Path(found).absolute(), "path"
    bundled = bundle()
    if bundled is not None:
        return bundled, "bundle"
    raise AgentError(
        "no claude CLI was found: not in tokenbench.toml, not on PATH, not in the `rehearsal` extra",
        remedy="Install it with `python -m pip install 'tokenbench-tui[rehearsal]'`, or set agents.claude.path",
    )


def _command(path: Path, search_path: str | None) -> tuple[str, ...]:
    """A script that asks `env` for its interpreter would not find it on the agent's fixed PATH: name it."""
    try:
        with path.open("rb") as file:
            first = file.readline(256)
    except OSError as error:
        raise AgentError(
            f"cannot be read: {error.strerror or error}",
            where=one_line(str(path), 200),
            remedy="Mend its permissions, or set agents.claude.path to another claude CLI",
        ) from error
    words = first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []
    if len(words) >= 2 and Path(words[0]).name == "env" and not words[1].startswith("-"):
        interpreter = shutil.which(words[1], path=search_path)
        if interpreter is not None:
            return (str(Path(interpreter).absolute()), *words[2:], str(path))
    return (str(path),)


def _read_version(path: Path, command: tuple[str, ...], home: Path) -> str:
    environment = {**_CONSTANT, "PATH": SYSTEM_PATH, "HOME": str(home), "TMPDIR": str(home)}
    where = one_line(str(path), 200)
    remedy = "Install the claude CLI anew, or set agents.claude.path to one that works"
    try:
        done = subprocess.run(
            (*command, "--version"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_SECONDS,
            env=environment,
            cwd=home,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise AgentError(
            f"did not tell its version within {_VERSION_SECONDS:.0f} s", where=where, remedy=remedy
        ) from error
    except OSError as error:
        raise AgentError(f"cannot be started: {error.strerror or error}", where=where, remedy=remedy) from error
    said = one_line(done.stdout.decode("utf-8", "replace"), 80)
    match = _VERSION.search(said)
    if done.returncode != 0 or match is None:
        wrong = one_line(done.stderr.decode("utf-8", "replace"), 120)
        raise AgentError(
            f"`--version` gave exit code {done.returncode} and said {said!r} {wrong!r}", where=where, remedy=remedy
        )
    if tuple(int(part) for part in match.groups()) < MINIMUM_VERSION:
        minimum = ".".join(map(str, MINIMUM_VERSION))
        raise AgentError(
            f"is version {match.group()}, too old: the oldest whose stream was tried is {minimum}",
            where=where,
            remedy=f"Update the claude CLI to {minimum} or later",
        )
    return match.group()


def find(configured: str | None, *, home: Path, bundle_only: bool = False, search_path: str | None = None) -> Cli:
    """The CLI to run: the configured one, else that on PATH, else the bundle of the `rehearsal` extra.

    Args:
        configured: `[agents.claude] path`.
        home: A private folder for the process that is asked for its version.
        bundle_only: Take the bundle whatever else there is, as rehearsals, the demo and tests do.
        search_path: PATH to search; that of this process if None.

    Raises:
        AgentError: There is none, it is too old, or it cannot be started.
    """
    search = os.environ.get("PATH", os.defpath) if search_path is None else search_path
    path, source = _resolve(configured, bundle_only, search)
    command = _command(path, search)
    return Cli(path, _read_version(path, command, home), source, command)


def argv(cli: Cli, arm: Arm, model: str, limits: Limits, *, servers: Path | None = None) -> tuple[str, ...]:
    """The argument list of a run: never a shell, never a prompt, never a key.

    Args:
        cli: The agent.
        arm: What it may use.
        model: Its full name.
        limits: Those of a run.
        servers: The file that tells of the arm's MCP servers, as the agent sees it.
    """
    arguments = [*cli.command, "-p", "--output-format", "stream-json", "--verbose"]
    # Without the raw events a reply that broke off leaves no trace, and a streamed call has no output of its own.
    arguments += ["--include-partial-messages", "--model", model]
    arguments += ["--tools", ",".join(arm.builtin_tools)]
    if arm.allowed:
        arguments += ["--allowedTools", ",".join(arm.allowed)]
    if arm.disallowed:
        arguments += ["--disallowedTools", ",".join(arm.disallowed)]
    # A corpus is foreign text: its .mcp.json would start servers, its .claude/settings.json would run hooks, and its
    # CLAUDE.md would be a hint that only some arms get. The user's own settings are those of an empty HOME.
    arguments += ["--strict-mcp-config", "--setting-sources", "user"]
    if servers is not None:
        arguments += ["--mcp-config", str(servers)]
    if limits.run_turns is not None:
        arguments += ["--max-turns", str(limits.run_turns)]
    if limits.run_usd is not None:
        arguments += ["--max-budget-usd", format(limits.run_usd, "f")]
    return tuple(arguments)


def asked_argv(cli: Cli, model: str) -> tuple[str, ...]:
    """The argument list of a process without tools that takes one message after another on its standard input."""
    streams = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
    return (
        *(*cli.command, "-p", *streams, "--model", model, "--tools", ""),
        *("--strict-mcp-config", "--setting-sources", "user"),
    )


def asked_message(text: str) -> bytes:
    """One line for the standard input of such a process."""
    return json.dumps({"type": "user", "message": {"role": "user", "content": text}}).encode() + b"\n"


def sealed_environment(
    *, base_url: str | None = None, inside: Rooms | None = None, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The part of the environment that shapes a prompt and is the same in every run: names and values for the seal.

    Without a sandbox HOME and TMPDIR are private folders whose paths are this machine's; with the memory section off
    they stand in no prompt, so an experiment may be moved to another place and go on.

    Args:
        base_url: The API's address, where the operator set one; the scripted API's holds a token of the run and is
            left out.
        inside: The folders of every run as it sees them, in a sandbox.
        more: What the way out of a sandbox adds, and how the key comes.
    """
    values = {**_CONSTANT, "PATH": SYSTEM_PATH, "HOME": "(private, wiped before each run)", "TMPDIR": "(private)"}
    if inside is not None:
        values |= {"HOME": str(inside.home), "TMPDIR": str(inside.temporary)}
    values |= more or {}
    if base_url is not None:
        values["ANTHROPIC_BASE_URL"] = base_url
    return dict(sorted(values.items()))


def environment(
    rooms: Rooms,
    arm: Arm,
    *,
    run: str,
    key: str,
    base_url: str | None,
    access: Path | None,
    key_descriptor: int | None = None,
) -> dict[str, str]:
    """The whole environment of a run: an allowlist, nothing of the operator's.

    Args:
        rooms: The folders of the run's slot.
        arm: Decides whether `xq` is on PATH.
        run: The run's marker, the value of `RUN_MARKER`.
        key: The API key; it goes nowhere else.
        base_url: Address of the API; None for the CLI's own.
        access: The access file of `xq`, for an arm that has retrieval.
        key_descriptor: An inherited pipe that the CLI reads the key from. The key is then in no environment, and so in
            none of those that its tools inherit.
    """
    values = {
        **_CONSTANT,
        "PATH": f"{rooms.bin}:{SYSTEM_PATH}" if arm.retrieval else SYSTEM_PATH,
        "HOME": str(rooms.home),
        "TMPDIR": str(rooms.temporary),
        RUN_MARKER: run,
    }
    if key_descriptor is None:
        values["ANTHROPIC_API_KEY"] = key
    else:
        values[KEY_DESCRIPTOR] = str(key_descriptor)
    if base_url is not None:
        values["ANTHROPIC_BASE_URL"] = base_url
    if arm.mcp:
        values |= {"ENABLE_TOOL_SEARCH": str(arm.defer_tools).lower(), "MAX_MCP_OUTPUT_TOKENS": MCP_OUTPUT_TOKENS}
    if arm.retrieval and access is not None:
        values[ACCESS] = str(access)
    return values


def prompt(arm_prompt: str, question: str) -> bytes:
    """What goes to standard input: the arm's prompt, a blank line, `Question: ` and the question, a newline."""
    return f"{arm_prompt.strip()}\n\nQuestion: {question.strip()}\n".encode()
