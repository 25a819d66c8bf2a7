"""One agent process, from its start until nothing of it is left.

Its standard output goes to the transcript byte for byte and, split into lines, to an observer; there is no line limit
and nothing waits for a reader. Every limit is held on a monotonic clock.
"""

import asyncio
import contextlib
import hashlib
import os
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from tokenbench.clock import Clock
from tokenbench.errors import AgentError, RunsError
from tokenbench.files import PRIVATE_FILE
from tokenbench.ledger.model import Live
from tokenbench.runner import processes
from tokenbench.text import one_line
from tokenbench.transcripts.lines import Line, LineSplitter

EndedBy = Literal["agent", "wall", "silence", "after_result", "cancel", "stop", "misannounced"]
Reason = Literal["cancel", "stop", "misannounced"]
"""Why a run is told to end: by the operator, with the runner, or because it is not what its arm says."""
STDERR_LIMIT: Final = 1 << 20
"""Bytes of standard error that are kept."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long is waited for what, in seconds."""

    wall: float
    """From the start of the run."""
    silence: float
    """Without a byte on standard output."""
    after_result: float = 5.0
    """From a result event until the process is told to go: results can be several."""
    after_term: float = 5.0
    """From SIGTERM to SIGKILL."""
    drain: float = 2.0
    """For standard output to close once the process is gone."""


@dataclass(frozen=True, slots=True)
class Command:
    """What is started, and where what it writes goes."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    prompt: bytes
    """Its standard input, whole."""
    transcript: Path
    stderr: Path
    marker: str
    """The value of `RUN_MARKER` in `environment`."""
    handed: tuple[int, ...] = ()
    """Descriptors that the process inherits."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process ended."""

    pid: int
    ended_by: EndedBy
    exit_code: int | None
    """None where the runner ended it; negative for a signal."""
    started: float
    """Seconds since the Unix epoch."""
    ended: float
    seconds: float
    """Wall time on the monotonic clock."""
    sha256: str
    """Of the transcript."""
    size: int
    """Bytes of the transcript."""
    leftovers: int
    """Processes that had outlived it and were killed."""


class Interrupt:
    """Tells a run under way to end; the first reason stays."""

    def __init__(self) -> None:
        self.reason: Reason | None = None
        self._changed: Callable[[], None] | None = None

    def set(self, reason: Reason) -> None:
        """End the run."""
        if self.reason is None:
            self.reason = reason
        if self._changed is not None:
            self._changed()

    def watch(self, changed: Callable[[], None] | None) -> None:
        """Call this when the interrupt is set."""
        self._changed = changed


class _Sink:
    """A new file that is written at once, without a buffer that a crash could lose."""

    def __init__(self, path: Path, limit: int | None = None) -> None:
        self._path = path
        self._limit = limit
        self._hash = hashlib.sha256()
        self.size = 0
        self._dropped = 0
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            self._handle = os.open(path, flags, PRIVATE_FILE)
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> RunsError:
        return RunsError(
            f"could not be written: {error.strerror or error}",
            where=str(self._path),
            remedy="Free space or mend the permissions there, then start again; every run that had ended is kept",
        )

    def write(self, data: bytes) -> None:
        """Append; past the limit bytes are counted and dropped."""
        if self._limit is not None and self.size + len(data) > self._limit:
            kept = max(0, self._limit - self.size)
            self._dropped += len(data) - kept
            data = data[:kept]
        self._append(data)

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._handle, view) :]
        except OSError as error:
            raise self._failed(error) from error
        self._hash.update(data)
        self.size += len(data)

    def close(self, *, durable: bool) -> str:
        """Close the file, on the disk if `durable`, and return its sha256."""
        try:
            if self._dropped:
                self._append(f"\n[{self._dropped} more bytes were not kept]\n".encode())
            if durable:
                os.fsync(self._handle)
        except OSError as error:
            raise self._failed(error) from error
        finally:
            os.close(self._handle)
        return self._hash.hexdigest()

    def abandon(self) -> None:
        """Close the file after something else has gone wrong already."""
        with contextlib.suppress(OSError):
            os.close(self._handle)


class _Protocol(asyncio.SubprocessProtocol):
    """Hands bytes on as they come, and remembers what has closed."""

    def __init__(self, received: Callable[[int, bytes], None], changed: asyncio.Event) -> None:
        self._received = received
        self._changed = changed
        self.exited = False
        self.output_closed = False
        self.failure: Exception | None = None

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if self.failure is not None:
            return
        try:
            self._received(fd, data)
        except Exception as error:  # noqa: BLE001  # the loop would only log it: the task that waits raises it again
            self.failure = error
            self._changed.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        del exc
        if fd == 1:
            self.output_closed = True
            self._changed.set()

    def process_exited(self) -> None:
        self.exited = True
        self._changed.set()


class Supervisor:
    """Runs agent processes, several at a time if asked, and leaves none behind."""

    def __init__(self, clock: Clock, *, adopts: bool = False) -> None:
        """
        Args:
            clock: Its monotonic time is what the limits are held against.
            adopts: This process adopts orphans (`processes.adopt_orphans`), so they have to be reaped here.
        """
        self._clock = clock
        self._adopts = adopts
        self._pids: set[int] = set()

    async def run(
        self,
        command: Command,
        patience: Patience,
        *,
        observe: Callable[[list[Line]], Live],
        interrupt: Interrupt,
        started: Callable[[int], None] = lambda _pid: None,
    ) -> Ending:
        """Run a process to its end.

        Args:
            command: What to run.
            patience: Its limits.
            observe: Gets the lines as they come and says how far the run is.
            interrupt: Ends the run from outside.
            started: Is told the pid.

        Raises:
            AgentError: The process could not be started.
            RunsError: The transcript could not be written; the process has been ended.
        """
        output = _Sink(command.transcript)
        try:
            errors = _Sink(command.stderr, STDERR_LIMIT)
        except RunsError:
            output.abandon()
            raise
        try:
            run = _Run(
                clock=self._clock,
                command=command,
                patience=patience,
                output=output,
                errors=errors,
                observe=observe,
                interrupt=interrupt,
            )
            end = await run.to_end(started, self._pids)
        except BaseException as error:
            errors.abandon()
            output.abandon()
            if isinstance(error, AgentError):
                # Nothing was started, so there is nothing to keep.
                command.transcript.unlink(missing_ok=True)
            raise
        finally:
            if self._adopts:
                processes.reap(self._pids)
        errors.close(durable=False)
        digest = output.close(durable=True)
        return Ending(
            pid=end.pid,
            ended_by=end.ended_by,
            exit_code=end.exit_code,
            started=end.started,
            ended=end.ended,
            seconds=end.seconds,
            sha256=digest,
            size=output.size,
            leftovers=end.leftovers,
        )


class _End(NamedTuple):
    pid: int
    ended_by: EndedBy
    exit_code: int | None
    started: float
    ended: float
    seconds: float
    leftovers: int


class _Run:
    """The state of one process under way."""

    def __init__(
        self,
        *,
        clock: Clock,
        command: Command,
        patience: Patience,
        output: _Sink,
        errors: _Sink,
        observe: Callable[[list[Line]], Live],
        interrupt: Interrupt,
    ) -> None:
        self._clock = clock
        self._command = command
        self._patience = patience
        self._output = output
        self._errors = errors
        self._observe = observe
        self._interrupt = interrupt
        self._splitter = LineSplitter()
        self._changed = asyncio.Event()
        self._protocol = _Protocol(self._received, self._changed)
        self._begun = clock.monotonic()
        self._heard = self._begun
        self._exited_at: float | None = None
        self._result_at: float | None = None
        self._calls_at_result = -1

    async def to_end(self, started: Callable[[int], None], pids: set[int]) -> _End:
        began = self._clock.now()
        transport = await self._start()
        pid = transport.get_pid()
        pids.add(pid)
        self._interrupt.watch(self._changed.set)
        try:
            started(pid)
            ended_by = await self._wait()
            killed = not self._protocol.exited
            await self._end(transport)
        finally:
            self._interrupt.watch(None)
            # Whatever went wrong above, nothing of the run goes on.
            processes.signal_group(pid, signal.SIGKILL)
            leftovers = await asyncio.to_thread(processes.end_marked, self._command.marker)
            await self._settle(transport)
            pids.discard(pid)
        if self._protocol.failure is not None:
            raise self._protocol.failure
        self._look(self._splitter.close())
        seconds = self._clock.monotonic() - self._begun
        return _End(
            pid=pid,
            ended_by=ended_by,
            exit_code=None if killed else transport.get_returncode(),
            started=began,
            # Not the wall clock's word, which can jump: a run never ends before it began.
            ended=began + seconds,
            seconds=seconds,
            leftovers=leftovers,
        )

    async def _start(self) -> asyncio.SubprocessTransport:
        command = self._command
        loop = asyncio.get_running_loop()
        # A file ends by itself: no writer that could block, no pipe that could be left open.
        with tempfile.TemporaryFile() as given:
            given.write(command.prompt)
            given.seek(0)
            try:
                transport, _ = await loop.subprocess_exec(
                    lambda: self._protocol,
                    *command.argv,
                    stdin=given,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    cwd=command.folder,
                    env=dict(command.environment),
                    start_new_session=True,
                    close_fds=True,
                    pass_fds=command.handed,
                )
            except (OSError, ValueError) as error:
                raise AgentError(
                    f"the agent could not be started: {one_line(str(error), 200)}",
                    where=one_line(command.argv[0], 200),
                    remedy="Install the agent CLI anew, or set its path in tokenbench.toml",
                ) from error
        return transport

    def _received(self, fd: int, data: bytes) -> None:
        if fd != 1:
            self._errors.write(data)
            return
        self._heard = self._clock.monotonic()
        self._output.write(data)
        self._look(self._splitter.feed(data))

    def _look(self, lines: list[Line]) -> None:
        if not lines:
            return
        live = self._observe(lines)
        if live.ended and live.calls != self._calls_at_result:
            # A background task can wake the agent for another turn: the wait begins anew with each new call's result.
            self._calls_at_result = live.calls
            self._result_at = self._clock.monotonic()
            self._changed.set()

    async def _wait(self) -> EndedBy:
        """Until the process has ended by itself or a limit is reached."""
        while True:
            self._changed.clear()
            if self._protocol.failure is not None:
                return "stop"
            if self._protocol.exited and self._protocol.output_closed:
                return "agent"
            if self._interrupt.reason is not None:
                return self._interrupt.reason
            now = self._clock.monotonic()
            deadline, why = self._next_deadline(now)
            if now >= deadline:
                return why
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), deadline - now)

    def _next_deadline(self, now: float) -> tuple[float, EndedBy]:
        patience = self._patience
        if self._result_at is not None:
            return min(self._result_at + patience.after_result, self._begun + patience.wall), "after_result"
        if self._protocol.exited:
            # A process of its own making holds the output open.
            self._exited_at = now if self._exited_at is None else self._exited_at
            return self._exited_at + patience.drain, "agent"
        wall, silence = self._begun + patience.wall, self._heard + patience.silence
        return (wall, "wall") if wall <= silence else (silence, "silence")

    async def _end(self, transport: asyncio.SubprocessTransport) -> None:
        """TERM, then KILL, to the group; a process that has gone needs neither."""
        if self._protocol.exited and self._protocol.output_closed:
            return
        processes.signal_group(transport.get_pid(), signal.SIGTERM)
        await self._until(lambda: self._protocol.exited, self._patience.after_term)

    async def _settle(self, transport: asyncio.SubprocessTransport) -> None:
        """Everything that was written before the end is read; then the pipes are closed."""
        await self._until(lambda: self._protocol.exited and self._protocol.output_closed, self._patience.drain)
        transport.close()
        await self._until(lambda: self._protocol.exited, self._patience.drain)

    async def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        deadline = self._clock.monotonic() + seconds
        while not condition():
            self._changed.clear()
            left = deadline - self._clock.monotonic()
            if left <= 0:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)
