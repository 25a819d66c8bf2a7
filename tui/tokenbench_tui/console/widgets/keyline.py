"""The bottom line: what to press now."""

from collections.abc import Iterable

from tokenbench_tui.console import keymap
from tokenbench_tui.console.widgets.ink import Line, Span, width
from tokenbench_tui.console.widgets.lines import Lines

Hint = tuple[str, str]
"""A key as it is written, and one or two words."""


def hint(action_id: str, label: str | None = None) -> Hint:
    """The first key of an action, and its label."""
    action = keymap.action(action_id)
    return keymap.key_name(action.keys[0]), action.label if label is None else label


def key_line(now: Iterable[Hint], cells: int, *, here: keymap.Context | None = None) -> Line:
    """The hints that fit, the first ones first; help always has its place.

    Args:
        now: Hints in the order of their weight.
        cells: Width of the line.
        here: The screen one is on; the digits of the others follow the hints.
    """
    keys = hint("help")
    digits = [hint(name) for name in keymap.SCREENS if name != here]
    room = cells + 1 - _length([keys])
    kept: dict[str, str] = {}
    quits: list[Hint] = []
    for one in (*now, *digits, hint("leave")):
        if one[0] not in kept and _length([one]) <= room:
            room -= _length([one])
            if one[0] == hint("leave")[0]:
                quits.append(one)
            else:
                kept[one[0]] = one[1]
    spans: list[Span] = [(" ", "plain")]
    for key, label in (*kept.items(), keys, *quits):
        spans.append((key, "key"))
        spans.append((f" {label}  ", "plain"))
    last, ink = spans[-1]
    return (*spans[:-1], (last.rstrip(), ink))


def _length(hints: Iterable[Hint]) -> int:
    return sum(width(((key, "key"), (f" {label}  ", "plain"))) for key, label in hints)


class KeyLine(Lines):
    """The bottom line of a screen."""

    def press(self, now: Iterable[Hint], here: keymap.Context | None = None) -> None:
        """Say what to press now."""
        self.show(key_line(now, self.size.width, here=here))
