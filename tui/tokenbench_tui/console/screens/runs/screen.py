"""Screen 1: one row a cell, live."""

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from tokenbench.experiment.model import Cell
from tokenbench.text import one_line
from tokenbench_tui.console import keymap
from tokenbench_tui.console.codes import MONEY
from tokenbench_tui.console.screens.base import ConsoleScreen, TooSmall
from tokenbench_tui.console.screens.boxes import AskBox
from tokenbench_tui.console.screens.runs import summary
from tokenbench_tui.console.screens.runs.columns import heading
from tokenbench_tui.console.screens.runs.table import BoardTable
from tokenbench_tui.console.widgets.keyline import Hint, KeyLine, hint
from tokenbench_tui.console.widgets.lines import Lines, LineView

TROUBLE = frozenset({"refused", "failed", "quarantined", "infrastructure", "cancelled"})


class RunsScreen(ConsoleScreen):
    """The table of cells between what is known of all and what to do next."""

    CONTEXT = "runs"
    BINDINGS: ClassVar[list[BindingType]] = keymap.bindings("runs")

    def compose(self) -> ComposeResult:
        """Two lines above, the table, three below."""
        yield Lines(2, id="summary", classes="title")
        yield Lines(id="heading")
        yield BoardTable(id="table")
        yield Lines(3, id="state")
        yield KeyLine()
        yield TooSmall()

    def furnish(self) -> None:
        """The table has the keys."""
        self.query_one(BoardTable).focus()

    def bring_up_to_date(self) -> None:
        """Bring every region up to date; each repaints only what differs."""
        view, bench, now = self.console.view, self.console.bench, self.console.clock.now()
        cells = self.size.width
        table = self.query_one(BoardTable)
        if not self.console.followed:
            self.query_one("#summary", Lines).show(summary.reading(bench.about))
            self.say_keys()
            return
        self.query_one("#summary", Lines).show(
            summary.title(bench.about, view, cells), summary.progress(bench.about, view, now, cells)
        )
        self.query_one("#heading", Lines).show(heading(table.cells))
        table.show(view.rows, view.plan, now)
        findings = self.console.findings
        self.query_one("#state", Lines).show(
            summary.trouble_line(view.totals, cells),
            summary.phase_line(view.phase, view, starting=self.console.starting),
            summary.headline(findings.refusal, findings.shown, cells, scripted=view.scripted),
        )
        self.say_keys()

    def hints(self) -> Sequence[Hint]:
        """What helps with the row under the cursor and with the runner."""
        view = self.console.view
        now: list[Hint] = []
        row = self.query_one(BoardTable).row
        if row is not None and (row.done or row.state == "running"):
            now.append(hint("choose", "ledger"))
        if view.phase.kind == "paused":
            now.append(hint("pause", "resume"))
        elif view.phase.kind == "running":
            now.append(hint("pause", "pause"))
        if self.console.findings.wants_grading:
            now.insert(0, hint("grade"))
        if any(code not in MONEY for code, _ in view.totals.codes):
            now.append(hint("next_trouble", "refused"))
        return [*now, *([hint("cancel"), hint("stop")] if view.phase.kind in ("running", "paused") else [])]

    @on(LineView.Moved)
    def moved(self) -> None:
        """The keys that help depend on the row."""
        self.say_keys()

    @on(LineView.Chosen)
    def open_ledger(self) -> None:
        """Show what the run under the cursor cost."""
        row = self.query_one(BoardTable).row
        if row is not None:
            self.console.show_ledger(row.cell)

    def action_pause(self) -> None:
        """Pause, or go on."""
        self.console.command("resume" if self.console.view.phase.kind == "paused" else "pause")

    def action_stop(self) -> None:
        """End after the current runs."""

        def answered(yes: object) -> None:
            if yes:
                self.console.command("stop")

        running = self.console.view.totals.running
        again = "rehearse" if self.console.view.scripted else "run"
        self.console.push_screen(
            AskBox(
                "Stop after the current runs?",
                f"{running} under way will be finished and kept. `tokenbench-tui {again}` goes on with the rest.",
                "stop",
                void=self._runner_gone,
            ),
            answered,
        )

    def action_cancel(self) -> None:
        """Cancel the cell under the cursor."""
        row = self.query_one(BoardTable).row
        if row is None or row.done or row.state in ("cancelled", "infrastructure"):
            self.console.say("There is nothing to cancel in this row", "warn")
            return

        def answered(yes: object) -> None:
            if yes:
                self.console.command("cancel", cell=row.cell)

        what = "Its process is ended; its tokens are kept apart." if row.state == "running" else "It will not be run."
        self.console.push_screen(
            AskBox(
                f"Cancel {one_line(row.cell, 60)}?",
                f"{what} The headline is refused as INCOMPLETE until the cell has a run that counts.",
                "cancel the cell",
                void=lambda: self._nothing_to_cancel(row.cell),
            ),
            answered,
        )

    def _runner_gone(self) -> str | None:
        """Why no runner can be told anything; None while one can."""
        return "The runner has ended meanwhile" if self.console.view.phase.kind in ("none", "ended", "lost") else None

    def _nothing_to_cancel(self, cell: str) -> str | None:
        """Why this cell cannot be cancelled any more; None while it can."""
        row = next((one for one in self.console.view.rows if one.cell == cell), None)
        if row is not None and row.done:
            return f"{one_line(cell, 60)} has ended by itself"
        return self._runner_gone()

    def action_next_trouble(self) -> None:
        """To the next row that needs a look."""
        self._go_to_next(TROUBLE)

    def action_next_running(self) -> None:
        """To the next row that is under way."""
        self._go_to_next(frozenset({"running", "retry"}))

    def action_follow(self) -> None:
        """Go along with the runs."""
        self.query_one(BoardTable).following = True
        self.project()

    def _go_to_next(self, states: frozenset[str]) -> None:
        table = self.query_one(BoardTable)
        found = [index for index, row in enumerate(table.rows) if row.state in states]
        if not found:
            self.console.say("There is none", "quiet")
            return
        here = -1 if table.cursor is None else table.cursor
        table.go_to(next((index for index in found if index > here), found[0]))

    def cell_under_cursor(self) -> Cell | None:
        """The cell of the row under the cursor."""
        row = self.query_one(BoardTable).row
        return Cell(row.arm, row.question, row.repeat) if row is not None else None
