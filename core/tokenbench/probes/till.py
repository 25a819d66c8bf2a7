"""The agent CLI at the till: a process that is shown one bill after another and says what each costs."""

import asyncio
import contextlib
import os
import secrets
import signal
import tempfile
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Final

import msgspec

from tokenbench.agents.claude import launch
from tokenbench.agents.claude.stream import ClaudeReader
from tokenbench.errors import AgentError
from tokenbench.experiment.model import Arm
from tokenbench.ledger import names
from tokenbench.ledger.prices import Sample
from tokenbench.probes.crafted import CraftedApi
from tokenbench.text import one_line
from tokenbench.transcripts.events import Ended, ModelUsage
from tokenbench.transcripts.lines import LineSplitter

PATIENCE: Final = 30.0
"""Seconds that the CLI may take for one answer."""
_BARE: Final = Arm(tools=(), prompt="")
_REMEDY: Final = "Look whether this claude CLI answers at all: `tokenbench-tui rehearse`"
_MOST_SAID: Final = 4096
"""Bytes of standard error that are kept."""


class Charge(msgspec.Struct, frozen=True):
    """What the CLI says a call cost."""

    model: str
    """The model that it billed, without the suffix of its context window."""
    cost: Decimal
    """USD."""
    known: bool
    """The CLI has a price of this model; else it took another one's."""


Ask = Callable[[Sample], Awaitable[Charge]]
"""Shows a bill (its `cost` is not looked at) and gives back what it costs."""


class Till:
    """One process at a time; where it takes no more messages, another takes its place."""

    def __init__(self, cli: launch.Cli, model: str, api: CraftedApi, rooms: launch.Rooms) -> None:
        self._cli = cli
        self._model = model
        self._api = api
        self._rooms = rooms
        self._process: asyncio.subprocess.Process | None = None
        self._reader = ClaudeReader()
        self._lines = LineSplitter()
        self._results: deque[Ended] = deque()
        self._paid: dict[str, Decimal] = {}
        """What this process has charged so far, by model."""
        self._said = b""
        self._listening: asyncio.Task[None] | None = None

    async def ask(self, bill: Sample) -> Charge:
        """Show one bill.

        Raises:
            AgentError: The CLI does not answer, asks the API more than once, or says no cost.
        """
        fresh = self._process is None
        ended, calls = await self._turn(bill)
        if calls != 1 and not fresh:
            # After a bill for a long prompt the window is full: the CLI refuses the next message, or first compacts
            # its conversation in calls of their own.
            await self.close()
            ended, calls = await self._turn(bill)
        if calls != 1:
            raise self._wrong(f"asked the API {calls} times for one message, so that no call has a cost of its own")
        return self._charge(ended)

    async def close(self) -> None:
        """End the process and all that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        if self._listening is not None:
            await self._listening

    async def _turn(self, bill: Sample) -> tuple[Ended, int]:
        """The result of one message, and how often the API was asked for it."""
        if self._process is None:
            await self._start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        asked = len(self._api.asked)
        self._api.usage = bill
        try:
            process.stdin.write(launch.asked_message("x"))
            await process.stdin.drain()
            ended = await asyncio.wait_for(self._result(process), PATIENCE)
        except (TimeoutError, ConnectionError) as error:
            raise self._wrong(f"gave no answer within {PATIENCE:.0f} s") from error
        return ended, len(self._api.asked) - asked

    async def _start(self) -> None:
        environment = launch.environment(
            self._rooms,
            _BARE,
            run=f"probe-{secrets.token_hex(6)}",
            key=launch.DUMMY_KEY,
            base_url=self._api.url,
            access=None,
        )
        try:
            self._process = await asyncio.create_subprocess_exec(
                *launch.asked_argv(self._cli, self._model),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
                cwd=self._rooms.empty,
                start_new_session=True,
            )
        except OSError as error:
            raise self._wrong(f"cannot be started: {error.strerror or error}") from error
        self._reader, self._lines, self._paid = ClaudeReader(), LineSplitter(), {}
        self._results.clear()
        self._listening = asyncio.create_task(self._listen(self._process))

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Standard error, read to its end so that it never fills up."""
        assert process.stderr is not None
        while data := await process.stderr.read(65536):
            self._said = (self._said + data)[-_MOST_SAID:]

    async def _result(self, process: asyncio.subprocess.Process) -> Ended:
        assert process.stdout is not None
        while not self._results:
            data = await process.stdout.read(65536)
            if not data:
                raise self._wrong("ended before it answered")
            for line in self._lines.feed(data):
                self._results.extend(event for event in self._reader.feed(line) if isinstance(event, Ended))
        return self._results.popleft()

    def _charge(self, ended: Ended) -> Charge:
        if ended.is_error:
            raise self._wrong(f"took the scripted reply for an error: {one_line(ended.text or '', 120)}")
        charged = self._since(ended)
        if len(charged) != 1:
            raise self._wrong(f"billed {len(charged)} models for one call")
        (entry,) = charged
        if entry.cost is None or not entry.cost.is_finite() or entry.cost < 0:
            raise self._wrong("says no cost")
        return Charge(names.plain(entry.model), entry.cost, entry.cost_basis != "unknown")

    def _since(self, ended: Ended) -> list[ModelUsage]:
        """What was charged since the last result; older versions print only the sums of the process."""
        if ended.models_since_last is not None:
            return list(ended.models_since_last)
        charged: list[ModelUsage] = []
        for entry in ended.models or ():
            before = self._paid.get(entry.model)
            if before is None or (entry.cost is not None and entry.cost != before):
                cost = entry.cost if entry.cost is None or before is None else entry.cost - before
                charged.append(msgspec.structs.replace(entry, cost=cost))
            self._paid[entry.model] = entry.cost or Decimal(0)
        return charged

    def _wrong(self, what: str) -> AgentError:
        said = one_line(self._said.decode("utf-8", "replace").strip(), 160)
        where = f"claude {self._cli.version}, --model {one_line(self._model, 80)}"
        return AgentError(f"{what}{f' ({said})' if said else ''}", where=where, remedy=_REMEDY)


@contextlib.asynccontextmanager
async def till(cli: launch.Cli, model: str) -> AsyncGenerator[Till]:
    """A till with an API and folders of its own; nothing of it stays."""
    with tempfile.TemporaryDirectory(prefix="tokenbench-probe-", ignore_cleanup_errors=True) as folder:
        rooms = launch.Rooms(*(Path(folder) / name for name in launch.Rooms._fields))
        for room in rooms:
            room.mkdir(mode=0o700)
        async with CraftedApi() as api:
            desk = Till(cli, model, api, rooms)
            try:
                yield desk
            finally:
                await desk.close()
