"""However a line is decoded, quickly or part by part, it holds the same events."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenbench.agents.claude import wire
from tokenbench.agents.claude.stream import ClaudeReader
from tokenbench.transcripts.events import CallSeen, Event
from tokenbench.transcripts.lines import Line, Lines, LineSplitter, read_lines, read_many

DATA = Path(__file__).parents[2] / "data"
FILES = sorted(path for path in DATA.rglob("*.jsonl") if ".calls." not in path.name and b"session" in path.read_bytes())


def quickly(lines: list[Line]) -> tuple[list[Event], dict[str, int], bool]:
    reader = ClaudeReader()
    return [event for line in lines for event in reader.feed(line)], dict(reader.counts), reader.own_log


def part_by_part(lines: list[Line]) -> tuple[list[Event], dict[str, int], bool]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "decode_row", lambda data: wire.decode(data, wire.Row))
        patch.setattr(wire, "is_delta", lambda data: False)
        return quickly(lines)


def together(many: Iterable[Lines]) -> tuple[list[Event], dict[str, int], bool]:
    reader = ClaudeReader()
    return (
        [event for lines in many for found in reader.feed_many(lines) for event in found],
        dict(reader.counts),
        reader.own_log,
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_capture_and_case(path: Path) -> None:
    lines = list(read_lines(path))
    assert quickly(lines) == part_by_part(lines)
    assert together(read_many(path)) == together(read_many(path, together=1, piece=7)) == quickly(lines)


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.just("\ud800") | st.just(1e400)
anything = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=4)


def sometimes(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return usual | usual | usual | anything


inner = st.fixed_dictionaries(
    {"type": sometimes(st.sampled_from(["text", "image", "x"]))}, optional={"text": sometimes(st.text(max_size=5))}
)
contents = sometimes(st.text(max_size=5) | st.lists(inner, max_size=2))
blocks = st.fixed_dictionaries(
    {"type": sometimes(st.sampled_from(["text", "thinking", "tool_use", "tool_result"]))},
    optional={
        "text": sometimes(st.text(max_size=5)),
        "thinking": sometimes(st.text(max_size=5)),
        "id": sometimes(st.just("t1")),
        "name": sometimes(st.just("Read")),
        "input": sometimes(st.dictionaries(st.text(max_size=2), scalars, max_size=2)),
        "tool_use_id": sometimes(st.just("t1")),
        "content": contents,
        "is_error": sometimes(st.booleans()),
    },
)
messages = st.fixed_dictionaries(
    {"content": sometimes(st.text(max_size=5) | st.lists(blocks, max_size=3))},
    optional={"id": sometimes(st.just("m1")), "model": sometimes(st.just("m")), "stop_reason": sometimes(st.none())},
)
rows = st.fixed_dictionaries(
    {"type": sometimes(st.sampled_from(["assistant", "user"])), "message": sometimes(messages)},
    optional={"uuid": sometimes(st.sampled_from(["u1", ""])), "session_id": sometimes(st.just("s"))},
)
deltas = st.fixed_dictionaries(
    {"type": st.just("stream_event"), "event": st.just({"type": "content_block_delta", "index": 0})},
    optional={"uuid": anything, "session_id": anything, "sessionId": anything, "parent_tool_use_id": anything},
)


@given(st.lists(rows | deltas, max_size=4), st.integers(0, 60))
@settings(deadline=None)
def test_rows_with_faults_anywhere(found: list[Any], cut: int) -> None:
    texts = [json.dumps(row, separators=(",", ":")).encode() for row in found]
    lines = [Line(number, text[: len(text) - cut] if number == 2 else text) for number, text in enumerate(texts, 1)]
    assert quickly(lines) == part_by_part(lines)
    assert together([Lines(1, [line.data + b"\n" for line in lines])]) == quickly(lines)


@pytest.mark.parametrize("uuid", ["", ',"uuid":null', ',"uuid":""'])
def test_a_row_without_an_id_is_known_by_its_bytes_however_its_line_ends(uuid: str) -> None:
    row = f'{{"type":"assistant","message":{{"usage":{{"input_tokens":3}}}},"session_id":"s"{uuid}}}'.encode()
    ends = [row + b"\n", row + b"\r\n", row]
    events, _, _ = together([Lines(1, ends)])
    assert len({event.row_id for event in events if isinstance(event, CallSeen)}) == 1


DELTA = b'{"type":"stream_event","event":{"type":"content_block_delta","index":0},"session_id":"s","uuid":"u"}'


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param([DELTA + b" " + DELTA], id="two in a line"),
        pytest.param([DELTA[:50], DELTA[50:]], id="cut in two"),
        pytest.param([DELTA.replace(b'"u"', b'"}'), b'"}'], id="cut in a string"),
        pytest.param([DELTA + b" " + DELTA, DELTA.replace(b'"u"', b'"}'), DELTA], id="as many objects as lines"),
        pytest.param([DELTA.replace(b'"s"', b"null")], id="of no session"),
        pytest.param([DELTA.replace(b"session_id", b"sessionId")], id="of a session file"),
        pytest.param([DELTA.replace(b'"u"', b"NaN")], id="no strict JSON"),
        pytest.param([b"\xef\xbb\xbf" + DELTA], id="with a byte order mark"),
        pytest.param([DELTA + b"\r"], id="with a CR"),
        pytest.param([b"", b"log text"], id="among other lines"),
    ],
)
def test_pieces_of_content_are_counted_in_one_go_only_where_each_line_is_one(odd: list[bytes]) -> None:
    data = b"\n".join([DELTA, DELTA, *odd, DELTA, DELTA, b""])
    lines = LineSplitter().feed(data)
    assert together([Lines(1, [line + b"\n" for line in data.split(b"\n")[:-1]])]) == quickly(lines)
