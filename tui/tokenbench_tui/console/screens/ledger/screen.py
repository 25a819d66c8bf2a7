"""Screen 2: what one run cost, and whether that is reconciled."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from tokenbench.runner.rows import Row
from tokenbench.text import one_line
from tokenbench_tui.console import keymap
from tokenbench_tui.console.latest import Latest
from tokenbench_tui.console.screens.base import ConsoleScreen, TooSmall
from tokenbench_tui.console.screens.ledger import page
from tokenbench_tui.console.widgets.ink import EMPTY, Page, Pages, line, paragraph
from tokenbench_tui.console.widgets.keyline import Hint, KeyLine, hint
from tokenbench_tui.console.widgets.lines import Lines, Sheet

if TYPE_CHECKING:
    from tokenbench_tui.console.screens.ledger.look import Look

PAUSE = 0.2
"""Seconds at least between two looks at a growing transcript."""


class LedgerScreen(ConsoleScreen):
    """One run; live while it is under way."""

    CONTEXT = "ledger"
    BINDINGS: ClassVar[list[BindingType]] = keymap.bindings("ledger")

    def __init__(self) -> None:
        super().__init__()
        self.cell: str | None = None
        """The cell that is looked at."""
        self._latest: Latest[Look] | None = None
        self._shown: Look | None = None
        self._shown_at = 0
        """Width that the title was made for."""

    def compose(self) -> ComposeResult:
        """Two lines above the page."""
        yield Lines(2, id="title", classes="title")
        yield Sheet(id="ledger")
        yield KeyLine()
        yield TooSmall()

    def furnish(self) -> None:
        """The page has the keys."""
        self.query_one("#ledger", Sheet).focus()

    def look_at(self, cell: str) -> None:
        """Show this cell from now on."""
        if cell != self.cell:
            self.cell = cell
            if self._latest is not None:
                self._latest.forget()

    @property
    def _row(self) -> Row | None:
        return next((row for row in self.console.view.rows if row.cell == self.cell), None)

    def bring_up_to_date(self) -> None:
        """Look again if the cell has moved on, and show what was seen."""
        if self.cell is None:
            first = _first_to_show(self.console.view.rows)
            if first is not None:
                self.look_at(first.cell)
        if self.cell is not None:
            if self._latest is None:
                clock = self.console.clock
                self._latest = Latest(self.console, "ledger", pause=PAUSE, seconds=clock.monotonic)
            row = self._row
            # While a run is under way its transcript grows between two lines of the journal.
            tick = self.console.clock.monotonic() if row is not None and row.state == "running" else None
            opened = self.console.view.mapping_opened
            key = (self.cell, row.state if row else None, row.attempt if row else None, opened, tick)
            self._latest.ask(key, partial(self.console.bench.look, self.cell))
        self._show()
        self.say_keys()

    def _show(self) -> None:
        title, sheet = self.query_one("#title", Lines), self.query_one("#ledger", Sheet)
        latest = self._latest
        look = latest.value if latest is not None else None
        if latest is None or self.cell is None:
            title.show(
                line((" Ledger", "strong"), ("   no run yet" if self.console.followed else "   reading", "quiet")),
                EMPTY,
            )
            return
        name = cell_name(self._row, self.cell)
        if latest.error is not None and not latest.busy:
            title.show(line((f" {name}", "strong"), ("   cannot be read", "loud")), EMPTY)
            sheet.show(partial(_message, latest.error))
            return
        if look is None or look.cell != self.cell:
            title.show(line((f" {name}", "strong"), ("   reading", "quiet")), EMPTY)
            # The figures of another run below this one's name would be taken for its own.
            sheet.show(_nothing)
            self._shown = None
            return
        if look is self._shown and self.size.width == self._shown_at:
            return
        self._shown_at = self.size.width
        moved_on = self._shown is None or self._shown.cell != look.cell
        self._shown = look
        if look.ledger is None:
            title.show(line((f" {name}", "strong")), EMPTY)
            sheet.show(partial(_message, look.problem))
        elif look.live is not None:
            scripted = self.console.view.scripted
            title.show(page.live_title(name, look.live), page.live_subtitle(look.live, scripted=scripted))
            sheet.show(partial(page.live_page, look.ledger))
        else:
            did_not_count = look.attempt is not None
            shown = f"{name} attempt {look.attempt}, did not count" if did_not_count else name
            title.show(page.title(look.ledger, shown, self.size.width), page.subtitle(look.ledger))
            sheet.show(partial(page.ledger_page, page.Shown(look.ledger, look.parts, look.sources)))
        if moved_on:
            sheet.to_top()

    def hints(self) -> Sequence[Hint]:
        """Other runs, and back."""
        return [("[ ]", "other run"), hint("next_section"), hint("page_on", "more"), hint("back")]

    def _step(self, by: int) -> None:
        """The nearest cell in that direction that has something to show."""
        rows = self.console.view.rows
        here = next((index for index, row in enumerate(rows) if row.cell == self.cell), 0)
        for distance in range(1, len(rows) + 1):
            row = rows[(here + by * distance) % len(rows)]
            if row.attempt:
                self.look_at(row.cell)
                self.project()
                return

    def action_previous_run(self) -> None:
        """The run before."""
        self._step(-1)

    def action_next_run(self) -> None:
        """The run after."""
        self._step(1)

    def action_next_section(self) -> None:
        """The next section of the page; after the last one its top."""
        sheet = self.query_one("#ledger", Sheet)
        at = sheet.cursor if sheet.cursor is not None else -1
        following = (index for index in range(at + 1, sheet.count()) if str(sheet.key_at(index)).startswith("section"))
        place = next(following, None)
        if place is None:
            sheet.to_top()
        else:
            sheet.go_to(place)

    def action_back(self) -> None:
        """Back to Runs."""
        self.console.action_runs()


def cell_name(row: Row | None, cell: str) -> str:
    """A cell as it is spoken of: native · q01 · 1."""
    if row is None or not row.repeat:
        return one_line(cell, 60)
    return f"{one_line(row.arm, 24)} · {one_line(row.question, 40)} · {row.repeat}"


def _first_to_show(rows: Sequence[Row]) -> Row | None:
    for states in (("refused", "quarantined"), ("running",), ("ok", "failed")):
        found = next((row for row in rows if row.state in states), None)
        if found is not None:
            return found
    return None


def _nothing(_: int) -> Page:
    return Page()


def _message(text: str, cells: int) -> Page:
    pages = Pages()
    pages.add((), *paragraph(((" ", "plain"),), text, cells - 1, indent=1))
    return pages.done()
