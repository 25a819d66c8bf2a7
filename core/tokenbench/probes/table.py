"""The price table of an experiment: which models it needs, and probing those that it lacks."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tokenbench.agents.claude import launch
from tokenbench.clock import Clock
from tokenbench.errors import RunsError
from tokenbench.experiment import seal
from tokenbench.experiment.model import AgentSettings, Loaded
from tokenbench.files import private_folder
from tokenbench.ledger import prices
from tokenbench.ledger.prices import PriceTable
from tokenbench.probes.prices import probe
from tokenbench.transcripts.evidence import Runs


class Ensured(msgspec.Struct, frozen=True):
    """What there is of prices now."""

    table: PriceTable
    failed: dict[str, str]
    """Models that could not be priced, and why."""
    renamed: dict[str, str]
    """Models that the CLI bills under another name."""
    version: str
    """Of the CLI that was asked."""


def models_of(loaded: Loaded) -> tuple[str, ...]:
    """The models that the arms of an experiment ask for."""
    default = loaded.config.experiment.model
    return tuple(dict.fromkeys(arm.model or default for arm in loaded.config.arms.values()))


def is_scripted(runs: Runs) -> bool:
    """Whether these results are of a rehearsal, which runs the bundled CLI."""
    try:
        return seal.read(runs.seal).scripted if runs.seal.exists() else False
    except RunsError:
        return False


def find_cli(loaded: Loaded | None, *, scripted: bool) -> launch.Cli:
    """The agent CLI that the runs are made with.

    Raises:
        AgentError: There is none, it is too old, or it cannot be started.
    """
    settings = (loaded.config.agents.get(launch.NAME) if loaded is not None else None) or AgentSettings()
    with tempfile.TemporaryDirectory(prefix="tokenbench-probe-", ignore_cleanup_errors=True) as home:
        return launch.find(settings.path, home=Path(home), bundle_only=scripted)


async def ensure(
    loaded: Loaded,
    *,
    scripted: bool,
    clock: Clock,
    models: Sequence[str] = (),
    again: bool = False,
    progress: Callable[[str], None] = lambda _text: None,
) -> Ensured:
    """See to it that `runs/prices.json` holds the prices of these models in the version of the CLI that runs.

    Args:
        loaded: The experiment.
        scripted: Whether its model is scripted: then the CLI is the bundled one.
        clock: Dates the table.
        models: As they are asked for; by default those of the arms.
        again: Probe what is known already too.
        progress: Receives sentences for a person.

    Raises:
        AgentError: There is no agent CLI.
        RunsError: The table that is there is damaged, or the new one cannot be written.
    """
    path = Runs(loaded.runs).prices
    table = prices.read(path) or PriceTable()
    cli = find_cli(loaded, scripted=scripted)
    wanted = [model for model in (models or models_of(loaded)) if again or table.find(model, cli.version) is None]
    probed = await probe(cli, wanted, clock=clock, progress=progress)
    merged = table.merged(probed.table)
    if merged != table:
        private_folder(loaded.runs)
        prices.write(path, merged)
    return Ensured(merged, probed.failed, probed.renamed, cli.version)
