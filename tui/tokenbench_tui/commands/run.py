"""`run` and `rehearse`: start the runner, detached, and look at it."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import click

from tokenbench_tui.commands.attach import has_terminal

SCRIPTS: Final = "scripts.jsonl"
INTERRUPTED: Final = 130
F = TypeVar("F", bound=Callable[..., object])


class Again(NamedTuple):
    """Cells to run again that have a run which counts."""

    cells: tuple[str, ...] = ()
    """As they were named."""
    reason: str = ""
    force: bool = False
    """Although the mapping is open."""


NOT_AGAIN: Final = Again()


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
    rerun = click.option(
        "--rerun",
        multiple=True,
        metavar="CELL",
        help="Run CELL (arm__question__rN) again although it has a run that counts, and nothing else but what --only "
        "names. The first run is kept apart, and RERUN stands beside every figure that holds the cell.",
    )
    reason = click.option("--reason", default="", metavar="TEXT", help="With --rerun: why. It goes into the journal.")
    force = click.option("--force", is_flag=True, help="With --rerun: although the mapping is open.")
    words = click.argument("words", nargs=-1, metavar="[FOLDER]")
    return words(only(rerun(reason(force(headless(function))))))


@click.command()
@_shared
def run(
    *, words: tuple[str, ...], only: tuple[str, ...], rerun: tuple[str, ...], reason: str, force: bool, headless: bool
) -> int:
    """Run the experiment in FOLDER (default: this one) against the real model. It costs money.

    The runner is a process of its own and goes on when the console or the terminal is closed. Runs that have ended are
    not repeated. With --headless a forecast stands first (see `check`). Exit code with --headless: 0 all cells have
    run; 1 some are left over or quarantined; 2 an error.
    """
    folder, conditions = _split(words, only)
    again = _again(rerun, reason, force)
    return start_and_show(folder, scripts=None, scripted=False, only=conditions, again=again, headless=headless)


@click.command()
@_shared
@click.option(
    "--scripts",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=f"What the model says; by default {SCRIPTS} of the experiment, if it is there.",
)
def rehearse(
    *,
    words: tuple[str, ...],
    only: tuple[str, ...],
    rerun: tuple[str, ...],
    reason: str,
    force: bool,
    headless: bool,
    scripts: Path | None,
) -> int:
    """Run the experiment in FOLDER (default: this one) with the real agent CLI and a scripted model. It costs nothing.

    Without a script for a question the model calls each of the arm's tools once and answers "rehearsal". All that comes
    of it is marked SCRIPTED-MODEL. With --headless it ends with what a paid run would trip over.
    """
    folder, conditions = _split(words, only)
    if scripts is None and (folder / SCRIPTS).is_file():
        scripts = folder / SCRIPTS
    again = _again(rerun, reason, force)
    return start_and_show(folder, scripts=scripts, scripted=True, only=conditions, again=again, headless=headless)


def _again(cells: tuple[str, ...], reason: str, force: bool) -> Again:
    if not cells and (reason or force):
        raise click.UsageError("--reason and --force go with --rerun CELL")
    return Again(cells, reason, force)


def _split(words: Sequence[str], only: Sequence[str]) -> tuple[Path, tuple[str, ...]]:
    """`--only arm=a question=q FOLDER`: what follows the first condition are conditions as well."""
    conditions = (*only, *(word for word in words if only and "=" in word))
    folders = [word for word in words if word not in conditions]
    if len(folders) > 1:
        raise click.UsageError(f"one folder, not {len(folders)}: {' '.join(folders)}")
    return Path(folders[0] if folders else ".").resolve(), conditions


def _price(folder: Path) -> None:
    """Probe the prices that a rehearsal lacks, a second a model, so that its dollars are checked as well.

    What keeps it from that keeps no rehearsal from running: its dollars are refused then.
    """
    import asyncio

    from tokenbench.clock import SystemClock
    from tokenbench.errors import AgentError, RehearsalError, RunsError
    from tokenbench.experiment import config
    from tokenbench.probes.table import ensure
    from tokenbench.runner.lock import living_owner
    from tokenbench.transcripts.evidence import Runs

    loaded = config.load(folder)
    if living_owner(Runs(loaded.runs).lock) is not None:
        return
    with contextlib.suppress(AgentError, RehearsalError, RunsError):
        asyncio.run(ensure(loaded, scripted=True, clock=SystemClock()))


def _tell_forecast(folder: Path) -> None:
    """What is left will cost about so much: said before anything is spent."""
    from tokenbench.experiment import config
    from tokenbench.findings.forecast import forecast
    from tokenbench_tui.commands.check import forecast_lines
    from tokenbench_tui.commands.following import say

    for line in forecast_lines(forecast(config.load(folder))):
        say(line)


def _tell_stumbles(folder: Path) -> None:
    """What a rehearsal is for: what a paid run would trip over."""
    from tokenbench.experiment import config
    from tokenbench.findings.stumbles import stumbles
    from tokenbench_tui.commands.check import stumble_lines
    from tokenbench_tui.commands.following import say

    for line in stumble_lines(stumbles(config.load(folder))):
        say(line)


def start_and_show(
    folder: Path,
    *,
    scripts: Path | None,
    scripted: bool,
    only: Sequence[str] = (),
    again: Again = NOT_AGAIN,
    headless: bool = False,
) -> int:
    """Start the runner of an experiment and show it: on the console, or line by line where there is no terminal.

    Args:
        folder: The experiment.
        scripts: What a scripted model says.
        scripted: Whether the model is scripted.
        only: Conditions; no other cells are run.
        again: Cells to run again.
        headless: Without the console, even where there is a terminal.

    Returns:
        The exit code: 0 where the console was closed.

    Raises:
        TokenbenchError: What kept the runner from starting.
    """
    from tokenbench.runner.start import start_runner
    from tokenbench_tui.commands.following import Follower, say

    def start() -> int:
        if scripted:
            _price(folder)
        return start_runner(
            folder,
            scripts=scripts,
            scripted=scripted,
            only=only,
            rerun=again.cells,
            reason=again.reason,
            force=again.force,
        )

    if not headless and has_terminal():
        from tokenbench_tui.console.app import open_console

        open_console(folder, start)
        return 0
    follower = Follower(folder)
    if not scripted:
        _tell_forecast(folder)
    try:
        start()
        code = follower.until_end()
        if scripted:
            _tell_stumbles(folder)
        return code
    except KeyboardInterrupt:
        say("\nThe runner goes on by itself: `tokenbench-tui attach` shows it, `tokenbench-tui stop` ends it.")
        return INTERRUPTED
