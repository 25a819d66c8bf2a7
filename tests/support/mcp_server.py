"""A small MCP server on standard input and output, as somebody's retrieval tool may be one: `python FILE ROOT`."""

import sys
from pathlib import Path

from mcp.server import MCPServer

server = MCPServer("code")
root = Path(sys.argv[1])


@server.tool()
def search(word: str, limit: int = 20) -> str:
    """Lines of the source code that hold a word."""
    found = [
        f"{path.relative_to(root)}:{number}: {line}"
        for path in sorted(root.glob("src/**/*.py"))
        for number, line in enumerate(path.read_text().split("\n"), 1)
        if word in line
    ]
    return "\n".join(found[:limit])


@server.tool()
def body(path: str, first: int, last: int) -> str:
    """Source code from one line to another."""
    return "\n".join((root / path).read_text().split("\n")[first - 1 : last])


if __name__ == "__main__":
    server.run()
