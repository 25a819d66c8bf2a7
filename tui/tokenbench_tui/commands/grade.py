"""`grade`: judge answers without a screen, take verdicts out and in, open the mapping."""

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tokenbench_tui.errors import FrontEndError

if TYPE_CHECKING:
    from tokenbench.experiment.model import Loaded
    from tokenbench.grading.desk import Desk
    from tokenbench.grading.verdicts import Decision

SOME_REFUSED: Final = 1
_KEYS: "dict[str, Decision]" = {"c": "correct", "w": "wrong", "a": "abstained", "d": "unknown"}
_HELP: Final = "c correct  w wrong  a abstained  d can't say  s skip  u undo  q out; a note may follow: `w says 128`"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@click.option("--judge", metavar="NAME", help="Who judges: a-z, 0-9, - and _.")
@click.option("--export", "out", type=click.Path(path_type=Path), metavar="FILE", help="Write what a judge may see.")
@click.option("--import", "back", type=click.Path(path_type=Path), metavar="FILE", help="Take verdicts, JSON lines.")
@click.option("--status", is_flag=True, help="How far the judging has come.")
@click.option("--json", "as_json", is_flag=True, help="With --status: one JSON object.")
@click.option("--open", "opening", is_flag=True, help="Lock the queue and open the mapping, once and for all.")
@click.option("--force", is_flag=True, help="With --open: although answers are unjudged or runs are missing.")
def grade(
    *,
    folder: Path,
    judge: str | None,
    out: Path | None,
    back: Path | None,
    status: bool,
    as_json: bool,
    opening: bool,
    force: bool,
) -> int:
    """Judge answers blind, one a line; or take them elsewhere with --export and --import.

    An imported line needs `id` and `verdict` (correct, wrong, abstained, unknown), may have `comment` and `seconds`,
    and may keep the fields it was exported with. Exit code 1: lines of an import were refused, each by its number.
    """
    from tokenbench.clock import SystemClock
    from tokenbench.experiment import config
    from tokenbench.grading.desk import Desk

    wanted = [
        name for name, on in (("--export", out), ("--import", back), ("--status", status), ("--open", opening)) if on
    ]
    if len(wanted) > 1:
        raise FrontEndError(f"{' and '.join(wanted)} together", remedy="Do one after the other")
    loaded = config.load(folder.resolve())
    if status:
        return _status(loaded, as_json=as_json)
    if opening:
        return _open(loaded, force=force)
    if judge is None:
        raise FrontEndError("nobody is named who judges", remedy="Name the judge: `tokenbench-tui grade --judge ann`")
    desk = Desk(loaded, judge, SystemClock())
    if out is not None:
        return _export(desk, out)
    if back is not None:
        return _import(desk, back)
    if not sys.stdin.isatty():
        raise FrontEndError(
            "judging line by line needs a terminal, and standard input is none",
            remedy="Take the queue elsewhere with `--export FILE`, and the verdicts back with `--import FILE`",
        )
    return _line_by_line(desk)


def _export(desk: "Desk", out: Path) -> int:
    from tokenbench.files import write_atomically
    from tokenbench.grading.exchange import export_lines
    from tokenbench.text import one_line

    write_atomically(out.absolute(), export_lines(desk))
    click.echo(f"{len(desk.items)} items in {one_line(str(out))}. Add `verdict` to each line, then `--import` it.")
    return 0


def _import(desk: "Desk", back: Path) -> int:
    from tokenbench.errors import GradingError
    from tokenbench.grading.exchange import import_lines
    from tokenbench.text import one_line

    try:
        data = back.read_bytes()
    except OSError as error:
        raise GradingError(
            f"cannot be read: {error.strerror or error}",
            where=one_line(str(back)),
            remedy="Give the path of the verdicts",
        ) from error
    done = import_lines(desk, data)
    for refused in done.refused:
        click.echo(f"{one_line(str(back))}: {one_line(refused, 300)}", err=True)
    click.echo(
        f"{done.taken} verdicts taken, {done.known} were known, {len(done.refused)} lines refused;"
        f" {desk.progress.unjudged} of {len(desk.items)} items wait for {desk.judge}"
    )
    return SOME_REFUSED if done.refused else 0


def _status(loaded: "Loaded", *, as_json: bool) -> int:
    from tokenbench.clock import SystemClock
    from tokenbench.grading.blindness import is_open
    from tokenbench.grading.desk import Desk
    from tokenbench.grading.queue import extend_queue
    from tokenbench.grading.verdicts import judges
    from tokenbench.grading.votes import deciding, read_votes
    from tokenbench.text import one_line
    from tokenbench.transcripts.evidence import Runs

    runs = Runs(loaded.runs)
    queue = extend_queue(loaded)
    votes = read_votes(runs, queue.items, queue.mapping)
    waiting = sum(not deciding(votes.of(item)) for item in queue.items)
    opened = is_open(runs)
    progress = {name: Desk(loaded, name, SystemClock()).progress for name in judges(runs)}
    if as_json:
        document = {
            "items": len(queue.items),
            "unjudged": waiting,
            "opened": opened,
            "judges": {name: {"judged": one.judged, "unjudged": one.unjudged} for name, one in progress.items()},
            "problems": list(votes.problems),
        }
        click.echo(json.dumps(document))
        return 0
    click.echo(f"{len(queue.items)} items, {waiting} wait for a judge; the mapping is {'open' if opened else 'closed'}")
    for name, one in progress.items():
        mean = f", {one.mean_seconds:.0f} s each" if one.mean_seconds is not None else ""
        click.echo(f"  {name}: {one.judged} judged, {one.unjudged} left{mean}")
    for problem in votes.problems:
        click.echo(f"  {one_line(problem, 300)}", err=True)
    return 0


def _open(loaded: "Loaded", *, force: bool) -> int:
    from tokenbench.clock import SystemClock
    from tokenbench.grading.grades import lock_and_open

    done = lock_and_open(loaded, SystemClock(), force=force)
    click.echo(f"Opened: {done.items} items, judged by {', '.join(done.judges) or 'nobody'}.")
    if done.unjudged or done.missing:
        click.echo(
            f"{done.unjudged} items were unjudged, {done.missing} cells without a run: later verdicts are NOT-BLIND."
        )
    click.echo("Next: `tokenbench-tui results`")
    return 0


def _line_by_line(desk: "Desk") -> int:
    """One item after the other; every verdict is on the disk before the next item is shown."""
    click.echo(f"{desk.progress.unjudged} of {len(desk.items)} items wait for {desk.judge}. {_HELP}")
    item = desk.next_unjudged()
    while item is not None:
        click.echo(
            f"\n{item.question} · {item.question_class}\nQuestion  {_shown(item.text)}\nTruth     {_shown(item.truth)}"
            + (f"\nNote      {_shown(item.note)}" if item.note else "")
            + f"\n── answer ── {item.masked} masked ──\n{_shown(item.answer)}\n──"
        )
        began = time.monotonic()
        said = str(click.prompt("c w a d s u q", prompt_suffix="> ")).strip()
        key, _, note = said.partition(" ")
        if key == "q":
            break
        if key == "u":
            undone = desk.undo()
            click.echo("nothing to undo" if undone is None else f"undone: {undone.verdict}")
            item = desk.item(undone.item) if undone is not None and undone.item is not None else item
        elif key == "s":
            item = desk.next_unjudged(after=item.id)
        elif key in _KEYS:
            desk.give(item, _KEYS[key], note=note, seconds=time.monotonic() - began)
            item = desk.next_unjudged(after=item.id)
        else:
            click.echo(_HELP)
    left = desk.progress.unjudged
    click.echo(f"{left} items left" if left else "All are judged. Next: `tokenbench-tui grade --open`")
    return 0


def _shown(text: str) -> str:
    from tokenbench.text import visible

    return visible(text)
