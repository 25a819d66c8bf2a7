"""Screen 2 shows what a run cost: refusals first, equations with both sides, live while the run is under way."""

from collections.abc import Callable
from decimal import Decimal as D
from pathlib import Path

import msgspec
import pytest

from tokenbench.ledger import read_ledger
from tokenbench.ledger.model import Costs, Ledger
from tokenbench_tui.console.amounts import UNKNOWN
from tokenbench_tui.console.screens.ledger.look import Follower, Viewer
from tokenbench_tui.console.screens.ledger.page import ledger_page, title
from tokenbench_tui.console.widgets.ink import width


@pytest.fixture
def ledger(tmp_path: Path, transcript: Callable) -> Callable[..., Ledger]:
    """The ledger of a transcript that is made to order."""

    def make(answer: str = "256", **fields: object) -> Ledger:
        path = tmp_path / "run.jsonl"
        path.write_bytes(transcript(answer, **fields))
        return read_ledger(path)

    return make


def text_of(ledger: Ledger, cells: int = 80) -> str:
    return "\n".join("".join(part for part, _ in line) for line in ledger_page(ledger, cells).lines)


@pytest.mark.parametrize("cells", [60, 80, 160])
def test_a_page_keeps_to_its_width(ledger: Callable, cells: int) -> None:
    for one in (ledger(), ledger(off_by=7), ledger(ended=False), ledger("long " * 300)):
        assert all(width(line) <= cells for line in ledger_page(one, cells).lines)
        assert width(title(one, "native · q1 · 1", cells)) <= cells


def test_a_reconciled_run_shows_both_sides_its_calls_and_its_tools(ledger: Callable) -> None:
    text = text_of(ledger())
    assert "15,159 = 15,159 ok" in text
    assert [row.split()[:2] for row in text.splitlines() if row.endswith(("Read", "answer"))][:3] == [
        ["1", "1,003"], ["2", "5,003"], ["3", "9,003"],
    ]  # fmt: skip
    assert "Read" in text
    assert "256" in text


def test_a_refused_run_shows_its_refusal_first_both_sides_the_difference_and_the_remedy(ledger: Callable) -> None:
    refused = ledger(off_by=7)
    text = text_of(refused)
    assert text.splitlines()[0].startswith(" REFUSED CALLS-UNRECONCILED")
    assert "≠" in text
    assert "-7" in text
    assert "mend" in text
    assert "TOKENS REFUSED" in "".join(part for part, _ in title(refused, "x", 80))


def test_a_refusal_of_dollars_does_not_stand_before_the_tokens(ledger: Callable) -> None:
    lines = text_of(ledger()).splitlines()
    equation = next(index for index, row in enumerate(lines) if "15,159" in row)
    dollars = next(index for index, row in enumerate(lines) if "PRICE-UNKNOWN" in row)
    assert equation < dollars


def test_dollars_by_a_price_table_stand_beside_what_they_would_be_with_other_caches(ledger: Callable) -> None:
    costs = Costs(D("0.05"), D("0.05"), D("0.0456"), D("0.0779"), D("0.01"), None, D("0.0391"))
    page = text_of(msgspec.structs.replace(ledger(), cost_usd=costs)).splitlines()
    at = next(index for index, row in enumerate(page) if "dollars by the price table of claude" in row)
    assert [row.split("$")[1].split(",")[0] for row in page[at + 1 : at + 3]] == ["0.0456", "0.0779"]
    assert "$0.01 of it for web searches" in page[at + 2]
    assert page[at + 3].split()[-1] == UNKNOWN
    assert page[at + 4].split()[-1] == "$0.0391"


def test_a_follower_reads_on_and_begins_again_when_its_file_is_replaced(tmp_path: Path, transcript: Callable) -> None:
    path = tmp_path / "run.jsonl.part"
    whole = transcript("256", calls=4, ended=False)
    path.write_bytes(whole[:700])
    follower = Follower(path)
    follower.step()
    assert follower.live().calls <= 1
    path.write_bytes(whole)
    follower.step()
    assert follower.live().calls == 4
    path.write_bytes(transcript("256", calls=2, ended=False))
    follower.step()
    assert follower.live().calls == 2
    path.unlink()
    assert follower.step() is False
    assert follower.live().calls == 2


def test_answers_are_withheld_until_the_mapping_is_opened(lab: object) -> None:
    lab.begin()
    lab.finish(lambda cell: "the secret answer")
    viewer = Viewer(lab.runs)
    look = viewer.look(lab.cells[0].name)
    assert look.ledger.answer is None
    assert look.ledger.answer_withheld
    assert b"secret" not in msgspec.json.encode(look.ledger)
    assert "withheld until" in text_of(look.ledger)
    lab.journal.write("mapping_opened")
    assert viewer.look(lab.cells[0].name).ledger.answer == "the secret answer"


async def test_a_run_under_way_grows_line_by_line_and_then_reconciles(
    lab: object, until: Callable, shown: Callable, transcript: Callable
) -> None:
    lab.begin()
    cell = lab.cells[0]
    lab.start(cell)
    whole = transcript("256", calls=4)
    lines = whole.splitlines(keepends=True)
    lab.grow(cell, b"".join(lines[:4]))
    app = lab.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "1 running" in shown(pilot))
        await pilot.press("enter")
        await until(pilot, lambda: "under way" in shown(pilot) and "5,003" in shown(pilot))
        assert "nothing is reconciled before the run has ended" in shown(pilot)
        assert "13,003" not in shown(pilot)
        lab.grow(cell, b"".join(lines[4:-1]))
        await until(pilot, lambda: "13,003" in shown(pilot))
        assert "256" not in shown(pilot)
        lab.close(cell, whole)
        await until(pilot, lambda: "TOKENS ok" in shown(pilot) and "withheld" in shown(pilot))


async def test_brackets_go_to_other_runs_and_escape_goes_back(lab: object, until: Callable, shown: Callable) -> None:
    lab.begin()
    lab.finish()
    names = [f"{cell.arm} · {cell.question} · 1" for cell in lab.cells]
    app = lab.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "9 done" in shown(pilot))
        await pilot.press("2")
        await until(pilot, lambda: names[0] in shown(pilot))
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: names[1] in shown(pilot))
        await pilot.press("left_square_bracket", "left_square_bracket")
        await until(pilot, lambda: names[-1] in shown(pilot))
        await pilot.press("escape")
        await until(pilot, lambda: "9 done" in shown(pilot))


async def test_a_failed_attempt_is_shown_as_one_that_did_not_count(
    lab: object, until: Callable, shown: Callable, transcript: Callable
) -> None:
    lab.begin()
    cell = lab.cells[0]
    lab.start(cell)
    lab.runs.attempt(cell, 1).write_bytes(transcript("x", ended=False))
    lab.journal.write("attempt_failed", cell=cell.name, attempt=1, outcome="infrastructure", retry_in=900.0)
    app = lab.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "1 retry" in shown(pilot))
        await pilot.press("enter")
        await until(pilot, lambda: "attempt 1, did not count" in shown(pilot) and "NO-RESULT" in shown(pilot))


async def test_what_cannot_be_read_is_said_and_the_next_run_is_shown(
    lab: object, until: Callable, shown: Callable
) -> None:
    lab.begin()
    lab.finish()
    lab.runs.record(lab.cells[0]).write_text("{")
    app = lab.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "9 done" in shown(pilot))
        await pilot.press("enter")
        await until(pilot, lambda: "cannot be read" in shown(pilot) and "is not the record of a run" in shown(pilot))
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: "TOKENS ok" in shown(pilot))
