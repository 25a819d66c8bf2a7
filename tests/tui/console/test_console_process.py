"""The console as a process on a real terminal: what it writes, how it ends, what it imports."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

OPEN = """
import sys
from pathlib import Path
from tokenbench_tui.console.app import open_console
open_console(Path(sys.argv[1]))
"""
LEAVES_ALTERNATE_SCREEN = b"\x1b[?1049l"
SHOWS_CURSOR = b"\x1b[?25h"


class Terminal:
    """The console in a pseudo terminal of a given size."""

    def __init__(self, folder: Path, environment: dict[str, str], size: tuple[int, int] = (80, 24)) -> None:
        self.written = b""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-c", OPEN, str(folder)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=inherited | {"TERM": "xterm-256color", "LANG": "C.UTF-8"} | environment,
            start_new_session=True,
        )
        os.close(slave)

    def read_until(self, condition: Callable[[bytes], bool], seconds: float = 30) -> bytes:
        """Read what is written until the condition holds for all of it."""
        deadline = time.monotonic() + seconds
        while not condition(self.written):
            ready, _, _ = select.select([self._master], [], [], 0.1)
            if ready:
                try:
                    data = os.read(self._master, 65536)
                except OSError:
                    data = b""
                if not data:
                    break
                self.written += data
            assert time.monotonic() < deadline, self.written[-3000:]
        return self.written

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self._master, keys.encode())

    def hang_up(self) -> None:
        """The line is dropped."""
        os.close(self._master)
        self._master = -1

    def wait(self) -> int:
        """Read on until the process has ended, and return its exit code."""
        if self._master >= 0:
            self.read_until(lambda _: self.process.poll() is not None)
            self.read_until(lambda _: not select.select([self._master], [], [], 0.05)[0])
        return self.process.wait(30)

    def end(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)
        if self._master >= 0:
            os.close(self._master)


@pytest.fixture
def on_terminal(lab: object) -> Iterator[Callable[..., Terminal]]:
    """Opens the console on a small experiment that is under way."""
    lab.begin()
    lab.start(lab.cells[0])
    terminals: list[Terminal] = []

    def open_it(**environment: str) -> Terminal:
        terminals.append(Terminal(lab.folder, environment))
        return terminals[-1]

    yield open_it
    for terminal in terminals:
        terminal.end()


def has_runs(written: bytes) -> bool:
    return b"native" in written and b"quit" in written


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_a_clean_terminal(on_terminal: Callable[..., Terminal], number: signal.Signals) -> None:
    terminal = on_terminal()
    terminal.read_until(has_runs)
    terminal.process.send_signal(number)
    assert terminal.wait() == 128 + number
    assert LEAVES_ALTERNATE_SCREEN in terminal.written
    assert terminal.written.rindex(SHOWS_CURSOR) > terminal.written.rindex(b"\x1b[?25l")
    assert b"Traceback" not in terminal.written


def test_a_dropped_line_ends_it_and_nothing_else(on_terminal: Callable[..., Terminal]) -> None:
    terminal = on_terminal()
    terminal.read_until(has_runs)
    terminal.hang_up()
    assert terminal.wait() != 0


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_quitting_says_that_the_runner_goes_on(on_terminal: Callable[..., Terminal], key: str) -> None:
    terminal = on_terminal()
    terminal.read_until(has_runs)
    terminal.press(key)
    assert terminal.wait() == 0
    after = terminal.written[terminal.written.rindex(LEAVES_ALTERNATE_SCREEN) :]
    assert b"The runner (pid 4711) goes on." in after
    assert b"tokenbench-tui attach" in after


KEYS = ["q2", "q4", "2q", "q?3", "?qq:", "\rq2", "3ann\rq1", "1234" * 5 + "qqq"]


@pytest.mark.parametrize("keys", KEYS)
def test_no_keys_typed_while_it_ends_give_a_traceback(on_terminal: Callable[..., Terminal], keys: str) -> None:
    terminal = on_terminal()
    terminal.read_until(has_runs)
    terminal.press(keys)
    time_to_end(terminal)
    assert terminal.wait() == 0
    assert b"Traceback" not in terminal.written
    assert b"Error" not in terminal.written


@pytest.mark.parametrize("keys", ["2", "x4", "3", ":", "q2"])
def test_no_keys_typed_before_it_paints_give_a_traceback(on_terminal: Callable[..., Terminal], keys: str) -> None:
    terminal = on_terminal()
    terminal.press(keys)
    time_to_end(terminal)
    assert terminal.wait() == 0
    assert b"Traceback" not in terminal.written
    assert b"Error" not in terminal.written


def time_to_end(terminal: Terminal) -> None:
    """Press Ctrl+C until the console is closed, whatever is open in it."""
    while terminal.process.poll() is None:
        terminal.read_until(lambda _: not select.select([terminal._master], [], [], 0.3)[0])
        if terminal.process.poll() is None:
            terminal.press("\x03")


@pytest.mark.parametrize("term", ["dumb", "linux", "screen", "xterm", "vt100"])
def test_it_paints_on_any_terminal(on_terminal: Callable[..., Terminal], term: str) -> None:
    terminal = on_terminal(TERM=term)
    terminal.read_until(has_runs)
    terminal.press("q")
    assert terminal.wait() == 0
    assert b"Traceback" not in terminal.written


def test_without_colour_it_stays_readable(on_terminal: Callable[..., Terminal]) -> None:
    terminal = on_terminal(NO_COLOR="1", COLORTERM="truecolor")
    written = terminal.read_until(has_runs)
    terminal.press("q")
    assert terminal.wait() == 0
    pairs = set(re.findall(rb"38;2;(\d+);\1;\1;48;2;(\d+);\2;\2m", written))
    assert pairs
    assert all(abs(int(front) - int(back)) > 80 for front, back in pairs)


@pytest.mark.parametrize("environment", [{"LANG": "C"}, {"TOKENBENCH_ASCII": "1"}])
def test_a_terminal_without_utf8_gets_ascii(on_terminal: Callable[..., Terminal], environment: dict[str, str]) -> None:
    terminal = on_terminal(**environment)
    terminal.read_until(has_runs)
    terminal.press("?")
    terminal.read_until(lambda written: b"words on" in written)
    terminal.press("q")
    terminal.read_until(lambda written: not select.select([terminal._master], [], [], 0.5)[0])
    terminal.press("q")
    assert terminal.wait() == 0
    assert terminal.written.isascii()


def test_the_mouse_is_left_to_the_terminal(on_terminal: Callable[..., Terminal]) -> None:
    terminal = on_terminal()
    written = terminal.read_until(has_runs)
    assert b"\x1b[?1000h" not in written
    assert b"\x1b[?1003h" not in written


def test_opening_it_loads_neither_servers_nor_numbers() -> None:
    code = "import sys, tokenbench_tui.console.app; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "textual" in loaded
    heavy = {
        "numpy",
        "aiohttp",
        "elasticsearch",
        "tantivy",
        "tree_sitter",
        "tokenbench.findings.matrix",
    }
    assert heavy.isdisjoint(loaded)
