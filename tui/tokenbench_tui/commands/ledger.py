"""`ledger`: what transcripts cost, reconciled to the CLI's totals or refused with both sides."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tokenbench.ledger.prices import PriceTable
    from tokenbench.transcripts.evidence import Record, Runs

SOME_REFUSED = 1
NO_TRANSCRIPT = 2


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE…")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a transcript, a line each.")
@click.option(
    "--resumed-from",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The transcript that was resumed, whose totals the CLI carries on.",
)
@click.option(
    "--prices",
    "price_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A price table; by default runs/prices.json of the transcript's experiment.",
)
@click.option("--peek", is_flag=True, help="Show withheld answers too. It is written into the journal.")
def ledger(
    files: tuple[Path, ...], as_json: bool, resumed_from: Path | None, price_file: Path | None, peek: bool
) -> int:
    """What transcripts cost: claude's stream-json, or session files of ~/.claude/projects.

    Exit code 0: all are token-reconciled; 1: some are refused; 2: a file cannot be read, or is no transcript at all.
    """
    from tokenbench.findings.shares import attribute_transcript
    from tokenbench.ledger import read_ledgers
    from tokenbench.ledger.attribution.plain import lines
    from tokenbench.ledger.model import withhold
    from tokenbench.ledger.plain import text
    from tokenbench.ledger.shape import line
    from tokenbench.text import one_line

    for path in (*files, *([resumed_from] if resumed_from is not None else [])):
        _check(path)
    homes = [_home(path) for path in files]
    records = [_record(path) if home is not None else None for path, home in zip(files, homes, strict=True)]
    tables = _prices(homes, price_file)
    closed = [home is not None and _closed(home) for home in homes]
    if peek:
        _confess([(path, home) for path, home, shut in zip(files, homes, closed, strict=True) if home and shut])
    status = 0
    for number, found in enumerate(read_ledgers(files, resumed_from=resumed_from, records=records, prices=tables)):
        shown = withhold(found) if closed[number] and not peek else found
        if shown.token_reconciled is False:
            status = max(status, SOME_REFUSED)
        parts = attribute_transcript(homes[number], files[number].name.split(".", 1)[0], found, tables[number])
        if as_json:
            sys.stdout.buffer.write(line(shown, parts) + b"\n")
        else:
            separator = "\n" if number else ""
            page = "\n".join((text(shown), *(lines(parts) if found.tokens is not None else ())))
            sys.stdout.buffer.write(f"{separator}{page}\n".encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
        if shown.counts and shown.counts.keys() <= {"noise", "damaged"}:
            status = NO_TRANSCRIPT
            problem = "holds no event of an agent. Restore its original bytes, or run the cell again."
            click.echo(f"tokenbench-tui: {one_line(shown.transcript)}: {problem}", err=True)
    return status


def _check(path: Path) -> None:
    """Say at once, before anything is printed, that a file is not there."""
    from tokenbench.errors import TranscriptError
    from tokenbench.text import one_line

    if path.is_dir():
        raise TranscriptError(
            "this is a folder", where=one_line(str(path)), remedy="Name the transcripts in it: FOLDER/*.jsonl"
        )
    if not path.exists():
        raise TranscriptError(
            "there is no such file", where=one_line(str(path)), remedy="Give the path of a transcript"
        )


def _home(path: Path) -> "Runs | None":
    """The `runs/` folder of an experiment that the transcript of a cell lies in, counted or not."""
    from tokenbench.transcripts.evidence import Runs

    folder = path.resolve().parent
    for candidate in (folder, *([folder.parent] if folder.name == "attempts" else [])):
        if (candidate / "seal.json").is_file():
            return Runs(candidate)
    return None


def _prices(homes: "Sequence[Runs | None]", price_file: Path | None) -> "list[PriceTable | None]":
    """The price table of each transcript: the named one, else that of its experiment."""
    from tokenbench.errors import RunsError
    from tokenbench.ledger.prices import MAKE_ONE, read
    from tokenbench.text import one_line

    if price_file is None:
        return [read(home.prices) if home is not None else None for home in homes]
    named = read(price_file)
    if named is None:
        raise RunsError("there is no such file", where=one_line(str(price_file)), remedy=MAKE_ONE)
    return [named] * len(homes)


def _record(path: Path) -> "Record | None":
    from tokenbench.transcripts.evidence import read_record

    return read_record(path.with_suffix(".json")) if path.suffix == ".jsonl" else None


def _closed(runs: "Runs") -> bool:
    """Whether nobody has opened the mapping, so that answers are withheld."""
    from tokenbench.grading.blindness import is_open

    return not is_open(runs)


def _confess(looks: "Sequence[tuple[Path, Runs]]") -> None:
    """Write into the journals who looks at which answers; only then are they shown."""
    import getpass

    from tokenbench.clock import SystemClock
    from tokenbench.runner.journal import Journal

    try:
        operator = getpass.getuser()
    except (OSError, KeyError):
        operator = ""
    for path, runs in looks:
        cell = path.name.removesuffix(".part").removesuffix(".jsonl")
        Journal(runs.journal, SystemClock()).write("peeked", cell=cell, judge=operator)
