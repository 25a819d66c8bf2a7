"""The runner's control socket: one JSON object a line, a request and its reply.

`{"command": "pause"}`, `resume`, `stop` (`"now": true` ends the runs too), `cancel` (`"cell": NAME`), `concurrency`
(`"runs": N`) and `status`. A reply is `{"ok": true, …}` or `{"ok": false, "what": …, "remedy": …}`.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, cast

import msgspec

from tokenbench.decoding import UNREADABLE
from tokenbench.errors import RunnerError, RunsError, TokenbenchError
from tokenbench.runner.lock import living_owner
from tokenbench.text import one_line
from tokenbench.transcripts.evidence import Runs

Command = Literal["pause", "resume", "stop", "cancel", "concurrency", "status"]
LONGEST_PATH: Final = 100
"""Bytes; the kernel takes 107 (Linux) or 103 (macOS)."""
_LONGEST_LINE: Final = 1 << 16
_SECONDS: Final = 10.0


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line to the runner."""

    command: Command
    now: bool = False
    """stop: end the runs under way as well."""
    cell: str = ""
    """cancel: the cell."""
    runs: int = 0
    """concurrency: how many at a time."""


Reply = dict[str, object]
Answer = Callable[[Request], Reply]


class ControlServer:
    """The runner's end. Only its owner can reach it: the socket has mode 0600 in a folder of mode 0700."""

    def __init__(self, path: Path, short: Path, answer: Answer) -> None:
        """
        Args:
            path: `runs/control.sock`.
            short: Where the socket is put if `path` is too long for the kernel, or its file system has no sockets;
                `path` is a link to it then.
            answer: Does what a request asks for.
        """
        self._path = path
        self._short = short
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        """Listen.

        Raises:
            RunsError: No socket can be made, here or there.
        """
        try:
            self._remove()
            if len(os.fsencode(self._path)) <= LONGEST_PATH:
                with contextlib.suppress(OSError):
                    self._server = await self._listen(self._path)
            if self._server is None:
                self._server = await self._listen(self._short)
                self._path.symlink_to(self._short)
        except OSError as error:
            raise RunsError(
                f"the control socket could not be made: {error.strerror or error}",
                where=str(self._path),
                remedy="Mend the permissions there, or move the experiment to a file system that has Unix sockets",
            ) from error

    async def _listen(self, path: Path) -> asyncio.Server:
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Bound in a folder that only its owner may enter, so nobody connects before the mode is set.
            listening.bind(str(path))
            path.chmod(0o600)
            return await asyncio.start_unix_server(self._serve, sock=listening, limit=_LONGEST_LINE)
        except BaseException:
            listening.close()
            raise

    def _remove(self) -> None:
        self._path.unlink(missing_ok=True)
        self._short.unlink(missing_ok=True)

    async def stop(self) -> None:
        """Stop listening and remove the socket."""
        if self._server is not None:
            self._server.close()
            for client in tuple(self._clients):
                client.close()
            self._server = None
        with contextlib.suppress(OSError):
            self._remove()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        try:
            while line := await reader.readline():
                writer.write(msgspec.json.encode(self._reply(line)) + b"\n")
                await writer.drain()
        except (OSError, ValueError):
            # The client has gone, or its line is longer than any request.
            pass
        finally:
            self._clients.discard(writer)
            writer.close()

    def _reply(self, line: bytes) -> Reply:
        try:
            request = msgspec.json.decode(line, type=Request)
        except UNREADABLE as error:
            return {"ok": False, "what": f"this is no request: {error}", "remedy": "Use `tokenbench-tui` to send it"}
        try:
            return {"ok": True, **self._answer(request)}
        except TokenbenchError as error:
            return {"ok": False, "what": error.what, "remedy": error.remedy}


def _connect(runs: Runs) -> socket.socket:
    path = runs.socket
    target = path.readlink() if path.is_symlink() else path
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(_SECONDS)
    try:
        client.connect(str(target))
    except BaseException:
        client.close()
        raise
    return client


def send(runs: Runs, command: Command, *, now: bool = False, cell: str = "", concurrency: int = 0) -> dict[str, object]:
    """Send the runner of this folder a command and return its reply, without `ok`.

    Raises:
        RunnerError: No runner is at work here, it does not answer, or it cannot do this.
    """
    line = msgspec.json.encode(Request(command, now=now, cell=cell, runs=concurrency)) + b"\n"
    where = str(runs.folder)
    try:
        with _connect(runs) as client, client.makefile("rb") as replies:
            client.sendall(line)
            reply = replies.readline()
        said: object = msgspec.json.decode(reply)
    except TimeoutError as error:
        raise RunnerError(
            f"the runner did not answer within {_SECONDS:.0f} s",
            where=where,
            remedy="Try again; if it stays so, end the process that `tokenbench-tui status` names",
        ) from error
    except (OSError, *UNREADABLE) as error:
        owner = living_owner(runs.lock)
        if owner is None:
            raise RunnerError(
                "no runner is at work here", where=where, remedy="Start one with `tokenbench-tui run` or `rehearse`"
            ) from error
        who = f"pid {owner.pid} on {one_line(owner.host, 60)}"
        raise RunnerError(
            f"the runner ({who}) cannot be reached: {one_line(str(error), 100)}",
            where=where,
            remedy="Send the command on that machine, or try again in a moment",
        ) from error
    if not isinstance(said, dict):
        raise RunnerError("the runner gave no reply", where=where, remedy="Try again")
    fields = cast("dict[str, object]", said)
    if fields.pop("ok", False) is not True:
        raise RunnerError(
            one_line(str(fields.get("what", "the runner could not do this")), 300),
            where=where,
            remedy=one_line(str(fields.get("remedy", "Look at `tokenbench-tui status`")), 300),
        )
    return fields
