"""A first experiment of the user's own, commented: what `init` lays into a folder."""

import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tokenbench.errors import ConfigError
from tokenbench.experiment.config import CONFIG_FILE, QUESTIONS_FILE
from tokenbench.experiment.model import CorpusSource, McpServer
from tokenbench.files import private_folder, write_atomically
from tokenbench.rehearsal import demo
from tokenbench.text import one_line

EXAMPLE: Final = "REPLACE ME"
"""Stands in the questions until somebody writes his own."""
_PROMPTS: Final = ("prompts/native.md", "prompts/retrieval.md", "prompts/hybrid.md")
"""Those of the demo: they hold nothing of its corpus."""
_BARE: Final = "prompts/bare.md"
_MCP: Final = "prompts/mcp.md"
_IGNORE: Final = "runs/\n"


def lay_out(
    folder: Path,
    *,
    model: str,
    corpus: CorpusSource,
    seed: int,
    servers: Mapping[str, McpServer] = MappingProxyType({}),
    tools: Sequence[str] = (),
) -> tuple[Path, ...]:
    """Write a commented experiment with example questions, and say which files were written.

    Nothing that is there is overwritten, and nothing is written where something is in the way. tokenbench.toml is
    written last: a folder that has it is complete.

    Args:
        folder: The experiment; it is made if it is not there.
        model: The full name of the model.
        corpus: Where the code comes from.
        seed: Of the order and of the intervals.
        servers: MCP servers of a further arm, `mcp`.
        tools: The tools that they offer, by their full names.

    Raises:
        ConfigError: A file of the experiment is there already.
        RunsError: The folder cannot be written.
    """
    contents = {
        **{name: demo.shipped(name) for name in _PROMPTS},
        _BARE: _shipped(_BARE),
        QUESTIONS_FILE: _shipped(QUESTIONS_FILE),
        ".gitignore": _IGNORE.encode(),
        **({_MCP: _shipped(_MCP)} if servers else {}),
        CONFIG_FILE: (_config(folder, model, corpus, seed) + _arm(servers, tools)).encode(),
    }
    there = [name for name in contents if name != ".gitignore" and (folder / name).exists()]
    if folder.exists() and not folder.is_dir():
        there = ["a file of that name"]
    if there:
        raise ConfigError(
            f"holds {', '.join(there)} already, and nothing was written",
            where=one_line(str(folder), 200),
            remedy="Name a new folder: `tokenbench-tui init DIR`",
        )
    written: list[Path] = []
    for name, content in contents.items():
        path = folder / name
        if path.exists():
            continue
        private_folder(path.parent)
        write_atomically(path, content, mode=0o644)
        written.append(path)
    return tuple(written)


def _shipped(name: str) -> bytes:
    return files(__name__).joinpath(name).read_bytes()


def _config(folder: Path, model: str, corpus: CorpusSource, seed: int) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("-") or "experiment"
    values = {"NAME": name, "MODEL": model, "SEED": str(seed), "CORPUS": _corpus(corpus)}
    text = _shipped(CONFIG_FILE).decode()
    return re.sub(r"@([A-Z]+)@", lambda found: values[found[1]], text)


def _arm(servers: Mapping[str, McpServer], tools: Sequence[str]) -> str:
    """The arm that has these servers and nothing else; empty where there are none."""
    if not servers:
        return ""
    lines = [
        "",
        "# The agent with MCP servers and nothing else; the corpus is not there.",
        "[arms.mcp]",
        f"tools = {_list(tools)}",
        f"allowed = {_list(tools)}",
        'disallowed = ["Bash", "Grep", "Glob", "Read", "WebSearch", "WebFetch", "Task"]',
        f'prompt = "{_MCP}"',
        'folder = "empty"',
        "# defer_tools = true                # keep the definitions of its tools out of the prompt until it looks",
    ]
    for name, server in servers.items():
        lines += ["", f"[arms.mcp.mcp.{_text(name)}]"]
        if server.url is not None:
            lines.append(f"url = {_text(server.url)}")
            headers = ", ".join(f"{_text(header)} = {_text(value)}" for header, value in server.headers.items())
            lines += [f"headers = {{ {headers} }}   # variables, never values"] if headers else []
        else:
            lines.append(f"command = {_list(server.command)}")
            lines += [f"environment = {_list(server.environment)}"] if server.environment else []
            lines.append('# mounts = ["/opt/server"]           # what it needs in a sandbox')
        lines.append(
            "# usd_per_call = 0                   # what a call costs elsewhere; 0: it asks no model of its own"
        )
    return "\n".join([*lines, ""])


def _list(words: Sequence[str]) -> str:
    return f"[{', '.join(_text(word) for word in words)}]"


def _corpus(source: CorpusSource) -> str:
    # A JSON string is a TOML string, as long as nothing beyond ASCII is escaped as a pair.
    if source.kind == "pypi":
        lines = [
            'kind = "pypi"                 # an sdist, fetched once, never executed',
            f"package = {_text(source.package or '')}",
            f"sha256 = {_text(source.sha256 or '')}   # of the archive",
        ]
    else:
        lines = [
            'kind = "folder"               # or "pypi": package = "click==8.1.8", sha256 of its archive',
            f"path = {_text(source.path or '')}   # absolute, or relative to this file; never around the experiment",
        ]
    return "\n".join(lines)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
