"""The MCP server gives what the command `xq` gives, and its refusals are errors of the tool."""

import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult, TextContent

from tokenbench.retrieval.access import VARIABLE, write_access
from tokenbench.retrieval.building import build_index
from tokenbench.retrieval.xq import answer


@pytest.fixture
def access(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.py").write_text("def read_timeout():\n    return 30\n")
    build_index(tmp_path / "tree", tmp_path / "index", "0" * 64, lambda _: None)
    write_access(tmp_path / "access.json", index=tmp_path / "index", log=tmp_path / "log.jsonl")
    return tmp_path / "access.json"


@asynccontextmanager
async def session(access: Path) -> AsyncGenerator[ClientSession]:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tokenbench.retrieval.mcp_server"],
        env={VARIABLE: str(access), "PATH": os.environ["PATH"]},
    )
    async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as found:
        await found.initialize()
        yield found


def text(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


async def test_it_offers_one_tool_and_its_hits_are_those_of_the_command(access: Path) -> None:
    async with session(access) as client:
        (tool,) = (await client.list_tools()).tools
        result = await client.call_tool("search", {"query": "timeout", "k": 3})
    told = answer(["timeout", "3"], environment={VARIABLE: str(access)}, folder=Path("/"))
    assert tool.name == "search"
    assert text(result) == told.out
    assert "a.py:1 [function] read_timeout" in told.out
    queries = [json.loads(line) for line in (access.parent / "log.jsonl").read_text().splitlines()]
    assert [query["query"] for query in queries] == ["timeout", "timeout"]


async def test_no_match_is_an_answer_and_a_faulty_index_is_an_error(access: Path) -> None:
    async with session(access) as client:
        nothing = await client.call_tool("search", {"query": "zebra"})
        (access.parent / "index").rename(access.parent / "gone")
        fault = await client.call_tool("search", {"query": "timeout"})
    assert "no match for zebra" in text(nothing)
    assert fault.is_error
    assert not nothing.is_error
