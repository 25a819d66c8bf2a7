"""What is seen of a run while it goes on."""

import gc
import time
import weakref
from pathlib import Path

import pytest
from streams import DATA, Script, read, text, tool

from tokenbench.ledger import read_ledger
from tokenbench.ledger.build import LedgerBuilder
from tokenbench.ledger.model import Live, Tokens
from tokenbench.transcripts.events import Announcement, Ended
from tokenbench.transcripts.lines import Line, LineSplitter, read_lines


def follow(script: Script) -> list[Live]:
    builder = LedgerBuilder(transcript="t")
    seen: list[Live] = []
    for line in LineSplitter().feed(script.bytes()):
        builder.feed(line)
        seen.append(builder.live())
    return seen


def test_it_says_what_the_agent_does_and_how_far_it_has_come() -> None:
    script = Script()
    script.call("m1", (3, 0, 5_000, 0, 2), {"type": "thinking", "thinking": "hm"})
    script.call("m1", (3, 0, 5_000, 0, 2), tool("t1", "Grep"))
    script.result_of("t1")
    script.row("system", subtype="api_retry", error_status=529)
    script.call("m2", (4, 0, 100, 5_000, 2), text("256"))
    script.end((7, 0, 5_100, 5_000, 90), {"claude-opus-4-8": (7, 0, 5_100, 5_000, 90)}, "256")
    seen = follow(script)
    assert [one.doing for one in seen] == ["starting", "thinking", "Grep", "thinking", "retrying", "answering", "done"]
    assert [one.prompt for one in seen] == [0, 5_003, 5_003, 5_003, 5_003, 5_104, 5_104]
    assert [(one.calls, one.turns) for one in seen] == [(0, 0), (1, 1), (1, 1), (1, 1), (1, 1), (2, 2), (2, 2)]
    assert seen[-1].seen == Tokens.of(7, 0, 5_100, 5_000, 0)
    assert seen[-1].first_call == Tokens.of(3, 0, 5_000, 0, 0)
    assert [one.ended for one in seen] == [False] * 6 + [True]
    assert [one.last_line for one in seen] == [1, 2, 3, 4, 5, 6, 7]


def test_a_subagent_counts_and_does_not_change_what_the_main_loop_does() -> None:
    script = Script()
    script.call("m1", (3, 0, 5_000, 0, 2), tool("a1", "Agent"))
    script.call("s1", (9, 0, 0, 0, 1), tool("t9", "Glob"), parent_tool_use_id="a1")
    last = follow(script)[-1]
    assert (last.doing, last.calls, last.turns, last.prompt) == ("Agent", 2, 1, 5_003)
    assert last.seen.billed_input == 5_012


def test_outputs_are_seen_once_a_reply_has_ended() -> None:
    builder = LedgerBuilder(transcript="t")
    for line in LineSplitter().feed(read(DATA / "streams/claude/partial.jsonl")):
        builder.feed(line)
    assert builder.live().seen == Tokens.of(12, 0, 15_300, 43_000, 192)


def test_feeding_returns_the_events_of_the_line() -> None:
    builder = LedgerBuilder(transcript="t")
    script = Script()
    script.end((0, 0, 0, 0, 0), {})
    first, last = LineSplitter().feed(script.bytes())
    assert isinstance(builder.feed(first)[0], Announcement)
    assert isinstance(builder.feed(last)[0], Ended)


def test_a_line_costs_far_less_than_two_milliseconds() -> None:
    builder = LedgerBuilder(transcript="t")
    script = Script()
    for number in range(500):
        script.call(f"m{number}", (3, 0, 100, number, 2), tool(f"t{number}"))
        script.result_of(f"t{number}", "x" * 500)
    lines = LineSplitter().feed(script.bytes())
    started = time.process_time()
    for line in lines:
        builder.feed(line)
        builder.live()
    assert (time.process_time() - started) / len(lines) < 0.002


def test_a_ledger_can_be_asked_for_while_the_run_goes_on() -> None:
    builder = LedgerBuilder(transcript="t")
    script = Script()
    script.call("m1", (3, 0, 5_000, 0, 2), text("256"))
    script.end((3, 0, 5_000, 0, 9), {"claude-opus-4-8": (3, 0, 5_000, 0, 9)}, "256")
    lines = LineSplitter().feed(script.bytes())
    for line in lines[:-1]:
        builder.feed(line)
    assert builder.finish().outcome == "no_result"
    builder.feed(lines[-1])
    assert builder.finish().token_reconciled is True
    assert builder.finish() == builder.finish()


@pytest.mark.parametrize(
    "path", sorted(path for path in DATA.rglob("*.jsonl") if ".calls." not in path.name), ids=lambda path: path.stem
)
def test_a_transcript_that_is_followed_has_the_ledger_of_one_that_is_read(path: Path) -> None:
    builder = LedgerBuilder(transcript=str(path))
    for line in read_lines(path):
        builder.feed(line)
    assert builder.finish() == read_ledger(path)


def test_a_builder_that_nobody_needs_is_gone_without_a_search_for_cycles() -> None:
    collecting = gc.isenabled()
    gc.disable()
    try:
        builder = LedgerBuilder(transcript="t")
        builder.feed(Line(1, b'{"type":"system","subtype":"init"}'))
        gone = weakref.ref(builder)
        del builder
        assert gone() is None
    finally:
        if collecting:
            gc.enable()
