"""Nothing hostile reaches a terminal, and nothing is hidden on the way."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.text import one_line, visible

BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_no_control_and_no_bidi_override_is_left(text: str) -> None:
    for character in visible(text):
        assert character in "\t\n" or unicodedata.category(character) not in {"Cc", "Cs"}
        assert character not in BIDI


def test_a_control_is_shown_and_not_deleted() -> None:
    assert visible("256\b\b\b128") == "256␈␈␈128"
    assert visible("\x1b]52;c;AAAA\x07") == "␛]52;c;AAAA␇"
    assert visible("2\u202e65") == "2<202E>65"
    assert visible("\x9b31m") == "<9B>31m"


def test_plain_text_stays_as_it_is() -> None:
    text = "a[b]c [/] naïve 漢字 emoji 🙂\n\tindented"
    assert visible(text) == text


@pytest.mark.parametrize("limit", [1, 2, 10, 80])
@given(text=st.text())
def test_one_line_is_one_line_and_keeps_its_limit(limit: int, text: str) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line


def test_a_cut_is_marked() -> None:
    assert one_line("abcdef", 4) == "abc…"


def test_ten_megabytes_are_cut_before_they_are_cleaned() -> None:
    assert one_line("x" * 10_000_000, 20) == "x" * 19 + "…"
