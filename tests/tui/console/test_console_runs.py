"""Screen 1 shows every cell, follows the journal, and tells the runner what to do."""

import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from tokenbench.errors import RunnerError
from tokenbench.ledger.model import Tokens
from tokenbench.runner import control
from tokenbench.runner.board import Board
from tokenbench.runner.journal import Entry
from tokenbench.runner.rows import Phase, Row, View
from tokenbench_tui.console.app import farewell
from tokenbench_tui.console.screens.boxes import help_page
from tokenbench_tui.console.screens.runs.columns import heading, layout, row_line
from tokenbench_tui.console.screens.runs.summary import headline
from tokenbench_tui.console.screens.runs.table import BoardTable
from tokenbench_tui.console.widgets.ink import width

SEEN = Tokens.of(input=3, cache_read=51_197)


def plain(line: tuple) -> str:
    return "".join(text for text, _ in line)


def row(**fields: object) -> Row:
    return Row("native__q1__r1", "native", "q1", 1, 0, **fields)


@pytest.mark.parametrize("cells", [58, 60, 79, 80, 100, 120, 160, 300])
def test_a_row_is_exactly_as_wide_as_its_heading(cells: int) -> None:
    shown = row(state="ok", tokens=SEEN, cost_usd=Decimal("0.2"), turns=4, read_share=0.97, seconds=9)
    assert width(row_line(shown, 0, cells)) == width(heading(cells)) <= cells


def test_a_narrow_table_keeps_what_one_needs_most() -> None:
    titles = [column.title for column, _ in layout(58)]
    assert titles == ["arm", "question", "r", "state", "billed in", "out"]
    assert {column.title for column, _ in layout(79)} >= {"turns", "cost", "cache"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"state": "waits"}, "waits"),
        ({"state": "running", "doing": "Read"}, "▸ Read"),
        ({"state": "retry", "retry_at": 42.0}, "retry 12 s"),
        ({"state": "ok"}, "ok"),
        ({"state": "refused"}, "REFUSED"),
        ({"state": "quarantined"}, "QUARANTINED"),
        ({"state": "failed", "outcome": "max_turns"}, "max turns"),
        ({"state": "infrastructure"}, "gave up"),
        ({"state": "cancelled"}, "cancelled"),
    ],
)
def test_a_state_is_a_word_and_not_a_colour_alone(fields: dict, words: str) -> None:
    assert words in plain(row_line(row(**fields), 30.0, 80))


def test_what_is_not_known_is_a_dash_and_a_lower_bound_has_its_sign() -> None:
    refused = plain(row_line(row(state="refused", tokens=SEEN, lower_bound=True), 0, 80))
    assert "≥51.2k" in refused
    assert "–" in refused
    assert " 0 " not in refused


async def test_it_shows_the_plan_then_the_runs_as_they_come(lab: object, until: Callable, shown: Callable) -> None:
    app = lab.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "NOTHING HAS RUN" in shown(pilot))
        lab.begin()
        await until(pilot, lambda: "9 cells" in shown(pilot) and "REHEARSAL" in shown(pilot))
        cell = lab.cells[0]
        lab.start(cell)
        lab.journal.write(
            "usage", cell=cell.name, attempt=1, calls=1, turns=1, doing="Grep", tokens=SEEN, prompt=51_200
        )
        await until(pilot, lambda: "▸ Grep" in shown(pilot) and "51.2k" in shown(pilot))
        lab.finish()
        await until(pilot, lambda: "9 done" in shown(pilot) and "▸" not in shown(pilot))
        await until(pilot, lambda: "HEADLINE REFUSED" in shown(pilot) and "UNGRADED" in shown(pilot))
        assert "3 judge" in shown(pilot)


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
async def test_without_a_sandbox_every_screen_says_so_and_why(
    lab: object, until: Callable, shown: Callable, size: tuple[int, int]
) -> None:
    lab.begin()
    lab.journal.write("sandbox", outcome="none", reason="bwrap is not\x1b on PATH")
    lab.finish()
    app = lab.app()
    words = "NO-SANDBOX: the agents are not confined: bwrap is not"
    async with app.run_test(size=size) as pilot:
        for key in ("1", "2", "4", "1"):
            await pilot.press(key)
            await until(pilot, lambda: words in shown(pilot))
            assert "\x1b" not in shown(pilot)


async def test_with_a_sandbox_no_screen_speaks_of_it(lab: object, until: Callable, shown: Callable) -> None:
    lab.begin()
    lab.journal.write("sandbox", outcome="confined", reason="bubblewrap 0.8.0")
    async with lab.app().run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "9 cells" in shown(pilot))
        assert "SANDBOX" not in shown(pilot)


async def test_a_tick_in_which_nothing_happened_paints_nothing(lab: object, until: Callable) -> None:
    lab.begin()
    app = lab.app()
    async with app.run_test(size=(80, 24)) as pilot:
        table = app.screen.query_one(BoardTable)
        await until(pilot, lambda: len(table.rows) == 9 and app.findings.results is not None)
        table.following = False
        await pilot.pause(0.3)
        painted: list[object] = []
        table.refresh = lambda *regions, **_: painted.append(regions)  # type: ignore[method-assign]
        app.screen.project()
        assert painted == []
        lab.start(lab.cells[2])
        await until(pilot, lambda: app.view.totals.running == 1)
        app.screen.project()
        assert {(region.y, region.height) for (region,) in painted} == {(2, 1)}


async def test_the_cursor_goes_along_with_the_runs_until_it_is_moved(
    make_lab: Callable, until: Callable, shown: Callable
) -> None:
    lab = make_lab(repeats=8)
    lab.begin()
    app = lab.app()
    async with app.run_test(size=(80, 24)) as pilot:
        table = app.screen.query_one(BoardTable)
        await until(pilot, lambda: len(table.rows) == 72)
        lab.start(lab.cells[40])
        await until(pilot, lambda: table.cursor == 40 and "▸ starting" in shown(pilot))
        await pilot.press("k")
        lab.start(lab.cells[3])
        await until(pilot, lambda: app.view.totals.running == 2)
        assert table.cursor == 39
        await pilot.press("F")
        await until(pilot, lambda: table.cursor == 3)


async def test_the_cursor_stays_on_its_cell_and_enter_opens_its_ledger(
    lab: object, until: Callable, shown: Callable
) -> None:
    lab.begin()
    lab.finish()
    app = lab.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "9 done" in shown(pilot))
        await pilot.press("j", "j", "k")
        cell = lab.cells[1]
        assert app.screen.query_one(BoardTable).row.cell == cell.name
        await pilot.press("enter")
        await until(pilot, lambda: f"{cell.arm} · {cell.question} · 1" in shown(pilot) and "TOKENS ok" in shown(pilot))


async def test_it_tells_the_runner_what_to_do(
    lab: object, until: Callable, shown: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, str]] = []
    monkeypatch.setattr(control, "send", lambda runs, command, *, cell="": told.append((command, cell)) or {})
    lab.begin()
    lab.start(lab.cells[0])
    app = lab.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "1 running" in shown(pilot) and "p pause" in shown(pilot))
        await pilot.press("p")
        await until(pilot, lambda: told == [("pause", "")])
        lab.journal.write("paused")
        await until(pilot, lambda: "PAUSED" in shown(pilot))
        await pilot.press("p")
        await until(pilot, lambda: told[1:] == [("resume", "")])
        await pilot.press("x")
        await until(pilot, lambda: "Cancel native" in shown(pilot) or "Cancel" in shown(pilot))
        await pilot.press("n")
        await pilot.press("x", "y")
        await until(pilot, lambda: told[2:] == [("cancel", lab.cells[0].name)])
        await pilot.press("S")
        await until(pilot, lambda: "Stop after the current runs?" in shown(pilot))
        await pilot.press("y")
        await until(pilot, lambda: told[3:] == [("stop", "")])


async def test_a_runner_that_cannot_be_told_is_said(lab: object, until: Callable, shown: Callable) -> None:
    lab.begin(alive=False)
    app = lab.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "RUNNER LOST" in shown(pilot))
        await pilot.press("p")
        await until(pilot, lambda: "no runner is at work" in shown(pilot))


async def test_it_jumps_to_what_needs_a_look(lab: object, until: Callable, shown: Callable) -> None:
    lab.begin()
    for cell in lab.cells[:4]:
        lab.start(cell)
    refused = {"outcome": "answered", "token_reconciled": False, "codes": ("NO-RESULT",), "tokens": SEEN}
    lab.journal.write("run_ended", cell=lab.cells[2].name, attempt=1, **refused)
    app = lab.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "REFUSED  " in shown(pilot) and "NO-RESULT 1" in shown(pilot))
        table = app.screen.query_one(BoardTable)
        await pilot.press("f")
        assert table.cursor == 2
        await pilot.press("r")
        assert table.cursor == 3
        await pilot.press("r")
        assert table.cursor == 0


async def test_quitting_leaves_the_runner_alone_and_says_so(lab: object, until: Callable, shown: Callable) -> None:
    lab.begin()
    app = lab.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "9 cells" in shown(pilot))
        await pilot.press("q")
    assert app.return_code == 0
    assert "The runner (pid 4711) goes on" in farewell(app.view, lab.folder)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("running", "goes on"),
        ("paused", "goes on"),
        ("ended", "opens the console again"),
        ("lost", "No runner is at work"),
    ],
)
def test_the_farewell_says_what_is_true(kind: str, words: str) -> None:
    assert words in farewell(View(phase=Phase(kind)), Path())


def test_the_farewell_of_a_rehearsal_never_leads_to_what_costs_money(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lost = View(phase=Phase("lost"), scripted=True)
    assert "`tokenbench-tui rehearse` goes on" in farewell(lost, tmp_path)
    assert "`tokenbench-tui rehearse demo` goes on" in farewell(lost, Path("demo"))
    assert "`tokenbench-tui rehearse 'a demo'` goes on" in farewell(lost, tmp_path / "a demo")
    assert "`tokenbench-tui run demo` goes on" in farewell(View(phase=Phase("lost")), Path("demo"))
    assert f"`tokenbench-tui attach {tmp_path.parent}`" in farewell(View(), tmp_path.parent)


async def test_runs_go_on_under_a_box_and_a_question_without_a_point_is_taken_back(
    lab: object, until: Callable, shown: Callable
) -> None:
    lab.begin()
    lab.start(lab.cells[0])
    app = lab.app()
    async with app.run_test(size=(80, 40)) as pilot:
        await until(pilot, lambda: "1 running" in shown(pilot))
        await pilot.press("question_mark")
        await until(pilot, lambda: "Esc closes" in shown(pilot))
        lab.start(lab.cells[1])
        await until(pilot, lambda: "2 running" in shown(pilot), "what happens is seen beside the box")
        await pilot.press("escape")
        await pilot.press("x")
        await until(pilot, lambda: "Cancel" in shown(pilot))
        lab.finish()
        await until(pilot, lambda: "leave it as it is" not in shown(pilot), "the box closes by itself")
        assert "has ended" in shown(pilot)
        await pilot.press("y", "2")
        await until(pilot, lambda: "TOKENS ok" in shown(pilot), "no key is swallowed")


async def test_before_the_first_read_nothing_is_claimed(
    lab: object, until: Callable, shown: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.begin()
    lab.finish()
    go_on = threading.Event()
    app = lab.app()
    poll = app.bench.poll
    monkeypatch.setattr(app.bench, "poll", lambda: poll() if go_on.wait() else None)
    async with app.run_test(size=(80, 24)) as pilot:
        try:
            await until(pilot, lambda: "reading" in shown(pilot))
            assert "0 cells" not in shown(pilot)
            assert "NOTHING HAS RUN" not in shown(pilot)
        finally:
            go_on.set()
        await until(pilot, lambda: "9 done" in shown(pilot))


def test_ten_thousand_rows_cost_what_is_on_the_screen() -> None:
    board = Board()
    board.fold([Entry(t=0, event="planned", cells=tuple(f"native__q{n}__r1" for n in range(10_000)))])
    table = BoardTable()
    table.show(board.view().rows, 1, 0.0)
    assert table.count() == 10_000
    assert len(table._drawn) == 0


async def test_it_is_open_while_the_runner_starts(lab: object, until: Callable, shown: Callable) -> None:
    go_on = threading.Event()
    app = lab.app(start=go_on.wait)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "starting  the runner" in shown(pilot))
        go_on.set()
        await until(pilot, lambda: "NOTHING HAS RUN" in shown(pilot))
    assert app.failure is None


async def test_it_closes_with_the_reason_if_the_runner_cannot_be_started(lab: object, until: Callable) -> None:
    def start() -> None:
        raise RunnerError("a runner is at work", remedy="Look at it with `attach`")

    app = lab.app(start=start)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.failure is not None and not app.is_running)
    assert str(app.failure) == "a runner is at work. Look at it with `attach`."


def test_a_headline_of_a_scripted_model_is_called_that() -> None:
    assert "SCRIPTED-MODEL" in plain(headline(None, True, 80, scripted=True))
    assert "it stands" in plain(headline(None, True, 80, scripted=False))


def test_help_on_runs_says_what_its_words_mean() -> None:
    text = "\n".join(plain(one) for one in help_page(["runs"], 70).lines)
    titles = {column.title for column, _ in layout(300)} - {"arm", "question", "turns", "time", "why"}
    for word in (*titles, "apart", "≥", "cold", "warm", "waits", "again", "retry", "REFUSED", "QUARANTINED", "gave up"):
        assert word in text, word
