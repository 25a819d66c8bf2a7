"""The real agent CLI against the scripted API: what the CLI reports is what was served, to the token."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest

from tokenbench.clock import SystemClock
from tokenbench.ledger.model import Tokens
from tokenbench.rehearsal.api import ScriptedApi
from tokenbench.rehearsal.scripts import load_scripts
from tokenbench.rehearsal.served import RunKey, Served, read_log

CLI = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
MODEL = "claude-opus-5"
NATIVE = ("Grep", "Glob", "Read")


@dataclass
class AgentRun:
    """What one process of the CLI printed."""

    exit_code: int
    events: list[dict[str, Any]]

    @property
    def result(self) -> dict[str, Any]:
        return next(event for event in reversed(self.events) if event["type"] == "result")

    @property
    def usage(self) -> Tokens:
        usage = self.result["usage"]
        return Tokens.of(
            input=usage["input_tokens"],
            cache_write_5m=usage["cache_creation"]["ephemeral_5m_input_tokens"],
            cache_write_1h=usage["cache_creation"]["ephemeral_1h_input_tokens"],
            cache_read=usage["cache_read_input_tokens"],
            output=usage["output_tokens"],
        )

    @property
    def of_model(self) -> Tokens:
        usage = self.result["modelUsage"][MODEL]
        return Tokens.of(
            input=usage["inputTokens"],
            cache_write_5m=usage["cacheCreationEphemeral5mInputTokens"],
            cache_write_1h=usage["cacheCreationEphemeral1hInputTokens"],
            cache_read=usage["cacheReadInputTokens"],
            output=usage["outputTokens"],
        )


@dataclass
class Stage:
    """A corpus, a HOME, a script and the API that plays it."""

    folder: Path
    api: ScriptedApi
    log: Path

    @property
    def corpus(self) -> Path:
        return self.folder / "corpus"

    def served(self) -> tuple[Served, ...]:
        return read_log(self.log)

    async def run(
        self,
        key: RunKey,
        *,
        tools: Sequence[str] = NATIVE,
        allowed: Sequence[str] = NATIVE,
        disallowed: Sequence[str] = ("WebSearch", "WebFetch", "Task"),
        environment: Mapping[str, str] | None = None,
        prompt: str = "Where is the block size defined?",
    ) -> AgentRun:
        url = self.api.open_run(key, tools=tuple(tools), folder=self.corpus)
        process = await asyncio.create_subprocess_exec(
            str(CLI),
            *("-p", "--output-format", "stream-json", "--verbose", "--model", MODEL),
            *("--tools", ",".join(tools)),
            *(("--allowedTools", ",".join(allowed)) if allowed else ()),
            *("--disallowedTools", ",".join(disallowed)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=self.corpus,
            env={
                "HOME": str(self.folder / "home"),
                "TMPDIR": str(self.folder / "tmp"),
                "PATH": "/usr/bin:/bin",
                "LANG": "C.UTF-8",
                "ANTHROPIC_BASE_URL": url,
                "ANTHROPIC_API_KEY": "sk-ant-dummy",
                "DISABLE_AUTOUPDATER": "1",
                "DISABLE_TELEMETRY": "1",
                "DISABLE_ERROR_REPORTING": "1",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                **(environment or {}),
            },
        )
        try:
            output, _ = await process.communicate(prompt.encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        self.api.close_run(url)
        assert process.returncode is not None
        return AgentRun(process.returncode, [json.loads(line) for line in output.splitlines()])


Prepare = Callable[[Sequence[Mapping[str, object]]], Any]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Prepare]:
    """Opens a stage for a script."""
    started: list[ScriptedApi] = []

    async def prepare(script: Sequence[Mapping[str, object]]) -> Stage:
        for folder in ("corpus/src", "home", "tmp"):
            (tmp_path / folder).mkdir(parents=True)
        (tmp_path / "corpus/src/blocks.py").write_text("# sizes\n\nBLOCK_SIZE = 256\nHALF = BLOCK_SIZE // 2\n")
        path = tmp_path / "scripts.jsonl"
        path.write_text("\n".join(map(json.dumps, script)))
        api = ScriptedApi(load_scripts(path), clock=SystemClock(), log=tmp_path / "rehearsal.jsonl")
        await api.start()
        started.append(api)
        return Stage(tmp_path, api, tmp_path / "rehearsal.jsonl")

    yield prepare
    for api in started:
        await api.stop()


GREP_AND_READ: Mapping[str, Any] = {
    "question": "q1",
    "steps": [
        {
            "thinking": "Search first.",
            "thinking_tokens": 180,
            "text": "I search for it.",
            "tools": [
                {
                    "name": "Grep",
                    "input": {"pattern": "BLOCK_SIZE =", "path": "{corpus}", "output_mode": "content", "-n": True},
                }
            ],
        },
        {"tools": [{"name": "Read", "input": {"file_path": "{path}", "offset": "{line:d}", "limit": 1}}]},
    ],
    "take": [
        {"from": "Grep", "pattern": r"(?m)^(?P<path>[^:\n]+):(?P<line>\d+):"},
        {"from": "Read", "pattern": r"BLOCK_SIZE = (?P<size>\d+)"},
    ],
    "answer": "BLOCK_SIZE is {size} (src/blocks.py:{line}).",
}


def billed(served: Sequence[Served]) -> Tokens:
    return sum((call.usage for call in served), Tokens())


async def test_a_run_that_greps_and_reads_reports_exactly_what_was_served(stage: Prepare) -> None:
    show = await stage([GREP_AND_READ])
    run = await show.run(RunKey("cell", "native", "q1"))
    calls = show.served()

    assert run.exit_code == 0
    assert run.result["result"] == "BLOCK_SIZE is 256 (src/blocks.py:3)."
    assert [call.step for call in calls] == [0, 1, 2]
    assert run.usage == billed(calls)
    assert run.of_model == billed(calls)
    assert run.result["modelUsage"][MODEL]["thinkingTokens"] == sum(call.thinking for call in calls) > 180
    assert {event["message"]["id"] for event in run.events if event["type"] == "assistant"} == {
        call.reply_id for call in calls
    }
    for call in calls:
        assert sum(block.tokens for block in call.prompt) == call.usage.billed_input
    last = {block.tool: block.tokens for block in calls[-1].prompt if block.kind == "tool_result"}
    assert set(last) == {"Grep", "Read"}
    assert all(last.values())


async def test_each_call_reads_from_the_cache_what_the_one_before_it_wrote(stage: Prepare) -> None:
    show = await stage([GREP_AND_READ])
    await show.run(RunKey("cell", "native", "q1"))
    first, second, third = show.served()

    assert first.usage.cache_read == 0
    assert second.usage.cache_read == first.usage.billed_input
    assert third.usage.cache_read == second.usage.billed_input


async def test_the_same_run_again_with_the_same_home_finds_its_first_prompt_cached(stage: Prepare) -> None:
    show = await stage([GREP_AND_READ])
    await show.run(RunKey("cell", "native", "q1", repeat=1))
    again = await show.run(RunKey("cell", "native", "q1", repeat=2))
    first = show.served()[3]

    assert first.usage.cache_read > 0.9 * first.usage.billed_input
    assert again.usage == billed(show.served()[3:])


async def test_an_hour_of_lifetime_is_billed_as_such(stage: Prepare) -> None:
    show = await stage([GREP_AND_READ])
    run = await show.run(RunKey("cell", "native", "q1"), environment={"ENABLE_PROMPT_CACHING_1H": "1"})

    assert run.usage == billed(show.served())
    assert run.usage.cache_write_1h > 0
    assert run.usage.cache_write_5m == 0


async def test_tools_called_in_parallel_are_told_apart(stage: Prepare) -> None:
    script = {
        "question": "q1",
        "steps": [
            {
                "tools": [
                    {"name": "Read", "input": {"file_path": "{corpus}/src/blocks.py"}},
                    {"name": "Grep", "input": {"pattern": "HALF", "output_mode": "content"}, "as": "half"},
                    {"name": "Grep", "input": {"pattern": "nothing like it"}, "as": "nothing"},
                ]
            }
        ],
        "take": [
            {"from": "half", "pattern": r"HALF = (?P<half>.+)"},
            {"from": "nothing", "pattern": r"(?P<none>No files found)"},
        ],
        "answer": "{half}; {none}",
    }
    show = await stage([script])
    run = await show.run(RunKey("cell", "native", "q1"))

    assert run.result["result"] == "BLOCK_SIZE // 2; No files found"
    assert run.usage == billed(show.served())


async def test_a_denied_tool_is_an_error_that_the_script_goes_on_from(stage: Prepare) -> None:
    script = {
        "question": "q1",
        "steps": [
            {"tools": [{"name": "Bash", "input": {"command": "python3 -c 'print(1)'"}}]},
            {"tools": [{"name": "Grep", "input": {"pattern": "BLOCK_SIZE =", "output_mode": "content"}}]},
        ],
        "take": [{"from": "Grep", "pattern": r"BLOCK_SIZE = (?P<size>\d+)"}],
        "answer": "{size}",
    }
    show = await stage([script])
    run = await show.run(RunKey("cell", "hybrid", "q1"), tools=("Grep", "Bash"), allowed=("Grep", "Bash(xq:*)"))

    assert [denial["tool_name"] for denial in run.result["permission_denials"]] == ["Bash"]
    assert run.result["result"] == "256"
    assert run.usage == billed(show.served())


async def test_an_answer_that_no_tool_supports_shows_the_fallback(stage: Prepare) -> None:
    show = await stage([GREP_AND_READ])
    (show.corpus / "src/blocks.py").write_text("nothing here\n")
    run = await show.run(RunKey("cell", "native", "q1"))

    assert run.result["result"].startswith("REHEARSAL:")
    assert show.served()[-1].fell_back
    assert run.usage == billed(show.served())


async def test_an_overloaded_api_is_asked_again_and_only_the_reply_is_billed(stage: Prepare) -> None:
    script = {"question": "q1", "answer": {"text": "done", "faults": [{"fault": "529", "times": 1}]}}
    show = await stage([script])
    run = await show.run(RunKey("cell", "native", "q1"))
    failed, answered = show.served()

    assert (failed.status, failed.usage.total) == (529, 0)
    assert [event["error_status"] for event in run.events if event.get("subtype") == "api_retry"] == [529]
    assert run.result["result"] == "done"
    assert run.usage == answered.usage


async def test_a_fault_can_be_kept_to_the_first_attempt(stage: Prepare) -> None:
    script = {
        "question": "q1",
        "answer": {"text": "done", "faults": [{"fault": "529", "times": "always", "attempts": [1]}]},
    }
    show = await stage([script])
    spoilt = await show.run(RunKey("cell", "native", "q1"), environment={"CLAUDE_CODE_MAX_RETRIES": "0"})
    whole = await show.run(RunKey("cell", "native", "q1", attempt=2))

    assert spoilt.exit_code == 1
    assert spoilt.result["is_error"]
    assert whole.result["result"] == "done"


async def test_a_judge_without_tools_ends_with_its_verdict(stage: Prepare) -> None:
    rules = [{"regex": r"\b256\b", "verdict": "correct"}]
    show = await stage([{"kind": "judge", "question": "q1", "rules": rules, "otherwise": "wrong"}])
    prompt = "The truth is 256.\n<answer>\nIt is {}.\n</answer>\nEnd with a verdict."
    key = RunKey("judge", "model", "q1")
    right = await show.run(key, tools=(), allowed=(), prompt=prompt.format(256))
    wrong = await show.run(key, tools=(), allowed=(), prompt=prompt.format(128))

    assert json.loads(right.result["result"].splitlines()[-1]) == {"verdict": "correct"}
    assert json.loads(wrong.result["result"].splitlines()[-1]) == {"verdict": "wrong"}
    assert right.usage + wrong.usage == billed(show.served())


async def test_a_reply_that_breaks_off_is_asked_for_again_and_the_script_goes_on(stage: Prepare) -> None:
    steps = [
        {**GREP_AND_READ["steps"][0], "faults": [{"fault": "broken", "after": "start"}]},
        GREP_AND_READ["steps"][1],
    ]
    show = await stage([{**GREP_AND_READ, "steps": steps}])
    run = await show.run(RunKey("cell", "native", "q1"))

    assert run.result["result"] == "BLOCK_SIZE is 256 (src/blocks.py:3)."
    assert [call.step for call in show.served() if call.completed] == [0, 1, 2]
    assert [call.fault for call in show.served() if not call.completed] == ["broken"]


async def test_without_a_script_each_tool_is_called_once_and_the_answer_says_rehearsal(stage: Prepare) -> None:
    show = await stage([])
    run = await show.run(RunKey("cell", "native", "q1"))
    used = [
        block["name"]
        for event in run.events
        if event["type"] == "assistant"
        for block in event["message"]["content"]
        if block["type"] == "tool_use"
    ]
    errors = [
        block
        for event in run.events
        if event["type"] == "user"
        for block in event["message"]["content"]
        if block["type"] == "tool_result" and block.get("is_error")
    ]

    assert sorted(used) == sorted(NATIVE)
    assert errors == []
    assert run.result["result"] == "rehearsal"
    assert run.usage == billed(show.served())
