"""`pause`, `resume`, `stop` and `cancel`: tell the runner of this folder."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from tokenbench.transcripts.evidence import Runs

F = TypeVar("F", bound=Callable[..., object])


def _folder(function: F) -> F:
    return click.argument("folder", type=click.Path(path_type=Path), default=Path())(function)


@click.command()
@_folder
def pause(folder: Path) -> None:
    """Start no more runs of the experiment in FOLDER until `resume`. Runs under way go on."""
    from tokenbench.runner.control import send

    send(_runs(folder), "pause")
    click.echo("Paused: runs under way go on, no other is started. `tokenbench-tui resume` goes on.")


@click.command()
@_folder
def resume(folder: Path) -> None:
    """Go on after `pause`."""
    from tokenbench.runner.control import send

    send(_runs(folder), "resume")
    click.echo("The runner goes on.")


@click.command()
@_folder
@click.option("--now", is_flag=True, help="End the runs under way too; they are kept as attempts.")
def stop(folder: Path, now: bool) -> None:
    """End the runner of the experiment in FOLDER after the current runs; with --now, at once."""
    from tokenbench.runner.control import send

    send(_runs(folder), "stop", now=now)
    click.echo("The runner ends its runs and stops." if now else "The runner stops when its current runs have ended.")


@click.command()
@click.argument("cell")
@_folder
def cancel(cell: str, folder: Path) -> None:
    """End the run of CELL (arm__question__rN), or take it out of the queue. The others go on.

    To run it again later is written into the journal and stands beside every figure that holds it.
    """
    from tokenbench.runner.control import send
    from tokenbench.text import one_line

    reply = send(_runs(folder), "cancel", cell=cell)
    click.echo(f"{one_line(cell, 100)}: {one_line(str(reply.get('done', '')), 100)}")


def _runs(folder: Path) -> "Runs":
    """Where the runner of this experiment listens.

    Raises:
        NoExperiment: There is no experiment in the folder.
    """
    from tokenbench.transcripts.evidence import Runs
    from tokenbench_tui.errors import NoExperiment

    folder = folder.resolve()
    if not (folder / "tokenbench.toml").is_file():
        raise NoExperiment(folder)
    return Runs(folder / "runs")
