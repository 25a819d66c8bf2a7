"""What came into the prompts of a run: sizes and kinds by call, no text."""

import msgspec

from tokenbench.ledger.shell import Use
from tokenbench.transcripts.events import Usage


class Piece(msgspec.Struct):
    """One tool result, as the model got it."""

    tool: str
    use: Use
    characters: int = 0
    """All of its text."""
    envelope: int = 0
    """Of them: heads and remarks of a retrieval result."""
    images: int = 0
    """Tokens of its pictures, by pixels; pictures of unknown size are left out."""
    pictures: int = 0
    denied: bool = False


class Step(msgspec.Struct):
    """What one call said, and what was answered to it."""

    key: str
    """The call's message id."""
    said: int = 0
    """Characters of its text."""
    called: int = 0
    """Characters of its tool calls: names and arguments."""
    thinks: bool = False
    """It holds thinking, whose tokens no text tells."""
    results: list[Piece] = msgspec.field(default_factory=list[Piece])
    compacted: bool = False
    """The conversation was replaced by a summary before the next call."""
    keeps: tuple[str, ...] = ()
    """Keys of the steps that stayed in the prompt then, behind the summary."""


class Thread(msgspec.Struct):
    """The main loop, or one subagent."""

    parent: str | None
    opening: int | None = None
    """Characters of the prompt that a subagent was given; None where they are not in the transcript."""
    steps: list[Step] = msgspec.field(default_factory=list[Step])
    last_call: Usage | None = None
    """Of a subagent: its last call, which the agent's summary tells."""
