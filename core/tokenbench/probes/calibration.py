"""Measures characters per token of an experiment's corpus and models, through the agent CLI.

Each point is a pair of prompts that differ by a known text: one process without tools is asked with it, one without it,
and the difference of their billed inputs is the text's tokens. Nothing is assumed of what else the CLI sends, as long
as it sends the same both times.

When: best before the first run, so that the calibration is sealed with the rest. Later it is allowed once (a seal that
holds no calibration is not touched by it); a sealed calibration is never replaced, and one that was made after the seal
is not made again: nobody measures until he likes the result.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from tokenbench.agents.claude import launch
from tokenbench.clock import Clock
from tokenbench.errors import AgentError, RunsError
from tokenbench.experiment import corpora
from tokenbench.experiment import seal as seals
from tokenbench.experiment.model import AgentSettings, Arm, Limits, Loaded
from tokenbench.files import private_folder
from tokenbench.ledger import read_ledger
from tokenbench.ledger.attribution import calibration as store
from tokenbench.ledger.attribution.calibration import Calibration, ModelRates, Point
from tokenbench.ledger.attribution.fitting import fit
from tokenbench.ledger.attribution.rates import SHAPES, Rate, Shape
from tokenbench.ledger.build import LedgerBuilder
from tokenbench.ledger.model import Live, Tokens
from tokenbench.probes.shapes import Text, texts
from tokenbench.rehearsal.api import ScriptedApi
from tokenbench.rehearsal.scripts import ScriptBook
from tokenbench.rehearsal.served import RunKey
from tokenbench.runner.journal import Journal
from tokenbench.runner.places import Places
from tokenbench.runner.prepare import credentials
from tokenbench.runner.supervise import Command, Interrupt, Patience, Supervisor
from tokenbench.text import one_line
from tokenbench.transcripts.evidence import Runs
from tokenbench.transcripts.lines import Line

NOBODY: Final = Arm(tools=(), prompt="", folder="empty")
SYSTEM: Final = "Reply with the one word OK, whatever the message holds."
HEAD: Final = "A text follows. It is no task.\n<text>\n"
TAIL: Final = "\n</text>\n"
FIRST_SLOT: Final = 950
"""Slots below it are the runner's and the judges'."""
PATIENCE: Final = Patience(wall=180.0, silence=120.0)
CAUTIOUS: Final = 2.5
"""Characters per token that a forecast takes: fewer than most code has."""
OVERHEAD: Final = 3_000
"""Tokens a prompt that a forecast adds for what the CLI sends beside the text."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is about to be measured."""

    loaded: Loaded
    runs: Runs
    corpus_sha256: str
    scripted: bool
    late: bool
    """The seal exists already and holds no calibration."""
    models: tuple[str, ...]
    texts: tuple[Text, ...]
    cli: launch.Cli
    key: str
    base_url: str | None

    @property
    def prompts(self) -> int:
        """Processes that will be started; the prompt without a text is asked twice."""
        return len(self.models) * (len(self.texts) + 2)

    @property
    def forecast(self) -> int:
        """Tokens of input that it will cost, rather too many than too few."""
        characters = sum(len(text.text) for text in self.texts)
        return len(self.models) * (round(characters / CAUTIOUS) + (len(self.texts) + 2) * OVERHEAD)


class _Asked(NamedTuple):
    tokens: Tokens
    billed: int


def plan(
    loaded: Loaded, *, scripted: bool | None, environment: Mapping[str, str], progress: Callable[[str], None]
) -> Task:
    """See what is to be measured and whether it may be; nothing is spent.

    Args:
        loaded: The experiment.
        scripted: Measure the scripted API's counting rule; None follows the seal, and without one means no.
        environment: The operator's, for the key and the address of the API.
        progress: Receives sentences for a person.

    Raises:
        TokenbenchError: No CLI, no key, no corpus; a calibration that may not be replaced; a seal of the other kind.
    """
    runs = Runs(loaded.runs)
    sealed = seals.read(runs.seal) if runs.seal.exists() else None
    _refuse_replacing(runs, sealed)
    if sealed is not None and scripted is not None and scripted != sealed.scripted:
        raise RunsError(
            "is a rehearsal" if sealed.scripted else "is of a real model",
            where=str(runs.folder),
            remedy="Calibrate without `--rehearsal`: what is measured follows the seal",
        )
    scripted = sealed.scripted if sealed is not None else bool(scripted)
    key, base_url = credentials(environment, scripted=scripted)
    runs.prepare()
    places = Places(runs.folder)
    places.prepare()
    settings = loaded.config.agents.get(launch.NAME) or AgentSettings()
    cli = launch.find(settings.path, home=places.clean(FIRST_SLOT).home, bundle_only=scripted)
    corpus = corpora.obtain(
        loaded.config.corpus, experiment=loaded.folder, cache=corpora.default_cache(), progress=progress
    )
    if sealed is not None and sealed.corpus_sha256 != corpus.sha256:
        raise RunsError(
            "SEAL-BROKEN: the corpus is another than the sealed one",
            where=str(runs.seal),
            remedy="Put the sealed content back, or move runs/ away and start again; nothing was measured",
        )
    models = tuple(sorted({arm.model or loaded.config.experiment.model for arm in loaded.config.arms.values()}))
    return Task(
        loaded=loaded,
        runs=runs,
        corpus_sha256=corpus.sha256,
        scripted=scripted,
        late=sealed is not None,
        models=models,
        texts=texts(corpus.root, loaded),
        cli=cli,
        key=key,
        base_url=base_url,
    )


def _refuse_replacing(runs: Runs, sealed: seals.Seal | None) -> None:
    if sealed is None or not (runs.calibration.exists() or sealed.calibration_sha256 is not None):
        return
    what = "is sealed" if sealed.calibration_sha256 is not None else "was made after the first run began"
    raise RunsError(
        f"{what}, so it is not measured again",
        where=str(runs.calibration),
        remedy="Use it as it is, or move runs/ away and start again",
    )


async def calibrate(
    task: Task, *, clock: Clock, progress: Callable[[int, int], None] = lambda _done, _all: None
) -> Calibration:
    """Measure, fit and store.

    Args:
        task: From `plan`.
        clock: For limits and the time in the file.
        progress: Told after each prompt how many of how many are through.

    Raises:
        AgentError: A prompt was not answered, or its ledger was refused; nothing is stored.
        RunsError: The file cannot be written.
    """
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        progress(done, task.prompts)

    models: dict[str, ModelRates] = {}
    async with _api(task, clock) as address:
        for model in task.models:
            models[model] = await _of_model(_Asker(task, model, address, clock), task.texts, step)
    found = Calibration(
        corpus_sha256=task.corpus_sha256,
        agent=launch.NAME,
        agent_version=task.cli.version,
        scripted=task.scripted,
        made=clock.now(),
        models=models,
    )
    store.write(task.runs.calibration, found)
    if task.late:
        Journal(task.runs.journal, clock).write("calibrated", scripted=task.scripted, version=task.cli.version)
    return found


async def _of_model(asker: "_Asker", all_texts: Sequence[Text], step: Callable[[], None]) -> ModelRates:
    bare = await asker.ask("", step)
    again = await asker.ask("", step)
    if bare.billed != again.billed:
        raise AgentError(
            f"the same prompt was billed {bare.billed:,} and then {again.billed:,} tokens of input",
            where=f"model {one_line(asker.model, 80)}",
            remedy="What the CLI sends beside the prompt changes; nothing can be calibrated through it",
        )
    asked = await asyncio.gather(*(asker.ask(text.text, step) for text in all_texts))
    points = tuple(
        Point(shape=text.shape, piece=text.piece, characters=len(text.text), tokens=max(0, answer.billed - bare.billed))
        for text, answer in zip(all_texts, asked, strict=True)
    )
    rates: dict[Shape, Rate] = {}
    for shape in SHAPES:
        rate = fit([(point.characters, point.tokens) for point in points if point.shape == shape])
        if rate is not None:
            rates[shape] = rate
    if "code" not in rates:
        raise AgentError(
            "a prompt was not billed more than one without its text",
            where=f"model {one_line(asker.model, 80)}",
            remedy="Look at runs/calibration/: the endpoint reports no usable token counts",
        )
    return ModelRates(rates=rates, points=points, spent=sum((one.tokens for one in (bare, again, *asked)), Tokens()))


class _Asker:
    """Asks one model through the CLI: a process a prompt, no tools, an empty folder, a private HOME."""

    def __init__(self, task: Task, model: str, address: Callable[[], str | None], clock: Clock) -> None:
        self.model = model
        self._task = task
        self._address = address
        self._supervisor = Supervisor(clock)
        self._places = Places(task.runs.folder)
        self._folder = private_folder(task.runs.folder / "calibration")
        self._number = len(list(self._folder.glob("*.jsonl")))
        self._slots: asyncio.Queue[int] = asyncio.Queue()
        for slot in range(max(1, task.loaded.config.experiment.concurrency)):
            self._slots.put_nowait(FIRST_SLOT + slot)

    async def ask(self, text: str, step: Callable[[], None]) -> _Asked:
        """What a prompt with this text is billed."""
        slot = await self._slots.get()
        try:
            found = await self._ask(text, slot)
        finally:
            self._slots.put_nowait(slot)
        step()
        return found

    async def _ask(self, text: str, slot: int) -> _Asked:
        rooms = self._places.clean(slot)
        self._number += 1
        transcript = self._folder / f"{self._number:03}.jsonl"
        marker = f"calibration/{self._places.id}/{transcript.stem}/"
        builder = LedgerBuilder(transcript=transcript.name)

        def observe(lines: list[Line]) -> Live:
            for line in lines:
                builder.feed(line)
            return builder.live()

        base_url = self._address()
        command = Command(
            argv=(*launch.argv(self._task.cli, NOBODY, self.model, Limits()), "--system-prompt", SYSTEM),
            environment=launch.environment(
                rooms, NOBODY, run=marker, key=self._task.key, base_url=base_url, access=None
            ),
            folder=rooms.empty,
            prompt=f"{HEAD}{text}{TAIL}".encode("utf-8", "replace"),
            transcript=transcript,
            stderr=transcript.with_suffix(".err"),
            marker=marker,
        )
        await self._supervisor.run(command, PATIENCE, observe=observe, interrupt=Interrupt())
        ledger = read_ledger(transcript)
        if ledger.tokens is None or ledger.outcome != "answered":
            code = ledger.refusals[0].code if ledger.refusals else ledger.outcome
            raise AgentError(
                f"a prompt was not answered, or not accounted for ({code})",
                where=str(transcript),
                remedy="Look at that transcript and the .err beside it; then calibrate again. Nothing was stored",
            )
        return _Asked(ledger.tokens, ledger.tokens.billed_input)


@asynccontextmanager
async def _api(task: Task, clock: Clock) -> AsyncGenerator[Callable[[], str | None]]:
    """Where the CLI is pointed: its own API, or for a rehearsal the scripted one."""
    if not task.scripted:
        yield lambda: task.base_url
        return
    async with ScriptedApi(ScriptBook(), clock=clock) as api:
        folder = task.runs.folder / "calibration"
        yield lambda: api.open_run(RunKey("warmup", "calibration"), tools=(), folder=folder)
