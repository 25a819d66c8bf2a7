"""The real agent CLI and replies that break off: no published total differs from what was served."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest

from tokenbench.agents.claude import launch
from tokenbench.agents.claude.launch import Cli
from tokenbench.clock import SystemClock
from tokenbench.experiment.model import Arm, Limits
from tokenbench.figures import Code
from tokenbench.ledger import read_ledger
from tokenbench.ledger.model import Ledger, Tokens
from tokenbench.rehearsal.api import ScriptedApi
from tokenbench.rehearsal.scripts import Answer, CellScript, Fault, ScriptBook, Step, ToolCall
from tokenbench.rehearsal.served import RunKey, read_log

PATH = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
CLI = Cli(PATH, "2.1.332", "bundle", (str(PATH),))
TOOLS = ("Grep", "Read")
ARM = Arm(tools=TOOLS, prompt="prompt.md", allowed=TOOLS)
FAULTS = ("broken", "error", "ended")
PLACES = ("nothing", "start", "block", "blocks", "usage")


def script(call: int, fault: Fault) -> CellScript:
    """Three calls of which one breaks off once; each thinks, speaks and, but for the last, calls a tool."""
    faults = [(fault,) if number == call else () for number in range(3)]
    grep = ToolCall("Grep", {"pattern": "BLOCK_SIZE", "output_mode": "content"})
    read = ToolCall("Read", {"file_path": "{corpus}/blocks.py"})
    return CellScript(
        question="q1",
        steps=(
            Step((grep,), thinking="Search first. " * 9, text="I search for it.", faults=faults[0]),
            Step((read,), thinking="Read what is there. " * 9, text="I read it.", faults=faults[1]),
        ),
        answer=Answer("BLOCK_SIZE is 256.", thinking="That is it. " * 9, faults=faults[2]),
    )


async def run(folder: Path, played: CellScript, *, partial: bool) -> tuple[Ledger, Tokens]:
    """The ledger of a run, and what it was served."""
    for name in ("corpus", "home", "tmp"):
        (folder / name).mkdir()
    (folder / "corpus/blocks.py").write_text("BLOCK_SIZE = 256\n")
    arguments = launch.argv(CLI, ARM, "claude-opus-5", Limits())
    if not partial:
        arguments = tuple(argument for argument in arguments if argument != "--include-partial-messages")
    log, transcript = folder / "rehearsal.jsonl", folder / "run.jsonl"
    async with ScriptedApi(ScriptBook((played,)), clock=SystemClock(), log=log) as api:
        url = api.open_run(RunKey("cell", "native", "q1"), tools=TOOLS, folder=folder / "corpus")
        environment: Mapping[str, Any] = launch.sealed_environment(base_url=url)
        with transcript.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=asyncio.subprocess.DEVNULL,
                cwd=folder / "corpus",
                env={
                    **environment,
                    "HOME": str(folder / "home"),
                    "TMPDIR": str(folder / "tmp"),
                    "ANTHROPIC_API_KEY": launch.DUMMY_KEY,
                },
            )
            await process.communicate(b"Where is the block size defined?")
    served = sum((call.usage for call in read_log(log)), Tokens())
    return read_ledger(transcript), served


@pytest.mark.parametrize(
    ("call", "fault", "place"),
    [
        *((1, fault, place) for fault in FAULTS for place in PLACES),
        *((call, "error", "blocks") for call in (0, 2)),
    ],
)
async def test_what_the_runner_starts_publishes_no_wrong_total(
    tmp_path: Path, call: int, fault: Any, place: Any
) -> None:
    found, served = await run(tmp_path, script(call, Fault(fault, after=place)), partial=True)
    if (fault, place) == ("error", "nothing"):
        assert found.tokens == served
    elif place == "usage":
        # What the CLI had not read when the connection closed is lost to it.
        assert found.tokens == served or (fault == "broken" and found.refused(Code.CALLS_UNRECONCILED))
    else:
        assert found.tokens is None
        assert found.refused(Code.CALLS_UNRECONCILED)
        assert found.refusals[0].evidence[0].startswith("line ")


@pytest.mark.parametrize(
    ("fault", "place"), [("broken", "nothing"), ("broken", "start"), ("error", "blocks"), ("ended", "start")]
)
async def test_without_partial_messages_none_is_published_either(tmp_path: Path, fault: Any, place: Any) -> None:
    found, _ = await run(tmp_path, script(1, Fault(fault, after=place)), partial=False)
    assert found.tokens is None


@pytest.mark.parametrize("partial", [False, True])
async def test_partial_messages_change_nothing_of_what_is_asked(tmp_path: Path, partial: bool) -> None:
    found, served = await run(tmp_path, script(-1, Fault("broken")), partial=partial)
    assert found.tokens == served
    assert all(row.output_is_partial is not partial for row in found.call_rows)
