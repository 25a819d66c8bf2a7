"""`attach`, and `tokenbench-tui` without a command: the console on an experiment."""

import sys
from pathlib import Path

import click

from tokenbench_tui.errors import NoExperiment, NoTerminal


def has_terminal() -> bool:
    """Whether a screen can be drawn and keys can be read."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def open_here(folder: Path) -> None:
    """Open the console on the experiment in this folder.

    Raises:
        NoExperiment: There is none.
        NoTerminal: There is no terminal to draw on.
    """
    if not (folder / "tokenbench.toml").is_file():
        raise NoExperiment(folder)
    if not has_terminal():
        raise NoTerminal
    from tokenbench_tui.console.app import open_console

    open_console(folder)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
def attach(folder: Path) -> None:
    """Open the console on the experiment in FOLDER (default: this one). Closing it stops nothing."""
    open_here(folder.resolve())
