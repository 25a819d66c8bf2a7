"""Gathers what came into the prompts of a run, from its events."""

from collections.abc import Sequence
from typing import Final

import msgspec

from tokenbench.ledger.attribution.kinds import envelope_of, use_of
from tokenbench.ledger.attribution.threads import Piece, Step, Thread
from tokenbench.ledger.tools import UNKNOWN, image_tokens
from tokenbench.transcripts.events import Ended, MessagePart, SubagentReport, ToolResult, ToolUse, UserRow

_NO_CALL: Final = ""
"""Key of the step of what came before any call."""


class Timeline:
    """Gathers the threads of a transcript from its events; it must not be told of a row twice."""

    def __init__(self) -> None:
        self.threads: dict[str | None, Thread] = {}
        self._steps: dict[str, Step] = {}
        self._pieces: dict[str, Piece] = {}
        self._owners: dict[str, Step] = {}
        self._placed: set[str] = set()
        """Tool uses whose first result has been seen."""
        self._openings: dict[str, int] = {}
        self._row: tuple[int, str] = (0, "")
        """Line and id of the latest row of the user's side."""
        self._answered: dict[str, Step] = {}
        """The step of the main loop that a row, by its id, holds a result of."""

    def call(self, key: str, parent: str | None) -> None:
        """A call, by its key; a repeated one changes nothing."""
        if key not in self._steps:
            self._steps[key] = step = Step(key)
            self._thread(parent).steps.append(step)

    def said(self, key: str | None, event: MessagePart) -> None:
        """Text or thinking of a call."""
        step = self._step(key, event.parent)
        if event.kind == "thinking":
            step.thinks = True
        else:
            step.said += len(event.text)

    def asked(self, key: str | None, event: ToolUse) -> None:
        """A tool use."""
        if event.id in self._owners:
            return
        step = self._step(key, event.parent)
        self._owners[event.id] = step
        self._pieces.setdefault(event.id, Piece(event.name or UNKNOWN, use_of(event.name, event.input)))
        step.called += len(event.name) + len(msgspec.json.encode(event.input))
        prompt = event.input.get("prompt")
        if isinstance(prompt, str):
            self._openings[event.id] = len(prompt)

    def row(self, event: UserRow) -> None:
        """A row of the user's side, before the results that it holds."""
        self._row = (event.line, event.row_id)

    def result(self, event: ToolResult) -> None:
        """A tool result; of one that is repeated the longest counts, where the first stood."""
        piece = self._pieces.get(event.tool_use_id)
        if piece is None:
            piece = self._pieces[event.tool_use_id] = Piece(UNKNOWN, "unknown")
        owner = self._owners.get(event.tool_use_id)
        if owner is None:
            owner = self._owners[event.tool_use_id] = self._step(None, event.parent)
        if event.parent is None and event.line == self._row[0]:
            self._answered[self._row[1]] = owner
        if event.tool_use_id not in self._placed:
            self._placed.add(event.tool_use_id)
            owner.results.append(piece)
        piece.denied = piece.denied or event.denied
        if len(event.text) > piece.characters:
            piece.characters = len(event.text)
            piece.envelope = envelope_of(event.text) if piece.use == "retrieval" and not event.is_error else 0
        if len(event.images) > piece.pictures:
            piece.pictures = len(event.images)
            piece.images = sum(image_tokens(image) or 0 for image in event.images)

    def reported(self, event: SubagentReport) -> None:
        """A subagent's own summary."""
        self._thread(event.tool_use_id).last_call = event.usage

    def compacted(self, kept: Sequence[str] = ()) -> None:
        """The main loop's conversation was replaced by a summary.

        Args:
            kept: Ids of the rows that stayed. A step is kept with its results: the API takes neither alone.
        """
        steps = self._thread(None).steps
        if steps:
            steps[-1].compacted = True
            steps[-1].keeps = tuple({self._answered[row].key: None for row in kept if row in self._answered})

    def ended(self, event: Ended) -> None:
        """The agent's own list of denials."""
        for denial in event.denials:
            piece = self._pieces.get(denial.tool_use_id)
            if piece is not None:
                piece.denied = True

    def finish(self) -> tuple[Thread, ...]:
        """All threads, the main loop first."""
        for parent, thread in self.threads.items():
            thread.opening = self._openings.get(parent) if parent is not None else None
        return tuple(sorted(self.threads.values(), key=lambda thread: thread.parent is not None))

    def _thread(self, parent: str | None) -> Thread:
        thread = self.threads.get(parent)
        if thread is None:
            thread = self.threads[parent] = Thread(parent)
        return thread

    def _step(self, key: str | None, parent: str | None) -> Step:
        """The step of a call, or the latest of its thread."""
        step = self._steps.get(key) if key is not None else None
        if step is not None:
            return step
        thread = self._thread(parent)
        if not thread.steps:
            thread.steps.append(Step(_NO_CALL))
        return thread.steps[-1]
