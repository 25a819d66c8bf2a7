"""Lines keep to their width, and text that comes from elsewhere stays text."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tokenbench.text import visible
from tokenbench_tui.console.widgets.ink import LONGEST, clip, fit, line, paragraph, spread, width, wrap

DATA = Path(__file__).parents[2] / "data" / "terminal"
HOSTILE = [json.loads(row)["answer"] for name in ("markup", "controls") for row in (DATA / f"{name}.jsonl").open()]
TEXT = st.text(max_size=200)


@given(TEXT, st.integers(0, 40), st.sampled_from(["left", "right"]))
def test_fitted_text_has_exactly_the_width(text: str, cells: int, align: str) -> None:
    assert cell_len(fit(visible(text).replace("\n", " ").replace("\t", " "), cells, align)) == cells


@given(st.lists(st.tuples(TEXT, st.just("plain")), max_size=5), st.integers(0, 40))
def test_a_clipped_line_is_no_wider(spans: list[tuple[str, str]], cells: int) -> None:
    clean = tuple((visible(text).replace("\n", " ").replace("\t", " "), ink) for text, ink in spans)
    assert width(clip(clean, cells)) <= cells


@given(TEXT, st.integers(2, 60))
def test_wrapping_loses_nothing_but_blanks(text: str, cells: int) -> None:
    lines = wrap(text, cells)
    assert all(cell_len(one) <= cells for one in lines)
    assert "".join("".join(lines).split()) == "".join(visible(text).split())


@given(TEXT, st.integers(10, 60), st.integers(0, 12), st.text("ab ", max_size=30))
def test_a_paragraph_keeps_to_its_width(text: str, cells: int, indent: int, label: str) -> None:
    lines = paragraph(((label, "key"),), text, cells, indent=indent)
    assert all(width(one) <= max(cells, indent + 2, width(lines[0][:1])) for one in lines)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_keeps_its_signs_and_loses_its_power(text: str) -> None:
    shown = "\n".join(wrap(text, 80))
    assert not any(
        (ord(sign) < 32 and sign != "\n") or 127 <= ord(sign) < 160 or sign in "\u202e\u202c" for sign in shown
    )
    assert "".join(filter(str.isdigit, text)) in "".join(
        filter(str.isdigit, shown.replace("202E", "").replace("202C", ""))
    )


@pytest.mark.parametrize("text", [json.loads(row)["plain_render"] for row in (DATA / "markup.jsonl").open()])
def test_brackets_are_text(text: str) -> None:
    assert "\n".join(wrap(text, 80)) == text


def test_a_text_of_ten_megabytes_is_cut_and_that_is_said() -> None:
    lines = wrap("x" * 10_000_000, 80)
    assert len(lines) <= LONGEST // 80 + 2
    assert "9,800,000 more characters" in lines[-1]


def test_two_ends_of_a_line_never_overlap() -> None:
    left, right = line("a" * 50), line("key")
    assert width(spread(left, right, 40)) == 40
    assert width(spread(left, right, 5)) <= 5


@pytest.mark.parametrize(
    ("text", "cells", "shown"),
    [
        ("0.88 (0.37 – 3.21)", 16, "0.88 (0.37 –…"),
        ("0.88 (0.37 – 3.21)", 14, "0.88 (0.37 –…"),
        ("$12.345 spent", 5, "…"),
        ("1,284,120", 6, "…"),
        ("9 of 12 cells", 7, "9 of…"),
        ("q12_block", 3, "q1…"),
    ],
)
def test_half_a_number_is_never_shown(text: str, cells: int, shown: str) -> None:
    assert fit(text, cells).rstrip() == shown
    assert clip(line(text), cells) == line(shown)
