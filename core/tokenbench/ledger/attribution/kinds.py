"""What a tool use was for, and which characters of a retrieval result are envelope."""

import re
from typing import Final

from tokenbench.ledger.shell import Use, use_of_command

SHELL: Final = "Bash"
_NAMED: Final[dict[str, Use]] = {
    "Grep": "search",
    "Glob": "list",
    "LS": "list",
    "Read": "read",
    "NotebookRead": "read",
    "Edit": "edit",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
    "Write": "write",
    # The product's own server: what it gives is what the command `xq` gives.
    "mcp__xq__search": "retrieval",
}
_HEAD: Final = re.compile(r".+:\d+ \[[^\]]+\] .* -?\d+\.\d{3}")
"""`path:line [kind] name score`"""
_REMARK: Final = re.compile(
    r"\[cut here; \d+ more lines\]|\[goes on to line \d+\]|.* \[begins at line \d+\]"
    r"|\d+ of \d+ shown(?:; only the first \d+ words of the query were searched for)?|"
)
"""Lines of `xq` that are no code; an empty line parts two hits."""


def use_of(tool: str, arguments: dict[str, object]) -> Use:
    """The kind of use of a tool; a shell command is classified by what it runs."""
    if tool == SHELL:
        command = arguments.get("command")
        return use_of_command(command) if isinstance(command, str) else "unknown"
    return _NAMED.get(tool, "other")


def envelope_of(text: str) -> int:
    """Characters of a retrieval result that are not code: heads of hits, remarks, and the line breaks of both."""
    return sum(len(line) + 1 for line in text.split("\n") if _HEAD.fullmatch(line) or _REMARK.fullmatch(line))
