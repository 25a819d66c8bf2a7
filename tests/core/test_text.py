"""Nothing hostile reaches a terminal, and nothing is hidden on the way."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.text import KEY_MARK, one_line, visible, without_keys

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


# Put together here, so that no scanner takes this file for a leak.
KEYS = [
    "sk-" + "ant-api03-" + "a1B2_c3-" * 11 + "AA",
    "sk-" + "proj-" + "Ab9" * 12,
    "sk-" + "Ab9" * 16,
    "AKIA" + "ABCDEFGH23456789",
    "ghp" + "_" + "a1B2" * 9,
    "github" + "_pat_" + "11AB" * 12,
    "glpat" + "-" + "a1B2" * 5,
    "AIza" + "Sy-" * 11 + "xx",
    "xoxb" + "-123456789012-abcdefABCDEF",
    "hf" + "_" + "a1B2" * 8,
    "eyJhbGciOi" + "JIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("around", ["{}", "key={}", 'x = "{}"', "{},", "a {}\nb"])
def test_what_has_the_shape_of_a_key_is_masked_where_people_look(key: str, around: str) -> None:
    shown = visible(around.format(key))
    assert KEY_MARK in shown
    assert key[8:20] not in shown
    assert shown == around.format(KEY_MARK)
    assert KEY_MARK in one_line(around.format(key), 60)


@pytest.mark.parametrize("key", KEYS)
def test_an_agent_is_given_what_the_corpus_holds(key: str) -> None:
    assert visible(key, keep_keys=True) == key


@pytest.mark.parametrize(
    "text", ["sk-learn-tutorials-and-more", "task-force-of-twenty-people", "AKIA", "ghp_short", "eyJ.eyJ.x"]
)
def test_what_only_begins_like_a_key_stays(text: str) -> None:
    assert visible(text) == text


@given(st.text())
def test_masking_is_done_once_and_for_all(text: str) -> None:
    assert without_keys(without_keys(text)) == without_keys(text)
