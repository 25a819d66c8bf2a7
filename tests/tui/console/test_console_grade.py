"""Screen 3 shows an answer without its arm, takes verdicts from the home row, and never loses one."""

import json
import subprocess
from collections.abc import Callable

import pytest

from tokenbench.errors import RunsError
from tokenbench.grading import desk as desks
from tokenbench.grading.verdicts import read_log
from tokenbench_tui.console.screens.grade import desk as console_desk
from tokenbench_tui.console.screens.grade.desk import start_model_judge
from tokenbench_tui.console.widgets.keyline import KeyLine
from tokenbench_tui.console.widgets.lines import Sheet


@pytest.fixture
def finished(make_lab: Callable) -> object:
    """All runs are done, every answer differs, nothing is judged."""
    lab = make_lab()
    lab.begin()
    lab.finish(lambda cell: f"256, says {cell.question} of a kind {lab.cells.index(cell)}, found with grep, a.py:1")
    return lab


async def sit_down(pilot: object, until: Callable, shown: Callable, name: str = "ann") -> None:
    """Open the Grade screen as this judge."""
    await pilot.press("3")
    await until(pilot, lambda: "Who judges?" in shown(pilot), "the name is asked for")
    await pilot.press(*name, "enter")
    await until(pilot, lambda: f"judge {name}" in shown(pilot) and "item 1 of" in shown(pilot), "an item is shown")


def verdicts(lab: object, judge: str = "ann") -> list[str]:
    return [placed.act.verdict for placed in read_log(lab.runs.verdicts / f"{judge}.jsonl").order]


def bottom(pilot: object) -> str:
    return pilot.app.screen.query_one(KeyLine).plain


async def press_when_shown(pilot: object, lab: object, key: str) -> None:
    """Look at the item for two seconds, then press."""
    lab.clock.advance(2)
    await pilot.press(key)


async def test_verdicts_are_given_skipped_and_taken_back(finished: object, until: Callable, shown: Callable) -> None:
    app = finished.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await sit_down(pilot, until, shown)
        for number, (key, verdict) in enumerate(
            zip("cwad", ["correct", "wrong", "abstained", "unknown"], strict=True), 1
        ):
            await press_when_shown(pilot, finished, key)
            await until(pilot, lambda n=number: len(verdicts(finished)) == n and f"item {n + 1} of 9" in shown(pilot))
            assert verdicts(finished)[-1] == verdict
        assert "5 unjudged by you" in shown(pilot)
        await pilot.press("u")
        await until(pilot, lambda: len(verdicts(finished)) == 3 and "item 4 of 9" in shown(pilot), "it is shown again")
        await pilot.press("s")
        await until(pilot, lambda: "1 skipped" in shown(pilot) and "item 5 of 9" in shown(pilot))
        assert len(verdicts(finished)) == 3


async def test_a_verdict_carries_its_note_and_the_time_that_was_looked(
    finished: object, until: Callable, shown: Callable
) -> None:
    app = finished.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await sit_down(pilot, until, shown)
        await pilot.press("n")
        await until(pilot, lambda: "Note to your verdict" in shown(pilot))
        await pilot.press(*"old", "enter")
        await until(pilot, lambda: "note  old" in shown(pilot))
        await press_when_shown(pilot, finished, "w")
        await until(pilot, lambda: len(verdicts(finished)) == 1)
    (placed,) = read_log(finished.runs.verdicts / "ann.jsonl").order
    assert placed.act.note == "old"
    assert placed.act.seconds >= 2


async def test_what_gives_the_arm_away_is_nowhere_on_the_screen(
    finished: object, until: Callable, shown: Callable
) -> None:
    app = finished.app()
    async with app.run_test(size=(160, 48)) as pilot:
        await sit_down(pilot, until, shown)
        for _ in range(9):
            text = shown(pilot)
            assert "▒▒▒▒▒" in text
            assert "1 masked" in text
            for word in ("native", "hybrid", "retrieval", "grep", "$", "tokens"):
                assert word not in text
            await pilot.press("s")
            await pilot.pause()


async def test_a_key_that_repeats_judges_nothing_unseen(finished: object, until: Callable, shown: Callable) -> None:
    app = finished.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await sit_down(pilot, until, shown)
        finished.clock.advance(2)
        await pilot.press(*"cccccccccc")
        await until(pilot, lambda: "item 2 of 9" in shown(pilot))
        assert len(verdicts(finished)) == 1


async def test_a_verdict_that_cannot_be_written_is_said_and_its_item_stays(
    finished: object, until: Callable, shown: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = finished.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await sit_down(pilot, until, shown)

        def full(*_: object, **__: object) -> None:
            raise RunsError("could not append a line: No space left on device", remedy="Free space there")

        with monkeypatch.context() as patch:
            patch.setattr(desks.Desk, "give", full)
            await press_when_shown(pilot, finished, "c")
            await until(pilot, lambda: "NOT SAVED" in shown(pilot) and "No space left" in shown(pilot))
            await pilot.press("escape")
            await until(pilot, lambda: "item 1 of 9" in shown(pilot) and "NOT SAVED" not in shown(pilot))
        await press_when_shown(pilot, finished, "c")
        await until(pilot, lambda: verdicts(finished) == ["correct"])


@pytest.mark.parametrize("name", ["", "a/b", "../x", "Ann Lee", "x" * 41])
async def test_a_name_that_cannot_be_a_file_is_asked_again(
    finished: object, until: Callable, shown: Callable, name: str
) -> None:
    app = finished.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3")
        await until(pilot, lambda: "Who judges?" in shown(pilot))
        app.screen.query_one("#text").value = name
        await pilot.press("enter")
        await until(pilot, lambda: "cannot be a judge's name" in shown(pilot))
        assert "Use 1 to 40" in shown(pilot)


async def test_who_gives_no_name_judges_nothing(finished: object, until: Callable, shown: Callable) -> None:
    app = finished.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3")
        await until(pilot, lambda: "Who judges?" in shown(pilot))
        await pilot.press("escape")
        await until(pilot, lambda: "J names the judge" in shown(pilot))
        await pilot.press("c")
        await until(
            pilot, lambda: "J names the judge first" in shown(pilot) and "names the judge first" in bottom(pilot)
        )
        await pilot.press("a", "w", "u", "s", "n")
        assert list(finished.runs.verdicts.iterdir()) == []


async def test_the_mapping_is_opened_once_everything_is_judged(
    finished: object, until: Callable, shown: Callable
) -> None:
    app = finished.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await sit_down(pilot, until, shown)
        await pilot.press("o")
        await until(pilot, lambda: "Lock the queue and open the mapping?" in shown(pilot))
        assert "9 distinct answers are unjudged: it will be refused" in " ".join(shown(pilot).split())
        await pilot.press("y")
        await until(pilot, lambda: "the mapping stays closed: 9 answers wait" in shown(pilot), "too early")
        assert "mend" in shown(pilot)
        await pilot.press("escape")
        for number in range(9):
            await press_when_shown(pilot, finished, "c")
            await until(pilot, lambda n=number: len(verdicts(finished)) == n + 1 and not app.screen._saving)
        await until(
            pilot, lambda: "You have judged all 9 answers" in shown(pilot) and "o open the mapping" in shown(pilot)
        )
        assert app.view.mapping_opened is None
        await pilot.press("o")
        await until(pilot, lambda: "There is no way back" in shown(pilot))
        await pilot.press("escape")
        await pilot.press("o", "y")
        await until(pilot, lambda: app.view.mapping_opened is not None and "The mapping is open" in shown(pilot))
        await until(pilot, lambda: app.findings.results is not None and app.findings.results.experiment.opened)
        await pilot.press("4")
        await until(pilot, lambda: "3/3" in shown(pilot), "the figures are shown")


async def test_before_the_opening_one_is_told_what_is_in_dispute(
    finished: object, until: Callable, shown: Callable
) -> None:
    bob = desks.Desk(finished.loaded, "bob", finished.clock)
    for item in bob.items:
        bob.give(item, "correct")
    app = finished.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await sit_down(pilot, until, shown)
        await press_when_shown(pilot, finished, "w")
        await until(pilot, lambda: len(verdicts(finished)) == 1 and "item 2 of 9" in shown(pilot))
        await pilot.press("o")
        await until(pilot, lambda: "1 answer is in dispute" in shown(pilot))


async def test_whoever_names_no_judge_is_told_what_is_unjudged_before_opening(
    finished: object, until: Callable, shown: Callable
) -> None:
    desks.Desk(finished.loaded, "bob", finished.clock)
    app = finished.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3")
        await until(pilot, lambda: "Who judges?" in shown(pilot))
        await pilot.press("escape", "o")
        await until(pilot, lambda: "9 distinct answers are unjudged" in shown(pilot))


async def test_who_comes_after_the_opening_is_told_before_giving_a_name(
    finished: object, until: Callable, shown: Callable
) -> None:
    finished.journal.write("mapping_opened")
    app = finished.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3")
        await until(pilot, lambda: "Who judges?" in shown(pilot))
        await pilot.press("escape")
        await until(pilot, lambda: "The mapping is open" in shown(pilot))
        assert "no judge is named here yet" in shown(pilot)


async def test_verdicts_after_the_opening_are_marked(finished: object, until: Callable, shown: Callable) -> None:
    finished.journal.write("mapping_opened")
    app = finished.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await sit_down(pilot, until, shown)
        await until(pilot, lambda: "NOT BLIND: the mapping is open" in shown(pilot))


async def test_a_long_answer_scrolls(make_lab: Callable, until: Callable, shown: Callable) -> None:
    lab = make_lab()
    lab.begin()
    lab.finish(lambda cell: "\n".join(f"line {n}" for n in range(100)) + "\nthe end, 256")
    app = lab.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await sit_down(pilot, until, shown)
        assert "line 0" in shown(pilot)
        await pilot.press("j", "j", "j")
        await until(pilot, lambda: app.screen.query_one("#answer", Sheet).scroll_offset.y == 3)
        await pilot.press("G")
        await until(pilot, lambda: "the end, 256" in shown(pilot))
        await pilot.press("g")
        await until(pilot, lambda: "line 0" in shown(pilot))


async def test_the_model_judge_is_started_after_a_yes_and_followed_through_the_journal(
    finished: object, until: Callable, shown: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    monkeypatch.setattr(console_desk, "start_model_judge", lambda folder, log: started.append(folder) or 1)
    app = finished.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await sit_down(pilot, until, shown)
        await pilot.press("m")
        await until(pilot, lambda: "SCRIPTED model" in shown(pilot), "a rehearsal says so")
        await pilot.press("n")
        assert started == []
        await pilot.press("m", "y")
        await until(pilot, lambda: started == [finished.folder])
        finished.journal.write("judge_started", judge="opus")
        await until(pilot, lambda: "model judge at work  opus" in shown(pilot))
        await pilot.press("m")
        await until(pilot, lambda: "A model judge is at work already" in shown(pilot))
        finished.journal.write("judge_failed", judge="opus", reason="no CLI found")
        await until(pilot, lambda: "opus failed" in shown(pilot) and "no CLI found" in shown(pilot))


def test_the_model_judge_is_a_process_of_its_own(finished: object, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[list[str], dict]] = []

    class Process:
        pid = 4

        def __init__(self, arguments: list[str], **options: object) -> None:
            seen.append((arguments, options))

    monkeypatch.setattr(subprocess, "Popen", Process)
    assert start_model_judge(finished.folder, finished.runs.logs / "judge.log") == 4
    ((arguments, options),) = seen
    assert arguments[1:4] == ["-m", "tokenbench_tui", "judge"]
    assert str(finished.folder) in arguments
    assert options["start_new_session"] is True
    assert options["stdin"] == subprocess.DEVNULL


async def test_an_answer_that_comes_while_one_judges_is_queued_and_the_item_stays(
    make_lab: Callable, until: Callable, shown: Callable
) -> None:
    lab = make_lab()
    lab.begin()
    first = [cell for cell in lab.cells if cell.question == lab.cells[0].question]
    for cell in first:
        lab.start(cell)
        lab.close(cell, b"".join([]) or _stream_of(lab, cell))
    app = lab.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await sit_down(pilot, until, shown)
        await until(pilot, lambda: "of 3" in shown(pilot))
        item = app.screen.item
        lab.finish(lambda cell: f"256 {lab.cells.index(cell)}")
        await until(pilot, lambda: "of 9" in shown(pilot), "the rest is queued")
        assert app.screen.item == item


def _stream_of(lab: object, cell: object) -> bytes:
    message = {"id": "msg_scripted_1", "type": "message", "role": "assistant", "model": "claude-opus-4-8"}
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 9}
    answer = f"256 {lab.cells.index(cell)}"
    lines = [
        {"type": "system", "subtype": "init", "cwd": "/corpus", "session_id": "s", "tools": [], "mcp_servers": [],
         "model": "claude-opus-4-8", "claude_code_version": "2.1.332", "uuid": "u"},
        {"type": "assistant", "parent_tool_use_id": None, "session_id": "s", "uuid": "a", "request_id": "r",
         "message": message | {"content": [{"type": "text", "text": answer}], "stop_reason": None, "usage": usage}},
        {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "result": answer, "session_id": "s",
         "uuid": "z", "total_cost_usd": 0.1, "usage": usage,
         "modelUsage": {"claude-opus-4-8": {"inputTokens": 3, "outputTokens": 9, "cacheReadInputTokens": 0,
                                            "cacheCreationInputTokens": 0, "costUSD": 0.1}}},
    ]  # fmt: skip
    return b"".join(json.dumps(one).encode() + b"\n" for one in lines)
