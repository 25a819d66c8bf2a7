"""Screen 2 shows what a run cost: refusals first, equations with both sides, live while the run is under way."""

from collections.abc import Callable
from decimal import Decimal as D
from pathlib import Path

import msgspec
import pytest

from tokenbench.ledger import read_ledger
from tokenbench.ledger.attribution.attribute import attribute
from tokenbench.ledger.attribution.model import Attribution, GrowthRow, Part
from tokenbench.ledger.model import Costs, Equation, Ledger, Live
from tokenbench.ledger.sources import price_sources
from tokenbench_tui.console.amounts import UNKNOWN
from tokenbench_tui.console.screens.ledger.look import Follower, Viewer
from tokenbench_tui.console.screens.ledger.page import Shown, ledger_page, live_subtitle, subtitle, title
from tokenbench_tui.console.widgets.ink import Page, width


@pytest.fixture
def ledger(tmp_path: Path, transcript: Callable) -> Callable[..., Ledger]:
    """The ledger of a transcript that is made to order."""

    def make(answer: str = "256", **fields: object) -> Ledger:
        path = tmp_path / "run.jsonl"
        path.write_bytes(transcript(answer, **fields))
        return read_ledger(path)

    return make


def plain(page: Page) -> str:
    return "\n".join("".join(part for part, _ in line) for line in page.lines)


def text_of(ledger: Ledger, cells: int = 80) -> str:
    return "\n".join("".join(part for part, _ in line) for line in ledger_page(Shown(ledger), cells).lines)


@pytest.mark.parametrize("cells", [60, 80, 160])
def test_a_page_keeps_to_its_width(ledger: Callable, cells: int) -> None:
    for one in (ledger(), ledger(off_by=7), ledger(ended=False), ledger("long " * 300)):
        assert all(width(line) <= cells for line in ledger_page(Shown(one), cells).lines)
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
    rows = {row[3:23].strip(): row[23:] for row in page[page.index(" dollars") + 1 :]}
    assert [rows[name].split()[0].rstrip(",") for name in ("reported by the CLI", "own", "recomputed")] == [
        "$0.05", "$0.05", "$0.0456",
    ]  # fmt: skip
    assert rows["cache-neutral"].split()[0] == "$0.0779,"
    assert "$0.01 of it for web searches" in rows["cache-neutral"]
    assert rows["from a cold cache"].strip() == "not determined"
    assert rows["from a warm cache"].strip() == "$0.0391"


def test_costs_that_are_none_have_no_difference_to_show(ledger: Callable) -> None:
    found = ledger()
    cost = Equation("cost", "costs of the models", "total_cost_usd", D("NaN"), D("0.05"), False)
    assert "$NaN ≠ $0.05" in text_of(msgspec.structs.replace(found, equations=(*found.equations, cost)))


def test_without_a_price_table_its_refusal_stands_where_each_cost_would(ledger: Callable) -> None:
    found = ledger()
    shown = Shown(found, sources=price_sources(found, None))
    page = plain(ledger_page(shown, 80)).splitlines()
    rows = {row[3:23].strip(): row[23:].strip() for row in page[page.index(" dollars") + 1 :]}
    assert rows["prices"].split() == ["none", "claude-opus-4-8"]
    for name in ("recomputed", "cache-neutral", "from a cold cache", "from a warm cache"):
        assert rows[name] == "REFUSED PRICE-UNKNOWN", name


@pytest.fixture
def parts() -> Attribution:
    """Nine tenths of the billed input are the fixed prefix; dollars are shared otherwise."""

    def part(kind: str, name: str, shares: tuple[float, float, float], use: str | None = None) -> Part:
        unique, billed, dollars = shares
        return Part(
            kind=kind, name=name, use=use, unique=round(unique * 1000), billed=round(billed * 10_000),
            bound_unique=5, bound_billed=140, usd=D("0.1") * D(str(dollars)), share_of_unique_context=unique,
            share_of_billed_input=billed, share_of_input_usd=dollars,
        )  # fmt: skip

    return Attribution(
        billed_input=10_000,
        unique_context=1_000,
        usd=D("0.1"),
        prompt_known=True,
        parts=(
            part("prefix", "main", (0.8, 0.9, 0.6)),
            part("result", "Read\x1b[31m", (0.2, 0.1, 0.4), "read"),
        ),
        growth=(GrowthRow(tool="Read", use="read", unique=210, billed=1_041, split=True),),
    )


@pytest.mark.parametrize("cells", [60, 80, 160])
def test_parts_have_bars_three_shares_their_denominators_and_a_bound(
    ledger: Callable, parts: Attribution, cells: int
) -> None:
    page = ledger_page(Shown(ledger(), parts), cells)
    assert all(width(line) <= cells for line in page.lines)
    text = plain(page)
    assert "\x1b" not in text
    rows = text.splitlines()
    heads = next(row for row in rows if row.startswith(" billed input"))
    assert heads.split()[-5:] == ["unique", "billed", "dollars", "±", "billed"]
    assert "of 1.0k" in text
    assert "of 10.0k" in text
    assert "of $0.100" in text
    prefix = next(row for row in rows if row.startswith("   prefix"))
    assert "80.0 %   90.0 %" in prefix
    assert prefix.endswith("60.0 %    ± 1.4 %")
    assert "Read (read) ≤ 1,041* billed" in text
    bars = [row.count("█") for row in rows if row.startswith(("   prefix", "   Read"))]
    assert bars[0] > bars[1]


def test_dollars_that_no_price_table_gives_are_refused_in_their_column(ledger: Callable, parts: Attribution) -> None:
    priced = msgspec.structs.replace(
        parts, usd=None, parts=tuple(msgspec.structs.replace(part, share_of_input_usd=None) for part in parts.parts)
    )
    rows = plain(ledger_page(Shown(ledger(), priced), 80)).splitlines()
    at = next(index for index, row in enumerate(rows) if row.startswith(" billed input went to"))
    assert rows[at + 1].endswith("PRICE-UNKNOWN")
    assert UNKNOWN in rows[at + 2]


def test_shares_that_nothing_was_measured_for_are_refused_with_the_command_that_mends_it(ledger: Callable) -> None:
    found = ledger()
    text = plain(ledger_page(Shown(found, attribute(found, None, prompt=None)), 80))
    assert "REFUSED UNCALIBRATED" in text
    assert "tokenbench-tui calibrate" in text


def test_shares_of_refused_tokens_name_the_refusal_and_do_not_repeat_it(ledger: Callable) -> None:
    found = ledger(off_by=7)
    text = plain(ledger_page(Shown(found, attribute(found, None, prompt=None)), 80))
    assert "shares  REFUSED CALLS-UNRECONCILED  see above" in text
    assert "at least   ≥" in text
    assert text.count("mend") == 1


def test_a_scripted_model_is_said_beside_the_totals(ledger: Callable) -> None:
    assert ("  SCRIPTED-MODEL", "loud") in subtitle(ledger())


@pytest.mark.parametrize("scripted", [True, False])
def test_a_scripted_model_is_said_beside_what_a_run_under_way_has_spent(scripted: bool) -> None:
    assert (("  SCRIPTED-MODEL", "loud") in live_subtitle(Live(calls=1), scripted=scripted)) is scripted


def test_each_call_says_how_warm_its_prefix_was(ledger: Callable) -> None:
    rows = [row.split() for row in text_of(ledger()).splitlines() if row.endswith(("Read", "answer"))][:3]
    assert [row[-2] for row in rows] == ["cold", "warm", "warm"]


async def test_the_cursor_goes_from_section_to_section(lab: object, until: Callable, shown: Callable) -> None:
    lab.begin()
    lab.finish()
    async with lab.app().run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "9 done" in shown(pilot))
        await pilot.press("2")
        await until(pilot, lambda: "TOKENS ok" in shown(pilot) and "UNCALIBRATED" in shown(pilot))
        for section in ("call ", "billed input went to", "dollars", "tool "):
            await pilot.press("s")
            await until(
                pilot, lambda at=section: any(row.startswith(">") and at in row for row in shown(pilot).split("\n"))
            )
        await pilot.press("s")
        await until(pilot, lambda: "calls of the main loop" in shown(pilot))


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
        assert "SCRIPTED-MODEL" in shown(pilot)
        assert "13,003" not in shown(pilot)
        lab.grow(cell, b"".join(lines[4:-1]))
        await until(pilot, lambda: "13,003" in shown(pilot))
        assert "256" not in shown(pilot)
        lab.close(cell, whole)
        await until(pilot, lambda: "TOKENS ok" in shown(pilot) and "13,003" in shown(pilot))


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
