"""An agent reaches a server whose headers hold secrets without ever holding them."""

import asyncio
from collections.abc import AsyncGenerator
from typing import NamedTuple

import aiohttp
import pytest
from aiohttp import web

from tokenbench.runner.headers import HeaderProxy

SECRET = "Bearer not-for-agents"


class Server(NamedTuple):
    url: str
    seen: list[web.Request]
    bodies: list[bytes]
    go_on: asyncio.Event


@pytest.fixture
async def server() -> AsyncGenerator[Server]:
    seen: list[web.Request] = []
    bodies: list[bytes] = []
    go_on = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append(request)
        bodies.append(await request.read())
        if request.method == "GET":
            reply = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Mcp-Session-Id": "s1"})
            await reply.prepare(request)
            await reply.write(b"data: 1\n\n")
            await go_on.wait()
            await reply.write(b"data: 2\n\n")
            return reply
        return web.Response(status=202, body=b"\x00\xff", headers={"Mcp-Session-Id": "s1"})

    app = web.Application()
    app.router.add_route("*", "/mcp", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield Server(f"http://127.0.0.1:{runner.addresses[0][1]}/mcp", seen, bodies, go_on)
    await runner.cleanup()


async def test_headers_are_added_and_bodies_are_carried_byte_for_byte(server: Server) -> None:
    async with (
        HeaderProxy(server.url, {"Authorization": SECRET}).serving() as url,
        aiohttp.ClientSession() as client,
        client.post(url, data=b"\x01\xfe{}", headers={"Mcp-Session-Id": "s1"}) as reply,
    ):
        assert (reply.status, await reply.read()) == (202, b"\x00\xff")
        assert reply.headers["Mcp-Session-Id"] == "s1"
    (request,) = server.seen
    assert request.headers["Authorization"] == SECRET
    assert request.headers["Mcp-Session-Id"] == "s1"
    assert server.bodies == [b"\x01\xfe{}"]
    assert SECRET not in url


async def test_an_agent_cannot_put_its_own_in_their_place(server: Server) -> None:
    async with HeaderProxy(server.url, {"Authorization": SECRET}).serving() as url, aiohttp.ClientSession() as client:
        await client.post(url, data=b"{}", headers={"authorization": "Bearer mine"})
    assert server.seen[0].headers.getall("Authorization") == [SECRET]


async def test_events_are_passed_on_as_they_come(server: Server) -> None:
    async with (
        HeaderProxy(server.url, {}).serving() as url,
        aiohttp.ClientSession() as client,
        client.get(url) as reply,
    ):
        first = await reply.content.readany()
        server.go_on.set()
        rest = await reply.content.read()
    assert (first, rest) == (b"data: 1\n\n", b"data: 2\n\n")


async def test_nothing_but_the_unguessable_path_is_answered(server: Server) -> None:
    async with HeaderProxy(server.url, {}).serving() as url, aiohttp.ClientSession() as client:
        async with client.post(f"{url}x") as reply:
            assert reply.status == 404
        async with client.post(url.rpartition("/")[0]) as reply:
            assert reply.status == 404
    assert server.seen == []


async def test_a_server_that_is_not_there_is_a_bad_gateway() -> None:
    async with (
        HeaderProxy("http://127.0.0.1:1/mcp", {"Authorization": SECRET}).serving() as url,
        aiohttp.ClientSession() as client,
        client.post(url, data=b"{}") as reply,
    ):
        assert reply.status == 502
        assert SECRET not in await reply.text()
