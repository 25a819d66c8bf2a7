"""Which rows of a transcript are the same billed call, and which of its snapshots counts."""

from collections.abc import Iterable

import msgspec

from tokenbench.ledger.model import CallRow
from tokenbench.ledger.sums import ZERO, Sum, of_usage
from tokenbench.transcripts.events import CallSeen, Usage

Rank = tuple[bool, bool, int, int]
_Variant = tuple[str | None, tuple[int, int, int], bool]
"""API request id, what was taken in, whether the counters are final."""


class Call(msgspec.Struct, gc=False):
    """One billed API request, as far as the transcript shows it."""

    key: str
    message_id: str
    model: str
    parent: str | None
    line: int
    """The first line it appears on."""
    usage: Usage
    final: bool
    """Whether the output is that of the finished message."""
    tools: dict[str, tuple[int, str]] = {}
    """Tool uses by id: line and name."""
    rank: Rank = (False, False, 0, 0)
    variants: dict[_Variant, Usage] = {}
    """Whole-message snapshots that differ in more than their output."""
    counters: Sum = ZERO
    """Those of `usage`; the output is a placeholder unless `final`."""

    def __post_init__(self) -> None:
        self.counters = of_usage(self.usage)

    def outdone(self, usage: Usage, final: bool, rank: Rank) -> None:
        """A snapshot of a higher rank takes the place of the one before it."""
        self.usage, self.final, self.rank, self.counters = usage, final, rank, of_usage(usage)

    def row(self, number: int) -> CallRow:
        """The call as the ledger publishes it."""
        return CallRow(
            number=number,
            message_id=self.message_id,
            model=self.model,
            line=self.line,
            tokens=self.counters.tokens(),
            output_is_partial=not self.final,
            parent=self.parent,
            then=tuple(name for _, name in sorted(self.tools.values())),
            speed=self.usage.speed,
            region=self.usage.region,
        )


def _rank(usage: Usage, final: bool) -> Rank:
    """Order of snapshots of one call: the largest is the finished one.

    A zeroed row never wins; the counters of a finished message beat a placeholder; then the largest output does, and
    the largest input, so that the order of the rows does not matter.
    """
    inside = usage.input + usage.cache_write + usage.cache_read
    return (inside + usage.output > 0, final, usage.output, inside)


class CallBook:
    """All calls of one transcript, by message id; a row without one is a call by its own id."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._latest: CallSeen | None = None
        self._last_main: Call | None = None
        self._answered = True
        self.abandoned: set[str] = set()
        """Keys of replies that had begun when the API failed: they count only if the totals hold them."""

    def again(self, seen: CallSeen) -> bool:
        """Take a snapshot in that only repeats the one before it, as rows of one reply do; False if it says more."""
        before = self._latest
        if (
            before is None
            or seen.message_id is None
            or seen.message_id != before.message_id
            or seen.usage != before.usage
            or (seen.model, seen.final, seen.parent, seen.raw, seen.request_id)
            != (before.model, before.final, before.parent, before.raw, before.request_id)
        ):
            return False
        if self._last_main is not None and self._last_main.key == seen.message_id:
            self._answered = False
        return True

    def add(self, seen: CallSeen) -> tuple[Call, bool]:
        """Take a snapshot in; returns the call, and whether it is a new one."""
        self._latest = seen
        key = seen.message_id or seen.row_id
        rank = _rank(seen.usage, seen.final)
        call = self._calls.get(key)
        new = call is None
        if call is None:
            call = Call(key, key, seen.model or "", seen.parent, seen.line, seen.usage, seen.final, rank=rank)
            self._calls[key] = call
        elif rank > call.rank:
            call.outdone(seen.usage, seen.final, rank)
        call.line = min(call.line, seen.line)
        call.model = call.model or seen.model or ""
        if not seen.raw and rank[0]:
            counters = call.counters if call.usage is seen.usage else of_usage(seen.usage)
            variant = (seen.request_id, counters.inside, seen.final)
            known = call.variants.get(variant)
            if known is None or _rank(known, seen.final) < rank:
                call.variants[variant] = seen.usage
        if call.parent is None and (new or self._last_main is call):
            self._last_main, self._answered = call, False
        return call, new

    def use_tool(self, key: str | None, tool_id: str, line: int, name: str) -> None:
        """The call of that key asked for a tool."""
        call = self._calls.get(key or "")
        if call is not None and tool_id not in call.tools:
            call.tools[tool_id] = (line, name)

    def main_result(self) -> None:
        """A tool result went back to the main loop: the reply that asked for it had come to its end."""
        self._answered = True

    def api_failed(self) -> None:
        """The API failed: a reply of the main loop that had begun and not ended is abandoned."""
        last = self._last_main
        if last is not None and not self._answered and not last.final:
            self.abandoned.add(last.key)

    def calls(self) -> list[Call]:
        """All calls, in the order of their first lines."""
        return sorted(self._calls.values(), key=lambda call: (call.line, call.key))


def collisions(calls: Iterable[Call], *, own_log: bool) -> list[str]:
    """Message ids that more than one call carries.

    All rows of a streamed reply repeat the counters of its beginning, so rows of one id that took in different things
    are different calls. The agent's own log holds beginnings and ends side by side; there it takes two API request
    ids as well. A request id alone never makes one call two.
    """
    found: list[str] = []
    for call in calls:
        if len(call.variants) < 2:
            continue
        for final in (False, True):
            insides = {inside for _, inside, ended in call.variants if ended == final}
            requests = {request for request, _, ended in call.variants if ended == final and request is not None}
            if len(insides) > 1 and (not own_log or len(requests) > 1):
                found.append(call.message_id)
                break
    return found


def split(calls: Iterable[Call], ids: Iterable[str]) -> list[Call]:
    """The calls, with those of these ids taken apart: by API request, or where none is named by what they took in."""
    apart = set(ids)
    result: list[Call] = []
    for call in calls:
        if call.message_id not in apart or len(call.variants) < 2:
            result.append(call)
            continue
        named = len({request for request, _, _ in call.variants}) > 1
        best: dict[object, tuple[Rank, Usage, bool]] = {}
        for (request, inside, final), usage in call.variants.items():
            group = request if named else inside
            rank = _rank(usage, final)
            if group not in best or rank > best[group][0]:
                best[group] = (rank, usage, final)
        result.extend(
            Call(f"{call.key}#{number}", call.message_id, call.model, call.parent, call.line, usage, final)
            for number, (_, usage, final) in enumerate(best.values())
        )
    return result


def request_collisions(calls: Iterable[Call]) -> list[str]:
    """Message ids whose rows come from more than one API request."""
    return [
        call.message_id
        for call in calls
        if len(call.variants) > 1 and len({request for request, _, _ in call.variants if request is not None}) > 1
    ]
