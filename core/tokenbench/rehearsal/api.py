"""The scripted, metering Messages API: an HTTP server on 127.0.0.1 with an address of its own for every run."""

import asyncio
import errno
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec
from aiohttp import web

from tokenbench.agents.claude.compaction import TOO_LONG
from tokenbench.clock import Clock
from tokenbench.errors import RehearsalError, TokenbenchError
from tokenbench.files import append_line
from tokenbench.rehearsal.counting import Counter, PieceCounter
from tokenbench.rehearsal.model import Heard, Run, ScriptedModel
from tokenbench.rehearsal.replies import Part, Reply, output_of, stream, whole
from tokenbench.rehearsal.request import BadRequest
from tokenbench.rehearsal.scripts import Fault, FaultKind, ScriptBook
from tokenbench.rehearsal.served import RunKey, Served

HOST: Final = "127.0.0.1"
LARGEST_REQUEST: Final = 64 * 1024 * 1024
"""Bytes."""
_RUN_PATH: Final = re.compile(r"/run/([0-9a-z]+)(/.*)?\Z")
_ERRORS: Final = {
    400: ("invalid_request_error", "Scripted: invalid request"),
    401: ("authentication_error", "invalid x-api-key"),
    403: ("permission_error", "Scripted: not permitted"),
    404: ("not_found_error", "Not Found"),
    405: ("invalid_request_error", "Method Not Allowed"),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your account's rate limit"),
    500: ("api_error", "Internal server error"),
    503: ("api_error", "Service unavailable"),
    529: ("overloaded_error", "Overloaded"),
}


class ScriptedApi:
    """Serves the Messages API from a script, bills by a stated rule, and logs each request.

    Requests are answered only below an address that `open_run` has given out; every other one gets a 404 and is logged.

        async with ScriptedApi(book, clock=SystemClock(), log=runs.wire) as api:
            base_url = api.open_run(RunKey("cell", "native", "q01"), tools=arm.tools, folder="/corpus")
    """

    def __init__(
        self,
        book: ScriptBook,
        *,
        clock: Clock,
        log: Path | None = None,
        counter: Counter | None = None,
        port: int = 0,
        minimum_prefix: int | None = None,
        on_served: Callable[[Served], None] | None = None,
        token: Callable[[], str] = lambda: secrets.token_hex(12),
    ) -> None:
        """Prepare; nothing is opened before `start`.

        Args:
            book: The scripts; an empty book plays the default.
            clock: For cache lifetimes, hangs and the times in the log.
            log: File that each request is appended to; None keeps no log.
            counter: Counting rule; None takes `pieces-1`.
            port: 0 takes a free one.
            minimum_prefix: Shortest cached prefix in tokens; None takes the model's own.
            on_served: Told of each line of the log.
            token: A new unguessable word of lower-case letters and digits at each call.
        """
        self._counter = counter or PieceCounter()
        self._model = ScriptedModel(
            book, clock=clock, counter=self._counter, minimum_prefix=minimum_prefix, token=token
        )
        self._pace = book.pace.seconds
        self._clock = clock
        self._log = log
        self._port = port
        self._on_served = on_served
        self._token = token
        self._runs: dict[str, Run] = {}
        self._runner: web.AppRunner | None = None
        self._stopping = asyncio.Event()
        self.failure: TokenbenchError | None = None
        """Why the log could not be written. From then on every request is answered with an error: what is not logged
        cannot be accounted for."""

    async def start(self) -> None:
        """Listen.

        Raises:
            RehearsalError: The port is in use or may not be bound.
        """
        app = web.Application(client_max_size=LARGEST_REQUEST)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # Without cancellation a hanging reply would outlive the agent that was killed while it waited.
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, HOST, self._port).start()
        except (OSError, OverflowError) as error:
            await runner.cleanup()
            raise _unbound(self._port, error) from error
        self._runner = runner

    async def stop(self) -> None:
        """End replies that hang, close all connections and stop listening."""
        self._stopping.set()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`; no run is served there itself."""
        if self._runner is None:
            raise RuntimeError("the scripted API is not running")
        return f"http://{HOST}:{self._runner.addresses[0][1]}"

    @property
    def rule_name(self) -> str:
        """Name of the counting rule."""
        return self._counter.rule_name

    def open_run(self, key: RunKey, *, tools: tuple[str, ...], folder: str | Path) -> str:
        """Open an address for one agent process.

        Args:
            key: What it runs for; the script is chosen by it.
            tools: Tools of the arm; a rehearsal without a script calls each of them.
            folder: The agent's working folder as the agent sees it: `{corpus}` in scripts.

        Returns:
            The base URL to point the agent at.
        """
        token = self._token()
        self._runs[token] = Run(key, tools, str(folder))
        return f"{self.url}/run/{token}"

    def close_run(self, url: str) -> None:
        """Answer no more under this address; closing twice is no error."""
        self._runs.pop(url.rsplit("/", 1)[-1], None)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        match = _RUN_PATH.match(request.path)
        run = self._runs.get(match.group(1)) if match else None
        path = (match.group(2) or "/") if match and run else request.path
        served = Served(
            t=self._clock.now(),
            path=path[:200],
            status=0,
            run=run.key if run else None,
            rule=self._counter.rule_name,
        )
        exchange = _Exchange(request, served, self._record)
        try:
            return await self._answer(exchange, run, path)
        except ConnectionResetError:
            exchange.note(client_left=True)
            return web.Response(status=499)
        except asyncio.CancelledError:
            exchange.note(client_left=not self._stopping.is_set())
            raise
        finally:
            exchange.close()

    async def _answer(self, exchange: "_Exchange", run: Run | None, path: str) -> web.StreamResponse:
        if self.failure is not None:
            return exchange.fail(500, f"the log cannot be written: {self.failure.what}")
        if run is None:
            return exchange.fail(404, "no run is open under this address")
        counting = path == "/v1/messages/count_tokens"
        if path != "/v1/messages" and not counting:
            return exchange.fail(404)
        if exchange.http.method != "POST":
            return exchange.fail(405)
        try:
            body = await exchange.http.read()
        except web.HTTPRequestEntityTooLarge:
            return exchange.fail(413)
        try:
            if counting:
                counted = self._model.count(body)
                exchange.note(model=counted.model, played="count", prompt=counted.counted, completed=True)
                return exchange.json({"input_tokens": sum(block.tokens for block in counted.blocks)})
            if self._pace and run.key.kind == "cell":
                await self._wait(self._pace)
            heard = self._model.hear(run, body)
        except BadRequest as error:
            return exchange.fail(400, str(error))
        return await self._play(exchange, heard)

    async def _play(self, exchange: "_Exchange", heard: Heard) -> web.StreamResponse:
        fault = heard.fault
        exchange.note(
            model=heard.request.model,
            played=heard.played,
            step=heard.turn.step,
            fell_back=heard.turn.fell_back,
            fault=fault.fault if fault else "",
            stream=heard.request.stream,
            prompt=heard.prompt,
        )
        if fault and fault.fault == "too_long":
            return exchange.fail(400, TOO_LONG)
        if fault and fault.fault.isdecimal():
            headers = {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
            return exchange.fail(int(fault.fault), headers=headers)
        if fault and fault.after == "nothing" and not await self._survives(exchange, fault):
            return exchange.response
        reply = self._model.answer(heard)
        exchange.bill(reply, reply.parts if not heard.request.stream else ())
        if heard.request.stream:
            return await self._stream(exchange, reply, fault)
        if fault and fault.after != "nothing" and not await self._survives(exchange, fault):
            return exchange.response
        exchange.note(completed=True)
        return exchange.body(whole(reply))

    async def _stream(self, exchange: "_Exchange", reply: Reply, fault: Fault | None) -> web.StreamResponse:
        response = await exchange.open_stream()
        chunks = list(stream(reply))
        for at, chunk in enumerate(chunks):
            if at == len(chunks) - 1:
                # Logged before the agent can know that it has everything: who waits for its end finds the line there.
                exchange.note(completed=True)
                exchange.close()
            exchange.bill(reply, reply.parts[: chunk.begun])
            await response.write(chunk.data)
            if fault and fault.after == chunk.after:
                if not await self._survives(exchange, fault):
                    return response
                fault = None
        await response.write_eof()
        return response

    async def _survives(self, exchange: "_Exchange", fault: Fault) -> bool:
        """Let a fault happen; False if the connection is closed by it."""
        if fault.fault == "hang":
            await self._wait(fault.seconds)
            if not self._stopping.is_set():
                return True
        await exchange.break_off(fault.fault)
        return False

    async def _wait(self, seconds: float | None) -> None:
        """Wait that long, or until the server stops."""
        waits = {asyncio.create_task(self._stopped())}
        if seconds is not None:
            waits.add(asyncio.create_task(self._sleep(seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _stopped(self) -> None:
        await self._stopping.wait()

    async def _sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    def _record(self, served: Served) -> None:
        if self._log is not None and self.failure is None:
            try:
                append_line(self._log, msgspec.json.encode(served), durable=False)
            except TokenbenchError as error:
                self.failure = error
        if self._on_served is not None:
            self._on_served(served)


class _Exchange:
    """One request and what has been sent in reply; its line of the log is written once."""

    def __init__(self, http: web.Request, served: Served, record: Callable[[Served], None]) -> None:
        self.http = http
        self._served = served
        self._record: Callable[[Served], None] | None = record
        self.response: web.StreamResponse = web.Response(status=500)

    def note(self, **fields: object) -> None:
        """Change the line of the log."""
        self._served = msgspec.structs.replace(self._served, **fields)

    def close(self) -> None:
        """Write the line, unless it is written."""
        if self._record is not None:
            self._record(self._served)
            self._record = None

    def bill(self, reply: Reply, parts: tuple[Part, ...]) -> None:
        """Bill a reply of which these blocks have been begun."""
        output = output_of(parts)
        self.note(
            reply_id=reply.id,
            status=200,
            usage=msgspec.structs.replace(reply.prompt, output=output),
            thinking=sum(part.counted.tokens for part in parts if part.counted.kind == "thinking"),
            reply=tuple(part.counted for part in parts),
        )

    def fail(self, status: int, text: str = "", headers: dict[str, str] | None = None) -> web.Response:
        """An error in the API's own form."""
        kind, usual = _ERRORS[status]
        self.note(status=status, error=text or usual)
        error = {"type": "error", "error": {"type": kind, "message": text or usual}, "request_id": "req_scripted"}
        return web.Response(
            status=status, body=msgspec.json.encode(error), content_type="application/json", headers=headers
        )

    def json(self, value: object) -> web.Response:
        """A JSON reply."""
        return self.body(msgspec.json.encode(value))

    def body(self, data: bytes) -> web.Response:
        """A JSON reply that is encoded already."""
        self.note(status=200)
        return web.Response(body=data, content_type="application/json")

    async def open_stream(self) -> web.StreamResponse:
        """Send the head of a stream of events."""
        self.response = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-cache"})
        await self.response.prepare(self.http)
        return self.response

    async def break_off(self, how: FaultKind) -> None:
        """End the reply before its end; what was not asked for as a stream can only lose its connection."""
        if how not in {"error", "ended"} or not self._served.stream:
            if self.http.transport is not None:
                self.http.transport.close()
            return
        if not self.response.prepared:
            await self.open_stream()
        if how == "error":
            kind, text = _ERRORS[529]
            error = {"type": "error", "error": {"type": kind, "message": text}}
            await self.response.write(b"event: error\ndata: " + msgspec.json.encode(error) + b"\n\n")
        await self.response.write_eof()


def _unbound(port: int, error: Exception) -> RehearsalError:
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EADDRINUSE:
        what, remedy = "the port is in use", "Choose another port, or none, so that a free one is taken"
    elif number == errno.EACCES:
        what, remedy = "the port may not be bound", "Choose a port above 1023, or none, so that a free one is taken"
    else:
        what = f"cannot listen: {error}"
        remedy = (
            "Rehearsals need 127.0.0.1; check that the loopback interface is up and the port is between 0 and 65535"
        )
    return RehearsalError(what, where=f"{HOST}:{port}", remedy=remedy)
