"""Judging elsewhere: the queue as JSON lines, and the verdicts that come back.

A line that goes out is a `BlindItem` and nothing else. A line that comes back needs `id` and `verdict`, may have
`comment` and `seconds`, and may keep the fields it went out with, unchanged.
"""

import math
from collections import Counter
from typing import Any, Final

import msgspec

from tokenbench.decoding import UNREADABLE
from tokenbench.grading.desk import Desk
from tokenbench.grading.items import BlindItem
from tokenbench.grading.verdicts import DECISIONS, Decision
from tokenbench.text import one_line

_OWN: Final = frozenset({"id", "verdict", "comment", "seconds"})


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a file of verdicts."""

    taken: int
    known: int
    """Lines that say what this judge's file already said."""
    refused: tuple[str, ...]
    """`line 3: what is wrong`."""


class _Returned(msgspec.Struct, frozen=True):
    line: int
    item: BlindItem
    verdict: Decision
    comment: str
    seconds: float | None


def export_lines(desk: Desk) -> bytes:
    """The queue in this judge's order, one item a line."""
    return b"".join(msgspec.json.encode(item) + b"\n" for item in desk.items)


def import_lines(desk: Desk, data: bytes) -> Imported:
    """Take the verdicts of a file. Lines that cannot be taken are refused by number; the others are taken.

    Two lines on one item are both refused: which of them was meant, nobody can know.

    Raises:
        RunsError: The disk is full, or the judge's file may not be written.
    """
    refused: dict[int, str] = {}
    returned: list[_Returned] = []
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not raw.strip():
            continue
        one = _returned(desk, number, raw)
        if isinstance(one, str):
            refused[number] = one
        else:
            returned.append(one)
    twice = {item for item, times in Counter(one.item.id for one in returned).items() if times > 1}
    taken = known = 0
    for one in returned:
        if one.item.id in twice:
            lines = ", ".join(str(other.line) for other in returned if other.item.id == one.item.id)
            refused[one.line] = f"the item is judged more than once (lines {lines})"
            continue
        standing = desk.verdict(one.item)
        if standing is not None and (standing.verdict, standing.note) == (one.verdict, one.comment):
            known += 1
            continue
        desk.give(one.item, one.verdict, note=one.comment, seconds=one.seconds)
        taken += 1
    return Imported(
        taken=taken, known=known, refused=tuple(f"line {number}: {refused[number]}" for number in sorted(refused))
    )


def _returned(desk: Desk, number: int, raw: bytes) -> _Returned | str:
    """The verdict on a line, or why it is refused."""
    try:
        row: dict[str, Any] = msgspec.json.decode(raw, type=dict[str, Any])
    except UNREADABLE as error:
        return f"is no JSON object: {error}"
    if repeated := _repeated_key(raw):
        return f"names `{repeated}` twice"
    item = next((item for item in desk.items if item.id == row.get("id")), None)
    if item is None:
        return f"`id` names no item of the queue: {one_line(str(row.get('id')), 40)}"
    as_sent: dict[str, Any] = msgspec.to_builtins(item)
    for key, value in row.items():
        if key in _OWN:
            continue
        if key not in as_sent:
            return f"has an unknown field `{one_line(key, 40)}`"
        if value != as_sent[key]:
            return f"`{key}` is not what is in the queue now: it was judged on something else"
    verdict, comment, seconds = row.get("verdict"), row.get("comment", ""), row.get("seconds")
    if verdict not in DECISIONS:
        return f"`verdict` is {one_line(str(verdict), 40)}, not one of {', '.join(DECISIONS)}"
    if not isinstance(comment, str):
        return "`comment` is no text"
    if isinstance(seconds, bool) or not isinstance(seconds, int | float | None):
        return "`seconds` is no number"
    if seconds is not None and not (math.isfinite(seconds) and seconds >= 0):
        return "`seconds` is no time"
    return _Returned(number, item, verdict, comment, seconds)


def _repeated_key(raw: bytes) -> str | None:
    """A key that stands twice in an object, of which a decoder would keep the last in silence."""
    import json

    repeated: list[str] = []

    def keep(pairs: list[tuple[str, object]]) -> dict[str, object]:
        repeated.extend(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        return dict(pairs)

    json.loads(raw, object_pairs_hook=keep)
    return repeated[0] if repeated else None
