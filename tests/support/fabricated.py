"""An experiment folder made up on disk: transcripts that reconcile, records, journal, seal and composition.

What the runner writes is written here by hand, so that the figures are tested against numbers that are known.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from tokenbench.clock import ManualClock
from tokenbench.experiment import composition, config, seal
from tokenbench.experiment.composition import Composition, Shares
from tokenbench.experiment.model import Cell, Loaded
from tokenbench.experiment.plan import plan_cells
from tokenbench.grading.desk import Desk
from tokenbench.grading.grades import lock_and_open
from tokenbench.grading.items import BlindItem
from tokenbench.grading.verdicts import Decision
from tokenbench.ledger import read_ledger
from tokenbench.runner import reruns
from tokenbench.runner.journal import Journal
from tokenbench.runner.schedule import Job
from tokenbench.transcripts.evidence import Record, Runs, write_record

MODEL = "claude-opus-5-5"
CLASSES = ("lookup", "mechanism", "index_hostile", "lookup", "multi_hop", "prior_hostile")


def question(number: int, question_class: str | None = None) -> dict[str, object]:
    """A question whose right answer holds the number 256 + its own."""
    return {
        "id": f"q{number:02d}",
        "class": question_class or CLASSES[(number - 1) % len(CLASSES)],
        "text": f"How many integers does one block of kind {number} hold?",
        "truth": f"{256 + number} integers (src/block.py).",
        "must": [] if question_class == "canary" else [{"number": 256 + number}],
    }


def right(number: int) -> str:
    """An answer that the rule of `question(number)` lets pass."""
    return f"One block holds {256 + number} integers (src/block.py:7)."


def transcript(
    *,
    answer: str | None,
    tokens: tuple[int, int, int, int] = (5, 1000, 4000, 100),
    message_ids: str = "msg_01real",
    subtype: str = "success",
    result: bool = True,
    first_read: int = 0,
    cost: float = 0.0125,
    off_by: int = 0,
    folder: str = "/srv/corpus",
    model: str = MODEL,
) -> bytes:
    """A stream as claude 2.1.332 prints it: one call that greps, one that answers, and the result.

    Args:
        answer: The final answer; None for a run that was ended by a limit.
        tokens: Fresh input, 5 m cache writes, cache reads, output of the whole run.
        message_ids: How the ids of the two messages begin.
        subtype: Of the result event.
        result: Whether there is a result event.
        first_read: Tokens that the first call read from cache.
        cost: USD.
        off_by: Fresh input tokens that the result's usage lacks of what the calls add up to.
        folder: The working folder that is announced.
        model: The model that answers.
    """
    fresh, written, read, output = tokens
    calls = [(1, written, first_read), (fresh - 1, 0, read - first_read)]

    def usage(fresh: int, written: int, read: int, output: int) -> dict[str, object]:
        return {
            "input_tokens": fresh,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read,
            "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
            "output_tokens": output,
            "service_tier": "standard",
        }

    def assistant(number: int, content: list[dict[str, object]]) -> dict[str, object]:
        message = {
            "id": f"{message_ids}{number:04d}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": content,
            "stop_reason": None,
            "usage": usage(*calls[number - 1], 2),
        }
        return {"type": "assistant", "message": message, "parent_tool_use_id": None, "session_id": "s1"}

    rows: list[dict[str, object]] = [
        {
            "type": "system",
            "subtype": "init",
            "cwd": folder,
            "session_id": "s1",
            "tools": ["Grep", "Read"],
            "mcp_servers": [],
            "model": model,
            "claude_code_version": "2.1.332",
        },
        assistant(1, [{"type": "tool_use", "id": "toolu_1", "name": "Grep", "input": {"pattern": "BLOCK"}}]),
        {
            "type": "user",
            "message": {
                "role": "user",
                "content": [{"tool_use_id": "toolu_1", "type": "tool_result", "content": "src/block.py:7: SIZE = 256"}],
            },
            "parent_tool_use_id": None,
            "session_id": "s1",
        },
        assistant(2, [{"type": "text", "text": answer if answer is not None else "Let me look further."}]),
    ]
    if result:
        end: dict[str, object] = {
            "type": "result",
            "subtype": subtype,
            "is_error": subtype != "success",
            "num_turns": 2,
            "session_id": "s1",
            "total_cost_usd": cost,
            "usage": usage(fresh - off_by, written, read, output),
            "modelUsage": {
                model: {
                    "inputTokens": fresh,
                    "outputTokens": output,
                    "cacheReadInputTokens": read,
                    "cacheCreationInputTokens": written,
                    "webSearchRequests": 0,
                    "costUSD": cost,
                    "contextWindow": 1000000,
                    "cacheCreationEphemeral5mInputTokens": written,
                    "cacheCreationEphemeral1hInputTokens": 0,
                    "costBasis": "list",
                }
            },
            "permission_denials": [],
        }
        if answer is not None and subtype == "success":
            end["result"] = answer
        rows.append(end)
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


class Fabricated:
    """An experiment with a question set, whose runs a test writes.

    Args:
        folder: Where it is made.
        questions: Number of questions, or the questions themselves.
        arms: Their names; the first is the baseline, the second the headline arm.
        repeats: Runs of each arm and question.
        scripted: Whether the seal says that the model is scripted.
        audit_share: Share of the mechanical FAILs that judges get to see.
        measured: Whether it is known what the corpus is made of.
    """

    def __init__(
        self,
        folder: Path,
        *,
        questions: int | list[dict[str, object]] = 4,
        arms: tuple[str, ...] = ("native", "hybrid"),
        repeats: int = 1,
        scripted: bool = False,
        audit_share: float = 0.0,
        measured: bool = True,
    ) -> None:
        self.folder = folder
        self.clock = ManualClock(1_000_000.0)
        self.runs = Runs(folder / "runs")
        rows = questions if isinstance(questions, list) else [question(number) for number in range(1, questions + 1)]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "prompts").mkdir()
        tables = "".join(
            f'[arms.{arm}]\ntools = ["Grep", "Read"]\nprompt = "prompts/{arm}.md"\nallowed = ["Grep", "Read"]\n\n'
            for arm in arms
        )
        for arm in arms:
            (folder / "prompts" / f"{arm}.md").write_text("Answer from what you read.\n")
        (folder / "corpus").mkdir()
        (folder / "tokenbench.toml").write_text(
            f'[experiment]\nname = "fabricated"\nmodel = "{MODEL}"\nrepeats = {repeats}\nseed = 7\n'
            f'baseline = "{arms[0]}"\nheadline_arm = "{arms[1]}"\n\n[corpus]\nkind = "folder"\npath = "corpus"\n\n'
            f"{tables}[grading]\naudit_share = {audit_share}\n"
        )
        (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.runs.prepare()
        self.journal = Journal(self.runs.journal, self.clock)
        loaded = self.loaded
        self.cells = plan_cells(loaded.config, loaded.questions)
        self.scripted = scripted
        self.journal.write("runner_started", pid=1)
        self.journal.write("planned", cells=tuple(cell.name for cell in self.cells))
        seal.write(
            self.runs.seal,
            seal.seal_of(
                loaded,
                scripted=scripted,
                corpus_sha256="c" * 64,
                index_sha256=None,
                template_sha256="e" * 64,
                agents={"claude": "2.1.332"},
                environment={},
                plan=self.cells,
            ),
        )
        if measured:
            composition.write(self.runs.composition, COMPOSITION)

    @property
    def loaded(self) -> Loaded:
        """The experiment as it lies in its folder now."""
        return config.load(self.folder)

    def number(self, cell: Cell) -> int:
        """The number of a cell's question."""
        return int(cell.question[1:])

    def run(
        self,
        cell: Cell,
        answer: str | None,
        *,
        outcome: str = "answered",
        refusals: tuple[object, ...] = (),
        sandbox: bool = True,
        sandbox_told: str = "",
        scripted: bool | None = None,
        started: bool = True,
        seconds: float = 10.0,
        attempt: int = 1,
        **stream: object,
    ) -> None:
        """Write the run that counts for a cell: transcript, record, and the journal's lines."""
        if outcome in ("max_turns", "max_budget"):
            stream.setdefault("subtype", f"error_{outcome}{'_usd' if outcome == 'max_budget' else ''}")
        data = transcript(answer=answer, **stream)  # pyright: ignore[reportArgumentType]
        began = self.clock.now()
        position = self.cells.index(cell) if cell in self.cells else 0
        if started:
            self.journal.write("run_started", cell=cell.name, attempt=attempt, position=position, pid=2)
        self.clock.advance(seconds)
        path = self.runs.transcript(cell)
        path.write_bytes(data)
        record = Record(
            cell=cell.name,
            attempt=attempt,
            position=position,
            outcome=outcome,  # pyright: ignore[reportArgumentType]
            refusals=refusals,  # pyright: ignore[reportArgumentType]
            agent="claude",
            agent_version="2.1.332",
            model=MODEL,
            argv=("claude", "-p"),
            environment=("HOME",),
            folder="/srv/corpus",
            pid=2,
            exit_code=0,
            started=began,
            ended=self.clock.now(),
            scripted=self.scripted if scripted is None else scripted,
            sandbox=sandbox,
            sandbox_told=sandbox_told,
            seal=seal.digest(self.runs.seal),
            transcript_sha256=hashlib.sha256(data).hexdigest(),
            transcript_bytes=len(data),
        )
        write_record(self.runs.record(cell), record)
        self.tell_end(cell, record)

    def tell_end(self, cell: Cell, record: Record) -> None:
        """The journal's line of an ended run."""
        ledger = read_ledger(self.runs.transcript(cell), record=record)
        self.journal.write(
            "run_ended",
            cell=cell.name,
            attempt=record.attempt,
            outcome=record.outcome,
            tokens=ledger.tokens or ledger.lower_bound,
            token_reconciled=ledger.token_reconciled,
            transcript_sha256=record.transcript_sha256,
        )

    def set_aside(self, cell: Cell, reason: str = "") -> None:
        """Begin a rerun: the run that counts for a cell becomes an attempt, as the runner does it."""
        reruns.begin(self.runs, self.journal, Job(cell.arm, cell, self.cells.index(cell)), reason)

    def rerun(self, cell: Cell, answer: str | None, reason: str = "", **run: object) -> None:
        """Set the run of a cell aside and write another one."""
        self.set_aside(cell, reason)
        self.run(cell, answer, attempt=2, **run)  # pyright: ignore[reportArgumentType]

    def attempt(self, cell: Cell, number: int = 1, **stream: object) -> None:
        """Write an attempt that infrastructure ended: its tokens are seen, and it does not count."""
        data = transcript(answer=None, **stream)  # pyright: ignore[reportArgumentType]
        self.runs.attempt(cell, number).write_bytes(data)
        self.journal.write("attempt_failed", cell=cell.name, attempt=number, outcome="infrastructure")

    def run_all(
        self,
        answer: Callable[[Cell], str | None] | None = None,
        tokens: Callable[[Cell], tuple[int, int, int, int]] | None = None,
        *,
        skip: Callable[[Cell], bool] = lambda _cell: False,
        **same: object,
    ) -> None:
        """Write every run in the planned order, right answers unless told otherwise, and end the runner."""
        for cell in self.cells:
            if skip(cell):
                continue
            given = right(self.number(cell)) if answer is None else answer(cell)
            self.run(cell, given, **({"tokens": tokens(cell)} if tokens else {}), **same)  # pyright: ignore[reportArgumentType]
        self.journal.write("runner_ended")

    def desk(self, judge: str) -> Desk:
        """Where a judge sits."""
        return Desk(self.loaded, judge, self.clock)

    def judge(
        self,
        name: str = "ann",
        decide: Callable[[BlindItem], Decision | None] = lambda _item: "correct",
        *,
        only_unjudged: bool = False,
    ) -> None:
        """Have somebody judge what is in the queue; None skips an item."""
        desk = self.desk(name)
        for item in desk.unjudged() if only_unjudged else desk.items:
            self.clock.advance(1.0)
            verdict = decide(item)
            if verdict is not None:
                desk.give(item, verdict, seconds=1.0)

    def open(self, *, force: bool = False) -> None:
        """Lock the queue and open the mapping."""
        self.clock.advance(1.0)
        lock_and_open(self.loaded, self.clock, force=force)
        self.clock.advance(1.0)

    def edit_record(self, cell: Cell, **changes: object) -> None:
        """Rewrite a record by hand, as somebody who wants another number would."""
        path = self.runs.record(cell)
        record = msgspec.json.decode(path.read_bytes(), type=Record)
        write_record(path, msgspec.structs.replace(record, **changes))

    def edit(self, path: Path, change: Callable[[str], str]) -> None:
        """Rewrite a file by hand."""
        path.write_text(change(path.read_text()))


COMPOSITION = Composition(
    corpus_sha256="c" * 64,
    files=46,
    lines=16_604,
    bytes=533_000,
    characters=533_000,
    binary_files=0,
    binary_bytes=0,
    shares=Shares(code=0.62, comments=0.31, prose=0.07, data=0.0, tests=0.38),
    languages=(),
    left_out=(),
)


def judged_by(verdicts: Mapping[str, Decision]) -> Callable[[BlindItem], Decision | None]:
    """Decides by a piece of the answer: the first one that is in it."""

    def decide(item: BlindItem) -> Decision | None:
        return next((verdict for piece, verdict in verdicts.items() if piece in item.answer), None)

    return decide
