"""A small experiment whose agent is a script that prints captured transcripts."""

import asyncio
import json
import random
import sys
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest

from tokenbench.clock import Clock, SystemClock
from tokenbench.runner import processes
from tokenbench.runner.journal import Entry, JournalReader
from tokenbench.runner.places import BASE_VARIABLE, Places
from tokenbench.runner.schedule import Backoff
from tokenbench.runner.session import Session, Settings
from tokenbench.runner.supervise import Patience
from tokenbench.transcripts.evidence import Record, Runs

FAKE = Path(__file__).with_name("fake_claude.py")
QUICK = Patience(wall=20, silence=20, after_result=0.3, after_term=1, drain=1)


class Lab:
    """An experiment in a folder, and ways to run it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "bench"
        self.corpus = folder / "tree"
        self.runs = Runs(self.folder / "runs")
        self.places = Places(self.runs.folder)
        self.agent = folder / "claude"
        self.environment = {"ANTHROPIC_API_KEY": "sk-ant-a-secret-key"}

    def write(
        self,
        questions: Sequence[str] = ("PLAIN",),
        *,
        arms: Sequence[str] = ("native",),
        repeats: int = 1,
        warmups: int = 0,
        concurrency: int = 1,
        limits: str = "",
        sandbox: str = "off",
    ) -> "Lab":
        """Write the experiment; a question's text tells the fake agent what to do.

        The fake agent reads the captured transcripts and its gates outside, so no sandbox closes around it unless told.
        """
        (self.folder / "prompts").mkdir(parents=True, exist_ok=True)
        self.corpus.mkdir(exist_ok=True)
        (self.corpus / "a.py").write_text("x = 1\n")
        (self.folder / "prompts" / "p.md").write_text("Answer from what you read.\n")
        self.agent.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {FAKE} "$@"\n')
        self.agent.chmod(0o755)
        tables = "".join(
            f'[arms.{arm}]\ntools = ["Grep", "Glob", "Read"]\nallowed = ["Grep", "Glob", "Read"]\n'
            'prompt = "prompts/p.md"\n'
            for arm in arms
        )
        (self.folder / "tokenbench.toml").write_text(
            f'[experiment]\nname = "lab"\nmodel = "claude-opus-5-5"\nrepeats = {repeats}\nwarmups = {warmups}\n'
            f'concurrency = {concurrency}\nsandbox = "{sandbox}"\nbaseline = "{arms[0]}"\nheadline_arm = "{arms[-1]}"\n'
            f'[corpus]\nkind = "folder"\npath = "{self.corpus}"\n'
            f'[agents.claude]\npath = "{self.agent}"\n[limits]\n{limits}\n{tables}'
        )
        (self.folder / "questions.jsonl").write_text(
            "".join(
                json.dumps({"id": f"q{n}", "class": "lookup", "text": text, "truth": "256", "must": [{"number": 256}]})
                + "\n"
                for n, text in enumerate(questions, 1)
            )
        )
        return self

    def session(
        self,
        *,
        clock: Clock | None = None,
        only: Sequence[str] = (),
        rerun: Sequence[str] = (),
        reason: str = "",
        force: bool = False,
        ready: Callable[[], None] = lambda: None,
        patience: Patience = QUICK,
    ) -> Session:
        """A runner in this process."""
        return Session(
            Settings(
                folder=self.folder,
                scripted=False,
                only=tuple(only),
                rerun=tuple(rerun),
                reason=reason,
                force=force,
                backoff=Backoff(first=0.01, longest=0.01) if clock is None else None,
                patience=patience,
            ),
            clock=clock or SystemClock(),
            dice=random.Random(1),
            environment=self.environment,
            ready=ready,
        )

    async def run(self, **settings: object) -> int:
        """Run to the end and return the exit code."""
        return await self.session(**settings).run()

    def journal(self, *events: str) -> list[Entry]:
        """Lines of the journal, of these events if any are named."""
        return [entry for entry in JournalReader(self.runs.journal).new() if not events or entry.event in events]

    def record(self, name: str, folder: str = "") -> Record:
        """The record of that stem."""
        return msgspec.json.decode((self.runs.folder / folder / f"{name}.json").read_bytes(), type=Record)

    def names(self, folder: str = "") -> set[str]:
        """Names of the transcripts and records there."""
        return {path.name for path in (self.runs.folder / folder).glob("*__*") if path.is_file()}

    async def until(self, condition: Callable[[], object], seconds: float = 30) -> None:
        """Wait for a condition on the files."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, [entry for entry in self.journal() if entry.event != "usage"][-5:]
            await asyncio.sleep(0.01)

    async def at_gate(self, count: int = 1) -> None:
        """Until that many cells have printed what comes before their gate."""
        await self.until(lambda: len({entry.cell for entry in self.journal("usage") if entry.calls}) >= count)

    def open_gate(self, name: str = "go") -> None:
        """Let a run go on that waits at this gate."""
        (self.places.folder / name).touch()


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Lab]:
    with TemporaryDirectory(dir="/tmp", prefix="tbw") as work:
        monkeypatch.setenv(BASE_VARIABLE, work)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        made = Lab(tmp_path)
        yield made
        left = processes.marked(made.places.marker_prefix)
        processes.end_marked(made.places.marker_prefix)
        assert left == []
