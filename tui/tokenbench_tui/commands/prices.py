"""`prices`: the price table and its evidence; with --probe, made by asking the agent CLI."""

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tokenbench.experiment.model import Loaded
    from tokenbench.figures import Refusal
    from tokenbench.ledger.derive import Derived
    from tokenbench.ledger.prices import ModelPrices, PriceTable, Row

SOME_UNKNOWN = 1


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@click.option("--probe", "probing", is_flag=True, help="Ask the agent CLI, on 127.0.0.1. Costs nothing.")
@click.option("--model", "models", multiple=True, metavar="NAME", help="These models; by default those of the runs.")
@click.option("--json", "as_json", is_flag=True, help="The table as one JSON object, as `ledger --prices` reads it.")
def prices(folder: Path, probing: bool, models: tuple[str, ...], as_json: bool) -> int:
    """What the agent CLI charges, in USD per million tokens, and what shows it.

    With --probe the CLI is pointed at an API on 127.0.0.1 that states crafted usage, and each price is solved from the
    cost that the CLI prints. In the folder of an experiment the table is kept in runs/prices.json, and held against
    what the runs there cost. Exit code 0: all is known; 1: a model has no price, or runs differ; 2: an error.
    """
    from tokenbench.text import one_line, visible

    loaded = _experiment(folder, needed=not (probing and models))
    table, failed = _probed(loaded, models) if probing else (_stored(loaded), {})
    shown = _only(table, models)
    derived, differences = _held(loaded, table)
    if as_json:
        import msgspec

        sys.stdout.buffer.write(msgspec.json.encode(shown) + b"\n")
    else:
        for line in _text(shown, derived):
            click.echo(visible(line.replace("\n", " ")))
    for model, why in failed.items():
        click.echo(one_line(f"no price of {model}: {why}", 400), err=True)
    for refusal in differences:
        click.echo(one_line(f"{refusal.code}: {refusal.reason}. {'; '.join(refusal.evidence)}", 600), err=True)
    missing = [model for model in models if not _only(table, (model,)).models and model not in failed and not probing]
    for model in missing:
        click.echo(
            one_line(f"no price of {model}: `tokenbench-tui prices --probe --model {model}` makes one"), err=True
        )
    return SOME_UNKNOWN if failed or differences or missing else 0


def _experiment(folder: Path, *, needed: bool) -> "Loaded | None":
    """The experiment in this folder; None where there is none and none is needed."""
    from tokenbench.errors import ConfigError
    from tokenbench.experiment import config

    try:
        return config.load(folder.resolve())
    except ConfigError:
        if needed or (folder / "tokenbench.toml").exists():
            raise
        return None


def _stored(loaded: "Loaded | None") -> "PriceTable":
    from tokenbench.errors import RunsError
    from tokenbench.ledger.prices import MAKE_ONE, read
    from tokenbench.transcripts.evidence import Runs

    assert loaded is not None
    path = Runs(loaded.runs).prices
    table = read(path)
    if table is None:
        raise RunsError("there is no price table yet", where=str(path), remedy=MAKE_ONE)
    return table


def _probed(loaded: "Loaded | None", models: Sequence[str]) -> "tuple[PriceTable, dict[str, str]]":
    """Probe, and keep the table where there is an experiment."""
    import asyncio

    from tokenbench.clock import SystemClock
    from tokenbench.probes import table
    from tokenbench.probes.prices import probe
    from tokenbench.text import one_line
    from tokenbench.transcripts.evidence import Runs

    def progress(text: str) -> None:
        click.echo(one_line(text, 300), err=True)

    if loaded is None:
        found = asyncio.run(
            probe(table.find_cli(None, scripted=False), models, clock=SystemClock(), progress=lambda _text: None)
        )
        return found.table, found.failed
    scripted = table.is_scripted(Runs(loaded.runs))
    wanted = models or _billed(loaded)
    ensured = asyncio.run(
        table.ensure(loaded, scripted=scripted, clock=SystemClock(), models=wanted, again=True, progress=progress)
    )
    return ensured.table, ensured.failed


def _billed(loaded: "Loaded") -> tuple[str, ...]:
    """The models of the arms, and all that the runs so far were billed for."""
    from tokenbench.grading.counted import gather
    from tokenbench.probes.table import models_of

    seen = [name for run in gather(loaded).runs.values() for name in run.ledger.models]
    return tuple(dict.fromkeys((*models_of(loaded), *seen)))


def _held(loaded: "Loaded | None", table: "PriceTable") -> "tuple[tuple[Derived, ...], tuple[Refusal, ...]]":
    """What the runs of the experiment say about prices, and where they say otherwise than the table."""
    if loaded is None:
        return (), ()
    from tokenbench.grading.counted import gather
    from tokenbench.ledger.derive import derive, differences

    derived = derive(run.ledger for run in gather(loaded).runs.values())
    return derived, differences(derived, table)


def _only(table: "PriceTable", models: Sequence[str]) -> "PriceTable":
    """The entries of these models; all where none is named."""
    from tokenbench.ledger.names import find
    from tokenbench.ledger.prices import PriceTable

    if not models:
        return table
    return PriceTable(tuple(entry for entry in table.models if any(find(name, {entry.model}) for name in models)))


def _text(table: "PriceTable", derived: "Sequence[Derived]") -> Iterator[str]:
    """The table in lines, narrow enough for 80 columns."""
    from tokenbench.text import one_line

    if not table.models:
        yield "No model has a price."
        return
    yield f"{'USD per million tokens':<38}{'input':>7}{'output':>7}{'read':>7}{'5m':>7}{'1h':>7}{'search':>7}"
    for entry in table.models:
        yield f"{one_line(entry.model, 60)}  ({entry.agent} {one_line(entry.agent_version, 20)})"
        for row in entry.rows:
            same = _like(entry, row)
            if same is None:
                rates = row.rates
                numbers = (rates.input, rates.output, rates.cache_read, rates.cache_write_5m, rates.cache_write_1h)
                yield f"  {_label(row):<36}" + "".join(f"{price:>7}" for price in (*numbers, rates.web_search))
            else:
                yield f"  {_label(row):<36}  as {_label(same)}"
        day = datetime.fromtimestamp(entry.made, UTC).date()
        regions = f"; as no region: {', '.join(entry.plain_regions)}" if entry.plain_regions else ""
        yield f"  {entry.source} of {day}, {len(entry.evidence)} bills, prompts up to {entry.largest:,} tokens{regions}"
        for one in derived:
            if one.model == entry.model and one.agent_version == entry.agent_version:
                found = ", ".join(f"{name} {price}" for name, price in one.prices.items()) or one.problem or "nothing"
                yield f"  derived from {len(one.runs)} runs: {found}"


def _like(entry: "ModelPrices", row: "Row") -> "Row | None":
    """An earlier row of the same tier with the same prices."""
    for other in entry.rows:
        if other is row:
            return None
        if other.above == row.above and other.rates == row.rates:
            return other
    return None


def _label(row: "Row") -> str:
    tier = f"above {row.above:,}, " if row.above else ""
    return f"{tier}{row.speed}{f', region {row.region}' if row.region else ''}"
