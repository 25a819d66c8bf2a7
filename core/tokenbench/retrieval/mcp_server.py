"""`xq` as an MCP server on standard input and output, so that two ways of calling the same retrieval can be compared.

It gives what the command gives, to the character: only the envelope differs, the definition of the tool in the prompt
and the frame of its calls. It reads the same access file and writes the same log. It needs the `mcp` extra.
"""

import os
import sys
from pathlib import Path
from typing import Final

from tokenbench.retrieval.template import K_DEFAULT, K_MAX, K_MIN
from tokenbench.retrieval.xq import FAULT, answer

NAME: Final = "xq"
"""Of the server: its tool is `mcp__xq__search` for the agent."""
_MISSING: Final = 3

DESCRIPTION: Final = (
    "Search the code and text of the corpus by words: names, parts of names, words of comments. Gives the k best hits "
    f"({K_MIN} to {K_MAX}, {K_DEFAULT} unless told), each as `path:line [kind] name score`, then its signature and its "
    "code."
)


def main() -> int:
    """Serve until standard input ends."""
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError:
        print(
            "tokenbench: the mcp package is not installed. Install it: `python -m pip install 'tokenbench-tui[mcp]'`.",
            file=sys.stderr,
        )
        return _MISSING
    server = MCPServer(NAME)

    @server.tool(name="search", description=DESCRIPTION, structured_output=False)
    def search(query: str, k: int = K_DEFAULT) -> str:  # pyright: ignore[reportUnusedFunction]  # registered by name
        told = answer((query, str(k)), environment=os.environ, folder=Path("/"))
        if told.exit >= FAULT:
            raise ToolError(told.err.strip())
        return told.out or told.err

    server.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
