"""One analyser for documents and queries: what a word gives, and what it never gives."""

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tokenbench.retrieval.analysis import MAX_TOKEN, SENTINEL, fold, indexed, tokens

TABLE = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data/cases/64-identifier-unicode-tokens.jsonl").read_text().splitlines()
]
IDENTIFIERS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,30}", fullmatch=True)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row['indexed']}-{row['query']}")
def test_a_query_meets_a_document_exactly_where_the_table_says(row: dict[str, object]) -> None:
    document, query = set(tokens(str(row["indexed"]))), set(tokens(str(row["query"])))
    assert bool(document & query) is row["hit"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("getUserById", ["getuserbyid", "get", "user", "by", "id"]),
        ("parseHTMLResponse", ["parsehtmlresponse", "parse", "html", "response"]),
        ("MAX_CONN", ["max_conn", "max", "conn"]),
        ("_posixify", ["_posixify", "posixify"]),
        ("__init__", ["__init__", "init"]),
        ("oauth2Client", ["oauth2client", "oauth", "oauth2", "2", "client"]),
        ("Lucene104PostingsFormat", ["lucene104postingsformat", "lucene", "lucene104", "104", "postings", "format"]),
        ("ctx.exit(3)", ["ctx", "exit", "3"]),
        ("user user", ["user", "user"]),
        ("ÜberGröße", ["ubergrosse", "uber", "grosse"]),
        ("块大小 size", ["块大", "大小", "size"]),
        ("块", ["块"]),
        ("get块大小Size", ["get块大小size", "get", "块大", "大小", "size"]),
        ("हिन्दी", ["हिन्दी"]),
        ("co\u00adoperate", ["cooperate"]),
        ("a\udc80b", ["a", "b"]),
        ("_ __ *?[]{} \x00", []),
    ],
)
def test_a_name_is_kept_whole_and_split_before_it_is_folded(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


def test_data_gives_no_token() -> None:
    assert tokens("x" * 40_000) == []
    assert tokens("块" + "x" * 40_000) == ["块"]
    assert tokens("name " + "aB3" * 500) == ["name"]


def test_a_digest_is_kept_whole_only() -> None:
    digest = "3f9a0bc1d2e4f5a6b7c8d9e0f1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0"
    assert tokens(digest) == [digest]


def test_an_empty_field_holds_the_sentinel_that_no_text_gives() -> None:
    assert indexed(" ... ") == SENTINEL
    assert SENTINEL not in tokens(f"{SENTINEL} {SENTINEL.upper()}")
    assert "empty" in tokens(SENTINEL)


def test_characters_of_every_script_give_tokens_that_give_themselves() -> None:
    for code in (*range(0x3100), *range(0x3100, 0x32400, 61)):
        for text in (chr(code), f"a{chr(code)}B"):
            for token in tokens(text):
                assert token in tokens(token), hex(code)
                assert fold(token) == token, hex(code)


@given(st.text())
@example("aͅB")
@example("กิน")
def test_any_text_gives_tokens_that_give_themselves(text: str) -> None:
    for token in tokens(text):
        assert token in tokens(token)
        assert token != SENTINEL
        assert len(token) <= MAX_TOKEN


@given(st.text())
def test_tokens_hold_letters_digits_marks_and_underscores_only(text: str) -> None:
    for character in "".join(tokens(text)):
        assert character == "_" or character.isalnum() or unicodedata.category(character).startswith("M")


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_the_form_a_text_is_written_in_does_not_matter(text: str) -> None:
    assert tokens(unicodedata.normalize("NFD", text)) == tokens(unicodedata.normalize("NFC", text))


@given(st.text(), st.text(), st.text())
def test_a_query_finds_the_document_that_holds_it_as_a_word(before: str, query: str, after: str) -> None:
    assert set(tokens(query)) <= set(tokens(f"{before} {query} {after}"))


@given(IDENTIFIERS)
def test_an_identifier_is_found_whole_in_any_case(name: str) -> None:
    if name.strip("_"):
        assert tokens(name)[0] == name.lower()
        assert name.lower() in tokens(name.upper())
