"""The ways out of a sandbox: from inside one reaches the API's host and port, the arm's MCP servers, and nothing else.

The sandbox hands out sockets that listen on its own loopback (`runner.entrance`). What is accepted on one is carried on
from here, in the runner's process, so that what is permitted is decided outside of what is confined. An address with
`http` is carried as it is. For `https` the agent speaks to an HTTP proxy that knows one destination: TLS is the agent's
own, from end to end, and nobody between reads it.
"""

import asyncio
import contextlib
import functools
import socket
from collections.abc import AsyncGenerator, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from tokenbench.errors import AgentError
from tokenbench.text import one_line

PORT: Final = 9999
"""Of the first way out, inside, on 127.0.0.1: every sandbox has a loopback of its own. Those of others follow it."""
DEFAULT_HOST: Final = "api.anthropic.com"
"""Where the claude CLI goes without `ANTHROPIC_BASE_URL`."""
_HEAD_BYTES: Final = 8192
_HEAD_SECONDS: Final = 30.0
_CHUNK: Final = 1 << 16
_ANSWERS: Final = {200: "Connection established", 403: "Forbidden", 400: "Bad Request", 502: "Bad Gateway"}


class Destination(NamedTuple):
    """Where an agent may go."""

    host: str
    port: int
    proxied: bool
    """Through CONNECT, because TLS names its host; else the agent takes the way out for the host itself."""
    base_url: str | None
    """The API's address as the agent is given it inside; None for the CLI's own."""

    @property
    def environment(self) -> dict[str, str]:
        """What the agent needs to find the way."""
        return {"HTTPS_PROXY": f"http://127.0.0.1:{PORT}"} if self.proxied else {}


def destination(base_url: str | None) -> Destination:
    """Where the agent may go, from the API's address; None is the CLI's own.

    Raises:
        AgentError: The address is none.
    """
    if base_url is None:
        return Destination(DEFAULT_HOST, 443, True, None)
    try:
        parts = urlsplit(base_url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if not host or parts.scheme not in ("http", "https"):
        raise AgentError(
            "is no address of an API",
            where=f"ANTHROPIC_BASE_URL = {one_line(base_url, 200)}",
            remedy="Write it as https://HOST or http://HOST:PORT, with a path if it has one",
        )
    if parts.scheme == "https":
        return Destination(host, port or 443, True, base_url)
    inside = urlunsplit(parts._replace(netloc=f"127.0.0.1:{PORT}"))
    return Destination(host, port or 80, False, inside)


class _Carrier:
    """Answers on one sandbox's sockets."""

    def __init__(self, ways: Sequence[Destination], ours: socket.socket) -> None:
        self._ways = ways
        self._ours = ours
        self._servers: list[asyncio.Server] = []
        self._serving: set[asyncio.Task[None]] = set()

    def receive(self) -> None:
        """Take the listening sockets that the entrance hands out; called when there is something to read."""
        asyncio.get_running_loop().remove_reader(self._ours)
        try:
            _, handles, _, _ = socket.recv_fds(self._ours, 16, len(self._ways))
        except OSError:
            return
        for handle, to in zip(handles, self._ways, strict=False):
            self._keep(asyncio.ensure_future(self._listen(socket.socket(fileno=handle), to)))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _listen(self, door: socket.socket, to: Destination) -> None:
        door.setblocking(False)
        accepted = functools.partial(self._accepted, to)
        self._servers.append(await asyncio.start_server(accepted, sock=door, limit=_CHUNK))

    async def close(self) -> None:
        """Answer no more, and end what is under way."""
        asyncio.get_running_loop().remove_reader(self._ours)
        while self._serving:
            serving = list(self._serving)
            for task in serving:
                task.cancel()
            await asyncio.wait(serving)
        for server in self._servers:
            server.close()

    async def _accepted(self, to: Destination, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._keep(task)
        try:
            await _carry(to, reader, writer)
        except (OSError, asyncio.CancelledError):
            # Either end has gone, or the run has ended: there is nobody to tell.
            pass
        finally:
            writer.close()


async def _carry(to: Destination, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if to.proxied:
        status = await _permitted(to, reader)
        if status != 200:
            await _say(writer, status)
            return
    try:
        upstream, onward = await asyncio.open_connection(to.host, to.port, limit=_CHUNK)
    except OSError:
        if to.proxied:
            await _say(writer, 502)
        return
    try:
        if to.proxied:
            await _say(writer, 200)
        async with asyncio.TaskGroup() as group:
            group.create_task(_pump(reader, onward))
            group.create_task(_pump(upstream, writer))
    except* OSError:
        # One side has gone: the group has ended the other direction.
        onward.close()
    finally:
        onward.close()


async def _permitted(to: Destination, reader: asyncio.StreamReader) -> int:
    """The status for a request to a proxy: 200 only for `CONNECT` to the destination."""
    try:
        async with asyncio.timeout(_HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
        return 400
    if len(head) > _HEAD_BYTES:
        return 400
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split()
    if len(words) != 3 or words[0] != "CONNECT":
        return 403
    host = f"[{to.host}]" if ":" in to.host else to.host
    return 200 if words[1].lower() == f"{host}:{to.port}".lower() else 403


async def _say(writer: asyncio.StreamWriter, status: int) -> None:
    end = "" if status == 200 else "Content-Length: 0\r\nConnection: close\r\n"
    writer.write(f"HTTP/1.1 {status} {_ANSWERS[status]}\r\n{end}\r\n".encode())
    await writer.drain()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Carry bytes on as they come; the end of one direction leaves the other open."""
    while data := await source.read(_CHUNK):
        sink.write(data)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()


@contextlib.asynccontextmanager
async def opened(ways: Sequence[Destination]) -> AsyncGenerator[int]:
    """The ways out of one sandbox, from `PORT` on: yields the descriptor that its entrance must inherit."""
    ours, theirs = socket.socketpair()
    carrier = _Carrier(ways, ours)
    with ours, theirs:
        ours.setblocking(False)
        asyncio.get_running_loop().add_reader(ours, carrier.receive)
        try:
            yield theirs.fileno()
        finally:
            await carrier.close()
