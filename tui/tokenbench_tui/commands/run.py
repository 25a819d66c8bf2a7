"""`run` and `rehearse`: start the runner, detached, and look at it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import click

from tokenbench_tui.commands.attach import has_terminal

SCRIPTS: Final = "scripts.jsonl"
INTERRUPTED: Final = 130
F = TypeVar("F", bound=Callable[..., object])


def _shared(function: F) -> F:
    """What both commands take."""
    headless = click.option("--headless", is_flag=True, help="No console: plain lines until the runner has ended.")
    only = click.option(
        "--only",
        "only",
        multiple=True,
        metavar="arm=… question=… repeat=…",
        help="Run these cells only; several conditions of one kind add up.",
    )
    words = click.argument("words", nargs=-1, metavar="[FOLDER]")
    return words(only(headless(function)))


@click.command()
@_shared
def run(words: tuple[str, ...], only: tuple[str, ...], headless: bool) -> int:
    """Run the experiment in FOLDER (default: this one) against the real model. It costs money.

    The runner is a process of its own and goes on when the console or the terminal is closed. Runs that have ended are
    not repeated. Exit code with --headless: 0 all cells have run; 1 some are left over or quarantined; 2 an error.
    """
    folder, conditions = _split(words, only)
    return start_and_show(folder, scripts=None, scripted=False, only=conditions, headless=headless)


@click.command()
@_shared
@click.option(
    "--scripts",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=f"What the model says; by default {SCRIPTS} of the experiment, if it is there.",
)
def rehearse(words: tuple[str, ...], only: tuple[str, ...], headless: bool, scripts: Path | None) -> int:
    """Run the experiment in FOLDER (default: this one) with the real agent CLI and a scripted model. It costs nothing.

    Without a script for a question the model calls each of the arm's tools once and answers "rehearsal". All that comes
    of it is marked SCRIPTED-MODEL.
    """
    folder, conditions = _split(words, only)
    if scripts is None and (folder / SCRIPTS).is_file():
        scripts = folder / SCRIPTS
    return start_and_show(folder, scripts=scripts, scripted=True, only=conditions, headless=headless)


def _split(words: Sequence[str], only: Sequence[str]) -> tuple[Path, tuple[str, ...]]:
    """`--only arm=a question=q FOLDER`: what follows the first condition are conditions as well."""
    conditions = (*only, *(word for word in words if only and "=" in word))
    folders = [word for word in words if word not in conditions]
    if len(folders) > 1:
        raise click.UsageError(f"one folder, not {len(folders)}: {' '.join(folders)}")
    return Path(folders[0] if folders else ".").resolve(), conditions


def start_and_show(
    folder: Path, *, scripts: Path | None, scripted: bool, only: Sequence[str] = (), headless: bool = False
) -> int:
    """Start the runner of an experiment and show it: on the console, or line by line where there is no terminal.

    Returns:
        The exit code: 0 where the console was closed.

    Raises:
        TokenbenchError: What kept the runner from starting.
    """
    from tokenbench.runner.start import start_runner
    from tokenbench_tui.commands.following import Follower, say

    def start() -> int:
        return start_runner(folder, scripts=scripts, scripted=scripted, only=only)

    if not headless and has_terminal():
        from tokenbench_tui.console.app import open_console

        open_console(folder, start)
        return 0
    follower = Follower(folder)
    try:
        start()
        return follower.until_end()
    except KeyboardInterrupt:
        say("\nThe runner goes on by itself: `tokenbench-tui attach` shows it, `tokenbench-tui stop` ends it.")
        return INTERRUPTED
