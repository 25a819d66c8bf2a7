"""Asking a model through the claude CLI: one process an item, no tools, an empty folder, a private HOME.

Transcripts lie in `runs/judges/<judge>/<item>__a1.jsonl`; what they cost belongs to no arm.
"""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tokenbench.agents.claude import launch
from tokenbench.clock import Clock
from tokenbench.errors import GradingError
from tokenbench.experiment import seal as seals
from tokenbench.experiment.model import AgentSettings, Arm, Limits, Loaded
from tokenbench.grading.counted import judge_folder
from tokenbench.grading.items import BlindItem
from tokenbench.grading.judge import AskModel, Judged, Reply, judge_queue
from tokenbench.grading.verdicts import check_judge
from tokenbench.ledger import read_ledger
from tokenbench.ledger.build import LedgerBuilder
from tokenbench.ledger.model import Live
from tokenbench.rehearsal.demo import SCRIPTS
from tokenbench.runner.places import Places
from tokenbench.runner.prepare import confine, credentials
from tokenbench.runner.rooms import Asked, entered
from tokenbench.runner.sandbox import Confinement
from tokenbench.runner.supervise import Command, Interrupt, Patience, Supervisor
from tokenbench.transcripts.evidence import Runs
from tokenbench.transcripts.lines import Line

JUDGE: Final = Arm(tools=(), prompt="", folder="empty")
"""A judge has no tools: it can look nothing up and reach nothing."""
FIRST_SLOT: Final = 900
"""Slots below it are the runner's."""
PATIENCE: Final = Patience(wall=300.0, silence=120.0)
_TRY: Final = re.compile(r"(?P<item>[0-9a-f]+)__a(?P<number>\d+)")


class ClaudeJudge:
    """Puts each prompt to a claude process of its own.

    Args:
        runs: The results folder.
        judge: The judge's name.
        cli: The CLI to start.
        model: The model to ask for.
        key: The API key; it goes into the environment of the processes and nowhere else.
        address: Opens the API's address for an item; None for the CLI's own.
        leave: Closes an address again.
        clock: For the limits.
        slots: Processes at a time.
        confinement: The sandbox of the processes, or why they have none.
    """

    def __init__(
        self,
        runs: Runs,
        *,
        judge: str,
        cli: launch.Cli,
        model: str,
        key: str,
        address: Callable[[BlindItem], str | None],
        leave: Callable[[str], None] = lambda _url: None,
        clock: Clock,
        slots: int = 1,
        confinement: Confinement,
    ) -> None:
        self._folder = judge_folder(runs, judge, make=True)
        self._judge = judge
        self._cli = cli
        self._model = model
        self._key = key
        self._address = address
        self._confinement = confinement
        self._leave = leave
        self._supervisor = Supervisor(clock)
        self._places = Places(runs.folder)
        self._places.prepare()
        self._slots: asyncio.Queue[int] = asyncio.Queue()
        for slot in range(FIRST_SLOT, FIRST_SLOT + max(1, slots)):
            self._slots.put_nowait(slot)

    async def __call__(self, item: BlindItem, prompt: str) -> Reply:
        """Ask about one item."""
        slot = await self._slots.get()
        url = self._address(item)
        try:
            return await self._ask(item, prompt, slot, url)
        finally:
            if url is not None:
                self._leave(url)
            self._slots.put_nowait(slot)

    async def _ask(self, item: BlindItem, prompt: str, slot: int, url: str | None) -> Reply:
        rooms = self._places.clean(slot)
        transcript = self._next(item.id)
        marker = f"judge/{self._places.id}/{self._judge}/{transcript.stem}/"
        builder = LedgerBuilder(transcript=transcript.name)

        def observe(lines: list[Line]) -> Live:
            for line in lines:
                builder.feed(line)
            return builder.live()

        asked = Asked(JUDGE, self._model, Limits(), marker, self._key, url)
        async with entered(self._confinement, self._cli, rooms, asked) as start:
            command = Command(
                argv=start.argv,
                environment=start.environment,
                folder=start.outside,
                handed=start.handed,
                prompt=prompt.encode("utf-8", "replace"),
                transcript=transcript,
                stderr=transcript.with_suffix(".err"),
                marker=marker,
            )
            ending = await self._supervisor.run(command, PATIENCE, observe=observe, interrupt=Interrupt())
        ledger = read_ledger(transcript)
        if ending.ended_by in ("wall", "silence"):
            return Reply(text=None, ledger=ledger, failure=f"the judge was ended: its limit of {ending.ended_by}")
        if ledger.outcome != "answered" or ledger.answer is None:
            return Reply(text=None, ledger=ledger, failure=f"the judge gave no answer ({ledger.outcome})")
        return Reply(text=ledger.answer, ledger=ledger)

    def _next(self, item: str) -> Path:
        """A new transcript: what an earlier try cost stays."""
        tries = [match for path in self._folder.glob(f"{item}__a*") if (match := _TRY.fullmatch(path.stem))]
        number = max((int(match["number"]) for match in tries), default=0) + 1
        return self._folder / f"{item}__a{number}.jsonl"


def is_scripted(loaded: Loaded) -> bool:
    """Whether the experiment's model is scripted: then its model judge is as well.

    Raises:
        RunsError: There is no seal, so nothing has been run.
    """
    return seals.read(Runs(loaded.runs).seal).scripted


def default_judge(loaded: Loaded, model: str | None) -> str:
    """The name of a model judge: `scripted-judge`, or `judge-` and the model's name.

    Raises:
        RunsError: There is no seal, so nothing has been run.
    """
    if is_scripted(loaded):
        return "scripted-judge"
    return f"judge-{re.sub(r'[^a-z0-9_-]', '-', (model or loaded.config.experiment.model).lower())}"[:40]


def default_scripts(loaded: Loaded) -> Path | None:
    """The scripts that lie in the folder of a rehearsal; None for a real model, or where there are none.

    Raises:
        RunsError: There is no seal, so nothing has been run.
    """
    path = loaded.folder / SCRIPTS
    return path if is_scripted(loaded) and path.is_file() else None


async def judge_with_claude(
    loaded: Loaded,
    *,
    judge: str,
    model: str | None = None,
    scripts: Path | None = None,
    clock: Clock,
    everything: bool = False,
    environment: Mapping[str, str] = os.environ,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Judged:
    """Have a model judge what nobody has decided, through the claude CLI.

    In a scripted experiment the judge is scripted too, and its verdicts say so; no switch changes that.

    Args:
        loaded: The experiment.
        judge: The judge's name.
        model: The model to ask for; None takes the experiment's.
        scripts: Scripts of a scripted judge; None plays the default, which holds no verdict.
        clock: Stamps verdicts and holds limits.
        everything: Judge also what others have decided.
        environment: The operator's, for the key and the address of the API.
        progress: Told after each item how many of how many are through.

    Raises:
        TokenbenchError: No CLI, no key, no seal, a bad name, or files that cannot be written.
    """
    check_judge(judge)
    scripted = is_scripted(loaded)
    if scripts is not None and not scripted:
        raise GradingError(
            "scripts are for rehearsals, and this experiment ran against a real model",
            where=str(scripts),
            remedy="Leave `--scripts` out",
        )
    runs = Runs(loaded.runs)
    key, base_url = credentials(environment, scripted=scripted)
    places = Places(runs.folder)
    places.prepare()
    settings = loaded.config.agents.get("claude", AgentSettings())
    cli = launch.find(settings.path, home=places.clean(FIRST_SLOT).home, bundle_only=scripted)
    confinement = confine(loaded, places, cli, None, search_path=environment.get("PATH"))
    slots = max(1, loaded.config.experiment.concurrency)
    model = model or loaded.config.experiment.model

    async def go(ask: AskModel) -> Judged:
        return await judge_queue(
            loaded,
            ask,
            judge=judge,
            model=model,
            scripted=scripted,
            clock=clock,
            everything=everything,
            concurrency=slots,
            progress=progress,
        )

    if not scripted:
        return await go(
            ClaudeJudge(
                runs,
                judge=judge,
                cli=cli,
                model=model,
                key=key,
                address=lambda _: base_url,
                clock=clock,
                slots=slots,
                confinement=confinement,
            )
        )
    async with _scripted_address(runs, judge, scripts, clock) as (address, leave):
        return await go(
            ClaudeJudge(
                runs,
                judge=judge,
                cli=cli,
                model=model,
                key=key,
                address=address,
                leave=leave,
                clock=clock,
                slots=slots,
                confinement=confinement,
            )
        )


@asynccontextmanager
async def _scripted_address(
    runs: Runs, judge: str, scripts: Path | None, clock: Clock
) -> AsyncGenerator[tuple[Callable[[BlindItem], str], Callable[[str], None]]]:
    """A scripted API for this judge alone: opens and closes an address for each item."""
    from tokenbench.rehearsal.api import ScriptedApi
    from tokenbench.rehearsal.scripts import ScriptBook, load_scripts
    from tokenbench.rehearsal.served import RunKey

    book = load_scripts(scripts) if scripts is not None else ScriptBook()
    log = judge_folder(runs, judge, make=True) / "served.jsonl"
    async with ScriptedApi(book, clock=clock, log=log) as api:

        def open_for(item: BlindItem) -> str:
            return api.open_run(RunKey("judge", judge, item.question), tools=(), folder=str(judge_folder(runs, judge)))

        yield open_for, api.close_run
