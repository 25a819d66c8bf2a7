"""`demo`: the shipped rehearsal, on the console or, without a terminal, from the first run to the matrix."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from tokenbench.experiment.model import Loaded

DEFAULT_FOLDER: Final = "tokenbench-demo"


@click.command()
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), default=Path(DEFAULT_FOLDER))
@click.option("--headless", is_flag=True, help="No console: plain lines, a scripted judge, the matrix at the end.")
def demo(folder: Path, headless: bool) -> int:
    """The real claude CLI answers twelve questions about click 8.1.8 in three arms; only the model is scripted.

    It needs no account and no key, and works in DIR (default: ./tokenbench-demo). Called again it goes on where it
    stopped. Exit code without a terminal: 0 all went through, 1 runs or answers are left over, 2 an error.
    """
    from tokenbench.experiment import config
    from tokenbench.rehearsal.demo import install
    from tokenbench.runner.lock import living_owner
    from tokenbench.transcripts.evidence import Runs
    from tokenbench_tui.commands.attach import has_terminal, open_here
    from tokenbench_tui.commands.following import Follower, say
    from tokenbench_tui.commands.run import start_and_show

    folder = folder.resolve()
    scripts = install(folder)
    loaded = config.load(folder)
    on_screen = not headless and has_terminal()
    at_work = living_owner(Runs(loaded.runs).lock) is not None
    if not on_screen:
        say(f"The demo lies in {folder}. The agent is real, the model is scripted: nothing here is a measurement.")
    if at_work and on_screen:
        open_here(folder)
        return 0
    status = (
        Follower(folder).until_end()
        if at_work
        else start_and_show(folder, scripts=scripts, scripted=True, headless=not on_screen)
    )
    return status if on_screen or status else _to_the_matrix(loaded, scripts)


def _to_the_matrix(loaded: "Loaded", scripts: Path) -> int:
    """Show that there is no headline yet, have the scripted judge judge, open the mapping, show the matrix."""
    import asyncio

    from tokenbench.clock import SystemClock
    from tokenbench.findings.matrix import compute
    from tokenbench.findings.report import publish
    from tokenbench.findings.summary import summary
    from tokenbench.grading.asking import default_judge, judge_with_claude
    from tokenbench.grading.blindness import is_open
    from tokenbench.grading.grades import lock_and_open
    from tokenbench.transcripts.evidence import Runs
    from tokenbench_tui.commands.following import say

    runs = Runs(loaded.runs)
    clock = SystemClock()
    if not is_open(runs):
        say("\nAll runs have ended. Before anything is judged:\n")
        say(summary(compute(loaded)))
        say("On the console a person judges now, blind. Without a terminal the scripted model does.")
        judged = asyncio.run(judge_with_claude(loaded, judge=default_judge(loaded, None), scripts=scripts, clock=clock))
        say(f"{judged.judge}: {judged.verdicts} verdicts, {judged.unknown} of them unknown, {judged.left} items left")
        for failure in dict.fromkeys(judged.failures):
            say(f"  {failure}")
        if judged.left or judged.failures:
            say(f"Go on with `tokenbench-tui judge {loaded.folder}` or `tokenbench-tui attach {loaded.folder}`.")
            return 1
        lock_and_open(loaded, clock)
        say("The queue is locked and the mapping is open.\n")
    found = compute(loaded)
    publish(runs, found)
    say(summary(found))
    say(f"The report: {runs.report}\nThe console: tokenbench-tui attach {loaded.folder}")
    return 0
