"""Terminals as they are: without UTF-8, too small, of changing size; and the last gate before them."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color

from tokenbench_tui.console.terminal import GLYPHS, Gate, to_ascii, wants_ascii

BLACK = Color(0, 0, 0)


@pytest.mark.parametrize(
    ("environment", "ascii_only"),
    [
        ({"LANG": "C.UTF-8"}, False),
        ({"LANG": "en_US.utf8"}, False),
        ({"LANG": "C"}, True),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "C"}, True),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False),
        ({"LANG": "de_DE.ISO-8859-1"}, True),
        ({}, True),
        ({"LANG": "C.UTF-8", "TOKENBENCH_ASCII": "1"}, True),
        ({"TOKENBENCH_ASCII": "0"}, False),
    ],
)
def test_the_locale_decides_whether_only_ascii_is_written(environment: dict[str, str], ascii_only: bool) -> None:
    assert wants_ascii(environment) is ascii_only


@pytest.mark.parametrize(("sign", "plain"), GLYPHS.items())
def test_an_ascii_glyph_is_as_wide_as_what_it_stands_for(sign: str, plain: str) -> None:
    assert plain.isascii()
    assert cell_len(plain) == cell_len(sign)


@given(st.text(max_size=60))
def test_ascii_text_is_ascii_and_as_wide(text: str) -> None:
    assert to_ascii(text).isascii()
    assert cell_len(to_ascii(text)) == cell_len(text) or not text.isprintable()


@given(st.text(max_size=60), st.booleans())
def test_no_control_passes_the_gate(text: str, ascii_only: bool) -> None:
    (segment,) = Gate(ascii_only=ascii_only).apply([Segment(text)], BLACK)
    assert not any(ord(sign) < 32 or 127 <= ord(sign) < 160 for sign in segment.text)
    assert not any(
        sign in segment.text for sign in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\ufeff"
    )
    assert segment.text.isascii() or not ascii_only


READY = {"1": "HEADLINE REFUSED", "2": "TOKENS ok", "3": "c correct", "4": "! ONE-CORPUS"}
"""What stands on a screen once its data has come."""


@pytest.mark.parametrize("screen", ["1", "2", "3", "4"])
@pytest.mark.parametrize("over", [[], ["question_mark"], ["ctrl+p"]])
async def test_a_storm_of_sizes_harms_nothing(
    lab: object, until: Callable, shown: Callable, screen: str, over: list[str]
) -> None:
    lab.begin()
    lab.finish()
    app = lab.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.findings.results is not None, "results")
        await pilot.press(screen)
        if screen == "3":
            await until(pilot, lambda: len(app.screen_stack) == 2, "the judge's name is asked for")
            await pilot.press(*"ann", "enter")
        await until(pilot, lambda: READY[screen] in shown(pilot), "the screen is ready")
        await pilot.press(*over)
        await pilot.pause()
        before = shown(pilot)
        for size in [(1, 1), (2, 2), (200, 50), (20, 5), (59, 16), (60, 15), (3, 60), (120, 3), (80, 24)]:
            await pilot.resize_terminal(*size)
            await pilot.pause()
            if size == (20, 5):
                assert "needs 60x16" in shown(pilot)
        await until(pilot, lambda: _still(shown(pilot)) == _still(before), f"the layout is back:\n{before}\n\nnow:")
        assert app.is_running


def _still(text: str) -> str:
    """The screen without its clock."""
    return text.replace("0 s", "").replace("1 s", "")


async def test_a_screen_that_cannot_be_read_takes_no_verdict(lab: object, until: Callable, shown: Callable) -> None:
    lab.begin()
    lab.finish()
    app = lab.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3")
        await until(pilot, lambda: len(app.screen_stack) == 2)
        await pilot.press(*"ann", "enter")
        await until(pilot, lambda: "Question" in shown(pilot))
        lab.clock.advance(5)
        await pilot.resize_terminal(20, 5)
        await pilot.press("c")
        await asyncio.sleep(0.1)
        assert not (lab.runs.verdicts / "ann.jsonl").exists()
        await pilot.resize_terminal(80, 24)
        await pilot.press("c")
        await until(pilot, (lab.runs.verdicts / "ann.jsonl").exists)


async def test_only_ascii_is_written_where_only_ascii_can_be_read(
    lab: object, until: Callable, shown: Callable
) -> None:
    lab.begin()
    lab.start(lab.cells[0])
    lab.finish(lambda cell: "größer als 256 → „ja“ …")
    app = lab.app(ascii_only=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.findings.results is not None)
        for keys in (["question_mark"], ["escape", "ctrl+p"], ["escape", "2"], ["4"], ["3"]):
            await pilot.press(*keys)
            await pilot.pause()
            assert shown(pilot).isascii()
        await pilot.press(*"ann", "enter")
        await until(pilot, lambda: "gr" in shown(pilot) and "256" in shown(pilot))
        assert shown(pilot).isascii()
