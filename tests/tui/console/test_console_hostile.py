"""Text of a model, a tool or a file is text on every screen: nothing is swallowed or crashes, nothing gets out."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tokenbench.text import visible

DATA = Path(__file__).parents[2] / "data" / "terminal"
MARKUP = [json.loads(row)["answer"] for row in (DATA / "markup.jsonl").open()]
CONTROLS = [json.loads(row)["answer"] for row in (DATA / "controls.jsonl").open()]
ALL = MARKUP + CONTROLS
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def written(pilot: Pilot) -> str:
    """Every character that the screen sends to the terminal as text."""
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip if not segment.control) for strip in strips)


def assert_harmless(text: str) -> None:
    assert not any((ord(sign) < 32 and sign != "\n") or 127 <= ord(sign) < 160 or sign in BIDI for sign in text)


def _run(text: str) -> bytes:
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 9}

    def message(number: int, block: dict) -> dict:
        return {"type": "assistant", "parent_tool_use_id": None, "session_id": "s", "uuid": f"a{number}",
                "request_id": f"r{number}",
                "message": {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "claude-opus-4-8",
                            "content": [block], "stop_reason": None, "usage": usage}}  # fmt: skip

    result = {"tool_use_id": "t1", "type": "tool_result", "content": text}
    total = {name: 2 * count for name, count in usage.items()}
    lines = [
        {"type": "system", "subtype": "init", "cwd": text, "session_id": "s", "tools": [text], "mcp_servers": [],
         "model": "claude-opus-4-8", "claude_code_version": text, "uuid": "u"},
        message(1, {"type": "tool_use", "id": "t1", "name": text, "input": {}}),
        {"type": "user", "parent_tool_use_id": None, "session_id": "s", "uuid": "x",
         "message": {"role": "user", "content": [result]}},
        {"type": text, "uuid": "n"},
        message(2, {"type": "text", "text": text}),
        {"type": "result", "subtype": "success", "is_error": False, "num_turns": 2, "result": text, "session_id": "s",
         "uuid": "z", "total_cost_usd": 0.1, "usage": total,
         "modelUsage": {"claude-opus-4-8": {"inputTokens": 6, "outputTokens": 18, "cacheReadInputTokens": 0,
                                            "cacheCreationInputTokens": 0, "costUSD": 0.1},
                        f"other {text}": {"inputTokens": 1, "outputTokens": 1, "cacheReadInputTokens": 0,
                                          "cacheCreationInputTokens": 0, "costUSD": 0.0}}},
    ]  # fmt: skip
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def plain(text: str) -> str:
    """The text as one line of a screen shows it."""
    return " ".join(visible(text).split())


@pytest.mark.parametrize(
    "text", ["[/", "[@click=app.quit]256[/]", "\x1b]52;c;cm0gLXJm\x07 256", "\u202e652\u202c", "a\rb256"]
)
async def test_names_reasons_and_tools_are_text(make_lab: Callable, until: Callable, text: str) -> None:
    lab = make_lab([{"id": "q1", "class": "lookup", "text": "?", "truth": "256"}], name=f"bench {text}")
    lab.begin()
    lab.journal.write("preparing", reason=text)
    lab.journal.write("run_started", cell=f"arm{text}__q1__r1", attempt=1)
    lab.journal.write("usage", cell=f"arm{text}__q1__r1", attempt=1, calls=1, doing=text)
    lab.journal.write("judge_failed", judge=text, reason=text)
    refused = {"outcome": "answered", "token_reconciled": False, "codes": (text,), "reason": text}
    lab.journal.write("run_ended", cell="x__y__r9", attempt=1, **refused)
    lab.journal.write("paused", reason=text)
    for cell in lab.cells:
        lab.start(cell)
        lab.close(cell, _run(text))
    app = lab.app()
    async with app.run_test(size=(160, 48)) as pilot:
        await until(pilot, lambda: app.findings.made_for is not None and "4 done" in written(pilot))
        assert written(pilot).count(plain(text)) >= 4
        assert_harmless(written(pilot))
        for keys in (["x"], ["escape", "4"], ["enter"], ["escape", "3"], ["escape", "2"]):
            await pilot.press(*keys)
            await pilot.pause()
            assert_harmless(written(pilot))
        app.show_ledger(lab.cells[0].name)
        await until(pilot, lambda: "billed in," in written(pilot))
        assert written(pilot).count(plain(text)) >= 3
        assert_harmless(written(pilot))


async def test_answers_questions_truths_and_tool_results_are_text(make_lab: Callable, until: Callable) -> None:
    questions = [
        {"id": f"q{number}", "class": "lookup", "text": f"What is {text}?", "truth": text, "judge_note": text}
        for number, text in enumerate(ALL)
    ]
    lab = make_lab(questions)
    lab.begin()
    texts = dict(zip((question["id"] for question in questions), ALL, strict=True))
    for cell in lab.cells:
        lab.close(cell, _run(texts[cell.question]))
    lab.journal.write("runner_ended")
    app = lab.app()
    async with app.run_test(size=(160, 48)) as pilot:
        await until(pilot, lambda: "87 done" in written(pilot))
        for cell in lab.cells[::3]:
            app.show_ledger(cell.name)
            app.screen.project()
            name = f"{cell.arm} · {cell.question} · 1"
            await until(pilot, lambda name=name: name in written(pilot) and "billed in," in written(pilot))
            assert plain(texts[cell.question]) in written(pilot)
            assert_harmless(written(pilot))
        await pilot.press("3")
        await until(pilot, lambda: len(app.screen_stack) == 2)
        await pilot.press(*"ann", "enter")
        await until(pilot, lambda: "item 1 of 29" in written(pilot))
        seen = set()
        for _ in ALL:
            text = texts[app.screen.item.question]
            seen.add(text)
            assert written(pilot).count(plain(text)) >= 4
            assert_harmless(written(pilot))
            before = app.screen.item
            await pilot.press("s")
            await until(pilot, lambda before=before: app.screen.item != before)
        assert seen == set(ALL)
        await pilot.press("4")
        await until(pilot, lambda: "tokens per correct" in written(pilot) and "  q20" in written(pilot))
        assert_harmless(written(pilot))
