"""`run`, `status`, `pause`, `resume`, `stop` and `cancel`, as somebody without a screen uses them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click import UsageError

from tokenbench_tui.commands.run import _split

DATA = Path(__file__).parents[2] / "data" / "runner"
AGENT = """#!/bin/sh
[ "$1" = --version ] && {{ echo "2.1.332 (Claude Code)"; exit 0; }}
read prompt; read blank; read question
case "$question" in
  *GATE*) while [ ! -e {gate} ]; do sleep 0.02; done;;
  *NOTHING*) echo "no result today" >&2; exit 1;;
esac
sed -e '1s/"tools":\\[[^]]*\\]/"tools":["Grep","Read"]/' \\
    -e "1s#\\"cwd\\":\\"[^\\"]*\\"#\\"cwd\\":\\"$PWD\\"#" {data}/answered.jsonl
"""


class Bench:
    """An experiment whose agent is a shell script, and a clean environment to call the commands in."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder / "bench"
        self.gate = folder / "gate"
        self.environment = dict(environment)
        (self.folder / "prompts").mkdir(parents=True)
        (folder / "tree").mkdir()
        (folder / "tree" / "a.py").write_text("x = 1\n")
        agent = folder / "claude"
        agent.write_text(AGENT.format(gate=self.gate, data=DATA))
        agent.chmod(0o755)
        (self.folder / "prompts" / "p.md").write_text("Answer from what you read.\n")
        (self.folder / "tokenbench.toml").write_text(
            '[experiment]\nname = "bench"\nmodel = "claude-opus-5-5"\nwarmups = 0\nheadline_arm = "native"\n'
            'sandbox = "off"\n'
            f'[corpus]\nkind = "folder"\npath = "{folder / "tree"}"\n[agents.claude]\npath = "{agent}"\n'
            '[limits]\nattempts = 1\n[arms.native]\ntools = ["Grep", "Read"]\nallowed = ["Grep", "Read"]\n'
            'prompt = "prompts/p.md"\n'
        )

    def ask(self, *questions: str) -> "Bench":
        (self.folder / "questions.jsonl").write_text(
            "".join(
                json.dumps({"id": f"q{n}", "class": "lookup", "text": text, "truth": "256", "must": [{"number": 256}]})
                + "\n"
                for n, text in enumerate(questions, 1)
            )
        )
        return self

    def command(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "tokenbench_tui", *words],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )

    def status(self) -> dict[str, object]:
        return json.loads(self.command("status", "--json").stdout)

    def in_background(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "tokenbench_tui", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
        )

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def started(self) -> int:
        journal = self.folder / "runs" / "journal.jsonl"
        return journal.read_text().count('"run_started"') if journal.exists() else 0


@pytest.fixture
def bench(tmp_path: Path) -> Generator[Bench]:
    with TemporaryDirectory(dir="/tmp", prefix="tbw") as work:
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            "TOKENBENCH_WORK": work,
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "ANTHROPIC_API_KEY": "sk-ant-a-secret-key",
        }
        made = Bench(tmp_path, environment)
        yield made
        made.gate.touch()
        made.command("stop", "--now")
        made.until(lambda: "no runner" in made.command("pause").stderr)


def test_run_headless_tells_each_run_in_a_line_and_ends_with_0(bench: Bench) -> None:
    out = bench.ask("PLAIN", "PLAIN").command("run", "--headless")
    assert out.returncode == 0, out.stdout + out.stderr
    lines = out.stdout.splitlines()
    assert lines[-4] == "2 cells planned, 0 of them have run"
    assert lines[-3].startswith("1/2  native__q1__r1  answered  3 calls, ")
    assert lines[-1] == "runner ended: 2 runs were made that count"
    # What was answered is for the judges alone.
    assert "256" not in out.stdout
    again = bench.command("run", "--headless")
    assert again.returncode == 0
    assert again.stdout.splitlines()[-2:] == [
        "2 cells planned, 2 of them have run",
        "runner ended: nothing was left to run",
    ]


def test_a_forecast_stands_before_what_is_left_is_paid_for(bench: Bench) -> None:
    first = bench.ask("PLAIN", "PLAIN", "PLAIN").command("run", "--headless", "--only", "question=q1", "question=q2")
    assert first.stdout.startswith("forecast: unknown.")
    assert "`tokenbench-tui run --only question=q1 repeat=1`" in first.stdout
    second = bench.command("run", "--headless")
    assert second.stdout.startswith("forecast of what is left")
    assert "native: 1 of 3 cells to go from 2 runs" in second.stdout


def test_without_a_terminal_run_is_headless(bench: Bench) -> None:
    assert bench.ask("PLAIN").command("run").returncode == 0


def test_cells_left_over_are_exit_code_1_and_are_named(bench: Bench) -> None:
    out = bench.ask("NOTHING", "PLAIN").command("run", "--headless")
    assert out.returncode == 1
    assert "native__q1__r1  gave up: given up after 1 attempts" in out.stdout
    assert "no result today" in out.stdout


def test_an_error_is_one_sentence_and_exit_code_2(bench: Bench) -> None:
    del bench.environment["ANTHROPIC_API_KEY"]
    out = bench.ask("PLAIN").command("run", "--headless")
    assert out.returncode == 2
    assert "ANTHROPIC_API_KEY is not set" in out.stderr
    assert "Traceback" not in out.stdout + out.stderr


def test_a_part_of_the_cells(bench: Bench) -> None:
    out = bench.ask("PLAIN", "PLAIN", "PLAIN").command("run", "--headless", "--only", "arm=native", "question=q2")
    assert out.returncode == 0
    assert bench.started() == 1
    wrong = bench.command("run", "--only", "question=none")
    assert wrong.returncode == 2
    assert "no question none" in wrong.stderr


def test_a_cell_is_run_again_with_its_reason(bench: Bench) -> None:
    assert bench.ask("PLAIN", "PLAIN").command("run", "--headless").returncode == 0
    out = bench.command("run", "--headless", "--rerun", "native__q1__r1", "--reason", "the disk was full")
    assert out.returncode == 0, out.stdout + out.stderr
    assert "native__q1__r1  is run again: the disk was full" in out.stdout
    assert "2/2  native__q1__r1  answered" in out.stdout
    assert bench.started() == 3
    assert (bench.folder / "runs" / "attempts" / "native__q1__r1__a1.jsonl").exists()
    results = json.loads(bench.command("results", "--json").stdout)
    assert results["apart"]["native"]["attempts"] == 1
    assert [row["cell"] for row in results["runs"] if "RERUN" in row["codes"]] == ["native__q1__r1"]
    assert results["medians"]["native"]["tokens"]["codes"] == ["RERUN"]
    (banner,) = [one["refused"] for one in results["banners"] if one["refused"]["code"] == "RERUN"]
    assert banner["evidence"][0].startswith("native__q1__r1: the disk was full (")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rerun", "native__q1__r1"), "native__q1__r1 has no run that counts"),
        (("--rerun", "native__q7__r1"), "the experiment has no cell native__q7__r1"),
        (("--rerun", "q1"), "q1 is not the name of a cell"),
        (("--reason", "why not"), "go with --rerun CELL"),
        (("--force",), "go with --rerun CELL"),
    ],
)
def test_what_cannot_be_run_again_is_a_sentence(bench: Bench, words: tuple[str, ...], said: str) -> None:
    out = bench.ask("PLAIN").command("run", "--headless", *words)
    assert out.returncode == 2
    assert said in out.stderr
    assert "Traceback" not in out.stdout + out.stderr
    assert bench.started() == 0


def test_what_follows_a_condition_are_conditions_and_the_rest_is_the_folder() -> None:
    assert _split(("question=q", "here"), ("arm=a",)) == (Path("here").resolve(), ("arm=a", "question=q"))
    assert _split((), ()) == (Path.cwd(), ())
    assert _split(("a=b",), ()) == (Path("a=b").resolve(), ())
    with pytest.raises(UsageError):
        _split(("one", "two"), ())


def test_a_runner_is_paused_resumed_watched_and_stopped(bench: Bench) -> None:
    following = bench.ask("GATE", "PLAIN", "PLAIN").in_background("run", "--headless")
    bench.until(lambda: bench.started() == 1)
    assert "Paused" in bench.command("pause").stdout
    status = bench.status()
    assert status["runner"]["state"] == "paused"
    assert status["runs"][0]["cell"] == "native__q1__r1"
    assert "runner paused (pid" in bench.command("status").stdout
    second = bench.command("run", "--headless")
    assert second.returncode == 2
    assert "a runner is at work here already" in second.stderr
    assert "out of the queue" in bench.command("cancel", "native__q3__r1").stdout
    unknown = bench.command("cancel", "native__q9__r1")
    assert unknown.returncode == 2
    assert "native__q9__r1" in unknown.stderr
    bench.gate.touch()
    assert "goes on" in bench.command("resume").stdout
    out, _ = following.communicate(timeout=60)
    assert following.returncode == 1
    assert "native__q3__r1  cancelled: taken out of the queue" in out
    assert bench.status()["cells"]["finished"] == 2


def test_stop_now_ends_the_run_under_way(bench: Bench) -> None:
    following = bench.ask("GATE", "PLAIN").in_background("run", "--headless")
    bench.until(lambda: bench.started() == 1)
    assert "ends its runs" in bench.command("stop", "--now").stdout
    out, _ = following.communicate(timeout=60)
    assert following.returncode == 1
    assert "runner ended" in out
    assert bench.status()["attempts"] == 1


def test_the_runner_goes_on_when_its_follower_is_killed(bench: Bench) -> None:
    following = bench.ask("GATE", "PLAIN").in_background("run", "--headless")
    bench.until(lambda: bench.started() == 1)
    following.kill()
    following.communicate()
    bench.gate.touch()
    bench.until(lambda: bench.status()["runner"]["state"] == "ended")
    assert bench.status()["cells"]["finished"] == 2


def test_a_follower_says_when_the_runner_is_gone(bench: Bench) -> None:
    following = bench.ask("GATE").in_background("run", "--headless")
    bench.until(lambda: bench.started() == 1)
    pid = bench.status()["runner"]["pid"]
    assert isinstance(pid, int)
    os.kill(pid, 9)
    out, _ = following.communicate(timeout=60)
    assert following.returncode == 2
    assert "The runner is gone" in out


@pytest.mark.parametrize("words", [("pause",), ("resume",), ("stop",), ("stop", "--now"), ("cancel", "native__q1__r1")])
def test_without_a_runner_there_is_nothing_to_control(bench: Bench, words: tuple[str, ...]) -> None:
    out = bench.ask("PLAIN").command(*words)
    assert out.returncode == 2
    assert "no runner is at work here" in out.stderr


@pytest.mark.parametrize("words", [("pause",), ("status",), ("run", "--headless"), ("rehearse", "--headless")])
def test_without_an_experiment_nothing_is_made(bench: Bench, tmp_path: Path, words: tuple[str, ...]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    out = bench.command(*words, str(empty))
    assert out.returncode == 2
    assert "tokenbench.toml" in out.stderr
    assert list(empty.iterdir()) == []


def test_status_before_the_first_start(bench: Bench) -> None:
    assert "runner never started" in bench.ask("PLAIN").command("status").stdout
    status = bench.status()
    assert (status["scripted"], status["cost_usd"], status["cells"]["planned"]) == (None, None, 0)
