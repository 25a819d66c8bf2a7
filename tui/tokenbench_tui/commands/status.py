"""`status`: what the runner does and how far the experiment is, from the files."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tokenbench.runner.status import Status


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def status(folder: Path, as_json: bool) -> None:
    """What the runner of the experiment in FOLDER does, and how far it is."""
    import time

    import msgspec

    from tokenbench.experiment import config
    from tokenbench.runner.status import read_status

    folder = config.load(folder.resolve()).folder
    found = read_status(folder, now=time.time())
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        return
    for line in _lines(found):
        click.echo(line)


def _lines(found: "Status") -> list[str]:
    runner, cells = found.runner, found.cells
    who = f" (pid {runner.pid})" if runner.pid is not None else ""
    why = f": {runner.reason}" if runner.reason else ""
    lines = [f"runner {_STATES[runner.state]}{who}{why}"]
    if found.scripted:
        lines.append("REHEARSAL: the model is scripted, nothing here is a measurement")
    if found.unconfined is not None:
        lines.append(f"NO-SANDBOX: the agents are not confined: {found.unconfined}")
    counts = [
        f"{number} {name}"
        for name, number in (
            ("have run", cells.finished),
            ("under way", cells.running),
            ("wait for another attempt", cells.retry),
            ("to go", cells.waiting),
            ("given up", cells.given_up),
            ("cancelled", cells.cancelled),
            ("quarantined", cells.quarantined),
        )
        if number or name in ("have run", "to go")
    ]
    lines.append(f"{cells.planned} cells: {', '.join(counts)}")
    least = "at least " if found.lower_bound else ""
    cost = f"  ${found.cost_usd:.4f} as the CLI reports it" if found.cost_usd is not None else ""
    apart = f"  {found.apart_tokens:,} more of warm-ups and attempts" if found.apart_tokens else ""
    lines.append(f"{least}{found.tokens:,} tokens{apart}{cost}")
    lines.extend(
        f"  {run.cell}  attempt {run.attempt}  {run.seconds:.0f} s  {run.doing}  at least {run.seen.total:,} tokens"
        for run in found.runs
    )
    return lines


_STATES = {
    "none": "never started",
    "preparing": "gets ready",
    "running": "at work",
    "paused": "paused",
    "stopping": "stopping",
    "ended": "has ended",
    "lost": "is gone without a word; what had ended is kept, start it again to go on",
    "elsewhere": "is on another machine",
}
