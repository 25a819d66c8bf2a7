"""What an agent gets that tries to leave the room it was given: the real CLI, a scripted model, a real sandbox."""

import asyncio
import contextlib
import json
import random
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import msgspec
import psutil
import pytest

from tokenbench.agents.claude import launch
from tokenbench.agents.claude.stream import ClaudeReader
from tokenbench.clock import SystemClock
from tokenbench.experiment.model import Arm, Limits
from tokenbench.ledger.build import LedgerBuilder
from tokenbench.ledger.model import Live
from tokenbench.rehearsal.api import ScriptedApi
from tokenbench.rehearsal.scripts import ScriptBook
from tokenbench.rehearsal.served import RunKey
from tokenbench.runner import processes, rooms, sandbox
from tokenbench.runner.places import BASE_VARIABLE, Places
from tokenbench.runner.schedule import Backoff
from tokenbench.runner.session import Session, Settings
from tokenbench.runner.supervise import Command, Interrupt, Patience, Supervisor
from tokenbench.transcripts.events import ToolResult, ToolUse
from tokenbench.transcripts.evidence import Record, Runs
from tokenbench.transcripts.lines import Line, read_lines

TLS = Path(__file__).parents[1] / "data" / "tls"
SECRET = "only-in-the-corpus-7391"
"""A word of the corpus; whoever can say it has read there."""
TRUTH = "the-truth-5127"
"""A word of the questions."""
KEY = "sk-ant-scripted"
CONFIG = """
[experiment]
name = "closed"
model = "claude-opus-5"
warmups = 0
sandbox = "required"
[corpus]
kind = "folder"
path = "{corpus}"
[arms.native]
tools = ["Read", "Bash"]
allowed = ["Read", "Bash"]
prompt = "p.md"
[arms.retrieval]
tools = ["Read", "Bash"]
allowed = ["Read", "Bash"]
folder = "empty"
retrieval = true
prompt = "p.md"
[arms.narrow]
tools = ["Bash"]
allowed = ["Bash(xq:*)"]
disallowed = ["Grep", "Glob", "Read", "WebSearch", "WebFetch", "Task"]
folder = "empty"
retrieval = true
prompt = "p.md"
[limits]
attempts = 1
"""


class Room:
    """An experiment whose arms may use the whole shell, so that nothing but the sandbox holds them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "bench"
        self.corpus = folder / "tree"
        self.runs = Runs(self.folder / "runs")

    def write(self, arm: str, commands: Sequence[str]) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.corpus / "src").mkdir(parents=True)
        (self.corpus / "src" / "blocks.py").write_text(f"def block_count():\n    return '{SECRET}'\n")
        (self.folder / "tokenbench.toml").write_text(
            CONFIG.format(corpus=self.corpus).replace(
                "warmups = 0", f'warmups = 0\nbaseline = "{arm}"\nheadline_arm = "{arm}"'
            )
        )
        (self.folder / "p.md").write_text("Answer only from what you read.\n")
        question = {"id": "q1", "class": "lookup", "text": "Where?", "truth": TRUTH, "must": [{"word": TRUTH}]}
        (self.folder / "questions.jsonl").write_text(json.dumps(question) + "\n")
        steps = [{"tools": [{"name": "Bash", "input": {"command": command}}]} for command in commands]
        script = {"kind": "cell", "question": "q1", "arm": arm, "steps": steps, "answer": "Done."}
        (self.folder / "scripts.jsonl").write_text(json.dumps(script) + "\n")

    async def run(self, arm: str) -> int:
        settings = Settings(
            folder=self.folder,
            scripted=True,
            scripts=self.folder / "scripts.jsonl",
            only=(f"arm={arm}",),
            backoff=Backoff(first=0.01, longest=0.01),
        )
        return await Session(settings, clock=SystemClock(), dice=random.Random(1), environment={}).run()

    async def tried(self, arm: str, *commands: str) -> tuple[Record, list[tuple[str, ToolResult]]]:
        """Run these commands as the agent's tool, one a step; each with what came of it."""
        self.write(arm, commands)
        await self.run(arm)
        stem = f"{arm}__q1__r1"
        record = msgspec.json.decode((self.runs.folder / f"{stem}.json").read_bytes(), type=Record)
        assert record.sandbox, record.sandbox_told
        reader, uses, results = ClaudeReader(), {}, {}
        for line in read_lines(self.runs.folder / f"{stem}.jsonl"):
            for event in reader.feed(line):
                if isinstance(event, ToolUse):
                    uses[event.id] = event
                elif isinstance(event, ToolResult):
                    results[event.tool_use_id] = event
        return record, [(str(use.input.get("command")), results[name]) for name, use in uses.items()]


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Room]:
    if shutil.which("bwrap") is None:
        pytest.fail("bubblewrap is missing, so isolation cannot be tested: apt-get install bubblewrap")
    with TemporaryDirectory(dir="/tmp", prefix="tbw") as work:
        monkeypatch.setenv(BASE_VARIABLE, work)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        yield Room(tmp_path)


def texts(got: Sequence[tuple[str, ToolResult]]) -> str:
    return "\n".join(result.text for _, result in got)


async def test_nothing_of_the_experiment_the_home_or_other_runs_exists(room: Room) -> None:
    home, outside = Path.home(), room.folder.parent
    # Not the words themselves: the agent's own log of this session holds each command.
    pattern = "|".join(f"{word[:-1]}[{word[-1]}]" for word in (SECRET, TRUTH))
    room.runs.prepare()
    for path in (room.runs.blind, room.runs.attempts / "native__q9__r1__a1.jsonl"):
        path.write_text(f'"{TRUTH}"\n')
    record, got = await room.tried(
        "retrieval",
        f"cat {room.corpus}/src/blocks.py; ls -R {room.corpus}",
        f"cat {room.folder}/questions.jsonl {room.folder}/tokenbench.toml",
        f"cat {room.runs.blind} {room.runs.folder}/*.jsonl {room.runs.attempts}/*.jsonl",
        f"ls -la {home} {room.folder} {outside}",
        "cat /corpus/src/blocks.py; ls /corpus",
        "find / -name blind.json -o -name 'questions.jsonl' -o -name 'seal.json' -o -name blocks.py 2>/dev/null",
        f"grep -rslE '{pattern}' /tmp /home /opt /etc /empty /dev /queries.jsonl 2>/dev/null; echo searched",
        "ls -A /home /empty; ls -Ad /root /mnt /srv /var /run",
    )
    said = texts(got)
    assert SECRET not in said
    assert TRUTH not in said
    assert not [result.text for _, result in got[:5] if "No such file or directory" not in result.text]
    assert got[5][1].text.strip() in ("", "(Bash completed with no output)")
    assert got[6][1].text.strip() == "searched"
    assert got[7][1].text.count("No such file or directory") == 5
    # It used a shell that is no `xq`: the leak check has its own word on that.
    assert record.outcome == "quarantined"


async def test_the_key_is_in_no_environment_argument_list_or_descriptor(room: Room) -> None:
    _, got = await room.tried(
        "native",
        "env; cat /proc/*/environ | tr '\\0' '\\n'",
        "cat /proc/*/cmdline | tr '\\0' '\\n'",
        "for each in /proc/[0-9]*/fd/*; do timeout 0.2 head -c 200 $each 2>/dev/null | grep -a sk-ant; done; echo read",
        "grep -rsa sk-ant /home /tmp /opt/xq /etc 2>/dev/null | grep -v 'grep -rsa'; echo searched",
    )
    said = texts(got)
    assert KEY not in said
    assert "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR=" in got[0][1].text
    # Not even the paths of what was closed off stand in a list of processes.
    assert str(room.folder) not in said
    assert str(room.corpus) not in said


async def test_other_processes_do_not_exist(room: Room) -> None:
    _, got = await room.tried("native", "ls -d /proc/[0-9]* | wc -l; cat /proc/[0-9]*/comm", "kill -9 1; true")
    number, *names = got[0][1].text.split()
    assert int(number) < 15
    assert set(names) <= {"bwrap", "claude", "bash", "sh", "ls", "cat", "wc", "python3.11", "Bun", "HTTP"} | {
        name for name in names if name.startswith(("claude", "bun", "HeapHelper"))
    }


async def test_the_network_is_the_api_and_nothing_else(room: Room) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        answered: list[bytes] = []
        thread = threading.Thread(target=_answer, args=(other, answered), daemon=True)
        thread.start()
        _, got = await room.tried(
            "native",
            f"curl -sS -m 5 http://127.0.0.1:{port}/ 2>&1; echo exit $?",
            "curl -sS -m 5 http://192.0.2.1/ 2>&1; echo exit $?",
            "curl -sS -m 5 https://api.anthropic.com/ 2>&1; echo exit $?",
            "cat /proc/net/dev | grep -c :",
            "curl -sS -m 5 -o /dev/null -w '%{{http_code}}' $ANTHROPIC_BASE_URL/other",
        )
    assert answered == []
    assert [result.text.rpartition("exit ")[2].strip() for _, result in got[:3]] == ["7", "7", "6"]
    assert got[3][1].text.strip() == "1"
    assert got[4][1].text.strip() == "404"


def _answer(server: socket.socket, answered: list[bytes]) -> None:
    try:
        client, _ = server.accept()
        answered.append(client.recv(100))
    except OSError:
        return


async def test_the_corpus_is_read_only_and_what_is_written_elsewhere_is_wiped(room: Room) -> None:
    _, got = await room.tried(
        "native",
        "cat src/blocks.py",
        "echo x >> src/blocks.py; touch /corpus/new; rm src/blocks.py; chmod 777 src; mount -o remount,rw /corpus",
        "touch /new /opt/entrance.py /opt/new /usr/new; true",
        "unshare -Urm sh -c 'mount -o remount,bind,rw /corpus && touch /corpus/new'; true",
        "echo left > ~/left; echo left > /tmp/left; cat ~/left",
    )
    assert SECRET in got[0][1].text
    assert (room.corpus / "src" / "blocks.py").read_text().count("\n") == 2
    assert sorted(path.name for path in room.corpus.rglob("*")) == ["blocks.py", "src"]
    assert got[1][1].text.count("Read-only file system") >= 4
    assert got[2][1].text.count("Read-only file system") == 4
    assert "left" in got[4][1].text


async def test_the_arm_with_xq_gets_its_index_read_only_and_a_log_to_append_to(room: Room) -> None:
    record, got = await room.tried(
        "retrieval",
        "xq block_count",
        "touch /index/x; rm -rf /index/tantivy; echo '{}' > /opt/xq/access.json; echo x > /opt/xq/bin/xq; true",
        "xq block_count 1",
        "ls -R /opt/xq | grep -cE 'rehearsal|demo|questions|grading'; true",
    )
    assert SECRET in got[0][1].text
    assert got[0][1].text.startswith("src/blocks.py:1")
    assert got[1][1].text.count("Read-only file system") >= 4
    assert got[2][1].text.startswith("src/blocks.py:1")
    assert got[3][1].text.strip() == "0"
    assert (record.folder, record.argv[0], record.sandbox_argv[1]) == ("/empty", "/opt/claude", "--unshare-all")
    asked = (room.runs.queries / "retrieval__q1__r1.jsonl").read_text().splitlines()
    assert [json.loads(line)["query"] for line in asked] == ["block_count", "block_count"]


def test_a_runner_that_is_killed_leaves_no_room_behind(room: Room) -> None:
    room.write("native", ["setsid sleep 600 & sleep 600"])
    scripts = str(room.folder / "scripts.jsonl")
    runner = subprocess.Popen([sys.executable, "-m", "tokenbench.runner", str(room.folder), "--scripts", scripts])
    prefix = Places(room.runs.folder).marker_prefix
    try:
        _until(lambda: [each.name() for each in processes.marked(prefix)].count("sleep") == 2)
    finally:
        runner.kill()
        runner.wait()
    _until(lambda: processes.marked(prefix) == [])


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while True:
        # A process can end between being found and being asked for its name.
        with contextlib.suppress(psutil.Error):
            if condition():
                return
        assert time.monotonic() < deadline
        time.sleep(0.05)


async def test_home_and_folders_have_the_same_paths_in_every_run(room: Room) -> None:
    record, got = await room.tried("native", "echo $HOME $TMPDIR $PWD; hostname; echo $$ > ~/x; ls -A ~ /tmp")
    assert got[0][1].text.startswith("/home/agent /tmp /corpus\nagent\n")
    sealed = json.loads(room.runs.seal.read_text())
    assert sealed["environment"]["HOME"] == "/home/agent"
    assert sealed["sandbox"]["confined"]
    assert str(room.folder) not in json.dumps(sealed["sandbox"])
    assert record.sandbox_told.startswith("bubblewrap ")


NARROW = {
    # What it ran, and whether a quarantine follows.
    "xq block_count": "ran",
    "xq block_count && xq nothing_such": "ran",
    "xq block_count | head -2": "ran",
    "xq block_count 2>&1 | grep return": "ran",
    "xq block_count; xq block_count 1": "ran",
    "cd src && xq block_count": "failed",
    "cat out.txt": "failed",
    "git log": "failed",
    "ls": "leak",
    "xq block_count || ls": "leak",
    "xq block_count; cat /etc/passwd": "denied",
    "xq $(cat /opt/xq/access.json)": "denied",
    "xq `ls`": "denied",
    "xq block_count > out.txt": "denied",
    "xq block_count > /tmp/out.txt": "denied",
    "xq block_count < /queries.jsonl": "denied",
    "xq block_count | tee out.txt": "denied",
    "xq block_count | sh": "denied",
    "xq block_count & ls": "denied",
    "ls /corpus": "denied",
    "cat /opt/xq/access.json": "denied",
    "cat /queries.jsonl": "denied",
    "find / -name blocks.py": "denied",
    "grep -r block /index": "denied",
    "cd /corpus": "denied",
    "env": "denied",
}
"""Each command of an arm that is allowed `Bash(xq:*)` and nothing else; docs/isolation.md holds the same table."""


async def test_what_a_rule_for_xq_lets_through(room: Room) -> None:
    record, got = await room.tried("narrow", *NARROW)
    leaks = {said.partition("something else than xq: ")[2] for said in record.refusals[0].evidence}
    came: dict[str, str] = {}
    for command, (_, result) in zip(NARROW, got, strict=True):
        if command in leaks:
            came[command] = "leak"
        elif result.denied:
            came[command] = "denied"
        else:
            came[command] = "ran" if "block_count" in result.text or SECRET in result.text else "failed"
    assert came == NARROW
    assert record.outcome == "quarantined"
    assert len(record.refusals[0].evidence) == list(NARROW.values()).count("leak")
    page = (Path(__file__).parents[2] / "docs" / "isolation.md").read_text().replace("\\|", "|")
    assert not [each for each in NARROW if f"| `{each}` |" not in page and f"| `` {each} `` |" not in page]


async def test_an_https_api_is_reached_through_a_proxy_that_knows_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLS is the agent's own: the certificate is that of the API's name, which nothing outside resolves."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    folders = launch.Rooms(*(tmp_path / name for name in launch.Rooms._fields))
    for folder in folders:
        folder.mkdir()
    shutil.copy(TLS / "certificate.pem", folders.home)
    cli = launch.find(None, home=folders.temporary, bundle_only=True)
    closed = sandbox.find("required", cli=cli, scratch=tmp_path / "scratch")
    reached: list[str] = []
    dial = asyncio.open_connection

    async def resolved(host: str, port: int, **more: Any) -> Any:
        reached.append(host)
        return await dial("127.0.0.1" if host == "api.test" else host, port, **more)

    builder = LedgerBuilder(transcript="t")

    def observe(lines: list[Line]) -> Live:
        for line in lines:
            builder.feed(line)
        return builder.live()

    async with ScriptedApi(ScriptBook(), clock=SystemClock()) as api:

        async def front(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            onward_reader, onward = await dial("127.0.0.1", urlsplit(api.url).port)
            await asyncio.gather(_pump(reader, onward), _pump(onward_reader, writer), return_exceptions=True)

        async with await asyncio.start_server(front, "127.0.0.1", 0, ssl=server) as tls:
            path = urlsplit(api.open_run(RunKey("cell", "bare", "q1"), tools=(), folder="/empty")).path
            address = f"https://api.test:{tls.sockets[0].getsockname()[1]}{path}"
            arm = Arm(tools=(), prompt="p.md", folder="empty")
            asked = rooms.Asked(arm, "claude-opus-5", Limits(), f"tls-{tmp_path.parent.name}/", KEY, address)
            async with rooms.entered(closed, cli, folders, asked) as start:
                monkeypatch.setattr(asyncio, "open_connection", resolved)
                command = Command(
                    argv=start.argv,
                    environment={**start.environment, "NODE_EXTRA_CA_CERTS": "/home/agent/certificate.pem"},
                    folder=start.outside,
                    handed=start.handed,
                    prompt=b"hello\n",
                    transcript=tmp_path / "out",
                    stderr=tmp_path / "err",
                    marker=f"tls-{tmp_path.parent.name}/",
                )
                ending = await Supervisor(SystemClock()).run(
                    command, Patience(60, 60), observe=observe, interrupt=Interrupt()
                )
    ledger = builder.finish()
    assert (ending.exit_code, ledger.outcome, ledger.answer, ledger.token_reconciled) == (
        0, "answered", "rehearsal", True,
    )  # fmt: skip
    assert set(reached) == {"api.test"}


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        sink.write(data)
        await sink.drain()
    sink.close()
