"""A sandbox is tried before it is believed, and where there is none the reason is told."""

import asyncio
import contextlib
import os
import shutil
import socket
import sys
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from tokenbench.agents.claude.launch import Cli, Rooms
from tokenbench.clock import SystemClock
from tokenbench.errors import AgentError, RunnerError
from tokenbench.experiment.model import Arm, Limits
from tokenbench.ledger.build import LedgerBuilder
from tokenbench.runner import exits, processes, rooms, sandbox
from tokenbench.runner.exits import Destination, destination
from tokenbench.runner.sandbox import Confinement
from tokenbench.runner.supervise import Command, Ending, Interrupt, Patience, Supervisor

ARM = Arm(tools=(), prompt="p.md", folder="empty")
MARK = f"a-test-of-the-sandbox-{os.getpid()}/"
"""Of this process alone: tests that run beside it end what carries theirs."""


def agent(folder: Path, script: str) -> Cli:
    """An agent that is a shell script: it has what is inside, and nothing else."""
    path = folder / "agent"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return Cli(path, "2.1.332", "configured", (str(path),))


@pytest.fixture
def work() -> Generator[Path]:
    if shutil.which("bwrap") is None:
        pytest.fail("bubblewrap is missing, so the sandbox cannot be tested: apt-get install bubblewrap")
    with TemporaryDirectory(dir="/tmp", prefix="tbs") as folder:
        yield Path(folder)
        assert processes.marked(MARK) == []


class Closed:
    """A closed room with a shell script for an agent."""

    def __init__(self, work: Path, script: str) -> None:
        self.cli = agent(work, script)
        self.rooms = Rooms(*(work / name for name in Rooms._fields))
        for folder in self.rooms:
            folder.mkdir()
        self.confinement = sandbox.find("required", cli=self.cli, scratch=work / "scratch")
        self.output = work / "out"
        self.errors = work / "err"
        self.interrupt = Interrupt()
        self.supervisor = Supervisor(SystemClock())

    async def run(self, *, base_url: str = "http://127.0.0.1:1", wall: float = 30, started: object = None) -> Ending:
        asked = rooms.Asked(ARM, "m", Limits(), MARK, "sk-a-secret-key", base_url)
        async with rooms.entered(self.confinement, self.cli, self.rooms, asked) as start:
            command = Command(
                argv=start.argv,
                environment=start.environment,
                folder=start.outside,
                handed=start.handed,
                prompt=b"hello\n",
                transcript=self.output,
                stderr=self.errors,
                marker=MARK,
            )
            patience = Patience(wall, wall, after_result=0.3, after_term=1, drain=1)
            builder = LedgerBuilder(transcript="t")
            return await self.supervisor.run(
                command,
                patience,
                observe=lambda lines: builder.live(),
                interrupt=self.interrupt,
                started=lambda pid: None if started is None else started(),
            )

    @property
    def said(self) -> str:
        return self.output.read_text()


def test_off_is_off_and_says_so(tmp_path: Path) -> None:
    found = sandbox.find("off", cli=agent(tmp_path, "true"), scratch=tmp_path / "s")
    assert found == Confinement(None, 'experiment.sandbox is "off"')
    assert found.told == found.reason


def test_without_bwrap_the_reason_is_told_and_a_requirement_refuses(tmp_path: Path) -> None:
    cli = agent(tmp_path, "true")
    found = sandbox.find("auto", cli=cli, scratch=tmp_path / "s", search_path=str(tmp_path))
    assert found == Confinement(None, "bwrap is not on PATH")
    with pytest.raises(RunnerError, match="required, and there is none: bwrap is not on PATH") as refused:
        sandbox.find("required", cli=cli, scratch=tmp_path / "s", search_path=str(tmp_path))
    assert "Install bubblewrap" in refused.value.remedy


def test_a_bwrap_that_is_forbidden_is_told_in_its_own_words(tmp_path: Path) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo bubblewrap 9.9.9 && exit\n'
        "echo 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
    )
    fake.chmod(0o755)
    found = sandbox.find("auto", cli=agent(tmp_path, "true"), scratch=tmp_path / "s", search_path=str(tmp_path))
    assert found.sandbox is None
    assert found.reason == "bwrap failed with exit code 1: bwrap: No permissions to create new namespace"


def test_a_bwrap_that_only_pretends_is_found_out(tmp_path: Path) -> None:
    """It starts the command as if nothing were asked of it: everything would seem confined."""
    fake = tmp_path / "bwrap"
    fake.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo bubblewrap 9.9.9 && exit\n'
        f'while [ "$1" != -- ]; do shift; done\nshift; shift\nexec {sys.executable} "$@"\n'
    )
    fake.chmod(0o755)
    found = sandbox.find("auto", cli=agent(tmp_path, "true"), scratch=tmp_path / "s", search_path=str(tmp_path))
    assert found.sandbox is None
    assert "closed no room" in found.reason


async def test_the_agent_sees_its_prompt_its_folders_and_no_key(work: Path) -> None:
    closed = Closed(work, "cat; pwd; echo $HOME $TMPDIR; hostname; env | grep -c secret; ls -A /home /tmp /empty")
    ending = await closed.run()
    assert (ending.ended_by, ending.exit_code) == ("agent", 0), closed.errors.read_text()
    assert closed.said.split("\n")[:5] == ["hello", "/empty", "/home/agent /tmp", "agent", "0"]
    assert "a-secret-key" not in closed.said


async def test_a_key_can_be_read_once(work: Path) -> None:
    closed = Closed(
        work,
        """bash -c 'cat <&$CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR; echo; cat <&$CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR'""",
    )
    await closed.run()
    assert closed.said.split() == ["sk-a-secret-key"]


@pytest.mark.parametrize(
    ("script", "code"), [("exit 7", 7), ("kill -9 $$", 128 + 9), ("exit 0", 0), ("exec /nonexistent", 127)]
)
async def test_exit_codes_come_through(work: Path, script: str, code: int) -> None:
    ending = await Closed(work, script).run()
    assert (ending.ended_by, ending.exit_code) == ("agent", code)


async def test_what_is_started_inside_is_found_by_its_mark_and_ends_with_the_run(work: Path) -> None:
    closed = Closed(work, "trap '' TERM; setsid sleep 1000 & sleep 1000 & echo '{}'; wait")
    running = asyncio.create_task(closed.run())
    deadline = asyncio.get_running_loop().time() + 30
    sleepers: list[psutil.Process] = []
    while len(sleepers) < 2 and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.02)
        with contextlib.suppress(psutil.Error):
            sleepers = [one for one in processes.marked(MARK) if one.name() == "sleep"]
    assert len(sleepers) == 2
    closed.interrupt.set("cancel")
    ending = await running
    assert (ending.ended_by, ending.exit_code) == ("cancel", None)
    assert processes.marked(MARK) == []
    assert not [one for one in sleepers if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


async def test_a_run_that_reaches_its_limit_is_ended_whole(work: Path) -> None:
    ending = await Closed(work, "trap '' TERM; sleep 1000").run(wall=1)
    assert ending.ended_by == "wall"


async def test_a_child_that_holds_the_output_open_ends_with_its_agent(work: Path) -> None:
    ending = await Closed(work, "setsid sleep 1000 & echo done").run()
    assert (ending.ended_by, ending.exit_code) == ("agent", 0)


@pytest.fixture
async def echo() -> AsyncGenerator[tuple[int, list[bytes]]]:
    """A server on loopback that gives back what it gets, and remembers it."""
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            heard.append(data)
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], heard


@contextlib.asynccontextmanager
async def inside(to: Destination) -> AsyncGenerator[int]:
    """Play the entrance: hand a listening socket to the way out, and tell its port."""
    async with exits.opened((to,)) as descriptor:
        with socket.create_server(("127.0.0.1", 0)) as door, socket.socket(fileno=os.dup(descriptor)) as entrance:
            socket.send_fds(entrance, [b"."], [door.fileno()])
            yield door.getsockname()[1]


async def asked(port: int, data: bytes, size: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(size), 10)
    finally:
        writer.close()


async def test_a_plain_address_is_carried_on(echo: tuple[int, list[bytes]]) -> None:
    async with inside(Destination("127.0.0.1", echo[0], False, None)) as port:
        assert await asked(port, b"GET / HTTP/1.1\r\n\r\n", 100) == b"GET / HTTP/1.1\r\n\r\n"


async def test_a_proxy_knows_one_destination(echo: tuple[int, list[bytes]]) -> None:
    upstream, heard = echo
    async with inside(Destination("localhost", upstream, True, "https://localhost")) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"CONNECT localhost:{upstream} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
        writer.write(b"\x16\x03\x01")
        assert await reader.readexactly(3) == b"\x16\x03\x01"
        writer.close()
        assert heard == [b"\x16\x03\x01"]
        for request in (
            f"CONNECT localhost:{upstream + 1} HTTP/1.1\r\n\r\n",
            f"CONNECT 127.0.0.1:{upstream} HTTP/1.1\r\n\r\n",
            f"CONNECT localhost.evil.test:{upstream} HTTP/1.1\r\n\r\n",
            f"GET http://localhost:{upstream}/ HTTP/1.1\r\n\r\n",
            "\r\n\r\n",
        ):
            assert (await asked(port, request.encode(), 100)).startswith(b"HTTP/1.1 403 "), request
        assert (await asked(port, b"x" * 70_000 + b"\r\n\r\n", 100)).startswith(b"HTTP/1.1 400 ")
    assert heard == [b"\x16\x03\x01"]


async def test_a_destination_that_does_not_answer_is_said_to_a_proxy_and_closed_to_a_tunnel() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    async with inside(Destination("127.0.0.1", free, True, None)) as port:
        assert (await asked(port, f"CONNECT 127.0.0.1:{free} HTTP/1.1\r\n\r\n".encode(), 100)).startswith(
            b"HTTP/1.1 502 "
        )
    async with inside(Destination("127.0.0.1", free, False, None)) as port:
        assert await asked(port, b"", 100) == b""


def test_where_an_agent_may_go_follows_from_its_address() -> None:
    assert destination(None) == Destination("api.anthropic.com", 443, True, None)
    assert destination(None).environment == {"HTTPS_PROXY": "http://127.0.0.1:9999"}
    gateway = "https://gateway.example:8443/v9?a=b"
    assert destination(gateway) == Destination("gateway.example", 8443, True, gateway)
    plain = destination("http://127.0.0.1:4567/run/token")
    assert plain == Destination("127.0.0.1", 4567, False, "http://127.0.0.1:9999/run/token")
    assert plain.environment == {}
    assert destination("http://[::1]/").host == "::1"


@pytest.mark.parametrize("address", ["", "api.anthropic.com", "ftp://x/", "http://", "http://x:99999/", "unix:/x"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(AgentError, match="is no address of an API"):
        destination(address)


def test_no_other_copy_of_a_corpus_is_mounted(work: Path) -> None:
    found = sandbox.find("required", cli=agent(work, "true"), scratch=work / "s", hidden=[Path("/usr/share")])
    assert found.sandbox is not None
    words = list(found.sandbox.system)
    assert words[words.index("/usr/share") - 1] == "--tmpfs"
    mounted = {str(mount.source) for mount in (*found.sandbox.tools, *found.sandbox.retrieval)}
    assert not [path for path in mounted if path.endswith(("site-packages", "dist-packages"))]
    assert not [path for path in mounted if "rehearsal" in path or "grading" in path]
