"""Where the prices of a run come from."""

from decimal import Decimal as D

import msgspec
from priced import proved_table

from tokenbench.ledger.build import LedgerBuilder
from tokenbench.ledger.model import Ledger
from tokenbench.ledger.prices import ModelPrices, PriceTable, Rates, Row
from tokenbench.ledger.sources import price_sources

RATES = Rates(D(10), D("12.5"), D(20), D(1), D(50), D("0.01"))


def ledger(version: str | None = "2.1.332") -> Ledger:
    empty = LedgerBuilder(transcript="x").finish()
    return msgspec.structs.replace(empty, model="claude-a", agent_version=version)


def table(version: str = "2.1.332", source: str = "probe") -> PriceTable:
    entry = ModelPrices(
        model="claude-a", agent="claude", agent_version=version, rows=(Row(0, "standard", "", RATES),), source=source
    )
    return proved_table(entry)


def test_a_probe_and_transcripts_are_told_apart_with_their_version_and_bills() -> None:
    (probed,) = price_sources(ledger(), table())
    bills = len(table().models[0].evidence)
    assert probed == ("claude-a", f"probed on claude 2.1.332, {bills} bills", True)
    (derived,) = price_sources(ledger(), table(source="transcripts"))
    assert derived.told.startswith("derived from transcripts of claude 2.1.332")


def test_a_price_of_another_version_is_none_and_is_named() -> None:
    (source,) = price_sources(ledger(), table("2.0.1"))
    assert not source.known
    assert source.told == "none of 2.1.332, only of 2.0.1"


def test_no_table_is_no_price() -> None:
    assert [(one.told, one.known) for one in price_sources(ledger(), None)] == [("none", False)]
