"""The table of cells: ten thousand rows cost no more than the ones that are on the screen and changed."""

from tokenbench.runner.rows import Row
from tokenbench_tui.console.screens.runs.columns import row_line
from tokenbench_tui.console.widgets.ink import Line
from tokenbench_tui.console.widgets.lines import LineView


class BoardTable(LineView):
    """Rows of a board, drawn as they scroll into sight."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: tuple[Row, ...] = ()
        self._plan = -1
        self.following = True
        """Whether the cursor goes along with the runs; moving it oneself ends that."""
        self._now = 0.0
        self._drawn: dict[int, Line] = {}

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows that are shown."""
        return self._rows

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        return self._rows[self.cursor] if self.cursor is not None and self.cursor < len(self._rows) else None

    def show(self, rows: tuple[Row, ...], plan: int, now: float) -> None:
        """Show these rows; lines that look as before are left alone.

        Args:
            rows: Of a view.
            plan: The number of the view's plan.
            now: Seconds since the epoch.
        """
        before, self._rows, self._now = self._rows, rows, now
        if plan != self._plan or len(before) != len(rows):
            self._plan = plan
            self._keep_place(before)
            self._drawn.clear()
            self.redraw_all()
            return
        if self.following:
            self._follow()
        shown = self.visible_lines
        for index in shown:
            if index in self._drawn and self._drawn[index] != row_line(rows[index], now, self.cells):
                self.redraw(index)
        for index in [index for index in self._drawn if index not in shown]:
            # What scrolled away may change unseen, so it is drawn anew when it comes back.
            del self._drawn[index]
            self._strips.pop(index, None)

    def _follow(self) -> None:
        """Stand on the first run under way, so that what happens is on the screen."""
        first = next((index for index, row in enumerate(self._rows) if row.state == "running"), None)
        if first is not None and first != self.cursor:
            self.keep_ahead(first, 3)
            LineView.go_to(self, first)

    def move(self, step: int) -> None:
        """Moving oneself ends following."""
        self.following = False
        super().move(step)

    def go_to(self, index: int) -> None:
        """So does going somewhere."""
        self.following = False
        super().go_to(index)

    def action_first_line(self) -> None:
        """So does going to the top."""
        self.following = False
        super().action_first_line()

    def action_last_line(self) -> None:
        """And to the end."""
        self.following = False
        super().action_last_line()

    def _keep_place(self, before: tuple[Row, ...]) -> None:
        if self.cursor is None or self.cursor >= len(before):
            return
        cell = before[self.cursor].cell
        place = next((index for index, row in enumerate(self._rows) if row.cell == cell), None)
        self.set_reactive(LineView.cursor, place)

    def count(self) -> int:
        """Number of rows."""
        return len(self._rows)

    def can_choose(self, index: int) -> bool:
        """Every row can be chosen."""
        return index < len(self._rows)

    def line_at(self, index: int, cells: int) -> Line:
        """The row of that index."""
        spans = row_line(self._rows[index], self._now, cells)
        self._drawn[index] = spans
        return spans
