"""Bytes to lines: only a newline ends one, and the size of the pieces does not matter."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.errors import TranscriptError
from tokenbench.transcripts import lines
from tokenbench.transcripts.lines import Line, LineSplitter, read_lines, read_many


def split(data: bytes, *sizes: int) -> list[Line]:
    splitter = LineSplitter()
    found: list[Line] = []
    start = 0
    for size in (*sizes, len(data) + 1):
        found += splitter.feed(data[start : start + size])
        start += size
    return found + splitter.close()


def test_other_line_separators_are_part_of_a_line() -> None:
    text = '{"a":"x\u0085y\u2028z\u2029\x0b\x0c\x1c"}'.encode()
    assert split(text + b"\n") == [Line(1, text)]


def test_a_byte_order_mark_and_carriage_returns_are_no_part_of_a_line() -> None:
    assert split(b"\xef\xbb\xbf{}\r\n[]\r\n") == [Line(1, b"{}"), Line(2, b"[]")]


def test_blank_lines_are_numbered() -> None:
    assert split(b"a\n\n\nb\n") == [Line(1, b"a"), Line(2, b""), Line(3, b""), Line(4, b"b")]


def test_a_tail_without_a_newline_is_incomplete() -> None:
    assert split(b"a\nb") == [Line(1, b"a"), Line(2, b"b", complete=False)]
    assert split(b"") == []


@given(st.binary(max_size=60), st.lists(st.integers(1, 7), max_size=30))
def test_any_pieces_give_the_same_lines(data: bytes, sizes: list[int]) -> None:
    assert split(data, *sizes) == split(data)
    assert b"\n".join(line.data for line in split(data)).replace(b"\r", b"").lstrip(
        b"\xef\xbb\xbf"
    ) == data.removesuffix(b"\n").replace(b"\r", b"").lstrip(b"\xef\xbb\xbf")


@given(st.binary(max_size=60))
def test_a_file_gives_the_lines_of_its_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("lines") / "t.jsonl"
    path.write_bytes(data)
    assert list(read_lines(path)) == split(data)


@given(st.text("a\n\r", max_size=60).map(str.encode) | st.binary(max_size=60), st.integers(1, 9), st.integers(1, 9))
def test_however_many_lines_come_together_they_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, together: int, piece: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "t.jsonl"
    path.write_bytes(data)
    many = list(read_many(path, together=together, piece=piece))
    assert b"".join(part for lines in many for part in lines.data) == data
    assert [lines.line(index) for lines in many for index in range(len(lines.data))] == split(data)


def test_a_line_of_megabytes_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"x" * 5_000_000 + b"\ny\n")
    assert [len(line.data) for line in read_lines(path)] == [5_000_000, 1]


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(TranscriptError) as caught:
            list(read_lines(path))
        assert caught.value.where == str(path)


def test_a_file_is_read_as_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"first\n" + b"x" * 3_000_000 + b"\n")
    lines = read_lines(path)
    assert next(lines) == Line(1, b"first")
    with path.open("ab") as file:
        file.write(b"later\n")
    assert [line.data[:5] for line in lines] == [b"xxxxx", b"later"]


def test_a_line_that_memory_does_not_hold_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "endless.jsonl"
    path.write_bytes(b"{}\n" + b"x" * 100)

    def full(*_: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr(lines, "_joined", full)
    read = read_many(path, together=1, piece=50)
    assert next(read).data == [b"{}\n"]
    with pytest.raises(TranscriptError, match="line 2"):
        next(read)
