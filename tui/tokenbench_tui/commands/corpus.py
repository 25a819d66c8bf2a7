"""`corpus`: fetch the corpus and say what it is made of."""

import sys
from pathlib import Path

import click


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def corpus(folder: Path, as_json: bool) -> None:
    """Fetch the corpus of the experiment in FOLDER, check its pin and measure its composition."""
    import msgspec

    from tokenbench.experiment import composition, config, corpora
    from tokenbench.text import one_line

    loaded = config.load(folder.resolve())
    obtained = corpora.obtain(
        loaded.config.corpus,
        experiment=loaded.folder,
        cache=corpora.default_cache(),
        progress=lambda text: click.echo(one_line(text, 200), err=True),
    )
    measured = composition.measure(obtained.root, corpus_sha256=obtained.sha256)
    if as_json:
        document = {
            "label": obtained.label,
            "root": str(obtained.root),
            "sha256": obtained.sha256,
            "composition": measured,
        }
        sys.stdout.buffer.write(msgspec.json.encode(document) + b"\n")
        return
    click.echo(f"{one_line(obtained.label)}  {one_line(str(obtained.root))}")
    click.echo(f"sha256 of the tree {obtained.sha256}")
    click.echo(composition.sentence(measured))
    for name in obtained.left_out:
        click.echo(f"left out: {one_line(name, 200)}")
    click.echo("Next: `tokenbench-tui index`, then `tokenbench-tui rehearse`.")
