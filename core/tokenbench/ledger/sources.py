"""Where the prices come from by which a run's cost was computed again."""

from typing import NamedTuple

from tokenbench.ledger.model import Ledger
from tokenbench.ledger.prices import PriceTable
from tokenbench.text import one_line


class PriceSource(NamedTuple):
    """What is known of the price of one model of a run."""

    model: str
    told: str
    """Probed or derived, on which version of the CLI, from how many bills; or that there is none."""
    known: bool


def price_sources(ledger: Ledger, table: PriceTable | None) -> tuple[PriceSource, ...]:
    """Where the prices of each model of a run come from.

    Args:
        ledger: Of the run.
        table: `runs/prices.json`; None where there is none.
    """
    models = tuple(ledger.models) or ((ledger.model,) if ledger.model else ())
    return tuple(_source(model, ledger.agent_version, table) for model in models)


def _source(model: str, version: str | None, table: PriceTable | None) -> PriceSource:
    prices = table.find(model, version) if table is not None else None
    if prices is not None:
        how = "probed on" if prices.source == "probe" else "derived from transcripts of"
        bills = f"{len(prices.evidence)} bill{'' if len(prices.evidence) == 1 else 's'}"
        return PriceSource(model, f"{how} {prices.agent} {one_line(prices.agent_version, 20)}, {bills}", True)
    others = table.versions(model) if table is not None else ()
    if others:
        known = ", ".join(one_line(other, 20) for other in others[:3])
        return PriceSource(model, f"none of {one_line(version or 'this version', 20)}, only of {known}", False)
    return PriceSource(model, "none", False)
