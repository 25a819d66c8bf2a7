"""`judge`: have a model judge what is not judged yet."""

from pathlib import Path

import click

SOME_FAILED = 1


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@click.option("--judge", "name", metavar="NAME", help="The judge's name; by default made from the model's.")
@click.option("--model", metavar="MODEL", help="The model to ask; by default the experiment's.")
@click.option(
    "--scripts",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Rehearsals: scripts of the judge; by default scripts.jsonl of the experiment, if it is there.",
)
@click.option("--all", "everything", is_flag=True, help="Also what others have judged, to see how far they agree.")
def judge(folder: Path, *, name: str | None, model: str | None, scripts: Path | None, everything: bool) -> int:
    """Have a model judge what nobody has judged yet, through the claude CLI: one process an item, without tools.

    It sees what a person would see: question, truth, note and the masked answer. A reply without one clear verdict is
    `unknown`. In a rehearsal the judge is scripted too. Exit code 1: some items could not be judged.
    """
    import asyncio
    import sys

    from tokenbench.clock import SystemClock
    from tokenbench.experiment import config
    from tokenbench.grading.asking import default_judge, default_scripts, judge_with_claude
    from tokenbench.text import one_line

    loaded = config.load(folder.resolve())
    name = name or default_judge(loaded, model)

    def progress(done: int, total: int) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r{name}: {done} of {total}", nl=done == total, err=True)

    done = asyncio.run(
        judge_with_claude(
            loaded,
            judge=name,
            model=model,
            scripts=scripts or default_scripts(loaded),
            clock=SystemClock(),
            everything=everything,
            progress=progress,
        )
    )
    bound = " or more" if done.unreconciled else ""
    click.echo(
        f"{done.judge}: {done.verdicts} verdicts, {done.unknown} of them unknown; {len(done.failures)} failures,"
        f" {done.left} items left; {done.tokens.total:,}{bound} tokens, in no arm"
    )
    for failure in dict.fromkeys(done.failures):
        click.echo(f"  {one_line(failure, 300)}", err=True)
    return SOME_FAILED if done.failures or done.left else 0
