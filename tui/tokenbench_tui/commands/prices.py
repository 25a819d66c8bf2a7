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
    from tokenbench.ledger.derive import Derivation
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
    table, failed, renamed = _probed(loaded, models) if probing else (_stored(loaded), {}, {})
    shown = _only(table, [renamed.get(model, model) for model in models])
    derivation, differences = _held(loaded, table)
    if as_json:
        import msgspec

        sys.stdout.buffer.write(msgspec.json.encode(shown) + b"\n")
    else:
        for line in _text(shown, derivation):
            click.echo(visible(line.replace("\n", " ")))
    for model, billed in renamed.items():
        click.echo(one_line(f"{model} is no model of its own: the CLI sends and bills {billed} in its place"), err=True)
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


def _probed(loaded: "Loaded | None", models: Sequence[str]) -> "tuple[PriceTable, dict[str, str], dict[str, str]]":
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
        return found.table, found.failed, found.renamed
    scripted = table.is_scripted(Runs(loaded.runs))
    wanted = models or _billed(loaded)
    ensured = asyncio.run(
        table.ensure(loaded, scripted=scripted, clock=SystemClock(), models=wanted, again=True, progress=progress)
    )
    return ensured.table, ensured.failed, ensured.renamed


def _billed(loaded: "Loaded") -> tuple[str, ...]:
    """The models of the arms, and all that the runs so far were billed for."""
    from tokenbench.grading.counted import gather
    from tokenbench.probes.table import models_of

    seen = [name for run in gather(loaded).runs.values() for name in run.ledger.models]
    return tuple(dict.fromkeys((*models_of(loaded), *seen)))


def _held(loaded: "Loaded | None", table: "PriceTable") -> "tuple[Derivation, tuple[Refusal, ...]]":
    """What the runs of the experiment say about prices, and where they say otherwise than the table."""
    from tokenbench.ledger.derive import derive, differences

    if loaded is None:
        return derive(()), ()
    from tokenbench.grading.counted import gather

    derivation = derive((run.ledger for run in gather(loaded).runs.values()), table)
    return derivation, differences(derivation.found, table)


def _only(table: "PriceTable", models: Sequence[str]) -> "PriceTable":
    """The entries of these models; all where none is named."""
    from tokenbench.ledger.names import find
    from tokenbench.ledger.prices import PriceTable

    if not models:
        return table
    return PriceTable(tuple(entry for entry in table.models if any(find(name, {entry.model}) for name in models)))


def _text(table: "PriceTable", derivation: "Derivation") -> Iterator[str]:
    """The table in lines, narrow enough for 80 columns."""
    from tokenbench.text import one_line

    if not table.models:
        yield "No model has a price."
        return
    yield "USD per million tokens; searches USD a piece. Prompt: input + writes + reads."
    for entry in table.models:
        yield ""
        yield f"{one_line(entry.model, 60)}  ({one_line(entry.agent, 12)} {one_line(entry.agent_version, 20)})"
        yield f"  {'prompt':<12}{'speed':<9}{'region':<7}" + "".join(f"{name:>8}" for name in _COLUMNS)
        for row in entry.rows:
            rates = row.rates
            numbers = (rates.input, rates.output, rates.cache_read, rates.cache_write_5m, rates.cache_write_1h)
            yield f"  {_key(entry, row)}" + "".join(f"{price:>8}" for price in (*numbers, rates.web_search))
        yield from _source(entry, derivation)


_COLUMNS = ("input", "output", "read", "5m", "1h", "search")


def _source(entry: "ModelPrices", derivation: "Derivation") -> Iterator[str]:
    """What bears the prices out: the bills of the probe, and the runs."""
    from tokenbench.text import one_line

    day = datetime.fromtimestamp(entry.made, UTC).date()
    how = "probed" if entry.source == "probe" else "derived from transcripts"
    yield f"  {how} on {day}: {len(entry.evidence)} bills, prompts up to {entry.largest:,} tokens"
    if entry.plain_regions:
        yield f"  as no region: {one_line(', '.join(entry.plain_regions), 60)}"
    for one in derivation.found:
        if (one.model, one.agent_version) == (entry.model, entry.agent_version):
            way = ", ".join(filter(None, (f"above {one.above:,}" if one.above else "", one.speed, one.region)))
            yield f"  derived from {len(one.runs)} runs ({one_line(way, 40)}):"
            found = ", ".join(f"{_SHORT[name]} {price}" for name, price in one.prices.items())
            yield f"    {one_line(found or one.problem or 'they determine no price', 74)}"
    for why in sorted({one.why for one in derivation.left_out if one.model == entry.model}):
        count = sum(one.why == why for one in derivation.left_out if one.model == entry.model)
        yield f"  {count} {'run' if count == 1 else 'runs'} left out of that: {one_line(why, 100)}"


_SHORT = {"input": "input", "output": "output", "cache_read": "read", "cache_write_5m": "5m", "cache_write_1h": "1h"}


def _key(entry: "ModelPrices", row: "Row") -> str:
    """Tier, speed and region of a row."""
    from tokenbench.text import one_line

    next_tier = next((limit for limit in entry.thresholds if limit > row.above), None)
    low = "any" if next_tier is None else f"≤ {next_tier:,}"
    tier = f"> {row.above:,}" if row.above else low
    return f"{tier:<12}{one_line(row.speed, 8):<9}{one_line(row.region or 'none', 6):<7}"
