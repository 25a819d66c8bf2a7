"""The boxes: help, the palette, a question that wants a yes, a line of text."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from tokenbench_tui.console import keymap
from tokenbench_tui.console.screens.base import PERIOD, Box, TooSmall
from tokenbench_tui.console.widgets.ink import Line, Page, Pages, fit, line, paragraph
from tokenbench_tui.console.widgets.lines import Lines, Sheet
from tokenbench_tui.console.words import WORDS


class HelpBox(Box):
    """The keys of what has the focus, then those of the screen, then those that work everywhere."""

    def __init__(self, contexts: Sequence[keymap.Context]) -> None:
        super().__init__()
        self._contexts = contexts

    def compose(self) -> ComposeResult:
        """A heading and the keys."""
        with Vertical(classes="box"):
            yield Lines(id="heading")
            yield Sheet(id="keys")
        yield TooSmall()

    def furnish(self) -> None:
        """Show the keys."""
        self.query_one("#heading", Lines).show(line(("Keys", "strong"), ("   Esc closes", "quiet")))
        self.query_one("#keys", Sheet).show(lambda cells: help_page(self._contexts, cells))
        self.query_one("#keys", Sheet).focus()


def help_page(contexts: Sequence[keymap.Context], cells: int) -> Page:
    """Keys and what they do, context by context; below those of a screen, what its words mean."""
    pages = Pages()
    for number, context in enumerate(contexts):
        if number:
            pages.add(())
        pages.add(line((keymap.CONTEXTS[context], "accent")))
        for action in keymap.actions(context):
            keys = " ".join(keymap.key_name(key) for key in action.keys)
            pages.add(*paragraph(((fit(f" {keys}", 12), "key"),), action.help, cells, indent=13))
        if context in WORDS:
            pages.add((), line((f"words on {keymap.CONTEXTS[context]}", "accent")))
            for word, meaning in WORDS[context]:
                pages.add(*paragraph(((fit(f" {word}", 13), "strong"),), meaning, cells, indent=14))
    return pages.done()


class PaletteBox(Box):
    """Every action by its name; the result is the action that was chosen, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
    ]

    def __init__(self, actions: Sequence[keymap.Action]) -> None:
        super().__init__()
        self._actions = actions
        self.found: Sequence[keymap.Action] = actions
        """The actions that fit what was typed."""

    def compose(self) -> ComposeResult:
        """A line to type on, and what fits it."""
        with Vertical(classes="box"):
            yield Input(placeholder="what to do", select_on_focus=False, id="wanted")
            yield Sheet(id="found")
        yield TooSmall()

    def furnish(self) -> None:
        """Show every action."""
        self.query_one("#found", Sheet).can_focus = False
        self.query_one("#wanted", Input).focus()
        self._list()

    def _list(self) -> None:
        found = self.found
        self.query_one("#found", Sheet).show(lambda cells: palette_page(found, cells))
        self.query_one("#found", Sheet).action_first_line()

    @on(Input.Changed)
    def narrow(self, event: Input.Changed) -> None:
        """Keep what fits."""
        event.stop()
        self.found = matching(self._actions, event.value)
        self._list()

    @on(Input.Submitted)
    def choose(self, event: Input.Submitted) -> None:
        """Take the action under the cursor."""
        event.stop()
        chosen = self.query_one("#found", Sheet).chosen
        if chosen is not None:
            self.dismiss(chosen)

    def action_move(self, step: int) -> None:
        """Move the cursor in the list."""
        self.query_one("#found", Sheet).move(step)


def matching(actions: Sequence[keymap.Action], wanted: str) -> list[keymap.Action]:
    """The actions whose words begin with, or else contain, every word that is wanted."""
    words = wanted.casefold().split()

    def texts(action: keymap.Action) -> str:
        return f" {action.palette} {action.label} {action.id.replace('_', ' ')}".casefold()

    fitting = [one for one in actions if all(word in texts(one) for word in words)]
    return sorted(fitting, key=lambda one: not all(f" {word}" in texts(one) for word in words))


def palette_page(found: Sequence[keymap.Action], cells: int) -> Page:
    """A line an action, its key at the right."""
    pages = Pages()
    for action in found:
        key = keymap.key_name(action.keys[0])
        pages.add(line(fit(f" {action.palette}", cells - 8), (fit(key, 7, "right"), "key")), key=action)
    if not found:
        pages.add(line(("No action of that name", "quiet")))
    return pages.done()


class AskBox(Box):
    """A question that is answered with y; the result is True, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "yes", show=False),
        Binding("n", "close", show=False),
    ]

    def __init__(self, question: str, detail: str, yes: str, *, void: Callable[[], str | None] = lambda: None) -> None:
        """Ask.

        Args:
            question: What is asked.
            detail: What a yes means.
            yes: What it does, in a word or two.
            void: Says why the question has no point any more, or None; the box closes then, and that is said.
        """
        super().__init__()
        self._question, self._detail, self._yes, self._void = question, detail, yes, void

    def compose(self) -> ComposeResult:
        """The question, what it means, and the two keys."""
        with Vertical(classes="box"):
            yield Sheet(id="asked")
            yield Lines(id="answers")
        yield TooSmall()

    def furnish(self) -> None:
        """Show the question."""

        def page(cells: int) -> Page:
            pages = Pages()
            pages.add(*paragraph((), self._question, cells, indent=0, ink="strong"))
            pages.add(*paragraph((), self._detail, cells, indent=0), ())
            return pages.done()

        self.query_one("#asked", Sheet).show(page)
        self.query_one("#asked", Sheet).focus()
        self.query_one("#answers", Lines).show(
            line(("y", "key"), f" {self._yes}   ", ("n", "key"), " or ", ("Esc", "key"), " leave it as it is")
        )
        self.set_interval(PERIOD, self._close_if_void, name="void")

    def _close_if_void(self) -> None:
        reason = self._void()
        if reason is not None and self.is_current:
            self.dismiss(None)
            self.console.say(reason, "warn")

    def action_yes(self) -> None:
        """Do it."""
        self.dismiss(True)


class TellBox(Box):
    """Something that went wrong, in full, and what to do now."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "close", show=False)]

    def __init__(self, what: str, remedy: str, where: str = "") -> None:
        super().__init__()
        self._what, self._remedy, self._where = what, remedy, where

    def compose(self) -> ComposeResult:
        """What it is, and the way out of the box."""
        with Vertical(classes="box"):
            yield Sheet(id="what")
            yield Lines(id="answers")
        yield TooSmall()

    def furnish(self) -> None:
        """Show it."""

        def page(cells: int) -> Page:
            pages = Pages()
            pages.add(*paragraph((), self._what, cells, indent=0, ink="loud"))
            pages.add(*paragraph((("mend  ", "key"),), self._remedy, cells, indent=6))
            if self._where:
                pages.add(*paragraph((("at    ", "quiet"),), self._where, cells, indent=6, ink="quiet"))
            pages.add(())
            return pages.done()

        self.query_one("#what", Sheet).show(page)
        self.query_one("#answers", Lines).show(line(("Esc", "key"), " closes"))


class TextBox(Box):
    """One line of text; the result is what was typed, or None. What does not pass the check is asked again."""

    def __init__(
        self, title: Line, *, value: str = "", check: Callable[[str], str | None], placeholder: str = ""
    ) -> None:
        """Ask.

        Args:
            title: What is asked for.
            value: What stands there at first.
            check: Says what is wrong with a text, or None.
            placeholder: Shown while nothing is typed.
        """
        super().__init__()
        self._title, self._value, self._check, self._placeholder = title, value, check, placeholder

    def compose(self) -> ComposeResult:
        """The question, the line, and what was wrong with it."""
        with Vertical(classes="box"):
            yield Lines(id="title")
            yield Input(value=self._value, placeholder=self._placeholder, select_on_focus=False, id="text")
            yield Lines(2, id="wrong")
        yield TooSmall()

    def furnish(self) -> None:
        """Ask."""
        self.query_one("#title", Lines).show(self._title)
        self.query_one("#wrong", Lines).show(line(("Enter takes it, Esc leaves it", "quiet")))
        self.query_one("#text", Input).focus()

    @on(Input.Submitted)
    def take(self, event: Input.Submitted) -> None:
        """Take the text, or say what is wrong with it."""
        event.stop()
        wrong = self._check(event.value)
        if wrong is None:
            self.dismiss(event.value)
            return
        shown = paragraph((), wrong, max(10, self.query_one("#wrong", Lines).size.width), indent=0, ink="bad")
        self.query_one("#wrong", Lines).show(*shown[:2])
