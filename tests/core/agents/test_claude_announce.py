"""An agent that is not the one the arm asks for is found out by its own word."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.agents.claude.announce import mismatches
from tokenbench.experiment.model import Arm, McpServer
from tokenbench.text import visible
from tokenbench.transcripts.events import Announcement

ARM = Arm(tools=("Grep", "Glob", "Read"), prompt="p.md")
RIGHT = Announcement(
    version="2.1.332", model="claude-opus-5", tools=("Glob", "Grep", "Read"), mcp_servers=(), folder="/corpus", line=1
)


def check(**changes: object) -> tuple[str, ...]:
    said = msgspec.structs.replace(RIGHT, **changes)
    return mismatches(said, ARM, "claude-opus-5", "2.1.332", folder=Path("/corpus"))


def test_the_right_agent_is_taken_whatever_the_order_of_its_tools() -> None:
    assert check() == ()
    assert check(tools=("Read", "Glob", "Grep")) == ()


def test_the_suffix_of_a_context_window_is_no_other_model() -> None:
    assert check(model="claude-opus-5[1m]") == ()
    assert mismatches(RIGHT, ARM, "claude-opus-5[1m]", "2.1.332") == ()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tools": ("Grep", "Glob", "Read", "Bash")}, "tools that the arm has not: Bash"),
        ({"tools": ("Grep",)}, "lacks tools of the arm: Glob, Read"),
        ({"mcp_servers": (("search", "failed"),)}, "search (failed)"),
        ({"version": "2.1.333"}, "version 2.1.333, sealed is 2.1.332"),
        ({"version": None}, "version None"),
        ({"model": "claude-opus-5-5"}, "its model is claude-opus-5-5, asked for was claude-opus-5"),
        ({"model": None}, "its model is None"),
        ({"folder": "/elsewhere"}, "it works in /elsewhere"),
        ({"folder": None}, "it works in None"),
        ({"folder": "\0"}, "it works in"),
    ],
)
def test_what_differs_is_said_with_its_line(changes: dict[str, object], says: str) -> None:
    (sentence,) = check(**changes)
    assert says in sentence
    assert sentence.startswith("line 1: ")


MCP = Arm(tools=("mcp__xq__search",), prompt="p.md", mcp={"xq": McpServer(builtin="xq")})


@pytest.mark.parametrize(
    ("servers", "tools", "says"),
    [
        ((("xq", "connected"),), ("mcp__xq__search",), ()),
        ((("xq", "failed"),), (), ("lacks tools of the arm: mcp__xq__search", "did not load: xq (failed)")),
        ((("xq", "pending"),), ("mcp__xq__search",), ("did not load: xq (pending)",)),
        ((), ("mcp__xq__search",), ("did not load: xq (not there)",)),
        (
            (("xq", "connected"), ("more", "connected")),
            ("mcp__xq__search",),
            ("that the arm has not: more (connected)",),
        ),
    ],
)
def test_an_arm_has_its_servers_loaded_and_no_others(
    servers: tuple[tuple[str, str], ...], tools: tuple[str, ...], says: tuple[str, ...]
) -> None:
    said = msgspec.structs.replace(RIGHT, mcp_servers=servers, tools=tools)
    found = mismatches(said, MCP, "claude-opus-5", "2.1.332")
    assert len(found) == len(says)
    assert all(piece in sentence for piece, sentence in zip(says, found, strict=True))


def test_an_agent_that_announced_nothing_is_not_believed() -> None:
    assert len(mismatches(None, ARM, "claude-opus-5", "2.1.332")) == 1


@given(st.text(), st.text(), st.lists(st.text(), max_size=3))
def test_hostile_names_come_out_as_one_clean_line(model: str, version: str, tools: list[str]) -> None:
    for sentence in check(model=model, version=version, tools=tuple(tools), folder=model):
        assert visible(sentence) == sentence
        assert "\n" not in sentence
