"""The application: follows the files, holds the latest view of them, and switches screens. No domain logic."""

import asyncio
import contextlib
import os
import shlex
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar

from rich.console import RenderableType
from textual.app import App
from textual.binding import Binding, BindingType
from textual.filter import LineFilter
from textual.screen import Screen
from textual.widgets import Input

from tokenbench.clock import Clock, SystemClock
from tokenbench.errors import TokenbenchError
from tokenbench.runner import control
from tokenbench.runner.rows import View
from tokenbench.text import one_line
from tokenbench_tui.console import keymap, terminal, theme
from tokenbench_tui.console.bench import Bench, open_bench
from tokenbench_tui.console.findings import Findings
from tokenbench_tui.console.screens.base import PERIOD, ConsoleScreen
from tokenbench_tui.console.screens.boxes import HelpBox, PaletteBox, TellBox
from tokenbench_tui.console.screens.cache.screen import CacheScreen
from tokenbench_tui.console.screens.grade.screen import GradeScreen
from tokenbench_tui.console.screens.ledger.screen import LedgerScreen
from tokenbench_tui.console.screens.matrix.screen import MatrixScreen
from tokenbench_tui.console.screens.runs.screen import RunsScreen
from tokenbench_tui.console.widgets.ink import Ink


class TokenbenchApp(App[None], inherit_bindings=False):
    """The console on one experiment."""

    CSS = theme.CSS
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    INLINE_PADDING = 0
    MODES: ClassVar[dict[str, str | Callable[[], Screen[object]]]] = {
        "runs": RunsScreen,
        "ledger": LedgerScreen,
        "grade": GradeScreen,
        "matrix": MatrixScreen,
        "cache": CacheScreen,
    }
    DEFAULT_MODE = "runs"
    BINDINGS: ClassVar[list[BindingType]] = [
        *keymap.bindings("app"),
        Binding("ctrl+c", "leave", show=False),
    ]

    def __init__(
        self, bench: Bench, clock: Clock, *, ascii_only: bool = False, start: Callable[[], object] | None = None
    ) -> None:
        """
        Args:
            bench: What is read.
            clock: The time.
            ascii_only: Draw with ASCII signs alone.
            start: Starts the runner, and may take long; the console closes if it raises a TokenbenchError.
        """
        super().__init__()
        self.leaving = False
        """Whether the console closes: no key does anything any more."""
        self.failure: TokenbenchError | None = None
        """Why the runner could not be started."""
        self.starting = start is not None
        """Whether the runner is being started."""
        self._start = start
        self.bench = bench
        self.clock = clock
        self.view = View()
        self.findings = Findings(self)
        self.followed = False
        """Whether the files were read at least once."""
        self._gate = terminal.Gate(ascii_only=ascii_only)
        self.animation_level = "none"
        self.register_theme(theme.DARK)
        self.register_theme(theme.LIGHT)
        self.theme = theme.DARK.name

    def get_line_filters(self) -> list[LineFilter]:
        """Whatever is drawn passes the gate."""
        return [self._gate, *super().get_line_filters()]

    async def on_mount(self) -> None:
        """Follow the files, and end cleanly when told to."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, partial(self.exit, return_code=128 + number))
        self.run_worker(self._follow(), name="follow", exit_on_error=True)
        if self._start is not None:
            # Of its own accord a thread ends with the process: one that still waits for the runner holds nobody up.
            threading.Thread(target=self._start_runner, args=(self._start, loop), daemon=True).start()

    def _start_runner(self, start: Callable[[], object], loop: asyncio.AbstractEventLoop) -> None:
        try:
            start()
        except TokenbenchError as error:
            self.failure = error
            with contextlib.suppress(RuntimeError):  # the loop has ended: the console was closed meanwhile
                loop.call_soon_threadsafe(self.exit)
        self.starting = False

    def exit(self, result: None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """Close the console."""
        self.leaving = True
        super().exit(result, return_code, message)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that were typed ahead of the end do nothing."""
        return not self.leaving and super().check_action(action, parameters)

    async def _follow(self) -> None:
        while True:
            view = await asyncio.to_thread(self.bench.poll)
            if view is not None:
                self.view = view
            self.findings.ask()
            if not self.followed:
                self.followed = True
                if isinstance(self.screen, ConsoleScreen):
                    self.screen.project()
            if not (self.is_headless or terminal.is_there()):
                self.exit(return_code=128 + signal.SIGHUP)
            await asyncio.sleep(PERIOD)

    def command(self, command: control.Command, *, cell: str = "") -> None:
        """Tell the runner to do something; what it says, or why it cannot be told, is shown."""

        async def tell() -> None:
            try:
                await asyncio.to_thread(control.send, self.bench.runs, command, cell=cell)
            except TokenbenchError as error:
                # No box: the next key may be meant for the screen, and what is refused here has most often ended.
                self.say(f"{error.what}. {error.remedy}", "bad")
            else:
                self.say(f"The runner was told: {command}{' ' + cell if cell else ''}", "good")

        self.run_worker(tell(), name="command", exit_on_error=True)

    def say(self, words: str, ink: Ink = "plain") -> None:
        """Say something on the bottom line of the screen, for a few seconds."""
        for screen in reversed(self.screen_stack):
            if isinstance(screen, ConsoleScreen):
                screen.say(words, ink)
                return

    def trouble(self, error: TokenbenchError, lead: str = "") -> None:
        """Say in full what went wrong, and what to do now."""
        if not self.leaving:
            self.push_screen(TellBox(f"{lead}{error.what}", error.remedy, error.where))

    def show_ledger(self, cell: str) -> None:
        """Go to the ledger of a cell."""
        if self.leaving:
            return
        self.switch_mode("ledger")
        screen = self.screen
        if isinstance(screen, LedgerScreen):
            screen.look_at(cell)

    def action_runs(self) -> None:
        """Screen 1."""
        self.switch_mode("runs")

    def action_ledger(self) -> None:
        """Screen 2."""
        self.switch_mode("ledger")

    def action_grade(self) -> None:
        """Screen 3."""
        self.switch_mode("grade")

    def action_matrix(self) -> None:
        """Screen 4."""
        self.switch_mode("matrix")

    def action_cache(self) -> None:
        """Screen 5."""
        self.switch_mode("cache")

    def action_theme(self) -> None:
        """Dark, light."""
        self.theme = theme.LIGHT.name if self.theme == theme.DARK.name else theme.DARK.name

    def _contexts(self) -> list[keymap.Context]:
        here: list[keymap.Context] = [self.screen.CONTEXT] if isinstance(self.screen, ConsoleScreen) else []
        return [*here, "list", "app"]

    def action_help(self) -> None:
        """The keys that work here."""
        if isinstance(self.screen, ConsoleScreen):
            self.push_screen(HelpBox(self._contexts()))

    def action_palette(self) -> None:
        """Every action by its name."""
        if not isinstance(self.screen, ConsoleScreen):
            return
        here = self.screen.CONTEXT
        order = [one for one in keymap.ACTIONS if one.context == here]
        order += [one for one in keymap.ACTIONS if one.context not in (here, "modal")]

        async def chosen(action: object) -> None:
            if isinstance(action, keymap.Action):
                await self.perform(action)

        self.push_screen(PaletteBox(order), chosen)

    async def perform(self, action: keymap.Action) -> None:
        """Do what an action's key would do; one of another screen goes there first."""
        if self.leaving:
            return
        if action.context == "app":
            await self.run_action(action.id)
            return
        if action.context == "list":
            if self.focused is not None and not isinstance(self.focused, Input):
                await self.run_action(action.id, self.focused)
            return
        elsewhere = not isinstance(self.screen, ConsoleScreen) or action.context != self.screen.CONTEXT
        if elsewhere:
            await self.switch_mode(action.context)
        if not (elsewhere and action.goes_there):
            await self.run_action(action.id, self.screen)

    def action_leave(self) -> None:
        """Close the console; what runs goes on."""
        self.exit()


def farewell(view: View, folder: Path) -> str:
    """What stands on the terminal after the console: that nothing was stopped, and how to come back.

    Args:
        view: What was seen last.
        folder: The experiment; it is named where it is not the working folder.
    """
    place = _place(folder.resolve())
    if view.phase.kind in ("none", "ended"):
        return f"`tokenbench-tui attach{place}` opens the console again."
    if view.phase.kind == "lost":
        again = "rehearse" if view.scripted else "run"
        return f"No runner is at work; `tokenbench-tui {again}{place}` goes on where it stopped."
    pid = f" (pid {view.runner_pid})" if view.runner_pid is not None else ""
    return (
        f"The runner{pid} goes on. `tokenbench-tui attach{place}` opens the console again, "
        f"`tokenbench-tui stop{place}` ends it."
    )


def _place(folder: Path) -> str:
    """The folder as one would type it after a command; nothing where one stands in it."""
    with contextlib.suppress(FileNotFoundError):  # the working folder was removed
        here = Path.cwd()
        if folder == here:
            return ""
        folder = folder.relative_to(here) if folder.is_relative_to(here) else folder
    return f" {shlex.quote(one_line(str(folder), 500))}"


def open_console(folder: Path, start: Callable[[], object] | None = None) -> None:
    """Open the console on the experiment in this folder; returns when it is closed.

    Args:
        folder: The experiment.
        start: Starts its runner while the console is open already.

    Raises:
        TokenbenchError: There is no experiment there, it is not what it must be, or its runner could not be started.
    """
    clock = SystemClock()
    ascii_only = terminal.wants_ascii(terminal.first_environment())
    app = TokenbenchApp(open_bench(folder, clock), clock, ascii_only=ascii_only, start=start)
    app.run(mouse=False)
    if app.failure is not None:
        raise app.failure
    if app.return_code == 0:
        print(farewell(app.view, folder))
    elif app.return_code:
        os._exit(app.return_code)
