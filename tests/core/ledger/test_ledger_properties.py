"""What holds of every transcript, however it was mangled."""

import json
import random
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from streams import DATA, ledger, read, served

from tokenbench.ledger.model import Ledger, Tokens

STREAMS = DATA / "streams"
SMALL = sorted(
    f"{path.parent.name}/{path.name.removesuffix('.jsonl')}"
    for path in STREAMS.glob("claude*/*.jsonl")
    if ".calls." not in path.name and path.stat().st_size < 30_000
)
names = st.sampled_from(SMALL)
rows = st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda kind, rest: json.dumps({"type": kind, **rest}).encode(),
        st.sampled_from(["assistant", "user", "system", "result", "stream_event", "x"]),
        st.dictionaries(
            st.sampled_from(
                ["message", "usage", "modelUsage", "event", "uuid", "subtype", "session_id", "result", "error"]
            ),
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                lambda inner: (
                    st.lists(inner, max_size=3)
                    | st.dictionaries(
                        st.sampled_from(
                            ["id", "usage", "content", "type", "input_tokens", "model", "text", "tool_use_id"]
                        ),
                        inner,
                        max_size=4,
                    )
                ),
                max_leaves=12,
            ),
        ),
    ),
)


@given(st.lists(rows, max_size=12), st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\0\n"]))
@settings(deadline=None, max_examples=300)
def test_no_bytes_whatever_give_a_traceback(lines: list[bytes], end: bytes) -> None:
    found = ledger(end.join(lines))
    assert found.tokens is None or min(found.tokens.input, found.tokens.output) >= 0


@given(names, st.integers(1, 4096))
@settings(deadline=None, max_examples=60)
def test_the_size_of_the_pieces_does_not_matter(name: str, piece: int) -> None:
    data = read(STREAMS / f"{name}.jsonl")
    assert ledger(data, piece=piece) == ledger(data)


@given(names, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=150)
def test_no_total_grows_when_lines_are_repeated(name: str, rng: random.Random) -> None:
    lines = read(STREAMS / f"{name}.jsonl").splitlines(keepends=True)
    once = ledger(b"".join(lines))
    for _ in range(rng.randrange(1, 6) if lines else 0):
        original = rng.randrange(len(lines))
        lines.insert(rng.randrange(original, len(lines)) + 1, lines[original])
    again = ledger(b"".join(lines))
    if again.tokens is not None:
        assert again.tokens == once.tokens
    assert _no_more(again.lower_bound, once.lower_bound)
    assert again.calls <= once.calls
    assert [(row.name, row.uses, row.result_characters) for row in again.tools] == [
        (row.name, row.uses, row.result_characters) for row in once.tools
    ]


def _no_more(one: Tokens, other: Tokens) -> bool:
    return one.billed_input <= other.billed_input and one.output <= other.output


@given(names, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=100)
def test_the_order_of_the_rows_of_one_reply_does_not_matter(name: str, rng: random.Random) -> None:
    lines = read(STREAMS / f"{name}.jsonl").splitlines(keepends=True)
    groups: list[list[bytes]] = []
    last: str | None = None
    for line in lines:
        row = json.loads(line)
        key = row["message"]["id"] if row["type"] == "assistant" else None
        if key is None or key != last:
            groups.append([])
        groups[-1].append(line)
        last = key
    shuffled = b"".join(b"".join(rng.sample(group, len(group))) for group in groups)
    assert _costs(ledger(shuffled)) == _costs(ledger(b"".join(lines)))


def _costs(found: Ledger) -> tuple[object, ...]:
    return (found.tokens, found.main, found.lower_bound, found.calls, found.models, found.token_reconciled, found.tools)


def _drop(lines: list[bytes], rng: random.Random) -> None:
    del lines[rng.randrange(len(lines))]


def _swap(lines: list[bytes], rng: random.Random) -> None:
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]


def _spoil(lines: list[bytes], rng: random.Random) -> None:
    at = rng.randrange(len(lines))
    line = bytearray(lines[at])
    line[rng.randrange(len(line))] = rng.randrange(256)
    lines[at] = bytes(line)


def _interrupt(lines: list[bytes], rng: random.Random) -> None:
    lines.insert(rng.randrange(len(lines) + 1), bytes(rng.randrange(256) for _ in range(rng.randrange(40))) + b"\n")


def _truncate(lines: list[bytes], rng: random.Random) -> None:
    whole = b"".join(lines)
    cut = whole[: rng.randrange(len(whole))]
    lines[:] = cut.splitlines(keepends=True)


MANGLES: list[Callable[[list[bytes], random.Random], None]] = [_drop, _swap, _spoil, _interrupt, _truncate]
WITNESSED = [name for name in SMALL if served(read(STREAMS / f"{name}.calls.jsonl")).total]
"""Captures in which something was billed."""
UNKNOWABLE = {"claude-2.1.332/refusal", "claude-2.1.332/compact_cmd"}
"""Without the row that names the second model, or the run's own, its usage is that of a sidecar."""


@given(st.sampled_from([n for n in WITNESSED if n not in UNKNOWABLE]), st.sampled_from(MANGLES), st.integers(0, 2**32))
@settings(deadline=None, max_examples=400)
def test_a_mangled_transcript_is_refused_or_still_equals_what_was_served(
    name: str, mangle: Callable[[list[bytes], random.Random], None], seed: int
) -> None:
    lines = read(STREAMS / f"{name}.jsonl").splitlines(keepends=True)
    counters = _digits(lines)
    mangle(lines, random.Random(seed))
    found = ledger(b"".join(lines))
    if mangle is _spoil and not _digits(lines) <= counters:
        return
    if found.token_reconciled and found.tokens is not None:
        assert found.tokens == served(read(STREAMS / f"{name}.calls.jsonl"))


def _digits(lines: list[bytes]) -> set[bytes]:
    """Lines that hold counters: a byte that turned one counter into another tells another story."""
    return {line for line in lines if b"okens" in line}
