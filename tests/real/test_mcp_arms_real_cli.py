"""Arms with MCP servers and the real agent CLI: the product's own, one with a command, one over HTTP with a secret."""

import json
import os
import socket
import sys
import tarfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from subprocess import DEVNULL, Popen, run

import pytest

ARCHIVE = Path(__file__).parents[1] / "data/demo/click-8.1.8.tar.gz"
SECRET = "Bearer nothing-an-agent-may-see"
HTTP_SERVER = '''
import socket, sys, uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
server = MCPServer("far", log_level="ERROR")
@server.tool(structured_output=False)
def lookup(word: str) -> str:
    """Look a word up."""
    return "far away: " + word
app = server.streamable_http_app(
    streamable_http_path="/mcp", transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False)
)
async def guarded(scope, receive, send):
    if scope["type"] == "http" and dict(scope["headers"]).get(b"authorization") != sys.argv[2].encode():
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        return
    await app(scope, receive, send)
uvicorn.Server(uvicorn.Config(guarded, log_level="error")).run(sockets=[socket.socket(fileno=int(sys.argv[1]))])
'''
STDIO_SERVER = """#!/usr/bin/python3 -I
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    method = asked.get("method")
    if method == "initialize":
        result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "near", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "mode", "description": "Tell the mode.", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        seen = [path for path in ("/corpus", "%s") if os.path.exists(path)]
        text = "mode " + os.environ.get("NEAR_MODE", "unset") + " sees " + repr(seen)
        result = {"content": [{"type": "text", "text": text}]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.fixture(params=["auto", "off"])
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """An experiment whose model calls each tool once, in a sandbox and without one."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / "bench"
    (folder / "prompts").mkdir(parents=True)
    (folder / "prompts" / "p.md").write_text("Answer from what the tools say.\n")
    question = {"id": "q", "class": "lookup", "text": "Where?", "truth": "There."}
    (folder / "questions.jsonl").write_text(json.dumps(question) + "\n")
    (folder / "tokenbench.toml").write_text(
        f'[experiment]\nname = "mcp"\nmodel = "claude-opus-5"\nbaseline = "own"\nheadline_arm = "own"\nwarmups = 0\n'
        f'sandbox = "{request.param}"\n[corpus]\nkind = "folder"\npath = "{tmp_path / "click-8.1.8"}"\n'
        "[limits]\nattempts = 1\nrun_wall_seconds = 60\n"
    )
    return folder


def add_arm(bench: Path, tool: str, server: str) -> None:
    name = tool.split("__")[1]
    with (bench / "tokenbench.toml").open("a") as file:
        file.write(
            f'[arms.own]\ntools = ["{tool}"]\nallowed = ["{tool}"]\nprompt = "prompts/p.md"\nfolder = "empty"\n'
            f"[arms.own.mcp.{name}]\n{textwrap.dedent(server)}\n"
        )


def rehearse(bench: Path, **environment: str) -> int:
    base = {"HOME": str(bench.parent), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    if "TOKENBENCH_WORK" in os.environ:
        base["TOKENBENCH_WORK"] = os.environ["TOKENBENCH_WORK"]
    done = run(
        [sys.executable, "-m", "tokenbench_tui", "rehearse", "--headless"],
        cwd=bench,
        env={**base, **environment},
        stdin=DEVNULL,
        capture_output=True,
        timeout=100,
        check=False,
        text=True,
    )
    print(done.stdout, done.stderr)
    return done.returncode


def events(bench: Path, kind: str) -> list[dict[str, object]]:
    rows = [json.loads(line) for line in (bench / "runs" / "own__q__r1.jsonl").read_text().splitlines()]
    return [row for row in rows if row["type"] == kind]


def result(bench: Path) -> str:
    (row,) = events(bench, "user")
    content = row["message"]["content"][0]["content"]  # pyright: ignore[reportIndexIssue]
    return content if isinstance(content, str) else content[0]["text"]


def record(bench: Path) -> dict[str, object]:
    return json.loads((bench / "runs" / "own__q__r1.json").read_text())


def test_the_products_own_server_gives_what_xq_gives_and_its_queries_are_kept(bench: Path) -> None:
    step = {"tools": [{"name": "mcp__xq__search", "input": {"query": "exit code", "k": 2}}]}
    script = {"question": "q", "arm": "own", "steps": [step], "answer": "There."}
    (bench / "scripts.jsonl").write_text(json.dumps(script) + "\n")
    add_arm(bench, "mcp__xq__search", 'builtin = "xq"')
    assert rehearse(bench) == 0
    assert result(bench).endswith(" shown\n")
    assert "src/click/" in result(bench)
    (query,) = [json.loads(line) for line in (bench / "runs/queries/own__q__r1.jsonl").read_text().splitlines()]
    assert (query["query"], query["k"], query["exit"]) == ("exit code", 2, 0)
    assert record(bench)["outcome"] == "answered"
    said = json.loads((bench / "runs/servers.json").read_text())
    assert list(said["arms"]["own"]["xq"]["tools"]) == ["search"]
    assert said["deferred"] == {"own": False}
    assert list(json.loads((bench / "runs/seal.json").read_text())["servers"]) == ["own.xq"]


def test_a_server_with_a_command_gets_the_variables_that_it_names(bench: Path, tmp_path: Path) -> None:
    server = tmp_path / "near" / "serve"
    server.parent.mkdir()
    server.write_text(STDIO_SERVER % (tmp_path / "click-8.1.8"))
    server.chmod(0o755)
    add_arm(
        bench,
        "mcp__near__mode",
        f'command = ["{server}"]\nenvironment = ["NEAR_MODE"]\nmounts = ["{server.parent}"]',
    )
    assert rehearse(bench) == 2
    assert rehearse(bench, NEAR_MODE="fast") == 0
    server.write_text(server.read_text().replace("Tell the mode.", "Tell the mode, always."))
    assert rehearse(bench, NEAR_MODE="fast") == 2, "a server that says something else is another instrument"
    confined = record(bench)["sandbox"]
    seen = [] if confined else [str(tmp_path / "click-8.1.8")]
    assert result(bench) == f"mode fast sees {seen!r}"


@pytest.fixture
def far() -> Iterator[str]:
    """The address of a server that refuses whoever does not hold the secret."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        command = [sys.executable, "-c", HTTP_SERVER, str(door.fileno()), SECRET]
        process = Popen(command, pass_fds=(door.fileno(),), stdin=DEVNULL)
        url = f"http://127.0.0.1:{door.getsockname()[1]}/mcp"
    yield url
    process.kill()
    process.wait()


def test_the_headers_of_a_server_reach_it_and_nothing_that_is_kept(bench: Path, far: str) -> None:
    add_arm(bench, "mcp__far__lookup", f'url = "{far}"\nheaders = {{ Authorization = "FAR_AUTHORIZATION" }}')
    assert rehearse(bench, FAR_AUTHORIZATION=SECRET) == 0
    assert result(bench) == "far away: rehearsal"
    for path in (bench / "runs").rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def test_a_server_that_does_not_load_quarantines_the_run_before_it_spends(bench: Path, far: str) -> None:
    add_arm(bench, "mcp__far__lookup", f'url = "{far}"\nheaders = {{ Authorization = "FAR_AUTHORIZATION" }}')
    assert rehearse(bench, FAR_AUTHORIZATION="Bearer wrong") == 1
    assert record(bench)["outcome"] == "quarantined"
    assert record(bench)["ended_by"] == "misannounced"
    assert "MCP servers of the arm did not load: far" in str(record(bench)["refusals"])
    assert json.loads((bench / "runs/servers.json").read_text())["arms"]["own"]["far"]["failed"]
