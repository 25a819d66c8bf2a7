"""Every action has its key, its help and its palette entry, and no key is one that a terminal keeps for itself."""

import pytest
from textual.binding import Binding

from tokenbench_tui.console import keymap
from tokenbench_tui.console.app import TokenbenchApp
from tokenbench_tui.console.screens.base import Box
from tokenbench_tui.console.screens.boxes import help_page, matching
from tokenbench_tui.console.screens.cache.screen import CacheScreen
from tokenbench_tui.console.screens.grade.screen import GradeScreen
from tokenbench_tui.console.screens.ledger.screen import LedgerScreen
from tokenbench_tui.console.screens.matrix.screen import MatrixScreen
from tokenbench_tui.console.screens.runs.screen import RunsScreen
from tokenbench_tui.console.widgets.keyline import hint, key_line
from tokenbench_tui.console.widgets.lines import LineView

OWNERS = {
    "app": TokenbenchApp,
    "list": LineView,
    "runs": RunsScreen,
    "ledger": LedgerScreen,
    "grade": GradeScreen,
    "matrix": MatrixScreen,
    "cache": CacheScreen,
    "modal": Box,
}
EATEN = {
    *(f"ctrl+{letter}" for letter in "abcdefghijklmnoqrstuvwxyz"),  # tmux b, screen a, flow control s q, signals c z …
    "ctrl+@", "ctrl+backslash", "ctrl+circumflex_accent", "ctrl+underscore", "ctrl+right_square_bracket",
}  # fmt: skip


@pytest.mark.parametrize("action", keymap.ACTIONS, ids=lambda action: f"{action.context}.{action.id}")
def test_an_action_can_be_done_by_key_found_in_help_and_in_the_palette(action: keymap.Action) -> None:
    assert callable(getattr(OWNERS[action.context], f"action_{action.id}"))
    assert action.keys
    assert action.label
    assert action.help[0].isupper()
    assert not action.help.endswith(".")
    page = help_page([action.context], 76)
    assert any(action.help[:40] in "".join(text for text, _ in line) for line in page.lines)
    assert action in matching(keymap.ACTIONS, action.help)


@pytest.mark.parametrize("action", keymap.ACTIONS, ids=lambda action: f"{action.context}.{action.id}")
def test_no_key_is_eaten_on_its_way(action: keymap.Action) -> None:
    for key in action.keys:
        assert key not in EATEN
        assert "+" not in key or key == "ctrl+p"
        assert not key.startswith("f1")


@pytest.mark.parametrize("screen", keymap.SCREENS)
def test_a_key_means_one_thing_on_a_screen(screen: keymap.Context) -> None:
    keys = [key for context in (screen, "list", "app") for action in keymap.actions(context) for key in action.keys]
    assert len(keys) == len(set(keys))


def test_the_bindings_of_a_context_are_the_actions_of_the_keymap() -> None:
    for context, owner in OWNERS.items():
        bound = {one.action for one in owner.BINDINGS if isinstance(one, Binding)}
        assert {action.id for action in keymap.actions(context)} <= bound


def test_screens_have_the_digits_in_order() -> None:
    assert [keymap.action(screen).keys for screen in keymap.SCREENS] == [("1",), ("2",), ("3",), ("4",), ("5",)]


@pytest.mark.parametrize("cells", [20, 60, 80, 160])
def test_the_key_line_fits_and_always_tells_where_the_keys_are(cells: int) -> None:
    line = key_line([hint("choose"), hint("pause"), hint("stop"), hint("cancel")], cells, here="runs")
    text = "".join(part for part, _ in line).rstrip()
    assert len(text) <= cells
    assert "? keys" in text


def test_a_key_stands_once_on_the_key_line() -> None:
    line = key_line([hint("grade"), hint("choose")], 160, here="matrix")
    keys = [text for text, ink in line if ink == "key"]
    assert len(keys) == len(set(keys))


def test_the_palette_finds_by_the_beginnings_of_words_first() -> None:
    found = matching(keymap.ACTIONS, "ca")
    assert found
    assert "cancel" in [action.id for action in found[:3]]
    assert matching(keymap.ACTIONS, "no such thing") == []
