"""Costs of real runs against the metering API: recomputed, replayed cold and warm; a rehearsal that prices itself."""

import asyncio
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from tokenbench.agents.claude import launch
from tokenbench.clock import SystemClock
from tokenbench.experiment.model import Arm, Limits
from tokenbench.ledger.model import Ledger
from tokenbench.ledger.prices import PriceTable
from tokenbench.ledger.read import read_ledger
from tokenbench.probes.prices import probe
from tokenbench.rehearsal.api import ScriptedApi
from tokenbench.rehearsal.scripts import load_scripts
from tokenbench.rehearsal.served import RunKey

MODEL = "claude-haiku-4-5"
TOLERANCE = Decimal("1e-9")
NATIVE = Arm(tools=("Grep", "Read"), prompt="p.md", allowed=("Grep", "Read"))
SCRIPT = {
    "question": "q1",
    "steps": [
        {"tools": [{"name": "Grep", "input": {"pattern": "SIZE", "path": "{corpus}", "output_mode": "content"}}]},
        {"tools": [{"name": "Read", "input": {"file_path": "{corpus}/blocks.py"}}]},
    ],
    "answer": "SIZE is 256 (blocks.py:1).",
}
TINY = """
[experiment]
name = "tiny"
model = "claude-haiku-4-5"
warmups = 0
headline_arm = "native"
[corpus]
kind = "folder"
path = "tree"
[arms.native]
tools = ["Grep", "Read"]
allowed = ["Grep", "Read"]
prompt = "p.md"
"""


async def played(api: ScriptedApi, cli: launch.Cli, folder: Path, name: str, more: dict[str, str]) -> Path:
    """One run; its transcript."""
    rooms = launch.Rooms(*(folder / room for room in launch.Rooms._fields))
    for room in rooms:
        room.mkdir(exist_ok=True)
    url = api.open_run(RunKey("cell", "native", "q1"), tools=NATIVE.tools, folder=folder / "corpus")
    environment = launch.environment(rooms, NATIVE, run="test", key=launch.DUMMY_KEY, base_url=url, access=None)
    process = await asyncio.create_subprocess_exec(
        *launch.argv(cli, NATIVE, MODEL, Limits()),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**environment, **more},
        cwd=folder / "corpus",
    )
    try:
        output, _ = await process.communicate(launch.prompt("Answer from what you read.", "How large?"))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    path = folder / f"{name}.jsonl"
    path.write_bytes(output)
    return path


def same(one: Decimal | None, other: Decimal | None) -> bool:
    assert one is not None
    assert other is not None
    return abs(one - other) <= TOLERANCE


@pytest.mark.parametrize("hour", [False, True], ids=["5m", "1h"])
async def test_replaying_a_cold_run_gives_the_cost_of_the_warm_one_and_the_other_way_round(
    hour: bool, tmp_path: Path
) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "blocks.py").write_text("SIZE = 256\n" * 40)
    (tmp_path / "scripts.jsonl").write_text(json.dumps(SCRIPT))
    (tmp_path / "version").mkdir()
    cli = launch.find(None, home=tmp_path / "version", bundle_only=True)
    table: PriceTable = (await probe(cli, [MODEL], clock=SystemClock())).table
    more = {"ENABLE_PROMPT_CACHING_1H": "1"} if hour else {}

    async with ScriptedApi(load_scripts(tmp_path / "scripts.jsonl"), clock=SystemClock(), minimum_prefix=1024) as api:
        paths = [await played(api, cli, tmp_path, name, more) for name in ("cold", "warm")]
    cold, warm = (read_ledger(path, prices=table) for path in paths)

    for ledger in (cold, warm):
        assert ledger.calls == 3
        assert ledger.cost_reconciled is True
        assert same(ledger.cost_usd.recomputed, ledger.cost_usd.reported)
    assert first_read(cold) == 0
    assert first_read(warm) > 1_000
    assert (cold.tokens is not None and cold.tokens.cache_write_1h > 0) is hour
    assert cold.cost_usd.reported != warm.cost_usd.reported
    assert same(cold.cost_usd.warm, warm.cost_usd.reported)
    assert same(warm.cost_usd.cold, cold.cost_usd.reported)
    assert same(cold.cost_usd.cold, cold.cost_usd.reported)
    assert same(warm.cost_usd.warm, warm.cost_usd.reported)


def first_read(ledger: Ledger) -> int:
    return ledger.call_rows[0].tokens.cache_read


def test_a_rehearsal_probes_its_prices_and_every_run_costs_what_the_cli_says(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "blocks.py").write_text("SIZE = 256\n")
    (tmp_path / "p.md").write_text("Answer from what you read.\n")
    (tmp_path / "tokenbench.toml").write_text(TINY)
    (tmp_path / "questions.jsonl").write_text(
        json.dumps({"id": "q1", "class": "lookup", "text": "How large?", "truth": "256", "must": [{"number": 256}]})
    )
    (tmp_path / "scripts.jsonl").write_text(json.dumps(SCRIPT))

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tokenbench_tui", *words, str(tmp_path)],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
            timeout=100,
        )

    told = call("rehearse", "--headless")
    assert told.returncode == 0, told.stderr

    ledger = subprocess.run(
        [sys.executable, "-m", "tokenbench_tui", "ledger", "--json", str(tmp_path / "runs" / "native__q1__r1.jsonl")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    found = json.loads(ledger.stdout)
    assert (found["cost_reconciled"], found["refusals"]) == (True, [])
    assert same(Decimal(found["cost_usd"]["recomputed"]), Decimal(found["cost_usd"]["reported"]))

    shown = call("prices")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "claude-haiku-4-5  (claude " in shown.stdout
