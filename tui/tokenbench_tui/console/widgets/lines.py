"""Lines and tables of lines: what is drawn is compared with what stands there, and only the difference is painted."""

from collections.abc import Callable
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from tokenbench_tui.console import keymap
from tokenbench_tui.console.widgets.ink import EMPTY, INKS, Line, Page, Span, clip, merged

INK_CLASSES = frozenset({f"ink--{ink}" for ink in INKS} | {"ink--cursor"})
"""Component classes of every widget that draws lines; `theme.py` says how they look."""


class Brush:
    """Draws lines for a widget, in the theme at hand."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._styles: dict[str, Style] = {}

    def forget(self) -> None:
        """The theme may have changed."""
        self._styles.clear()

    def _base(self) -> Style:
        style = self._styles.get("")
        if style is None:
            style = self._styles[""] = self._widget.rich_style
        return style

    def style(self, ink: str) -> Style:
        """The Rich style of an ink, without a background of its own."""
        style = self._styles.get(ink)
        if style is None:
            style = self._styles[ink] = self._widget.get_component_rich_style(f"ink--{ink}", partial=True)
        return style

    def draw(self, spans: Line, cells: int, *, cursor: bool = False) -> Strip:
        """A line as a strip of exactly that many cells."""
        base = self._base() + self.style("cursor") if cursor else self._base()
        segments = [Segment(text, base + self.style(ink)) for text, ink in merged(clip(spans, cells))]
        return Strip(segments).adjust_cell_length(cells, base)


class Lines(Widget):
    """A fixed number of lines, one below the other; each is repainted only when it changes."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {*INK_CLASSES}

    def __init__(self, count: int = 1, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._brush = Brush(self)
        self._lines: list[Line] = [EMPTY] * count
        self.styles.height = count

    @property
    def plain(self) -> str:
        """What is shown, without inks."""
        return "\n".join("".join(text for text, _ in spans) for spans in self._lines)

    def show(self, *lines: Line) -> None:
        """Put these lines there; lines that are missing are blank."""
        for number, before in enumerate(self._lines):
            spans = lines[number] if number < len(lines) else EMPTY
            if spans != before:
                self._lines[number] = spans
                self.refresh(Region(0, number, self.size.width, 1))

    def resize(self, count: int) -> None:
        """Have another number of lines; the screen is laid out again."""
        if count != len(self._lines):
            self._lines = (self._lines + [EMPTY] * count)[:count]
            self.styles.height = count

    def render_line(self, y: int) -> Strip:
        """Line API."""
        spans = self._lines[y] if y < len(self._lines) else EMPTY
        return self._brush.draw(spans, self.size.width)

    def notify_style_update(self) -> None:
        """The theme may have changed."""
        super().notify_style_update()
        self._brush.forget()


class LineView(ScrollView, can_focus=True):
    """Lines that scroll, with a cursor on those that can be chosen. Subclasses say how many there are and draw them."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {*INK_CLASSES}
    BINDINGS: ClassVar[list[BindingType]] = keymap.bindings("list")

    cursor: reactive[int | None] = reactive(None, repaint=False)
    """The line that Enter opens; None where there is nothing to choose."""

    class Moved(Message):
        """The cursor stands on another line."""

        def can_replace(self, message: Message) -> bool:
            """Only the last place matters."""
            return isinstance(message, LineView.Moved)

    class Chosen(Message):
        """Enter was pressed on a line."""

        def __init__(self, view: "LineView", index: int) -> None:
            super().__init__()
            self.view = view
            self.index = index

        @property
        def control(self) -> "LineView":
            """The view it happened in."""
            return self.view

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._brush = Brush(self)
        self._strips: dict[int, Strip] = {}

    def count(self) -> int:
        """Number of lines."""
        raise NotImplementedError

    def line_at(self, index: int, cells: int) -> Line:
        """The line of that index, for that many cells."""
        raise NotImplementedError

    def can_choose(self, index: int) -> bool:
        """Whether the cursor may stand on this line."""
        raise NotImplementedError

    @property
    def cells(self) -> int:
        """Width of a line."""
        return self.scrollable_content_region.width

    @property
    def visible_lines(self) -> range:
        """Indices that are on the screen."""
        top = self.scroll_offset.y
        return range(top, min(self.count(), top + self.scrollable_content_region.height))

    @property
    def plain(self) -> str:
        """All lines, without inks."""
        cells = max(1, self.cells)
        return "\n".join("".join(t for t, _ in self.line_at(i, cells)) for i in range(self.count()))

    def render_line(self, y: int) -> Strip:
        """Line API."""
        index = y + self.scroll_offset.y
        cells = self.cells
        strip = self._strips.get(index)
        if strip is None or strip.cell_length != cells:
            if index >= self.count():
                return self._brush.draw((), cells)
            if len(self._strips) > 512:
                self._strips.clear()
            chosen = index == self.cursor
            spans = self.line_at(index, cells)
            strip = self._brush.draw(_pointed_at(spans) if chosen else spans, cells, cursor=chosen)
            self._strips[index] = strip
        return strip

    def redraw(self, index: int) -> None:
        """Draw this line anew, if it is on the screen."""
        self._strips.pop(index, None)
        if index in self.visible_lines:
            self.refresh_line(index)

    def redraw_all(self) -> None:
        """Draw every line anew; the number of lines may have changed."""
        self._strips.clear()
        self.virtual_size = Size(self.cells, self.count())
        self._settle()
        self.refresh()

    def notify_style_update(self) -> None:
        """The theme may have changed."""
        super().notify_style_update()
        self._brush.forget()
        self._strips.clear()

    def on_resize(self, event: events.Resize) -> None:
        """Lines are as wide as the widget."""
        del event
        self.redraw_all()
        self._keep_in_sight()

    def _settle(self) -> None:
        """Keep the cursor on a line that can be chosen."""
        if self.cursor is not None and self.cursor < self.count() and self.can_choose(self.cursor):
            return
        start = min(self.cursor or 0, max(0, self.count() - 1))
        self.cursor = self._next(start, 1, inclusive=True)
        if self.cursor is None:
            self.cursor = self._next(start, -1)

    def _next(self, index: int, step: int, *, inclusive: bool = False) -> int | None:
        index = index if inclusive else index + step
        while 0 <= index < self.count():
            if self.can_choose(index):
                return index
            index += step
        return None

    def watch_cursor(self, before: int | None, after: int | None) -> None:
        """Repaint the two lines that differ."""
        for index in (before, after):
            if index is not None:
                self.redraw(index)
        self.post_message(self.Moved())

    def _keep_in_sight(self) -> None:
        if self.cursor is None:
            return
        height = self.scrollable_content_region.height
        top = self.scroll_offset.y
        if self.cursor < top:
            # Headings above the first line that can be chosen come into sight with it.
            first = self._next(self.cursor, -1) is None
            self.scroll_to(y=0 if first and self.cursor < height else self.cursor, animate=False)
        elif height and self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False)

    def go_to(self, index: int) -> None:
        """Put the cursor on a line and bring it into sight."""
        self.cursor = index
        self._keep_in_sight()

    def keep_ahead(self, index: int, lines: int) -> None:
        """Have at least that many lines on the screen below this one; a scroll makes room for many more at once.

        A scroll repaints every line, a step costs two: over a slow line the view should jump seldom and far.
        """
        height = self.scrollable_content_region.height
        if height and index + lines >= self.scroll_offset.y + height:
            self.scroll_to(y=index - height // 4, animate=False)

    def move(self, step: int) -> None:
        """Move the cursor over that many lines, or scroll where there is nothing to choose or nothing further on."""
        if self.cursor is None:
            self.scroll_to(y=self.scroll_offset.y + step, animate=False)
            return
        sign = 1 if step > 0 else -1
        wanted = max(0, min(self.count() - 1, self.cursor + step))
        target = self._next(self.cursor, sign) if abs(step) == 1 else self._next(wanted, -sign, inclusive=True)
        height = self.scrollable_content_region.height
        if target is None or abs(target - self.cursor) > max(height, abs(step)):
            self.scroll_to(y=self.scroll_offset.y + step, animate=False)
            return
        if target == self.cursor:
            self.scroll_to(y=self.scroll_offset.y + step, animate=False)
        self.cursor = target
        self._keep_in_sight()

    def action_line_down(self) -> None:
        """One line on."""
        self.move(1)

    def action_line_up(self) -> None:
        """One line back."""
        self.move(-1)

    def action_page_on(self) -> None:
        """A page on."""
        self.move(max(1, self.scrollable_content_region.height - 1))

    def action_page_back(self) -> None:
        """A page back."""
        self.move(-max(1, self.scrollable_content_region.height - 1))

    def action_first_line(self) -> None:
        """To the top."""
        self.cursor = self._next(0, 1, inclusive=True)
        self.scroll_to(y=0, animate=False)

    def action_last_line(self) -> None:
        """To the end."""
        self.cursor = self._next(self.count() - 1, -1, inclusive=True)
        self.scroll_to(y=self.count(), animate=False)

    def action_choose(self) -> None:
        """Open what the cursor stands on."""
        if self.cursor is not None:
            self.post_message(self.Chosen(self, self.cursor))


def _pointed_at(spans: Line) -> Line:
    """The line with a sign in its first cell, where that is blank: the cursor is not colour alone."""
    sign: Span = (">", "key")
    if spans and spans[0][0].startswith(" "):
        return (sign, (spans[0][0][1:], spans[0][1]), *spans[1:])
    return (sign, *spans)


class Sheet(LineView):
    """A page of lines, some of which can be chosen; the page is made anew for each width."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._make: Callable[[int], Page] = _no_page
        self._page = Page()

    def show(self, make: Callable[[int], Page]) -> None:
        """Show the page that this function makes for a number of cells; the place one reads at is kept."""
        self._make = make
        if self.cells > 0:
            self._turn(make(self.cells))

    def _turn(self, page: Page) -> None:
        before, self._page = self._page, page
        if page.keys == before.keys and len(page.lines) == len(before.lines):
            for index, (old, new) in enumerate(zip(before.lines, page.lines, strict=True)):
                if old != new:
                    self.redraw(index)
            return
        chosen = before.keys.get(self.cursor) if self.cursor is not None else None
        if chosen is not None:
            place = next((index for index, key in page.keys.items() if key == chosen), self.cursor)
            self.set_reactive(LineView.cursor, place)
        self.redraw_all()
        if self.styles.is_auto_height:
            self.refresh(layout=True)

    def to_top(self) -> None:
        """Begin to read at the first line."""
        self.action_first_line()

    def on_resize(self, event: events.Resize) -> None:
        """Another width is another page."""
        del event
        self._page = self._make(self.cells) if self.cells > 0 else Page()

    @property
    def chosen(self) -> object | None:
        """What stands under the cursor."""
        return self._page.keys.get(self.cursor) if self.cursor is not None else None

    def key_at(self, index: int) -> object | None:
        """What choosing this line means."""
        return self._page.keys.get(index)

    def count(self) -> int:
        """Number of lines."""
        return len(self._page.lines)

    def line_at(self, index: int, cells: int) -> Line:
        """The line of that index."""
        del cells
        return self._page.lines[index]

    def can_choose(self, index: int) -> bool:
        """Whether something is behind this line."""
        return index in self._page.keys

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As high as its page, where the layout leaves the height to it."""
        del container, viewport
        return max(1, len(self._make(max(1, width - 1)).lines))


def _no_page(_: int) -> Page:
    return Page()
