"""A way to an HTTP server whose headers hold secrets: the agent gets an address on 127.0.0.1, the secrets stay here.

What an agent is given, its tools can read. So the headers of an MCP server are added by the runner, outside of the
agent's processes and files: bodies go through byte for byte in both directions, as they come.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Mapping
from typing import Final

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

HOST: Final = "127.0.0.1"
_HOP_BY_HOP: Final = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer"),
        *("transfer-encoding", "upgrade", "host", "content-length", "accept-encoding"),
    }
)
"""RFC 9110, section 7.6.1; and what is about this leg alone."""
_LARGEST_REQUEST: Final = 1 << 26


class HeaderProxy:
    """Answers for one server below one unguessable path."""

    def __init__(self, target: str, headers: Mapping[str, str]) -> None:
        """
        Args:
            target: The server's own address.
            headers: Names and values that each request is given.
        """
        self._target = URL(target, encoded=True)
        self._headers = dict(headers)
        self._path = f"/{secrets.token_hex(16)}"
        self._port = 0
        self._session: aiohttp.ClientSession | None = None

    @property
    def url(self) -> str:
        """The address that an agent is given."""
        return f"http://{HOST}:{self._port}{self._path}"

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncGenerator[str]:
        """Answer as long as this lasts; yields the address."""
        app = web.Application(client_max_size=_LARGEST_REQUEST)
        app.router.add_route("*", self._path, self._handle)
        # Without cancellation a stream that the agent has left would go on at the server.
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(auto_decompress=False, timeout=timeout, trust_env=True) as session:
            self._session = session
            await runner.setup()
            try:
                site = web.TCPSite(runner, HOST, 0)
                await site.start()
                self._port = runner.addresses[0][1]
                yield self.url
            finally:
                await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        headers = _passed_on(request.headers)
        headers.update(self._headers)
        headers["Accept-Encoding"] = "identity"
        body = await request.read()
        try:
            async with self._session.request(
                request.method,
                self._target.update_query(request.query) if request.query else self._target,
                headers=headers,
                data=body or None,
                allow_redirects=False,
            ) as reply:
                return await self._pass_on(request, reply)
        except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as error:
            # Its text could name the server's address and no more; the secrets are in the headers.
            return web.Response(status=502, text=f"the MCP server could not be reached: {type(error).__name__}")

    async def _pass_on(self, request: web.Request, reply: aiohttp.ClientResponse) -> web.StreamResponse:
        answer = web.StreamResponse(status=reply.status, reason=reply.reason, headers=_passed_on(reply.headers))
        await answer.prepare(request)
        async for chunk in reply.content.iter_any():
            await answer.write(chunk)
        await answer.write_eof()
        return answer


def _passed_on(headers: Mapping[str, str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP)
