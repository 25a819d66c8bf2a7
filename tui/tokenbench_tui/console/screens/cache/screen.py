"""Screen 5: whether the arms began equally warm, and what the cache did to the dollars."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from tokenbench_tui.console import keymap
from tokenbench_tui.console.latest import Latest
from tokenbench_tui.console.screens.base import ConsoleScreen, TooSmall
from tokenbench_tui.console.widgets.ink import EMPTY, Page, Pages, line, paragraph
from tokenbench_tui.console.widgets.keyline import Hint, KeyLine, hint
from tokenbench_tui.console.widgets.lines import Lines, LineView, Sheet

if TYPE_CHECKING:
    from tokenbench.findings.caching import Caching

PAUSE = 1.0
"""Seconds at least between two computations."""


class CacheScreen(ConsoleScreen):
    """The cache of all runs; live while an experiment is under way."""

    CONTEXT = "cache"
    BINDINGS: ClassVar[list[BindingType]] = keymap.bindings("cache")

    def __init__(self) -> None:
        super().__init__()
        self._latest: Latest[Caching] | None = None
        self._shown: object = None

    def compose(self) -> ComposeResult:
        """Two lines above the page."""
        yield Lines(2, id="title", classes="title")
        yield Sheet(id="cache")
        yield KeyLine()
        yield TooSmall()

    def furnish(self) -> None:
        """The page has the keys."""
        self.query_one("#cache", Sheet).focus()

    def bring_up_to_date(self) -> None:
        """Have it computed anew when a run began, ended or showed its first call, and show what came of it."""
        console = self.console
        if self._latest is None:
            self._latest = Latest(console, "cache", pause=PAUSE, seconds=console.clock.monotonic)
        if console.followed:
            begun = tuple((row.cell, row.attempt, row.read_share) for row in console.view.rows if row.attempt)
            self._latest.ask((console.bench.evidence, begun), console.bench.caching)
        state = (self._latest.value, self._latest.error, self.size.width)
        if state != self._shown:
            self._shown = state
            self._show(self._latest)
        self.say_keys()

    def _show(self, latest: "Latest[Caching]") -> None:
        title, sheet = self.query_one("#title", Lines), self.query_one("#cache", Sheet)
        if latest.error is not None:
            title.show(line((" The cache cannot be told", "loud")), EMPTY)
            sheet.show(partial(_message, latest.error))
            return
        if latest.value is None:
            title.show(line((" cache", "strong"), ("   being computed", "quiet")), EMPTY)
            return
        from tokenbench_tui.console.screens.cache import page

        cells = self.size.width
        title.show(page.title(latest.value, cells), page.subtitle(latest.value, cells))
        sheet.show(partial(page.cache_page, latest.value))

    def hints(self) -> Sequence[Hint]:
        """The ledger of the run under the cursor, and more of the page."""
        return [hint("choose", "ledger"), hint("page_on", "more")]

    @on(LineView.Chosen)
    def open_run(self, event: LineView.Chosen) -> None:
        """Go to the ledger of the run."""
        cell = self.query_one("#cache", Sheet).key_at(event.index)
        if isinstance(cell, str):
            self.console.show_ledger(cell)


def _message(text: str, cells: int) -> Page:
    pages = Pages()
    pages.add(*paragraph(((" ", "plain"),), text, cells - 1, indent=1))
    return pages.done()
