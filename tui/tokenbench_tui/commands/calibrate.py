"""`calibrate`: characters per token of this corpus and model."""

import sys
from pathlib import Path

import click


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@click.option("--yes", is_flag=True, help="Do not ask before tokens are spent.")
@click.option("--rehearsal", is_flag=True, help="Before a rehearsal: measure the scripted model. Costs nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object: what is stored in runs/calibration.json.")
def calibrate(folder: Path, yes: bool, rehearsal: bool, as_json: bool) -> None:
    """Measure characters per token of the corpus of the experiment in FOLDER, for each of its models.

    Pairs of prompts that differ by a known text go through the claude CLI; shares of tokens rest on what is found. Best
    before the first run, so that it is sealed. It is asked for first what that costs. An experiment that was rehearsed
    is calibrated against the scripted model.
    """
    import asyncio
    import os

    import msgspec

    from tokenbench.clock import SystemClock
    from tokenbench.experiment import config
    from tokenbench.probes import calibration
    from tokenbench.text import one_line

    loaded = config.load(folder.resolve())
    task = calibration.plan(
        loaded,
        scripted=True if rehearsal else None,
        environment=os.environ,
        progress=lambda text: click.echo(one_line(text, 200), err=True),
    )
    models = ", ".join(one_line(model, 60) for model in task.models)
    price = (
        "costs nothing: the model is scripted" if task.scripted else f"costs about {task.forecast:,} tokens of input"
    )
    click.echo(f"{task.prompts} prompts to {models}; it {price}.", err=True)
    if not (yes or task.scripted or click.confirm("Go on?", err=True)):
        raise click.Abort

    def progress(done: int, total: int) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r{done} of {total}", nl=done == total, err=True)

    found = asyncio.run(calibration.calibrate(task, clock=SystemClock(), progress=progress))
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        return
    if found.scripted:
        click.echo("! SCRIPTED-MODEL: these are rates of the rehearsal's own counting rule, of no model")
    for model, measured in found.models.items():
        click.echo(f"{one_line(model, 60)}  {measured.spent.total:,} tokens spent")
        click.echo("  shape      characters per token   standard error   spread of pieces   points")
        for shape, rate in measured.rates.items():
            points = sum(point.shape == shape for point in measured.points)
            click.echo(
                f"  {shape:<10} {rate.characters_per_token:>20.3f}   {rate.standard_error:>14.3f}"
                f"   {rate.spread:>15.1%}   {points:>6}"
            )
    if task.late:
        click.echo("Made after the first run began, so it is in no seal; the journal says so.")
