"""What all screens share: a projector, the bottom line, and the one line for a terminal that is too small."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, Screen
from textual.timer import Timer
from textual.widget import Widget

from tokenbench.figures import Code
from tokenbench.text import one_line
from tokenbench_tui.console import keymap
from tokenbench_tui.console.terminal import SMALLEST
from tokenbench_tui.console.widgets.ink import Ink, line
from tokenbench_tui.console.widgets.keyline import Hint, KeyLine
from tokenbench_tui.console.widgets.lines import Lines

if TYPE_CHECKING:
    from tokenbench_tui.console.app import TokenbenchApp

PERIOD = 0.25
"""Seconds between two projections."""
SAID = 4.0
"""Seconds for which a message stands on the bottom line."""
ALWAYS = frozenset({"leave"})
"""Actions of a screen that nobody can see."""


class TooSmall(Lines):
    """The one line that stands where a layout does not fit."""

    def say(self, columns: int, rows: int) -> None:
        """Say what is needed, the shortest way that fits."""
        needed = f"{SMALLEST[0]}x{SMALLEST[1]}"
        texts = (f"this needs {needed}, the terminal has {columns}x{rows}; q quits", f"needs {needed}", needed)
        self.show(line(next((text for text in texts if len(text) <= columns), texts[-1])))


class Unconfined(Lines):
    """The line above every screen of an experiment whose agents are not confined."""

    def say(self, reason: str) -> None:
        """Say so, and why."""
        self.show(line((f" {Code.NO_SANDBOX}: the agents are not confined: {one_line(reason, 300)}", "loud")))


class Fitting(Screen[object]):
    """A screen that gives way to one line where it does not fit."""

    _focus_before: Widget | None = None

    @property
    def console(self) -> "TokenbenchApp":
        """The application."""
        from tokenbench_tui.console.app import TokenbenchApp

        return cast(TokenbenchApp, self.app)

    @property
    def tiny(self) -> bool:
        """Whether the terminal is too small for this screen."""
        return self.has_class("-tiny")

    @property
    def laid_out(self) -> bool:
        """Whether its widgets are there. A screen that opens, or lives on, while the console closes has none."""
        return bool(self.query(TooSmall))

    def on_mount(self) -> None:
        """Put into the widgets what stands there at first."""
        if self.laid_out:
            self.furnish()

    def furnish(self) -> None:
        """Put into the widgets what stands there at first, and give one of them the keys."""
        raise NotImplementedError

    def on_resize(self, event: events.Resize) -> None:
        """Show the layout, or say what it needs."""
        if not self.laid_out:
            return
        columns, rows = event.size
        tiny = columns < SMALLEST[0] or rows < SMALLEST[1]
        self.query_one(TooSmall).say(columns, rows)
        if tiny and not self.tiny:
            self._focus_before = self.focused
        self.set_class(tiny, "-tiny")
        if not tiny and self._focus_before is not None:
            self.set_focus(self._focus_before)
            self._focus_before = None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing is done on a screen that cannot be read, or while the console closes."""
        del parameters
        return not self.console.leaving and (not self.tiny or action in ALWAYS)


class ConsoleScreen(Fitting):
    """One of the screens. Its projector runs while it is the one that is shown."""

    CONTEXT: ClassVar[keymap.Context]
    BINDINGS: ClassVar[list[BindingType]] = []

    _timer: Timer | None = None
    _said_until: float = float("-inf")

    def on_mount(self) -> None:
        """Start the projector."""
        self._timer = self.set_interval(PERIOD, self.project, name="projector")

    def on_screen_suspend(self) -> None:
        """Nobody looks, unless it is a box that stands over the screen."""
        if self._timer is not None and self not in self.app.screen_stack:
            self._timer.pause()

    def on_screen_resume(self) -> None:
        """Show what has happened meanwhile, at once."""
        if self._timer is not None:
            self._timer.resume()
        self.call_later(self.project)

    def on_resize(self, event: events.Resize) -> None:
        """Lines are made for a width."""
        del event
        self.call_later(self.project)

    def project(self) -> None:
        """Bring the screen up to date, if it is laid out already."""
        if self.laid_out:
            self._say_unconfined()
            self.bring_up_to_date()

    def _say_unconfined(self) -> None:
        reason = self.console.view.unconfined
        if reason is None:
            return
        if not self.query(Unconfined):
            self.mount(Unconfined(), before=0)
        self.query_one(Unconfined).say(reason)

    def bring_up_to_date(self) -> None:
        """Drain what is new, and repaint what it changed."""
        raise NotImplementedError

    def hints(self) -> Sequence[Hint]:
        """What to press now, the most useful first."""
        raise NotImplementedError

    def say_keys(self) -> None:
        """Bring the bottom line up to date, unless something is being said there."""
        if self.laid_out and self.console.clock.monotonic() >= self._said_until:
            self.query_one(KeyLine).press(self.hints(), self.CONTEXT)

    def say(self, words: str, ink: Ink) -> None:
        """Say something on the bottom line for a few seconds."""
        self._said_until = self.console.clock.monotonic() + SAID
        if self.laid_out:
            self.query_one(KeyLine).show(line((f" {one_line(words, 300)}", ink)))


class Box(ModalScreen[object], Fitting):
    """A box over a screen; Escape closes it with None."""

    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("modal"), Binding("ctrl+c", "close", show=False)]

    def action_close(self) -> None:
        """Close the box."""
        self.dismiss(None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A box can always be closed."""
        return action == "close" or super().check_action(action, parameters)
