"""The ledger's parts against the truth: the real agent CLI, and an API that knows the tokens of every block.

Each shape of run is counted twice: by the scripted API's own rule, which is not proportional to characters, and by a
real tokenizer. The rates come from the corpus under the same rule, as `calibrate` would measure them. With `-s` it
prints the table of errors in docs/ledger.md.
"""

import asyncio
import json
import sys
import tarfile
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from real_tokenizer import RealTokenizer

from tokenbench.agents.claude import launch
from tokenbench.clock import SystemClock
from tokenbench.experiment.config import load
from tokenbench.experiment.model import Arm, Limits
from tokenbench.ledger import read_ledger
from tokenbench.ledger.attribution.attribute import attribute
from tokenbench.ledger.attribution.fitting import fit
from tokenbench.ledger.attribution.model import Attribution
from tokenbench.ledger.attribution.rates import SHAPES, Rates
from tokenbench.probes.shapes import Text, texts
from tokenbench.rehearsal import demo
from tokenbench.rehearsal.api import ScriptedApi
from tokenbench.rehearsal.counting import Counter, PieceCounter
from tokenbench.rehearsal.scripts import load_scripts
from tokenbench.rehearsal.served import RunKey, Served, read_log
from tokenbench.retrieval.access import write_access
from tokenbench.retrieval.building import build_index

SUPPORT = Path(__file__).parents[1] / "support"

RULES = ("pieces-1", "anthropic-0.34.2")
SERVER = SUPPORT / "mcp_server.py"
ARCHIVE = Path(__file__).parents[1] / "data/demo/click-8.1.8.tar.gz"
MODEL = "claude-opus-5"
PROMPT = "Where does the program decide what to print?"
GOAL = 0.02
"""Of billed input."""
TRANSCRIPT = "run.jsonl"


class Rule(NamedTuple):
    counter: Counter
    rates: Rates


class Ground(NamedTuple):
    corpus: Path
    index: Path
    rules: Mapping[str, Rule]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    folder = tmp_path_factory.mktemp("truth")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    corpus = folder / "click-8.1.8"
    build_index(corpus, folder / "index", "0" * 64, lambda _: None)
    pieces = texts(corpus, load(Path(demo.__file__).parent))
    counters = (PieceCounter(), RealTokenizer())
    return Ground(corpus, folder / "index", {it.rule_name: Rule(it, rates(it, pieces)) for it in counters})


def rates(counter: Counter, pieces: Sequence[Text]) -> Rates:
    points = [(text.shape, len(text.text), counter.text(text.text)) for text in pieces]
    fitted = {shape: fit([(c, t) for of, c, t in points if of == shape]) for shape in SHAPES}
    return Rates(by_shape={s: rate for s, rate in fitted.items() if rate is not None})


def grep(pattern: str, **more: object) -> dict[str, object]:
    return {"name": "Grep", "input": {"pattern": pattern, "output_mode": "content", "-n": True, **more}}


def read(file: str, **more: object) -> dict[str, object]:
    return {"name": "Read", "input": {"file_path": f"{{corpus}}/{file}", **more}}


def shell(command: str) -> dict[str, object]:
    return {"name": "Bash", "input": {"command": command, "description": "Look it up"}}


def mcp(tool: str, **arguments: object) -> dict[str, object]:
    return {"name": f"mcp__code__{tool}", "input": arguments}


def delegate(prompt: str) -> dict[str, object]:
    return {"name": "Agent", "input": {"description": "Look", "prompt": prompt, "subagent_type": "general-purpose"}}


AGENT_TOOLS = ("Agent", "Grep", "Glob", "Read")


class Shape(NamedTuple):
    """A run of some shape: the steps that the model takes before it answers."""

    steps: Sequence[Mapping[str, object]]
    tools: tuple[str, ...] = ("Grep", "Glob", "Read")
    before: int = 0
    """Runs of the same cell that went before and left their prompts in the cache."""
    mcp: bool = False
    """The agent is given an MCP server."""


def step(*tools: dict[str, object], text: str = "", thinking: str = "", fault: str = "") -> dict[str, object]:
    return {
        "tools": list(tools),
        **({"faults": [{"fault": fault}]} if fault else {}),
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
    "a compaction": Shape(
        [
            step(grep("def main")),
            step(read("src/click/exceptions.py")),
            step(grep("exit_code")),
            step(read("src/click/globals.py")),
            step(grep("import os"), fault="too_long"),
            step(read("src/click/utils.py", limit=150)),
        ]
    ),
    "an MCP tool": Shape(
        [step(mcp("search", word="exit_code")), step(mcp("body", path="src/click/exceptions.py", first=1, last=90))],
        mcp=True,
    ),
    "retrieval": Shape([step(shell(f'xq "{query}"')) for query in ("exit code", "help width")], ("Bash",)),
    "shell": Shape([step(shell("grep -rn exit_code src | head -40")), step(shell("ls src/click"))], ("Bash",)),
}


class Truth(NamedTuple):
    billed: int
    by_group: Tally[str]


def group_of_block(kind: str, tool: str) -> str:
    if kind in ("tool_result", "image"):
        return tool
    if kind in ("assistant", "tool_use"):
        return "own"
    if kind in ("tool", "system", "user"):
        return "prefix and prompt"
    return "thinking" if kind == "thinking" else "unattributed"


def truth(served: Sequence[Served]) -> Truth:
    """What each thing was billed, over all calls.

    Notes of the first request, and of the first after a compaction, are prefix; later ones are not. The only text of
    the user's side is the prompt, and after a compaction the summary.
    """
    found: Tally[str] = Tally()
    summed_up, opening = False, 0
    for call in served:
        if not call.billed:
            continue
        if call.played == "summary":
            found["side"] += call.usage.billed_input
            summed_up, opening = True, 0
            continue
        opening = opening or sum(block.kind == "note" for block in call.prompt)
        notes = 0
        for block in call.prompt:
            group = group_of_block(block.kind, block.tool)
            if block.kind == "user" and summed_up:
                group = "summary"
            if block.kind == "note":
                notes += 1
                group = "prefix and prompt" if notes <= opening else "unattributed"
            found[group] += block.tokens
    return Truth(sum(call.usage.billed_input for call in served), found)


def estimate(found: Attribution) -> tuple[Tally[str], Tally[str]]:
    """Estimated tokens and their bounds, by the same groups."""
    tokens: Tally[str] = Tally()
    bounds: Tally[str] = Tally()
    for part in found.parts:
        match part.kind:
            case "result" | "envelope" | "denied":
                group = part.name
            case "prefix" | "prompt":
                group = "prefix and prompt"
            case "own" | "thinking" | "summary" | "side" | "unattributed":
                group = part.kind
            case _:
                raise AssertionError(part.kind)
        tokens[group] += part.billed
        bounds[group] += part.bound_billed
    return tokens, bounds


@pytest.fixture(scope="module")
def table() -> Iterator[dict[str, list[str]]]:
    """Rows of the table in docs/ledger.md, printed in the end."""
    rows: dict[str, list[str]] = defaultdict(list)
    yield rows
    for name, cells in rows.items():
        print("\n| " + " | ".join([name, *cells]) + " |", end="")


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", SHAPES_OF_RUNS)
async def test_parts_are_what_was_served(
    name: str, rule: str, ground: Ground, tmp_path: Path, table: dict[str, list[str]]
) -> None:
    shape = SHAPES_OF_RUNS[name]
    counter, rates_of_rule = ground.rules[rule]
    script = {"question": "q", "steps": list(shape.steps), "answer": "It is decided in main."}
    (tmp_path / "scripts.jsonl").write_text(json.dumps(script) + "\n")
    allowed = (*shape.tools, *(("mcp__code",) if shape.mcp else ()))
    arm = Arm(tools=shape.tools, prompt="", folder="corpus", allowed=allowed)
    log = tmp_path / "served.jsonl"
    async with ScriptedApi(
        load_scripts(tmp_path / "scripts.jsonl"), clock=SystemClock(), log=log, counter=counter
    ) as api:
        for _ in range(shape.before + 1):
            log.unlink(missing_ok=True)
            url = api.open_run(RunKey("cell", "native", "q"), tools=shape.tools, folder=ground.corpus)
            await run(arm, ground, url, tmp_path, options=mcp_options(ground.corpus) if shape.mcp else ())
    ledger = read_ledger(tmp_path / TRANSCRIPT)
    found = attribute(ledger, rates_of_rule, prompt=len(PROMPT))
    served = truth(read_log(log))

    assert isinstance(found, Attribution)
    assert found.billed_input == served.billed == sum(part.billed for part in found.parts)
    if shape.before:
        assert ledger.call_rows[0].tokens.cache_read > 0
    tokens, bounds = estimate(found)
    errors = {group: tokens[group] - served.by_group[group] for group in {*tokens, *served.by_group}}
    worst = max(sorted(errors), key=lambda group: (abs(errors[group]), group != "unattributed"))
    growth = Tally({row.tool: row.billed for row in found.growth})
    second = max((abs(growth[tool] - served.by_group[tool]) for tool in growth), default=0)
    if rule == RULES[0]:
        table[name] = [str(len(ledger.call_rows))]
    table[name] += [
        f"{served.billed:,}",
        f"{worst} {errors[worst] / served.billed:+.2%} ± {bounds[worst] / served.billed:.1%}",
        f"{second / served.billed:.2%}",
    ]
    for group, error in errors.items():
        assert abs(error) <= GOAL * served.billed, (name, group, tokens[group], served.by_group[group])
        assert abs(error) <= bounds[group], (name, group, tokens[group], served.by_group[group], bounds[group])


def mcp_options(corpus: Path) -> tuple[str, ...]:
    server = {"command": sys.executable, "args": [str(SERVER), str(corpus)]}
    return "--mcp-config", json.dumps({"mcpServers": {"code": server}})


async def run(arm: Arm, ground: Ground, url: str, folder: Path, *, options: Sequence[str]) -> None:
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
        *options,
        stdin=asyncio.subprocess.PIPE,
        stdout=(folder / TRANSCRIPT).open("wb"),
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
