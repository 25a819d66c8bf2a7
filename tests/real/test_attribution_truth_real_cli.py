"""The ledger's parts against the truth: the real agent CLI, and an API that knows the tokens of every block.

The counting rule is the scripted API's own, which is not proportional to characters; the rates come from the corpus as
`calibrate` would measure them. docs/ledger.md has the table of errors.
"""

import asyncio
import json
import sys
import tarfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tokenbench.agents.claude import launch
from tokenbench.clock import SystemClock
from tokenbench.experiment.config import load
from tokenbench.experiment.model import Arm, Limits
from tokenbench.ledger import read_ledger
from tokenbench.ledger.attribution.attribute import attribute
from tokenbench.ledger.attribution.model import Attribution
from tokenbench.ledger.attribution.rates import SHAPES, Rates
from tokenbench.probes.fitting import fit
from tokenbench.probes.shapes import texts
from tokenbench.rehearsal import demo
from tokenbench.rehearsal.api import ScriptedApi
from tokenbench.rehearsal.counting import PieceCounter
from tokenbench.rehearsal.scripts import load_scripts
from tokenbench.rehearsal.served import RunKey, Served, read_log
from tokenbench.retrieval.access import write_access
from tokenbench.retrieval.building import build_index

ARCHIVE = Path(__file__).parents[1] / "data/demo/click-8.1.8.tar.gz"
MODEL = "claude-opus-5"
PROMPT = "Where does the program decide what to print?"
GOAL = 0.02
"""Of billed input."""


class Ground(NamedTuple):
    corpus: Path
    index: Path
    rates: Rates


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    folder = tmp_path_factory.mktemp("truth")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    corpus = folder / "click-8.1.8"
    build_index(corpus, folder / "index", "0" * 64, lambda _: None)
    loaded = load(Path(demo.__file__).parent)
    counter = PieceCounter()
    points = [(text.shape, len(text.text), counter.text(text.text)) for text in texts(corpus, loaded)]
    fitted = {shape: fit([(c, t) for of, c, t in points if of == shape]) for shape in SHAPES}
    return Ground(corpus, folder / "index", Rates(by_shape={s: rate for s, rate in fitted.items() if rate is not None}))


def grep(pattern: str, **more: object) -> dict[str, object]:
    return {"name": "Grep", "input": {"pattern": pattern, "output_mode": "content", "-n": True, **more}}


def read(file: str, **more: object) -> dict[str, object]:
    return {"name": "Read", "input": {"file_path": f"{{corpus}}/{file}", **more}}


def shell(command: str) -> dict[str, object]:
    return {"name": "Bash", "input": {"command": command, "description": "Look it up"}}


def delegate(prompt: str) -> dict[str, object]:
    return {"name": "Agent", "input": {"description": "Look", "prompt": prompt, "subagent_type": "general-purpose"}}


AGENT_TOOLS = ("Agent", "Grep", "Glob", "Read")


class Shape(NamedTuple):
    """A run of some shape: the steps that the model takes before it answers."""

    steps: Sequence[Mapping[str, object]]
    tools: tuple[str, ...] = ("Grep", "Glob", "Read")
    before: int = 0
    """Runs of the same cell that went before and left their prompts in the cache."""


def step(*tools: dict[str, object], text: str = "", thinking: str = "") -> dict[str, object]:
    return {
        "tools": list(tools),
        **({"text": text} if text else {}),
        **({"thinking": thinking} if thinking else {}),
    }


THOUGHT = "The exit status is set where the exception is shown, so I should look at the callers of that next. " * 6
SHAPES_OF_RUNS = {
    "one search": Shape([step(grep("def main"))]),
    "one long search": Shape([step(grep("param", head_limit=200))]),
    "one read": Shape([step(read("src/click/exceptions.py"))]),
    "one long read": Shape([step(read("src/click/core.py", limit=900))]),
    "a list": Shape([step({"name": "Glob", "input": {"pattern": "**/*.py"}})]),
    "parallel tools": Shape([step(grep("class "), read("src/click/utils.py", limit=120), grep("import os"))]),
    "repeated reads": Shape([step(read("src/click/utils.py", limit=150))] * 4),
    "tools that fail": Shape(
        [step(read("src/nowhere.py")), step(grep("no such thing anywhere")), step(grep("def main"))]
    ),
    "thinking": Shape(
        [step(grep("exit_code"), thinking=THOUGHT), step(read("src/click/exceptions.py", limit=80), thinking=THOUGHT)]
    ),
    "words between tools": Shape(
        [
            step(grep(name), text=f"I look for {name} next, since it decides what is shown.")
            for name in ("echo", "style")
        ]
    ),
    "thirty turns": Shape(
        [step(grep(f"def {sign}", head_limit=20)) for sign in "abcdefghijklmnopqrstuvwxyz"] + [step(grep("x"))] * 4
    ),
    "a picture": Shape([step(read("docs/_static/click-logo.png")), step(grep("def main"))]),
    "a warm cache": Shape([step(grep("exit_code"))], before=1),
    "a subagent": Shape(
        [step(delegate("Find out where the exit status is set.")), step(grep("def main"))], AGENT_TOOLS
    ),
    "retrieval": Shape([step(shell(f'xq "{query}"')) for query in ("exit code", "help width")], ("Bash",)),
    "shell": Shape([step(shell("grep -rn exit_code src | head -40")), step(shell("ls src/click"))], ("Bash",)),
}


class Truth(NamedTuple):
    billed: int
    by_group: Counter[str]


def group_of_block(kind: str, tool: str) -> str:
    if kind in ("tool_result", "image"):
        return tool
    if kind in ("assistant", "tool_use"):
        return "own"
    if kind in ("tool", "system", "user"):
        return "prefix and prompt"
    return "thinking" if kind == "thinking" else "unattributed"


def truth(served: Sequence[Served]) -> Truth:
    """What each thing was billed, over all calls; notes of the first request are prefix, later ones are not."""
    found: Counter[str] = Counter()
    first = next(call for call in served if call.billed)
    opening = sum(block.kind == "note" for block in first.prompt)
    for call in served:
        notes = 0
        for block in call.prompt if call.billed else ():
            group = group_of_block(block.kind, block.tool)
            if block.kind == "note":
                notes += 1
                group = "prefix and prompt" if notes <= opening else "unattributed"
            found[group] += block.tokens
    return Truth(sum(call.usage.billed_input for call in served), found)


def estimate(found: Attribution) -> tuple[Counter[str], Counter[str]]:
    """Estimated tokens and their bounds, by the same groups."""
    tokens: Counter[str] = Counter()
    bounds: Counter[str] = Counter()
    for part in found.parts:
        match part.kind:
            case "result" | "envelope" | "denied":
                group = part.name
            case "prefix" | "prompt":
                group = "prefix and prompt"
            case "own" | "thinking" | "unattributed":
                group = part.kind
            case _:
                raise AssertionError(part.kind)
        tokens[group] += part.billed
        bounds[group] += part.bound_billed
    return tokens, bounds


@pytest.mark.parametrize("name", SHAPES_OF_RUNS)
async def test_parts_are_what_was_served(name: str, ground: Ground, tmp_path: Path) -> None:
    shape = SHAPES_OF_RUNS[name]
    script = {"question": "q", "steps": list(shape.steps), "answer": "It is decided in main."}
    (tmp_path / "scripts.jsonl").write_text(json.dumps(script) + "\n")
    transcript = tmp_path / "run.jsonl"
    arm = Arm(
        tools=shape.tools, prompt="", folder="corpus", allowed=tuple("Bash" if t == "Bash" else t for t in shape.tools)
    )
    log = tmp_path / "served.jsonl"
    async with ScriptedApi(load_scripts(tmp_path / "scripts.jsonl"), clock=SystemClock(), log=log) as api:
        for _ in range(shape.before + 1):
            log.unlink(missing_ok=True)
            url = api.open_run(RunKey("cell", "native", "q"), tools=shape.tools, folder=ground.corpus)
            await run(arm, ground, url, tmp_path, transcript)
    ledger = read_ledger(transcript)
    found = attribute(ledger, ground.rates, prompt=len(PROMPT))
    served = truth(read_log(log))

    assert isinstance(found, Attribution)
    assert found.billed_input == served.billed == sum(part.billed for part in found.parts)
    if shape.before:
        assert ledger.call_rows[0].tokens.cache_read > 0
    tokens, bounds = estimate(found)
    errors = {group: tokens[group] - served.by_group[group] for group in {*tokens, *served.by_group}}
    worst = max(sorted(errors), key=lambda group: (abs(errors[group]), group != "unattributed"))
    growth = Counter({row.tool: row.billed for row in found.growth})
    second = max((abs(growth[tool] - served.by_group[tool]) for tool in growth), default=0)
    row = (name, len(ledger.call_rows), served.billed, worst, errors[worst] / served.billed, second / served.billed)
    print("TRUTH | {} | {} | {:,} | {} | {:+.2%} | {:.2%} |".format(*row))
    for group, error in errors.items():
        assert abs(error) <= GOAL * served.billed, (name, group, tokens[group], served.by_group[group])
        assert abs(error) <= bounds[group], (name, group, tokens[group], served.by_group[group], bounds[group])


async def run(arm: Arm, ground: Ground, url: str, folder: Path, transcript: Path) -> None:
    rooms = launch.Rooms(*(folder / name for name in launch.Rooms._fields))
    for room in rooms:
        room.mkdir(exist_ok=True)
    if "Bash" in arm.tools and not (rooms.bin / "xq").exists():
        (rooms.bin / "xq").symlink_to(Path(sys.executable).with_name("xq"))
    write_access(folder / "access.json", index=ground.index, log=None)
    environment = launch.environment(
        rooms, arm, run="test", key=launch.DUMMY_KEY, base_url=url, access=folder / "access.json"
    )
    environment["PATH"] = f"{rooms.bin}:{launch.SYSTEM_PATH}"
    environment[launch.ACCESS] = str(folder / "access.json")
    process = await asyncio.create_subprocess_exec(
        *launch.argv(launch.find(None, home=rooms.home, bundle_only=True), arm, MODEL, Limits()),
        stdin=asyncio.subprocess.PIPE,
        stdout=transcript.open("wb"),
        stderr=asyncio.subprocess.DEVNULL,
        env=environment,
        cwd=ground.corpus,
    )
    try:
        await process.communicate(PROMPT.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
