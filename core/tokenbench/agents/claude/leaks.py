"""Whether a run reached what its arm must not have, as far as its transcript shows.

The Bash tool is the hole: read-only commands (`cat`, `ls`, `git log`) run without any rule that allows them. So in an
arm that works in an empty folder every command that ran must have been `xq`, with filters behind it that read nothing
but their standard input.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final, cast

from tokenbench.experiment.model import Arm
from tokenbench.text import one_line
from tokenbench.transcripts import shell
from tokenbench.transcripts.events import Event, ToolResult, ToolUse

SHELL: Final = "Bash"
RETRIEVAL: Final = "xq"
_FILTERS: Final = frozenset({"head", "tail", "grep", "wc", "sort", "uniq", "cut", "tr", "cat", "nl", "sed", "awk"})
"""May stand behind a pipe, reading standard input."""
_PATTERN_FIRST: Final = frozenset({"grep", "sed", "awk", "tr"})
"""Their first operand is a pattern or a program, not a file."""
_HARMLESS: Final = frozenset({"echo", "printf", "true", ":", "pwd"})
"""Print their own arguments at most."""
_SED_PRINTS: Final = re.compile(r"[\d,$~+]*[pdq]|s([/|#,])(?:(?!\1).)*\1(?:(?!\1).)*\1[gip\d]*")
"""Prints, deletes and substitutes; `r`, `w` and `e` reach files and commands."""
_AWK_READS: Final = re.compile(r"getline|system|ARG|[|<>@]")
_READING_OPTION: Final = re.compile(r"-[A-Za-z]*[rRf]|-e.|--(recursive|dereference|file|include|regexp|expression)")
"""Options of these by which they read files, or which hide what is a pattern and what is a file."""
_FAILED: Final = re.compile(r"\s*Exit code \d+\s*\n?")
_COMPLAINT: Final = re.compile(r"(/usr/bin/|/bin/)?[\w.\-]+: |Stopping at filesystem boundary|\s*$")
"""`ls: cannot access …`, `fatal: not a git repository …`: what a command says when it found nothing."""


def _below(target: str, folder: PurePosixPath) -> bool:
    """Whether this is the folder itself, or lies in it, by its spelling alone."""
    path = PurePosixPath(target)
    if ".." in path.parts or target.startswith("~") or "$" in target:
        return False
    return not path.is_absolute() or path == folder or folder in path.parents


def _reads_input_only(words: list[str]) -> bool:
    """Whether a filter with these words reads standard input alone: no file, no program that opens one."""
    name = words[0]
    operands = [word for word in words[1:] if not word.startswith("-") or word == "-"]
    if name in _PATTERN_FIRST:
        program = operands[0] if operands else ""
        if name == "sed" and not _SED_PRINTS.fullmatch(program):
            return False
        if name == "awk" and _AWK_READS.search(program):
            return False
        operands = operands[1:]
        if any(_READING_OPTION.match(word) for word in words[1:]):
            return False
    if any(word.startswith("--files0-from") for word in words[1:]):
        return False
    # A number is the value of an option: `head -n 5`.
    return all(word == "-" or word.isdigit() for word in operands)


def _harmless(words: list[str], behind_pipe: bool, folder: PurePosixPath) -> bool:
    if not words:
        return True
    name = words[0]
    if name == RETRIEVAL or name in _HARMLESS:
        return True
    if name == "cd":
        return len(words) == 2 and _below(words[1], folder)
    return behind_pipe and name in _FILTERS and _reads_input_only(words)


def only_retrieval(command: str, folder: PurePosixPath) -> bool:
    """Whether a command can have done nothing but ask `xq` and cut what it said.

    `xq a && xq b`, `xq a | head -5`, `cd FOLDER && xq a 2>&1` are; anything with a substitution, an input
    redirection or another command is not.

    Args:
        command: As the Bash tool got it.
        folder: The arm's own working folder.
    """
    words: list[str] = []
    behind_pipe = False
    target_of: str | None = None
    try:
        for text, is_operator in [*shell.tokens(command), ("\n", True)]:
            if target_of is not None:
                # A redirection out of the folder was denied by the agent, or went to a place like /dev/null.
                if is_operator or (target_of == "<" and text != "/dev/null"):
                    return False
                target_of = None
            elif not is_operator:
                words.append(text)
            elif text in shell.SEPARATORS or text in shell.PIPES:
                if not _harmless(words, behind_pipe, folder):
                    return False
                words = []
                behind_pipe = text.startswith("|") and text != "||"
            elif text in ("(", ")", "<<", "<&"):
                return False
            else:
                target_of = text
    except shell.UnreadableCommand:
        return False
    return True


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in cast("dict[str, object]", value).values():
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in cast("list[object]", value):
            yield from _strings(item)


def _gave_something(result: ToolResult) -> bool:
    """Whether the tool did its work: it succeeded, or it failed after it had shown something."""
    if result.denied:
        return False
    if not result.is_error:
        return True
    failed = _FAILED.match(result.text)
    if failed is None:
        return False
    return any(not _COMPLAINT.match(line) for line in result.text[failed.end() :].split("\n"))


def find_leaks(
    events: Iterable[Event], arm: Arm, *, corpus: Path, folder: Path, inside: Path | None = None
) -> tuple[str, ...]:
    """What a run did that its arm must not: a sentence each, with the line; any of them quarantines the run.

    Args:
        events: Of the whole transcript, subagents included.
        arm: What the run should have been.
        corpus: Root of the corpus.
        folder: The run's working folder.
        inside: Where the corpus lies in the sandboxes of arms that are given it.
    """
    roots = [str(path) for path in (corpus, inside) if path is not None]
    uses: dict[str, ToolUse] = {}
    found: list[str] = []
    own = PurePosixPath(folder)
    for event in events:
        if isinstance(event, ToolUse):
            uses[event.id] = event
            continue
        if not isinstance(event, ToolResult):
            continue
        use = uses.get(event.tool_use_id)
        if use is None or not _gave_something(event):
            continue
        name = one_line(use.name, 60)
        if use.name not in arm.tools:
            found.append(f"line {use.line}: it used {name}, which its arm has not")
        elif arm.folder == "corpus":
            continue
        elif use.name == SHELL:
            command = use.input.get("command")
            if not isinstance(command, str) or not only_retrieval(command, own):
                found.append(f"line {use.line}: it ran something else than xq: {one_line(str(command), 160)}")
        else:
            reached = next((text for text in _strings(use.input) if any(root in text for root in roots)), None)
            if reached is not None:
                found.append(f"line {use.line}: {name} reached the corpus: {one_line(reached, 160)}")
    return tuple(found)
