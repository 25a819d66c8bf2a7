"""`results`: the matrix, as text or JSON."""

import sys
from pathlib import Path

import click


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@click.option("--json", "as_json", is_flag=True, help="One JSON object (docs/results.md).")
def results(folder: Path, as_json: bool) -> None:
    """Tokens per correct answer, ratios, accuracy: or why not. Also writes runs/results.json."""
    from tokenbench.experiment import config
    from tokenbench.files import write_atomically
    from tokenbench.findings.matrix import compute
    from tokenbench.findings.results import to_json
    from tokenbench.findings.summary import summary
    from tokenbench.transcripts.evidence import Runs

    loaded = config.load(folder.resolve())
    found = compute(loaded)
    data = to_json(found)
    # Said before it is written: on a full disk or in a read-only copy of runs/ the figures are still to be seen.
    sys.stdout.buffer.write(data if as_json else summary(found).encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
    runs = Runs(loaded.runs)
    runs.prepare()
    write_atomically(runs.results, data)
