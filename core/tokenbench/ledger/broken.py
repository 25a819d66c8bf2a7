"""Signs that a reply broke off in mid-stream, so that nobody knows what it was billed.

The CLI asks again without a word to its reader, and its totals hold such a reply in full, in part or not at all
(docs/broken-streams.md has the table). So where a sign is seen, no total is believed.
"""

import re
from collections.abc import Iterator
from typing import Final

from tokenbench.text import one_line
from tokenbench.transcripts.events import AgentNotice, CallSeen, Retry

_MID_RESPONSE: Final = re.compile(r"API Error: [^\n]{0,200}\bmid-response\b")
"""How claude 2.1.332 tells of a reply that it keeps as far as it came."""


class BreakWatch:
    """Watches a transcript for broken replies; it must not be told of a retry twice."""

    def __init__(self) -> None:
        self._begun: dict[str, int] = {}
        self._ended: set[str] = set()
        self._whole: dict[str, int] = {}
        self._failed: set[str] = set()
        self._latest: str | None = None
        self._others: dict[int, str] = {}

    def call(self, event: CallSeen) -> None:
        """A snapshot of a call. The beginning and the end of a reply are seen with partial messages alone."""
        key = event.message_id
        if event.parent is not None or key is None:
            return
        if not event.raw:
            if event.final:
                self._whole.setdefault(key, event.line)
        elif event.final:
            self._ended.add(key)
        else:
            self._begun.setdefault(key, event.line)
            self._latest = key

    def retry(self, event: Retry) -> None:
        """The CLI asks again.

        With an HTTP status the API itself gave the reply up, and what had begun counts if the totals hold it. Without
        one the connection broke, and what had been served by then is unknown, even where nothing of it was shown.
        """
        if event.status is None:
            self._others.setdefault(event.line, "the connection broke, and the CLI asked again")
        elif self._latest is not None:
            self._failed.add(self._latest)

    def notice(self, event: AgentNotice) -> None:
        """A sentence of the CLI."""
        if _MID_RESPONSE.match(event.text):
            self._others.setdefault(event.line, one_line(event.text, 100))

    def signs(self) -> tuple[str, ...]:
        """`line N: what was seen`, in their order; empty where every reply came to its end."""
        return tuple(f"line {line}: {what}" for line, what in sorted(self._found()))

    def _found(self) -> Iterator[tuple[int, str]]:
        yield from self._others.items()
        for key, line in self._begun.items():
            if key not in self._ended and key not in self._failed:
                yield line, "a reply began and did not come to its end"
        if not self._begun:
            return
        for key, line in self._whole.items():
            if key not in self._begun:
                yield line, "a reply came in one piece, as the CLI asks for it where a stream broke off"
