"""`prices` as a command: the table, how to make one, and `ledger --prices`."""

import json
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from priced import proved_table

from tokenbench.ledger.prices import ModelPrices, Rates, Row, write

DATA = Path(__file__).parents[2] / "data"
STREAM = DATA / "streams" / "claude-2.1.332" / "normal3.jsonl"
D = Decimal
OPUS = Rates(D(4), D(5), D(8), D("0.2"), D(20), D("0.01"))
DOUBLE = Rates(D(8), D(10), D(16), D("0.4"), D(40), D("0.01"))
TABLE = proved_table(
    ModelPrices(
        model="claude-opus-5-5",
        agent="claude",
        agent_version="2.1.332",
        rows=(
            Row(0, "standard", "", OPUS),
            Row(0, "fast", "", OPUS),
            Row(100_000, "standard", "", DOUBLE),
            Row(100_000, "fast", "", DOUBLE),
        ),
        plain_regions=("global", "not_available"),
    )
)


def call(command: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tokenbench_tui", command, *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    """An experiment of which nothing has run."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.py").write_text("x = 1\n")
    (tmp_path / "p.md").write_text("Answer.\n")
    (tmp_path / "questions.jsonl").write_text(
        json.dumps({"id": "q1", "class": "lookup", "text": "Where?", "truth": "a.py", "must": [{"word": "a.py"}]})
        + "\n"
    )
    (tmp_path / "tokenbench.toml").write_text(
        '[experiment]\nname = "bench"\nmodel = "claude-opus-5-5"\nheadline_arm = "native"\n'
        '[corpus]\nkind = "folder"\npath = "tree"\n[arms.native]\ntools = ["Read"]\nprompt = "p.md"\n'
    )
    return tmp_path


def test_without_a_table_it_says_how_to_make_one(bench: Path) -> None:
    told = call("prices", bench)
    assert told.returncode == 2
    assert told.stdout == ""
    assert "`tokenbench-tui prices --probe`" in told.stderr


def test_the_table_is_shown_tier_by_tier(bench: Path) -> None:
    (bench / "runs").mkdir()
    write(bench / "runs" / "prices.json", TABLE)
    told = call("prices", bench)
    assert (told.returncode, told.stderr) == (0, "")
    lines = told.stdout.splitlines()
    assert lines[2] == "claude-opus-5-5  (claude 2.1.332)"
    assert lines[3].split() == ["prompt", "speed", "region", "input", "output", "read", "5m", "1h", "search"]
    assert lines[4].split() == ["≤", "100,000", "standard", "none", "4", "20", "0.2", "5", "8", "0.01"]
    assert lines[5].split() == ["≤", "100,000", "fast", "none", "4", "20", "0.2", "5", "8", "0.01"]
    assert lines[6].split() == [">", "100,000", "standard", "none", "8", "40", "0.4", "10", "16", "0.01"]
    assert "probed on 1970-01-01: 30 bills, prompts up to 2,000,000 tokens" in told.stdout
    assert "as no region: global, not_available" in told.stdout
    assert max(map(len, lines)) <= 80


def test_the_json_is_the_table_as_the_ledger_reads_it(bench: Path, tmp_path: Path) -> None:
    (bench / "runs").mkdir()
    write(bench / "runs" / "prices.json", TABLE)
    file = tmp_path / "table.json"
    file.write_text(call("prices", bench, "--json").stdout)

    told = call("ledger", STREAM, "--prices", file, "--json")

    found = json.loads(told.stdout)
    assert found["cost_reconciled"] is True
    assert Decimal(found["cost_usd"]["recomputed"]) == Decimal(found["cost_usd"]["reported"])
    assert not found["refusals"]


def test_one_model_of_the_table(bench: Path) -> None:
    (bench / "runs").mkdir()
    write(bench / "runs" / "prices.json", TABLE)
    assert call("prices", bench, "--model", "claude-opus-5-5[1m]").returncode == 0
    told = call("prices", bench, "--model", "claude-opus-5")
    assert told.returncode == 1
    assert "no price of claude-opus-5:" in told.stderr


def test_a_price_that_was_edited_by_hand_is_refused_and_says_what_to_do(bench: Path) -> None:
    path = bench / "runs" / "prices.json"
    path.parent.mkdir()
    write(path, TABLE)
    path.write_text(path.read_text().replace('"output": "20"', '"output": "2"'))
    told = call("prices", bench)
    assert (told.returncode, told.stdout) == (2, "")
    assert "the CLI charged" in told.stderr
    assert "`tokenbench-tui prices --probe`" in told.stderr
    assert "Traceback" not in told.stderr
    assert call("ledger", STREAM, "--prices", path).returncode == 2


@pytest.mark.parametrize("damage", ["", "{", '{"models": 1}'])
def test_a_damaged_table_is_one_sentence(bench: Path, damage: str) -> None:
    (bench / "runs").mkdir()
    (bench / "runs" / "prices.json").write_text(damage)
    told = call("prices", bench)
    assert told.returncode == 2
    assert "is no price table" in told.stderr
    assert len(told.stderr.strip().splitlines()) == 1


def test_a_table_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    told = call("ledger", STREAM, "--prices", tmp_path / "nothing.json")
    assert told.returncode == 2
    assert "no such file" in told.stderr


def test_the_ledger_takes_the_table_of_the_transcripts_experiment(tmp_path: Path) -> None:
    shutil.copy(STREAM, tmp_path / "native__q1__r1.jsonl")
    (tmp_path / "seal.json").write_text("{}")
    write(tmp_path / "prices.json", TABLE)
    told = call("ledger", tmp_path / "native__q1__r1.jsonl", "--json")
    assert json.loads(told.stdout)["cost_reconciled"] is True


def test_a_probe_makes_the_table_and_names_what_has_no_price(bench: Path) -> None:
    config = bench / "tokenbench.toml"
    from tokenbench.agents.claude.launch import bundle

    config.write_text(config.read_text() + f'[agents.claude]\npath = "{bundle()}"\n')

    told = call(
        "prices",
        bench,
        "--probe",
        "--model",
        "claude-haiku-4-5",
        "--model",
        "claude-nope-9",
        "--model",
        "claude-opus-4-1",
    )

    assert told.returncode == 1
    assert "claude-haiku-4-5  (claude " in told.stdout
    assert "no price of claude-nope-9" in told.stderr
    assert "claude-opus-4-1 is no model of its own: the CLI sends and bills claude-opus-5-5" in told.stderr
    assert "claude-opus-5-5  (claude " in told.stdout
    assert call("prices", bench, "--model", "claude-haiku-4-5").returncode == 0
