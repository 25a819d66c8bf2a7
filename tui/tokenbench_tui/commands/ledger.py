"""`ledger`: what transcripts cost, reconciled to the CLI's totals or refused with both sides."""

import importlib
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from tokenbench.ledger.attribution.model import Attributed
    from tokenbench.ledger.model import Ledger
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
    from tokenbench.ledger import tell_ledgers
    from tokenbench.text import one_line

    for path in (*files, *([resumed_from] if resumed_from is not None else [])):
        _check(path)
    homes = [_home(path) for path in files]
    records = [_record(path) if home is not None else None for path, home in zip(files, homes, strict=True)]
    tables = _prices(homes, price_file)
    closed = [home is not None and _closed(home) for home in homes]
    if peek:
        _confess([(path, home) for path, home, shut in zip(files, homes, closed, strict=True) if home and shut])
    # Loaded before there are processes that read for this one, so that they need not.
    for name in ("shape", *(() if as_json else ("plain", "attribution.plain")), "attribution.attribute"):
        importlib.import_module(f"tokenbench.ledger.{name}")
    tell = [
        partial(_tell, _Sheet(path, home, table, shut and not peek, as_json))
        for path, home, table, shut in zip(files, homes, tables, closed, strict=True)
    ]
    status = 0
    found = tell_ledgers(files, tell, resumed_from=resumed_from, records=records, prices=tables)
    for number, told in enumerate(found):
        if told.refused:
            status = max(status, SOME_REFUSED)
        separator = b"\n" if number and not as_json else b""
        sys.stdout.buffer.write(separator + told.page + b"\n")
        sys.stdout.buffer.flush()
        if told.empty:
            status = NO_TRANSCRIPT
            problem = "holds no event of an agent. Restore its original bytes, or run the cell again."
            click.echo(f"tokenbench-tui: {one_line(told.name)}: {problem}", err=True)
    return status


class _Sheet(NamedTuple):
    """What is to be printed of a transcript."""

    path: Path
    home: "Runs | None"
    prices: "PriceTable | None"
    withheld: bool
    """Its answer is."""
    as_json: bool


class _Told(NamedTuple):
    page: bytes
    """Without its last newline."""
    name: str
    refused: bool
    empty: bool
    """No line of the transcript was an event."""


def _tell(sheet: _Sheet, found: "Ledger") -> _Told:
    """The page of a ledger; made in the process that read the transcript."""
    from tokenbench.ledger.model import withhold

    shown = withhold(found) if sheet.withheld else found
    parts = _parts(sheet.home, sheet.path, found, sheet.prices)
    if sheet.as_json:
        from tokenbench.ledger.shape import line

        page = line(shown, parts)
    else:
        from tokenbench.ledger.attribution.plain import lines
        from tokenbench.ledger.plain import text

        page = "\n".join((text(shown), *(lines(parts) if found.tokens is not None else ()))).encode("utf-8", "replace")
    empty = bool(shown.counts) and shown.counts.keys() <= {"noise", "damaged"}
    return _Told(page, shown.transcript, shown.token_reconciled is False, empty)


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


def _parts(home: "Runs | None", path: Path, found: "Ledger", table: "PriceTable | None") -> "Attributed":
    """Where the tokens went; what knows of experiments takes its time to load, and is loaded only for one."""
    if home is None:
        from tokenbench.ledger.attribution.attribute import attribute

        return attribute(found, None, prompt=None)
    from tokenbench.findings.shares import attribute_transcript

    return attribute_transcript(home, path.name.split(".", 1)[0], found, table)


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
