"""The control socket: private, line by line, and reachable however long the path to it is."""

import asyncio
import contextlib
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tokenbench.errors import RunnerError, RunsError
from tokenbench.runner import control
from tokenbench.runner.control import ControlServer, Reply, Request
from tokenbench.transcripts.evidence import Runs


class Desk:
    def __init__(self) -> None:
        self.requests: list[Request] = []

    def answer(self, request: Request) -> Reply:
        self.requests.append(request)
        if request.command == "cancel":
            raise RunnerError(f"no cell is called {request.cell}", remedy="Name another")
        return {"state": "running", "concurrency": request.runs}


@pytest.fixture
def short():
    with TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder) / "control.sock"


@asynccontextmanager
async def serving(runs: Runs, short: Path, desk: Desk) -> AsyncGenerator[None]:
    runs.prepare()
    server = ControlServer(runs.socket, short, desk.answer)
    await server.start()
    try:
        yield
    finally:
        await server.stop()


async def send(runs: Runs, command: control.Command, **arguments: object) -> dict[str, object]:
    return await asyncio.to_thread(lambda: control.send(runs, command, **arguments))


async def test_a_command_and_its_reply(short: Path) -> None:
    runs, desk = Runs(short.parent / "runs"), Desk()
    async with serving(runs, short, desk):
        assert await send(runs, "concurrency", concurrency=3) == {"state": "running", "concurrency": 3}
        await send(runs, "stop", now=True)
    assert desk.requests == [Request("concurrency", runs=3), Request("stop", now=True)]


async def test_only_its_owner_may_open_the_socket(short: Path) -> None:
    runs = Runs(short.parent / "runs")
    async with serving(runs, short, Desk()):
        mode = runs.socket.stat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600
        assert stat.S_IMODE(runs.folder.stat().st_mode) == 0o700
    assert not runs.socket.exists()


async def test_a_refused_command_comes_back_as_an_error(short: Path) -> None:
    runs = Runs(short.parent / "runs")
    async with serving(runs, short, Desk()):
        with pytest.raises(RunnerError, match="no cell is called x") as caught:
            await send(runs, "cancel", cell="x")
    assert caught.value.remedy == "Name another"


async def test_a_path_that_is_too_long_for_the_kernel_is_reached_by_a_link(tmp_path: Path, short: Path) -> None:
    runs = Runs(tmp_path / ("long" * 30) / "runs")
    async with serving(runs, short, Desk()):
        assert len(str(runs.socket)) > control.LONGEST_PATH
        assert runs.socket.is_symlink()
        assert (await send(runs, "status"))["state"] == "running"
    assert not runs.socket.is_symlink()
    assert not short.exists()


async def test_the_socket_of_a_dead_runner_is_replaced(short: Path) -> None:
    runs = Runs(short.parent / "runs")
    runs.prepare()
    runs.socket.symlink_to(short)
    short.write_bytes(b"left over")
    async with serving(runs, short, Desk()):
        assert (await send(runs, "status"))["state"] == "running"


@pytest.mark.parametrize(
    "line", [b"\n", b"{}\n", b"nonsense\n", b"\xff\n", b'{"command": "fly"}\n', b'{"command": "stop", "x": 1}\n']
)
async def test_what_is_no_request_is_answered_and_changes_nothing(short: Path, line: bytes) -> None:
    runs, desk = Runs(short.parent / "runs"), Desk()
    async with serving(runs, short, desk):
        reader, writer = await asyncio.open_unix_connection(runs.socket)
        writer.write(line + b'{"command": "status"}\n')
        assert b'"ok":false' in await reader.readline()
        assert b'"ok":true' in await reader.readline()
        writer.close()
    assert desk.requests == [Request("status")]


async def test_a_line_without_end_does_not_fill_the_memory(short: Path) -> None:
    runs, desk = Runs(short.parent / "runs"), Desk()
    async with serving(runs, short, desk):
        reader, writer = await asyncio.open_unix_connection(runs.socket)
        writer.write(b"x" * 1_000_000)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        assert (await send(runs, "status"))["state"] == "running"


def test_without_a_runner_it_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(RunnerError, match="no runner is at work here") as caught:
        control.send(Runs(tmp_path), "pause")
    assert "tokenbench-tui run" in caught.value.remedy


def test_a_runner_of_another_machine_cannot_be_reached_from_here(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    runs.lock.write_text('{"pid": 7, "host": "elsewhere", "started": 0.0, "identity": "x"}')
    with pytest.raises(RunnerError, match="pid 7 on elsewhere"):
        control.send(runs, "pause")


async def test_a_socket_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    server = ControlServer(tmp_path / "none" / "control.sock", tmp_path / "none" / "short.sock", Desk().answer)
    with pytest.raises(RunsError, match="control socket could not be made"):
        await server.start()
