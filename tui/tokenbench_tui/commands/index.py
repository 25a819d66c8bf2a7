"""`index`: build the retrieval index of the corpus."""

import sys
from pathlib import Path

import click

_SHOWN = 10
"""Files that are not indexed, named on the screen; `--json` names all."""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@click.option("--rebuild", is_flag=True, help="Build it even where a sound one is there.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def index(folder: Path, rebuild: bool, as_json: bool) -> None:
    """Build the retrieval index of the corpus of the experiment in FOLDER, and test that it finds what is there."""
    import msgspec

    from tokenbench.experiment import config, corpora
    from tokenbench.retrieval.access import write_index_report
    from tokenbench.retrieval.building import build_index, ensure_index
    from tokenbench.retrieval.index import index_folder
    from tokenbench.text import one_line
    from tokenbench.transcripts.evidence import Runs

    def progress(text: str) -> None:
        click.echo(one_line(text, 200), err=True)

    loaded = config.load(folder.resolve())
    cache = corpora.default_cache()
    corpus = corpora.obtain(loaded.config.corpus, experiment=loaded.folder, cache=cache, progress=progress)
    place = index_folder(cache, corpus.sha256)
    if rebuild:
        report, built = build_index(corpus.root, place, corpus.sha256, progress), True
    else:
        report, built = ensure_index(corpus.root, place, corpus.sha256, progress)
    runs = Runs(loaded.runs)
    runs.prepare()
    write_index_report(runs.index_report, index=place, report=report)
    if as_json:
        document = {"index": str(place), "built": built, "report": report}
        sys.stdout.buffer.write(msgspec.json.encode(document) + b"\n")
        return
    click.echo(f"{one_line(corpus.label)}  {one_line(str(place))}")
    click.echo(
        f"{'built' if built else 'already there'}: {report.documents:,} documents of {report.files:,} files"
        f" ({report.source_bytes:,} bytes); index {report.bytes:,} bytes,"
        f" {report.wall_seconds:.2f} s, {report.cpu_seconds:.2f} s of CPU"
    )
    click.echo(f"sha256 of the documents {report.sha256}")
    if report.unparsed:
        click.echo(f"{len(report.unparsed)} Python files do not parse; they are indexed as text.")
    for note in report.skipped[:_SHOWN]:
        click.echo(f"not indexed: {one_line(note.path)} ({one_line(note.reason)})")
    if len(report.skipped) > _SHOWN:
        click.echo(f"… and {len(report.skipped) - _SHOWN} more that are not indexed (`--json` names them)")
    click.echo('Next: `tokenbench-tui xq "some words"`, or `tokenbench-tui rehearse`.')
