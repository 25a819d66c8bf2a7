"""Words and operators of a shell command, read without running a shell.

What needs a shell to be known (a substitution, an open quote) is refused, never guessed.
"""

from collections.abc import Iterator
from typing import Final

_OPERATORS: Final = (
    "&&",
    "||",
    "|&",
    "&>>",
    "&>",
    ">>",
    ">&",
    "<<<",
    "<<",
    "<&",
    "<",
    ">",
    "|",
    ";",
    "&",
    "\n",
    "(",
    ")",
)
SEPARATORS: Final = frozenset({"&&", "||", ";", "&", "\n"})
"""Operators that end a pipeline."""
PIPES: Final = frozenset({"|", "|&"})


class UnreadableCommand(Exception):
    """A command that cannot be read without running a shell."""


def tokens(command: str) -> Iterator[tuple[str, bool]]:
    """Words and operators of a shell command: text, and whether it is an operator.

    The lines of a here-document are left out; the `<<` and its word are there.

    Raises:
        UnreadableCommand: It holds a substitution or an open quote.
    """
    word: list[str] | None = None
    at = 0
    documents: list[str] = []
    awaits_document = False
    while at < len(command):
        sign = command[at]
        if sign in " \t\r":
            if word is not None:
                text = "".join(word)
                if awaits_document:
                    documents.append(text)
                    awaits_document = False
                yield text, False
                word = None
            at += 1
            continue
        operator = next((o for o in _OPERATORS if command.startswith(o, at)), None)
        if operator is not None:
            # `2>` belongs to the redirection, not to the words.
            if word is not None and not (operator[0] in "<>" and "".join(word).isdigit()):
                text = "".join(word)
                if awaits_document:
                    documents.append(text)
                    awaits_document = False
                yield text, False
            word = None
            yield operator, True
            at += len(operator)
            if operator == "<<":
                awaits_document = True
            elif operator == "\n":
                for name in documents:
                    at = _behind_document(command, at, name)
                documents.clear()
            continue
        word = [] if word is None else word
        if sign == "'":
            end = command.find("'", at + 1)
            if end < 0:
                raise UnreadableCommand
            word.append(command[at + 1 : end])
            at = end + 1
        elif sign == '"':
            text, at = _double_quoted(command, at + 1)
            word.append(text)
        elif sign == "\\":
            word.append(command[at + 1 : at + 2])
            at += 2
        elif sign == "`" or command.startswith("$(", at):
            raise UnreadableCommand
        else:
            word.append(sign)
            at += 1
    if word is not None:
        yield "".join(word), False


def _behind_document(command: str, at: int, name: str) -> int:
    """Where the command goes on behind a here-document that ends with this word on a line of its own."""
    name = name.removeprefix("-")
    while at < len(command):
        end = command.find("\n", at)
        end = len(command) if end < 0 else end
        line = command[at:end]
        at = min(len(command), end + 1)
        if line.lstrip("\t") == name:
            break
    return at


def _double_quoted(command: str, at: int) -> tuple[str, int]:
    text: list[str] = []
    while at < len(command):
        sign = command[at]
        if sign == '"':
            return "".join(text), at + 1
        if sign == "`" or command.startswith("$(", at):
            raise UnreadableCommand
        if sign == "\\" and at + 1 < len(command):
            at += 1
            sign = command[at]
        text.append(sign)
        at += 1
    raise UnreadableCommand
