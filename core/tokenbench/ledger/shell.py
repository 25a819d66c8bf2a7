"""What a shell command was for: search, read, list, retrieval, a filter behind something else, edit, write, other.

A command is split into pipelines and simple commands, assignments and wrappers (`env`, `timeout 10`, `sudo`,
`bash -lc '…'`, `xargs`) are dropped, and the word that is left decides. Whoever decides by the first word misses
`cd src && rg …`; whoever decides by a substring finds `grep` in `egrepx`, in a commit message and in a here-document.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from tokenbench.transcripts import shell

Use = Literal["search", "read", "list", "retrieval", "filter", "edit", "write", "other", "unknown"]
"""`filter`: cuts what a command printed that reads no files; `unknown`: cannot be read without running a shell."""

RETRIEVAL: Final = "xq"
_SEARCH: Final = frozenset({"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack"})
_READ: Final = frozenset(
    {"cat", "head", "tail", "sed", "awk", "gawk", "nl", "less", "more", "bat", "tac", "zcat", "od", "xxd", "strings"}
)
_LIST: Final = frozenset({"ls", "find", "tree", "fd", "fdfind", "du", "stat", "file"})
_FILTER: Final = frozenset({"wc", "sort", "uniq", "cut", "tr", "jq", "column", "rev", "fold", "paste"})
"""Behind a pipe they pass on what they are fed."""
_NEUTRAL: Final = frozenset(
    {"cd", "echo", "printf", "true", "false", ":", "pwd", "export", "set", "source", ".", "sleep", "done", "fi", "for"}
)
"""Say nothing about the command that stands beside them."""
_KEYWORDS: Final = frozenset({"do", "then", "else", "elif", "if", "while", "until", "{", "}", "!", "time"})
_WRAPPERS: Final[dict[str, tuple[frozenset[str], int]]] = {
    "env": (frozenset({"-u", "-C", "--unset", "--chdir"}), 0),
    "sudo": (frozenset({"-u", "-g", "-h", "-C"}), 0),
    "nice": (frozenset({"-n"}), 0),
    "ionice": (frozenset({"-c", "-n"}), 0),
    "nohup": (frozenset(), 0),
    "command": (frozenset(), 0),
    "exec": (frozenset(), 0),
    "stdbuf": (frozenset({"-i", "-o", "-e"}), 0),
    "timeout": (frozenset({"-k", "-s", "--signal", "--kill-after"}), 1),
    "xargs": (frozenset({"-I", "-n", "-P", "-L", "-d", "-s", "-a", "-E"}), 0),
}
"""Options of theirs that take a value, and how many operands stand before the command."""
_SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash"})
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=")
_IN_PLACE: Final = re.compile(r"-[a-zA-Z]*i|--in-place")
_DEEPEST: Final = 4
"""Shells within shells that are looked into."""


class _Simple:
    """One simple command: its words, and whether its output goes to a file."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.writes = False


def use_of_command(command: str) -> Use:
    """The kind of use of a shell command; of several, the first that is no mere `other` decides."""
    try:
        return _use(command, 0)
    except shell.UnreadableCommand:
        return "unknown"


def _use(command: str, depth: int) -> Use:
    for pipeline in _pipelines(command):
        use = _of_pipeline(pipeline, depth)
        if use is not None and use != "other":
            return use
    return "other"


def _pipelines(command: str) -> Iterator[list[_Simple]]:
    stages = [_Simple()]
    redirected: str | None = None
    for text, is_operator in [*shell.tokens(command), ("\n", True)]:
        if redirected is not None and not is_operator:
            to_file = ">" in redirected and text != "/dev/null" and not (redirected.endswith("&") and text.isdigit())
            stages[-1].writes = stages[-1].writes or to_file
            redirected = None
        elif not is_operator:
            stages[-1].words.append(text)
        elif text in shell.SEPARATORS or text in ("(", ")"):
            yield stages
            stages, redirected = [_Simple()], None
        elif text in shell.PIPES:
            stages.append(_Simple())
        else:
            redirected = text


def _of_pipeline(stages: Sequence[_Simple], depth: int) -> Use | None:
    """The use of a pipeline; None where it says nothing."""
    result: Use | None = None
    for number, stage in enumerate(stages):
        name, words, fed = _bare(stage.words)
        if name is None:
            continue
        mine = _of_command(name, words, depth)
        if stage.writes:
            return "write"
        if number == 0 or mine in ("edit", "write", "retrieval"):
            result = mine
        elif fed and mine is not None:
            # `xargs` hands over names of files.
            result = mine
        elif mine == "search":
            result = "search" if result == "read" else "filter" if result in (None, "other") else result
        elif mine == "read" or name in _FILTER:
            result = "filter" if result in (None, "other") else result
    return result


def _bare(words: Sequence[str]) -> tuple[str | None, list[str], bool]:
    """The command word without assignments and wrappers, its arguments, and whether `xargs` feeds it."""
    rest = list(words)
    fed = False
    while rest:
        word = rest[0]
        name = word.rsplit("/", 1)[-1]
        if word in _KEYWORDS or _ASSIGNMENT.match(word):
            rest.pop(0)
        elif name in _WRAPPERS:
            fed = fed or name == "xargs"
            options, operands = _WRAPPERS[name]
            rest = _behind_options(rest[1:], options)[operands:]
        else:
            return name, rest[1:], fed
    return None, [], fed


def _behind_options(words: list[str], with_value: frozenset[str]) -> list[str]:
    rest = list(words)
    while rest and rest[0].startswith("-"):
        if rest.pop(0) in with_value and rest:
            rest.pop(0)
    return rest


def _of_command(name: str, words: list[str], depth: int) -> Use | None:
    if name in _NEUTRAL:
        return None
    if name == RETRIEVAL:
        return "retrieval"
    if name in _SHELLS:
        script = _script(words)
        return _use(script, depth + 1) if script is not None and depth < _DEEPEST else "other"
    if name == "git":
        return _of_git(_behind_options(words, frozenset({"-C", "-c"})))
    if name in ("sed", "perl") and any(_IN_PLACE.match(word) for word in words):
        return "edit"
    if name == "find":
        return _of_find(words, depth)
    if name == "tee":
        return "write"
    if name in _SEARCH:
        return "search"
    if name in _READ:
        return "read"
    if name in _LIST:
        return "list"
    return "edit" if name == "patch" else "other"


def _script(words: list[str]) -> str | None:
    """What follows `-c`, `-lc`, …"""
    for at, word in enumerate(words):
        if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
            return words[at + 1] if at + 1 < len(words) else None
        if not word.startswith("-"):
            return None
    return None


def _of_git(words: list[str]) -> Use:
    match words[0] if words else "":
        case "grep":
            return "search"
        case "ls-files" | "ls-tree":
            return "list"
        case "show" | "cat-file" | "blame":
            return "read"
        case "apply":
            return "edit"
        case _:
            return "other"


def _of_find(words: list[str], depth: int) -> Use:
    if "-delete" in words:
        return "other"
    at = next((at for at, word in enumerate(words) if word in ("-exec", "-execdir", "-ok")), None)
    if at is None or depth >= _DEEPEST:
        return "list"
    name, rest, _ = _bare(words[at + 1 :])
    return (_of_command(name, rest, depth + 1) if name is not None else None) or "list"
