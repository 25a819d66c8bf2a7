"""The probe on the real agent CLI. The prices that it must find stand here and nowhere in the code."""

from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest

from tokenbench.agents.claude import launch
from tokenbench.clock import SystemClock
from tokenbench.ledger.prices import ModelPrices, Rates
from tokenbench.ledger.proof import fault
from tokenbench.probes.prices import probe

VERSION = "2.1.332"
"""The version whose prices these are."""


def rates(fresh: str, output: str, read: str, five: str, hour: str) -> Rates:
    return Rates(Decimal(fresh), Decimal(five), Decimal(hour), Decimal(read), Decimal(output), Decimal("0.01"))


class Right(NamedTuple):
    """USD per million tokens: input, output, read, 5-minute and 1-hour write; searches cost a cent."""

    base: Rates
    fast: int = 1
    """How many times as much a fast call costs."""
    threshold: int | None = None
    above: Rates | None = None


RIGHT = {
    "claude-opus-4-6": Right(rates("5", "25", ".5", "6.25", "10"), fast=6),
    "claude-opus-4-7": Right(rates("5", "25", ".5", "6.25", "10"), fast=6),
    "claude-opus-4-8": Right(rates("5", "25", ".5", "6.25", "10"), fast=2),
    "claude-opus-5": Right(rates("5", "25", ".5", "6.25", "10"), fast=2),
    "claude-opus-5-5": Right(rates("4", "20", ".2", "5", "8"), fast=2),
    "claude-sonnet-4-5": Right(rates("3", "15", ".3", "3.75", "6")),
    "claude-sonnet-5": Right(rates("2", "10", ".2", "2.5", "4")),
    "claude-sonnet-5-5": Right(rates("2", "10", ".1", "2.5", "4")),
    "claude-haiku-4-5": Right(rates("1", "5", ".1", "1.25", "2")),
    "claude-haiku-5-5": Right(
        rates(".1", ".5", ".01", ".125", ".2"),
        threshold=100_000,
        above=rates(".5", "2.5", ".05", ".625", "1"),
    ),
    "claude-fable-5-1": Right(rates("10", "50", ".25", "12.5", "20")),
    "claude-fable-5-2": Right(rates("8", "40", ".2", "10", "16"), fast=2),
    "claude-mythos-5-2": Right(rates("8", "40", ".2", "10", "16"), fast=2),
}


def times(base: Rates, factor: Decimal) -> Rates:
    """Dearer tokens; a search costs the same everywhere."""
    tokens = (base.input, base.cache_write_5m, base.cache_write_1h, base.cache_read, base.output)
    return Rates(*(price * factor for price in tokens), base.web_search)


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> launch.Cli:
    found = launch.find(None, home=tmp_path_factory.mktemp("home"), bundle_only=True)
    assert found.version == VERSION, "other versions have other prices: probe it and correct this table"
    return found


def tier(found: ModelPrices, prompt: int) -> list[Rates | None]:
    return [
        found.rates(prompt, speed=speed, region=region)
        for speed, region in (("", ""), ("", "us"), ("fast", ""), ("fast", "us"))
    ]


@pytest.mark.parametrize("model", RIGHT)
async def test_the_probe_finds_what_the_cli_charges(cli: launch.Cli, model: str) -> None:
    right = RIGHT[model]
    us, fast = Decimal("1.1"), Decimal(right.fast)

    probed = await probe(cli, [model], clock=SystemClock())

    assert not probed.failed
    found = probed.table.find(model, VERSION)
    assert found is not None
    assert found.thresholds == (() if right.threshold is None else (right.threshold,))
    low = 1 if right.threshold is None else right.threshold
    assert tier(found, low) == [
        right.base,
        times(right.base, us),
        times(right.base, fast),
        times(right.base, us * fast),
    ]
    if right.above is not None:
        assert tier(found, low + 1) == [right.above, times(right.above, us)] * 2
    assert found.plain_regions == ("not_available", "global", "eu")
    assert any(bill.fetches for bill in found.evidence)
    assert fault(probed.table) is None
    for bill in found.evidence:
        cost = found.cost(bill.tokens, searches=bill.searches, speed=bill.speed, region=bill.region)
        assert cost is not None
        assert abs(cost - bill.cost) <= Decimal("1e-9")


async def test_a_model_that_the_cli_does_not_know_gets_no_price(cli: launch.Cli) -> None:
    probed = await probe(cli, ["claude-nope-9"], clock=SystemClock())
    assert not probed.table.models
    assert "no price of claude-nope-9" in probed.failed["claude-nope-9"]


async def test_a_model_that_is_sent_as_another_one_is_priced_under_the_name_it_is_billed_by(cli: launch.Cli) -> None:
    probed = await probe(cli, ["claude-opus-4-1"], clock=SystemClock())
    assert probed.renamed == {"claude-opus-4-1": "claude-opus-5-5"}
    assert [entry.model for entry in probed.table.models] == ["claude-opus-5-5"]


async def test_nothing_of_a_probe_stays(cli: launch.Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    await probe(cli, ["claude-haiku-4-5"], clock=SystemClock())
    assert list(tmp_path.iterdir()) == []
