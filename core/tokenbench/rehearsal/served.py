"""The log of what the scripted API served: one JSON line a request, the truth that a ledger is held against."""

from pathlib import Path
from typing import Literal

import msgspec

from tokenbench.decoding import UNREADABLE
from tokenbench.errors import TranscriptError
from tokenbench.ledger.model import Tokens
from tokenbench.rehearsal.request import Counted

RunKind = Literal["cell", "warmup", "judge"]
Played = Literal["", "script", "default", "judge", "summary", "side", "count"]


class RunKey(msgspec.Struct, frozen=True):
    """Whom a base URL was opened for."""

    kind: RunKind
    arm: str = ""
    """Judges: the judge's name."""
    question: str = ""
    """Empty for warm-ups."""
    repeat: int = 1
    attempt: int = 1


class Served(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request, and what came of it."""

    t: float
    """Seconds since the Unix epoch, when the request had been read."""
    path: str
    """Below the run's base URL; the token is no part of it."""
    status: int
    """HTTP status; 0 where the connection was closed without a reply."""
    run: RunKey | None = None
    """None: no run was open under that address."""
    model: str = ""
    """The model asked for."""
    played: Played = ""
    """Where the reply came from; `summary` sums the main conversation up where the agent compacts it, `side` is a
    request outside of it."""
    step: int | None = None
    """Step of the script, from 0; the answer comes after the last."""
    fell_back: bool = False
    """The answer was the script's fallback: a tool had not returned what it is made of."""
    fault: str = ""
    """The scripted fault, if one happened."""
    reply_id: str = ""
    stream: bool = False
    completed: bool = False
    """The reply was sent to its end."""
    client_left: bool = False
    """The agent closed the connection before that."""
    usage: Tokens = Tokens()
    """What is billed; of a reply that was broken off, the blocks that had been begun."""
    thinking: int = 0
    """Tokens of `usage.output` that are thinking."""
    rule: str = ""
    """Name of the counting rule."""
    prompt: tuple[Counted, ...] = ()
    """The prompt's blocks in order; their tokens add up to the billed input."""
    reply: tuple[Counted, ...] = ()
    """The reply's blocks."""
    error: str = ""
    """What the error that was sent says."""

    @property
    def billed(self) -> bool:
        """Whether the request cost anything."""
        return self.usage.total > 0


def read_log(path: Path) -> tuple[Served, ...]:
    """All lines of a log; a last line that a crash has torn is left out.

    Raises:
        TranscriptError: The file cannot be read, or a line in its middle is damaged.
    """
    remedy = "Name the `rehearsal.jsonl` of a rehearsal"
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise TranscriptError(f"cannot be read: {error.strerror}", where=str(path), remedy=remedy) from error
    served: list[Served] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            served.append(msgspec.json.decode(line, type=Served))
        except UNREADABLE as error:
            if number == len(lines):
                break
            raise TranscriptError(
                f"is no line of this log: {error}", where=f"{path}:{number}", remedy=remedy
            ) from error
    return tuple(served)
