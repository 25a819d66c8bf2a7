"""`xq` as an MCP server, so that two ways of calling the same retrieval can be compared.

    python -m tokenbench.retrieval.mcp_server                            on standard input and output
    python -m tokenbench.retrieval.mcp_server --socket DESCRIPTOR PATH   over HTTP, on an inherited listening socket

It gives what the command gives, to the character: only the envelope differs, the definition of the tool in the prompt
and the frame of its calls. It reads the same access file and writes the same log. It needs the `mcp` extra.
"""

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tokenbench.retrieval.template import K_DEFAULT, K_MAX, K_MIN
from tokenbench.retrieval.xq import FAULT, answer

if TYPE_CHECKING:
    from mcp.server import MCPServer

NAME: Final = "xq"
"""Of the server: its tool is `mcp__xq__search` for the agent."""
MISSING: Final = "the mcp package is not installed. Install it: `python -m pip install 'tokenbench-tui[mcp]'`"
_MISSING: Final = 3

DESCRIPTION: Final = (
    "Search the code and text of the corpus by words: names, parts of names, words of comments. Gives the k best hits "
    f"({K_MIN} to {K_MAX}, {K_DEFAULT} unless told), each as `path:line [kind] name score`, then its signature and its "
    "code."
)


def main() -> int:
    """Serve until standard input ends, or until the process is ended."""
    try:
        server = _server()
    except ImportError:
        print(f"tokenbench: {MISSING}.", file=sys.stderr)
        return _MISSING
    match sys.argv[1:]:
        case []:
            server.run()
        case ["--socket", descriptor, path]:
            _serve(server, int(descriptor), path)
        case _:
            print("tokenbench: usage: mcp_server [--socket DESCRIPTOR PATH]", file=sys.stderr)
            return FAULT
    return 0


def _server() -> "MCPServer":
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    server = MCPServer(NAME, log_level="ERROR")

    @server.tool(name="search", description=DESCRIPTION, structured_output=False)
    def search(query: str, k: int = K_DEFAULT) -> str:  # pyright: ignore[reportUnusedFunction]  # registered by name
        told = answer((query, str(k)), environment=os.environ, folder=Path("/"))
        if told.exit >= FAULT:
            raise ToolError(told.err.strip())
        return told.out or told.err

    return server


def _serve(server: "MCPServer", descriptor: int, path: str) -> None:
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings

    # The path is unguessable, and a sandbox names another port than the one that is bound: names are not checked.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(streamable_http_path=path, transport_security=security)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[socket.socket(fileno=descriptor)])


if __name__ == "__main__":
    sys.exit(main())
