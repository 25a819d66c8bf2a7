"""`cache`: whether the arms began equally warm, and what the cache did to the dollars."""

import sys
from pathlib import Path

import click


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@click.option("--json", "as_json", is_flag=True, help="One JSON object (docs/results.md).")
def cache(folder: Path, as_json: bool) -> None:
    """Share of the first calls read from cache by arm, runs in time, and costs: paid, cold, warm, neutral."""
    from tokenbench.experiment import config
    from tokenbench.findings import caching, caching_plain

    found = caching.compute(config.load(folder.resolve()))
    page = caching_plain.to_json(found) if as_json else caching_plain.text(found).encode("utf-8", "replace")
    sys.stdout.buffer.write(page)
    sys.stdout.buffer.flush()
