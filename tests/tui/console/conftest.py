"""A laboratory for the console: an experiment folder whose runs, journal and verdicts a test writes step by step."""

import asyncio
import hashlib
import json
import socket
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from calibrated import proved_rates
from priced import proved_table
from textual.pilot import Pilot

from tokenbench.clock import ManualClock
from tokenbench.experiment import config, seal
from tokenbench.experiment.model import Cell, Loaded
from tokenbench.experiment.plan import plan_cells
from tokenbench.ledger import prices, read_ledger
from tokenbench.ledger.attribution import calibration
from tokenbench.ledger.attribution.calibration import Calibration
from tokenbench.ledger.prices import ModelPrices, Rates, Row
from tokenbench.runner import processes
from tokenbench.runner.journal import Journal
from tokenbench.transcripts.evidence import Record, Runs, write_record
from tokenbench_tui.console.app import TokenbenchApp
from tokenbench_tui.console.bench import open_bench

ARMS = {"native": ("Grep", "Glob", "Read"), "hybrid": ("Bash", "Grep", "Glob", "Read"), "retrieval": ("Bash",)}
START = 1_800_000_000.0


def question(name: str, kind: str = "lookup", text: str = "How many?", truth: str = "256", note: str = "") -> dict:
    return {"id": name, "class": kind, "text": text, "truth": truth, "judge_note": note}


QUESTIONS = [question("q1"), question("q2", "index_hostile"), question("q3")]


def stream(
    answer: str, *, calls: int = 3, tool: str = "Read", ended: bool = True, off_by: int = 0, first_read: int = 0
) -> bytes:
    """What the claude CLI prints for a run of that many calls; `off_by` makes its own total wrong.

    `first_read` tokens are read from cache by the first call, at half a dollar a million.
    """
    cost = round(0.02 + first_read * 0.5e-6, 6)
    lines: list[dict] = [
        {"type": "system", "subtype": "init", "cwd": "/corpus", "session_id": "s", "tools": [tool], "mcp_servers": [],
         "model": "claude-opus-4-8", "claude_code_version": "2.1.332", "uuid": "u0"}
    ]  # fmt: skip
    total = {"input": 0, "write": 0, "read": 0, "out": 0}
    for number in range(1, calls + 1):
        read = 4000 * (number - 1) if number > 1 else first_read
        usage = {
            "input_tokens": 3,
            "cache_creation_input_tokens": 1000,
            "cache_read_input_tokens": read,
            "cache_creation": {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 2,
        }
        total = {
            "input": total["input"] + 3,
            "write": total["write"] + 1000,
            "read": total["read"] + read,
            "out": total["out"] + 50,
        }
        last = number == calls
        block = (
            {"type": "text", "text": answer}
            if last
            else {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": {"file_path": "a.py"}}
        )
        lines.append(
            {"type": "assistant", "parent_tool_use_id": None, "session_id": "s", "uuid": f"a{number}",
             "request_id": f"req_{number}",
             "message": {"id": f"msg_scripted_{number}", "type": "message", "role": "assistant",
                         "model": "claude-opus-4-8", "content": [block], "stop_reason": None, "usage": usage}}
        )  # fmt: skip
        if not last:
            result = {"tool_use_id": f"toolu_{number}", "type": "tool_result", "content": "1\tx = 256"}
            lines.append(
                {"type": "user", "parent_tool_use_id": None, "session_id": "s", "uuid": f"r{number}",
                 "message": {"role": "user", "content": [result]}}
            )  # fmt: skip
    if ended:
        lines.append(
            {"type": "result", "subtype": "success", "is_error": False, "num_turns": calls, "result": answer,
             "session_id": "s", "uuid": "z", "total_cost_usd": cost, "permission_denials": [],
             "usage": {"input_tokens": total["input"] + off_by, "cache_creation_input_tokens": total["write"],
                       "cache_read_input_tokens": total["read"], "output_tokens": total["out"],
                       "cache_creation": {"ephemeral_5m_input_tokens": total["write"],
                                          "ephemeral_1h_input_tokens": 0}},
             "modelUsage": {"claude-opus-4-8": {"inputTokens": total["input"], "outputTokens": total["out"],
                                                "cacheReadInputTokens": total["read"],
                                                "cacheCreationInputTokens": total["write"], "costUSD": cost}}}
        )  # fmt: skip
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


class Lab:
    """An experiment in a folder, at a time that stands still unless a test moves it."""

    def __init__(self, folder: Path, questions: list[dict], repeats: int, name: str) -> None:
        self.folder = folder
        self.clock = ManualClock(START)
        (folder / "prompts").mkdir(parents=True)
        (folder / "corpus").mkdir()
        (folder / "corpus" / "a.py").write_text("x = 256\n")
        text = (
            f"[experiment]\nname = {json.dumps(name)}\nmodel = 'claude-opus-4-8'\nrepeats = {repeats}\n"
            "concurrency = 3\n[limits]\nexperiment_usd = 40\n[corpus]\nkind = 'folder'\npath = 'corpus'\n"
        )
        for arm, tools in ARMS.items():
            (folder / "prompts" / f"{arm}.md").write_text("Answer from what you read.\n")
            text += f"[arms.{arm}]\ntools = {json.dumps(tools)}\nprompt = 'prompts/{arm}.md'\n"
            text += "allowed = ['Bash(xq:*)']\nretrieval = true\n" if "Bash" in tools else ""
        (folder / "tokenbench.toml").write_text(text)
        (folder / "questions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in questions))
        self.loaded: Loaded = config.load(folder)
        self.runs = Runs(self.loaded.runs)
        self.runs.prepare()
        self.journal = Journal(self.runs.journal, self.clock)
        self.cells = plan_cells(self.loaded.config, self.loaded.questions)

    def begin(self, *, scripted: bool = True, alive: bool = True) -> None:
        """A runner starts, seals and plans."""
        sealed = seal.seal_of(
            self.loaded,
            scripted=scripted,
            corpus_sha256="c" * 64,
            index_sha256=None,
            template_sha256="t" * 64,
            agents={"claude": "2.1.332"},
            environment={},
            plan=self.cells,
        )
        seal.write(self.runs.seal, sealed)
        if alive:
            me = processes.identity(processes.os.getpid()) or ""
            owner = {"pid": processes.os.getpid(), "host": socket.gethostname(), "started": START, "identity": me}
            self.runs.lock.write_text(json.dumps(owner) + "\n")
        self.journal.write("runner_started", pid=4711, scripted=scripted)
        self.journal.write("planned", cells=[cell.name for cell in self.cells])
        self.journal.write("sealed")

    def start(self, cell: Cell, attempt: int = 1) -> None:
        """A run starts."""
        position = self.cells.index(cell)
        self.journal.write("run_started", cell=cell.name, attempt=attempt, position=position, pid=1)

    def grow(self, cell: Cell, data: bytes) -> None:
        """The transcript of a run under way grows."""
        with self.runs.partial(cell).open("ab") as file:
            file.write(data)

    def close(self, cell: Cell, transcript: bytes, *, outcome: str = "answered", seconds: float = 9.0) -> None:
        """A run ends and is recorded."""
        path = self.runs.transcript(cell)
        path.write_bytes(transcript)
        self.runs.partial(cell).unlink(missing_ok=True)
        now = self.clock.now()
        record = Record(
            cell=cell.name, attempt=1, position=self.cells.index(cell), outcome=outcome, agent="claude",
            agent_version="2.1.332", model="claude-opus-4-8", argv=("claude",), environment=(), folder="/corpus",
            pid=1, exit_code=0, started=now - seconds, ended=now, scripted=True, sandbox=False,
            seal=seal.digest(self.runs.seal), transcript_bytes=len(transcript),
            transcript_sha256=hashlib.sha256(transcript).hexdigest(),
        )  # fmt: skip
        write_record(self.runs.record(cell), record)
        ledger = read_ledger(path, record=record)
        self.journal.write(
            "run_ended", cell=cell.name, attempt=1, outcome=outcome, token_reconciled=ledger.token_reconciled,
            codes=tuple(refusal.code for refusal in ledger.refusals), calls=ledger.calls, turns=ledger.turns,
            tokens=ledger.tokens or ledger.lower_bound, cost_usd=ledger.cost_usd.reported or Decimal("0.02"),
            first_read_share=0.0, seconds=seconds,
        )  # fmt: skip

    def price(self) -> None:
        """Put a price table into `runs/` by which a run of three calls costs what it says."""
        rates = Rates(Decimal(5), Decimal(3), Decimal(6), Decimal("0.5"), Decimal("33.0333333"), Decimal("0.01"))
        rows = (Row(0, "standard", "", rates),)
        entry = ModelPrices(model="claude-opus-4-8", agent="claude", agent_version="2.1.332", rows=rows)
        prices.write(self.runs.prices, proved_table(entry))

    def calibrate(self) -> None:
        """Put a calibration into `runs/` that fits the experiment."""
        rates = proved_rates(2.5)
        fitting = Calibration(
            corpus_sha256="c" * 64, agent="claude", agent_version="2.1.332", scripted=True, made=START,
            models={"claude-opus-4-8": rates},
        )  # fmt: skip
        calibration.write(self.runs.calibration, fitting)

    def finish(
        self,
        answer: Callable[[Cell], str] = lambda cell: f"It is 256 ({cell.question}), a.py:1",
        warm: str = "",
    ) -> None:
        """Every cell that has no run yet gets one, and the runner ends; runs of the arm that is named begin warm."""
        for cell in self.cells:
            if not self.runs.record(cell).exists():
                self.start(cell)
                first_read = 3_000 if cell.arm == warm else 0
                self.close(cell, stream(answer(cell), tool=ARMS[cell.arm][0], first_read=first_read))
        self.journal.write("runner_ended", reason="every cell has run")
        self.runs.lock.write_text("")

    def app(self, *, ascii_only: bool = False, start: Callable[[], object] | None = None) -> TokenbenchApp:
        """The console on it."""
        return TokenbenchApp(open_bench(self.folder, self.clock), self.clock, ascii_only=ascii_only, start=start)


@pytest.fixture
def make_lab(tmp_path: Path) -> Callable[..., Lab]:
    """Makes a laboratory."""

    def make(questions: list[dict] | None = None, repeats: int = 1, name: str = "bench") -> Lab:
        return Lab(tmp_path / "experiment", questions or QUESTIONS, repeats, name)

    return make


@pytest.fixture
def lab(make_lab: Callable[..., Lab]) -> Lab:
    """Three questions, three arms, nothing run yet."""
    return make_lab()


@pytest.fixture
def until() -> Callable[..., object]:
    """Waits for a condition, however long that takes on a slow machine; the laboratory's time flows meanwhile."""

    async def wait(pilot: Pilot, condition: Callable[[], bool], what: str = "") -> None:
        for _ in range(400):
            if condition():
                await pilot.pause()
                return
            await pilot.pause()
            pilot.app.clock.advance(0.05)
            await asyncio.sleep(0.02)
        raise AssertionError(f"did not happen: {what or condition}\n{screen_text(pilot)}")

    return wait


def screen_text(pilot: Pilot) -> str:
    """What stands on the terminal, as text."""
    app = pilot.app
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


@pytest.fixture
def shown() -> Callable[[Pilot], str]:
    """What stands on the terminal, as text."""
    return screen_text


@pytest.fixture
def transcript() -> Callable[..., bytes]:
    """What the claude CLI prints for a run."""
    return stream
