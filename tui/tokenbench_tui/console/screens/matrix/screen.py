"""Screen 4: tokens per correct answer, or why there are none."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from tokenbench_tui.console import keymap
from tokenbench_tui.console.screens.base import Box, ConsoleScreen, TooSmall
from tokenbench_tui.console.widgets.ink import EMPTY, Page, Pages, line, paragraph
from tokenbench_tui.console.widgets.keyline import Hint, KeyLine, hint
from tokenbench_tui.console.widgets.lines import Lines, LineView, Sheet

if TYPE_CHECKING:
    from tokenbench.findings.results import Results
    from tokenbench_tui.console.screens.matrix.page import Why


class WhyBox(Box):
    """Why a figure is what it is, or is refused; the result is a cell whose ledger is wanted, or None."""

    def __init__(self, results: "Results", why: "Why") -> None:
        super().__init__()
        self._results, self._why = results, why

    def compose(self) -> ComposeResult:
        """What it is of, and the reason."""
        with Vertical(classes="box wide"):
            yield Lines(id="of")
            yield Sheet(id="why")
        yield TooSmall()

    def furnish(self) -> None:
        """Show the reason."""
        from tokenbench_tui.console.screens.matrix import page

        of = page.why_title(self._results, self._why)
        self.query_one("#of", Lines).show(line((f" {of}", "strong"), ("   Esc closes", "quiet")))
        self.query_one("#why", Sheet).show(partial(page.why_page, self._results, self._why))
        self.query_one("#why", Sheet).focus()

    @on(LineView.Chosen)
    def open_run(self, event: LineView.Chosen) -> None:
        """Go to the ledger of a run."""
        cell = self.query_one("#why", Sheet).key_at(event.index)
        if cell is not None:
            self.dismiss(cell)


class MatrixScreen(ConsoleScreen):
    """The figures."""

    CONTEXT = "matrix"
    BINDINGS: ClassVar[list[BindingType]] = keymap.bindings("matrix")

    _shown: object = None

    def compose(self) -> ComposeResult:
        """Two lines above the page."""
        yield Lines(2, id="title", classes="title")
        yield Sheet(id="figures")
        yield KeyLine()
        yield TooSmall()

    def furnish(self) -> None:
        """The page has the keys."""
        self.query_one("#figures", Sheet).focus()

    def bring_up_to_date(self) -> None:
        """Show new results when they have come."""
        findings = self.console.findings
        state = (findings.made_for, findings.error, findings.busy, self.size.width)
        if state != self._shown:
            self._shown = state
            self._show()
        self.say_keys()

    def _show(self) -> None:
        findings = self.console.findings
        results, error = findings.results, findings.error
        title, sheet = self.query_one("#title", Lines), self.query_one("#figures", Sheet)
        if error is not None:
            title.show(line((" The figures cannot be computed", "loud")), EMPTY)
            sheet.show(partial(_message, error))
            return
        if results is None:
            title.show(line((" tokens per correct answer", "strong"), ("   being computed", "quiet")), EMPTY)
            return
        from tokenbench_tui.console.screens.matrix import page

        cells = self.size.width
        title.show(page.title(results, cells), page.subtitle(results, cells))
        sheet.show(partial(page.matrix_page, results))

    def hints(self) -> Sequence[Hint]:
        """Why, and where to go about it."""
        now = [hint("choose", "why")]
        if self.console.findings.wants_grading:
            now.insert(0, hint("grade"))
        return now

    @on(LineView.Chosen)
    def explain(self, event: LineView.Chosen) -> None:
        """Why this figure, or this refusal."""
        from tokenbench_tui.console.screens.matrix.page import Why

        results = self.console.findings.results
        why = self.query_one("#figures", Sheet).key_at(event.index)
        if results is None or not isinstance(why, Why):
            return

        def go(cell: object) -> None:
            if isinstance(cell, str):
                self.console.show_ledger(cell)

        self.console.push_screen(WhyBox(results, why), go)

    def action_recompute(self) -> None:
        """Compute the figures again."""
        self.console.findings.again()


def _message(text: str, cells: int) -> Page:
    pages = Pages()
    pages.add(*paragraph(((" ", "plain"),), text, cells - 1, indent=1))
    return pages.done()
