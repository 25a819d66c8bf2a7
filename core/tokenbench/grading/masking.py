"""What gives an arm away is taken out of an answer, and the place where it stood is shown.

Masking is a safeguard, no proof: an answer can betray its arm in ways that no list foresees (how precise its line
numbers are, how long it is). What it does is to hide the words that every judge would recognise.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from tokenbench.text import visible

MARK: Final = "▒▒▒▒▒"

_TOOLS: Final = re.compile(
    r"""(?<![\w.])(?:
        (?i:grep|egrep|fgrep|ripgrep|rg|xq|glob|bash|web[ ]?search|web[ ]?fetch|toolsearch)
        | Read | LS                       # the tools; in lower case they are words of the language or the code
        | mcp__\w+
    )(?:\([^()\n]{0,40}:\*\))?            # a permission rule such as Bash(xq:*)
    (?!\w|\.\w)""",
    re.VERBOSE,
)

_USED: Final = re.compile(
    r"\b(?:us(?:e|ed|es|ing)|via|with|through|by|ran|run|running|call(?:ed|ing)?|invok(?:ed|ing)|then)\s+"
    r"(?:the\s+|a\s+|my\s+)?[`'\"*]*$",
    re.IGNORECASE,
)
"""What stands before a tool's name when it is the tool that is meant, and not the subject of the question."""

_PHRASES: Final = re.compile(
    r"""\b(?:
        grepp(?:ed|ing) | glob(?:bed|bing)
        | search(?:ed|ing)?[ ](?:results?|hits?|tool|command|engine|quer(?:y|ies)|index)
        | (?:first|second|third|top|best|next|last|\d+(?:st|nd|rd|th))[ ]+hits? | the[ ]hits?
        | (?:the|this|an?|its)[ ]+(?:symbol[ ]|search[ ]|code[ ])?index
        | retrieval(?:[ ](?:tool|results?|index|command|arm))? | retrieved
        | (?:the|my|this|one)[ ]quer(?:y|ies)
        | tool[ ](?:output|outputs|results?|calls?)
        | (?:directory|folder|file)[ ]listing
        | (?:native|file)[ ]tools?
    )\b""",
    re.VERBOSE | re.IGNORECASE,
)

_FOREIGN_PATH: Final = re.compile(
    r"(?<![\w.:/~-])(?:~/\.(?:cache|claude|local|tokenbench)|/(?:home|root|tmp|var|private|Users|srv|opt|mnt|work|workspace|data|cache|sandbox|build))"
    r"(?:/[\w.@+=~-]+)*/(?=[\w.@+=~-])"
)
"""Folders of a machine before a file's name; the name stays, because a judge checks citations by it."""


class Masked(msgspec.Struct, frozen=True):
    """An answer as a judge may see it."""

    text: str
    count: int
    """Places that were masked."""


def mask(answer: str, *, subject: str = "", folders: Iterable[str] = ()) -> Masked:
    """Hide the words of an answer that say which arm gave it, and show every control character in it.

    Args:
        answer: As the agent gave it.
        subject: Question, truth and note: a word that they use is what the question is about and stays, unless the
            answer says that it was used.
        folders: Folders of this machine known to be the run's own, such as its working folder.
    """
    about = subject.casefold()
    count = 0

    def word(match: re.Match[str]) -> str:
        nonlocal count
        named = re.search(rf"(?<!\w){re.escape(match.group().casefold())}(?!\w)", about) is not None
        if named and not _USED.search(match.string, max(0, match.start() - 40), match.start()):
            return match.group()
        count += 1
        return MARK

    def place(match: re.Match[str]) -> str:
        nonlocal count
        if match.group() in subject:
            return match.group()
        count += 1
        return f"{MARK}/"

    text = visible(answer)
    known = sorted({folder.rstrip("/") for folder in folders if len(folder.rstrip("/")) > 1}, key=len, reverse=True)
    if known:
        text = re.sub(rf"(?:{'|'.join(map(re.escape, known))})(?:/|(?![\w.-]))", place, text)
    text = _FOREIGN_PATH.sub(place, text)
    text = _PHRASES.sub(word, text)
    text = _TOOLS.sub(word, text)
    return Masked(text, count)


def normalised(text: str) -> str:
    """The form in which two answers are the same answer: white space folded."""
    return " ".join(text.split())
