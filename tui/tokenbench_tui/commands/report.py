"""`report`: write report.md."""

from pathlib import Path

import click


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
def report(folder: Path) -> None:
    """Write runs/report.md and runs/results.json. While the mapping is closed they hold no grades."""
    from tokenbench.experiment import config
    from tokenbench.files import write_atomically
    from tokenbench.findings.matrix import compute
    from tokenbench.findings.report import report as written
    from tokenbench.findings.results import to_json
    from tokenbench.text import one_line
    from tokenbench.transcripts.evidence import Runs

    loaded = config.load(folder.resolve())
    runs = Runs(loaded.runs)
    runs.prepare()
    found = compute(loaded)
    write_atomically(runs.results, to_json(found))
    write_atomically(runs.report, written(found).encode("utf-8", "replace"))
    click.echo(one_line(str(runs.report)))
    for banner in found.banners:
        click.echo(f"  {banner.code}: {one_line(banner.reason)}")
