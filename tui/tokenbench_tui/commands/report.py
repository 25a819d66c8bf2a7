"""`report`: write report.md."""

from pathlib import Path

import click


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
def report(folder: Path) -> None:
    """Write runs/report.md and runs/results.json. While the mapping is closed they hold no grades."""
    from tokenbench.experiment import config
    from tokenbench.findings.matrix import compute
    from tokenbench.findings.report import publish
    from tokenbench.text import one_line
    from tokenbench.transcripts.evidence import Runs

    loaded = config.load(folder.resolve())
    runs = Runs(loaded.runs)
    found = compute(loaded)
    publish(runs, found)
    click.echo(one_line(str(runs.report)))
    for banner in found.banners:
        click.echo(f"  {banner.code}: {one_line(banner.reason)}")
