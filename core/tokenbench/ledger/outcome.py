"""How a run ended and what it answered: the event that says "success" is not believed on its word."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tokenbench.transcripts.events import AgentNotice, Ended, MessagePart, Superseded, ToolResult, ToolUse
from tokenbench.transcripts.evidence import Outcome

STRUCTURED: Final = "StructuredOutput"
"""The tool through which claude gives an answer that has to fit a schema."""
_ERROR_SENTENCE: Final = re.compile(
    r"API Error\b|Invalid API key\b|Not logged in\b|Credit balance is too low\b|Prompt is too long\b"
    r"|Request timed out\b|Connection error\b|OAuth token\b|Please run /login\b",
    re.IGNORECASE,
)
"""How the CLI's own sentences begin where an answer belongs."""
_TOO_LONG: Final = re.compile(
    r"prompt is too long|input is too long|exceeds? the (?:context|maximum)|context (?:window|limit|length)"
    r"|request too large|too many (?:total )?tokens|output token maximum",
    re.IGNORECASE,
)
_TURNS: Final = frozenset({"error_max_turns", "max_turns"})
_BUDGET: Final = frozenset({"error_max_budget_usd", "budget_exhausted", "max_budget_usd"})
_OWN_FAILURES: Final = frozenset({"error_max_structured_output_retries"})


@dataclass(slots=True)
class Segment:
    """What the main loop said between two result events."""

    text: str | None
    """The final answer as streamed; None where the last message asked for a tool or said nothing."""
    notice: AgentNotice | None
    """The CLI's own error sentence, where that came last."""


@dataclass(slots=True)
class AnswerTracker:
    """Follows the last message of the main loop: its text blocks are the answer, joined.

    It must not be told of a row twice.
    """

    _parts: list[str] = field(default_factory=list[str])
    _message: str | None = None
    _open_tools: set[str] = field(default_factory=set[str])
    _structured: set[str] = field(default_factory=set[str])
    _notice: AgentNotice | None = None
    _claimed: bool = False
    """A result event has printed the text."""

    def part(self, event: MessagePart) -> None:
        """A piece of a message."""
        if event.parent is not None or event.kind != "text":
            return
        if event.message_id != self._message or self._claimed:
            self._start(event.message_id)
        self._parts.append(event.text)
        self._notice = None

    def tool(self, event: ToolUse) -> None:
        """The main loop asked for a tool: what it said so far is no answer."""
        if event.parent is not None:
            return
        if event.name == STRUCTURED:
            self._structured.add(event.id)
            return
        if event.message_id != self._message:
            self._start(event.message_id)
        self._open_tools.add(event.id)
        self._notice = None

    def result(self, event: ToolResult) -> None:
        """A tool result came in: the answer, if any, is still to come."""
        if event.parent is None and event.tool_use_id not in self._structured:
            self._parts.clear()
            self._open_tools.discard(event.tool_use_id)

    def notice(self, event: AgentNotice) -> None:
        """The CLI spoke for itself, of a failure of the main loop or of something else."""
        if event.parent is None and (event.error is not None or _ERROR_SENTENCE.match(event.text)):
            self._notice = event

    def withdraw(self, event: Superseded) -> None:
        """Earlier messages were taken back."""
        del event
        self._parts.clear()

    def retry(self) -> None:
        """The reply that had begun is given up, and what it said with it."""
        self._parts.clear()

    def peek(self) -> Segment:
        """What was said since the last result event."""
        text = "".join(self._parts) if not self._open_tools else ""
        return Segment(text or None, self._notice)

    def close(self, printed: str | None) -> Segment:
        """The segment that a result event ends.

        Two result events can follow the last message one upon the other. A text that one of them printed is the next
        one's answer only if that prints it as well.

        Args:
            printed: The text of the result event.
        """
        segment = self.peek()
        wanted = (printed or "").strip()
        holds = wanted in (segment.text or "")
        if self._claimed and not (wanted and holds):
            segment = Segment(None, segment.notice)
        self._claimed = self._claimed or holds
        self._notice = None
        return segment

    def _start(self, message_id: str | None) -> None:
        self._message = message_id
        self._claimed = False
        self._parts.clear()
        self._open_tools.clear()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome, answer and the notes that go with them."""

    outcome: Outcome
    answer: str | None
    notes: tuple[str, ...]
    from_result: bool = False
    """No message of the stream held the answer."""


def judge(ended: Sequence[Ended], segment: Segment, *, broken: bool) -> Verdict:
    """How a run ended that printed result events.

    `is_error` and the API's status outrank the subtype and the exit code. What a model or an agent does to itself (it
    declines, its prompt grows too long, it never meets a schema) is the run's own failure: it counts, without an
    answer. What the API or the network does is an infrastructure failure.

    Args:
        ended: The result events, the last of which decides.
        segment: What was said before the last of them.
        broken: The last reply of the stream is not among what the CLI counted: it broke off.
    """
    last = ended[-1]
    sentence = " ".join(filter(None, (last.text, *last.errors, segment.notice.text if segment.notice else None)))
    if last.subtype in _TURNS or (last.terminal_reason in _TURNS and last.api_status is None):
        return Verdict("max_turns", None, ())
    if last.subtype in _BUDGET or (last.terminal_reason in _BUDGET and last.api_status is None):
        return Verdict("max_budget", None, ())
    failed = last.is_error or last.api_status is not None or segment.notice is not None
    if failed:
        if last.stop_reason == "refusal":
            return Verdict("answered", None, ("MODEL-REFUSED",))
        if last.api_status == 413 or _TOO_LONG.search(sentence):
            return Verdict("answered", None, ("CONTEXT-OVERFLOW",))
        if last.subtype in _OWN_FAILURES:
            return Verdict("answered", None, ())
        return Verdict("infrastructure", None, ())
    if broken and not last.text:
        return Verdict("infrastructure", None, ("STREAM-BROKEN",))
    return _answer(last, segment)


def _answer(last: Ended, segment: Segment) -> Verdict:
    refused = ("MODEL-REFUSED",) if last.stop_reason == "refusal" else ()
    if last.structured_output is not None:
        return Verdict("answered", last.structured_output, refused)
    if segment.text is not None:
        streamed, printed = segment.text.strip(), (last.text or "").strip()
        if streamed == printed:
            return Verdict("answered", segment.text, refused)
        code = "RESULT-TEXT-SHORTER-THAN-STREAM" if printed in streamed else "RESULT-TEXT-DIFFERS"
        return Verdict("answered", segment.text, (*refused, code))
    if last.text and not _ERROR_SENTENCE.match(last.text):
        return Verdict("answered", last.text, (*refused, "ANSWER-FROM-RESULT"), from_result=True)
    if last.text:
        return Verdict("infrastructure", None, ())
    return Verdict("answered", None, refused)
