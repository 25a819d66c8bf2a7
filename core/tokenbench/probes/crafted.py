"""A Messages API on 127.0.0.1 that bills whatever it is told to: the other end of a probe."""

import secrets
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from aiohttp import web

from tokenbench.errors import RehearsalError
from tokenbench.ledger.prices import Sample
from tokenbench.rehearsal.api import HOST, LARGEST_REQUEST
from tokenbench.rehearsal.replies import Part, Reply, stream, whole
from tokenbench.rehearsal.request import Counted, Json

ANSWER: Final = "ok"


class CraftedApi:
    """Answers each request with one word and a usage object that was crafted beforehand.

    Its address holds an unguessable token; what is asked elsewhere gets a 404.
    """

    def __init__(self, token: Callable[[], str] = lambda: secrets.token_hex(12)) -> None:
        self._token = token
        self._path = token()
        self._runner: web.AppRunner | None = None
        self.usage: Sample | None = None
        """What the next request is billed; its `cost` says nothing here."""
        self.asked: list[str] = []
        """The models asked for, a request each."""

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=LARGEST_REQUEST)
        app.router.add_post(f"/run/{self._path}/v1/messages", self._answer)
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, HOST, 0).start()
        except OSError as error:
            await runner.cleanup()
            raise RehearsalError(
                f"cannot listen: {error.strerror or error}",
                where=HOST,
                remedy="Probes need 127.0.0.1; check that the loopback interface is up",
            ) from error
        self._runner = runner
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        """The base URL to point the agent at."""
        if self._runner is None:
            raise RuntimeError("the crafted API is not running")
        return f"http://{HOST}:{self._runner.addresses[0][1]}/run/{self._path}"

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            body: object = await request.json()
        except ValueError:
            return web.Response(status=400)
        if not isinstance(body, dict) or self.usage is None:
            return web.Response(status=400)
        fields: Json = {str(key): value for key, value in body.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # it came over the wire
        model = str(fields.get("model"))
        self.asked.append(model)
        reply = crafted(self.usage, model=model, token=self._token)
        if not fields.get("stream"):
            return web.Response(body=whole(reply), content_type="application/json")
        response = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-cache"})
        await response.prepare(request)
        await response.write(b"".join(chunk.data for chunk in stream(reply)))
        await response.write_eof()
        return response


def crafted(usage: Sample, *, model: str, token: Callable[[], str]) -> Reply:
    """A reply of one word that is billed so."""
    more: Json = {}
    if usage.speed:
        more["speed"] = usage.speed
    if usage.region:
        more["inference_geo"] = usage.region
    if usage.searches or usage.fetches:
        more["server_tool_use"] = {"web_search_requests": usage.searches, "web_fetch_requests": usage.fetches}
    return Reply(
        id=f"msg_scripted_{token()}",
        model=model,
        parts=(Part({"type": "text", "text": ANSWER}, Counted("assistant", 1)),),
        stop_reason="end_turn",
        prompt=usage.tokens - usage.tokens.of(output=usage.output),
        stated_output=usage.output,
        more=more,
    )
