"""`.mcp.json` becomes servers of an arm, and no secret in it comes along."""

import json
from pathlib import Path

import pytest

from tokenbench.errors import ConfigError
from tokenbench.experiment.mcp_json import read_mcp_json
from tokenbench.experiment.model import McpServer


def written(folder: Path, servers: object) -> Path:
    path = folder / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


def test_a_command_keeps_its_arguments_and_the_names_of_its_variables(tmp_path: Path) -> None:
    found = read_mcp_json(
        written(tmp_path, {"code": {"command": "npx", "args": ["-y", "x"], "env": {"A": "${A}", "KEY": "s3cret"}}})
    )
    assert found.servers == {"code": McpServer(command=("npx", "-y", "x"), environment=("A", "KEY"))}
    assert len(found.to_set) == 1
    assert "set KEY" in found.to_set[0]
    assert "s3cret" not in repr(found)


def test_headers_are_taken_from_variables(tmp_path: Path) -> None:
    headers = {"Authorization": "Bearer abc", "X-Team": "${TEAM:-none}"}
    found = read_mcp_json(
        written(tmp_path, {"my-search": {"type": "http", "url": "https://x.org/mcp", "headers": headers}})
    )
    (server,) = found.servers.values()
    assert server.headers == {"Authorization": "MY_SEARCH_AUTHORIZATION", "X-Team": "TEAM"}
    assert found.to_set == ("set MY_SEARCH_AUTHORIZATION to the whole value of the header Authorization",)
    assert "abc" not in repr(found)


@pytest.mark.parametrize(
    ("servers", "says"),
    [
        ({}, "names no server"),
        ({"a b": {"command": "x"}}, "cannot be the name"),
        ({"a": {}}, "neither a command nor a url"),
        ({"a": {"command": "${X}/serve"}}, "Write the command out in full"),
        ({"a": {"command": "x", "env": {"A=B": "c"}}}, "names the variable"),
        ({"a": {"url": "https://u:p@x.org"}}, "without a password"),
        ({"a": {"command": 3}}, "is no file of MCP servers"),
        ([], "is no file of MCP servers"),
    ],
)
def test_what_can_be_no_server_is_said(servers: object, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_mcp_json(written(tmp_path, servers))
    assert says in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\xff", b"{", b"[" * 100_000])
def test_a_damaged_file_is_a_sentence(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(ConfigError):
        read_mcp_json(tmp_path / "x.json")


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        read_mcp_json(tmp_path / "x.json")
