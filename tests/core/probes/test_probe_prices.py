"""The price probe finds what it was not told: every counter, tier, speed and region, from costs alone."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenbench.errors import AgentError
from tokenbench.ledger.prices import ModelPrices, Rates, Row, Sample
from tokenbench.probes.prices import LADDER, UnknownPrice, probe_model
from tokenbench.probes.till import Ask, Charge

D = Decimal
FAST = D(2)
US = D("1.1")


def times(rates: Rates, factor: Decimal) -> Rates:
    """Rates with dearer tokens; searches cost the same everywhere."""
    return Rates(
        rates.input * factor,
        rates.cache_write_5m * factor,
        rates.cache_write_1h * factor,
        rates.cache_read * factor,
        rates.output * factor,
        rates.web_search,
    )


def prices(*tiers: tuple[int, Rates]) -> ModelPrices:
    rows = [
        Row(above, speed, region, times(rates, fast * us))
        for above, rates in tiers
        for speed, fast in (("standard", D(1)), ("fast", FAST))
        for region, us in (("", D(1)), ("us", US))
    ]
    return ModelPrices(
        model="m", agent="claude", agent_version="1.2.3", rows=tuple(rows), plain_regions=("global", "not_available")
    )


def cli(truth: ModelPrices, *, noise: float = 1.0, known: bool = True) -> Ask:
    """A CLI with these prices, which adds doubles."""

    async def ask(bill: Sample) -> Charge:
        cost = truth.cost(bill.tokens, searches=bill.searches, speed=bill.speed, region=bill.region)
        # Regions that the truth does not know cost a third more.
        plain = truth.cost(bill.tokens, searches=bill.searches, speed=bill.speed) if cost is None else None
        whole = cost if cost is not None else (plain or D(0)) * 4 / 3
        return Charge("m", D(repr(float(whole) * noise)), known)

    return ask


price = st.integers(min_value=0, max_value=10**8).map(lambda cents: D(cents) / 10**5)
rates_ = st.builds(Rates, price, price, price, price, price, price)


def simple(factor: int = 1) -> Rates:
    return Rates(D(5) * factor, D("6.25") * factor, D(10) * factor, D("0.5") * factor, D(25) * factor, D("0.01"))


async def probed(truth: ModelPrices, *, noise: float = 1.0, known: bool = True) -> ModelPrices:
    return await probe_model(cli(truth, noise=noise, known=known), version="1.2.3", made=7.0)


@given(rates_)
@settings(max_examples=25, deadline=None)
async def test_finds_the_prices_of_a_model_without_tiers(rates: Rates) -> None:
    truth = prices((0, rates))
    found = await probed(truth)
    assert found.rows == truth.rows
    assert found.thresholds == ()


@given(st.integers(min_value=LADDER[0], max_value=LADDER[-1] - 1))
@settings(max_examples=25, deadline=None)
async def test_finds_a_threshold_to_the_token(threshold: int) -> None:
    truth = prices((0, simple()), (threshold, simple(3)))
    found = await probed(truth)
    assert found.thresholds == (threshold,)
    assert found.rows == truth.rows


async def test_finds_several_thresholds_even_between_two_sizes_that_are_tried() -> None:
    truth = prices((0, simple()), (130_000, simple(2)), (150_000, simple(3)), (1_000_000, simple(4)))
    found = await probed(truth)
    assert found.thresholds == (130_000, 150_000, 1_000_000)
    assert found.rows == truth.rows


async def test_knows_which_regions_cost_what_none_costs() -> None:
    assert (await probed(prices((0, simple())))).plain_regions == ("not_available", "global")


async def test_keeps_every_bill_as_evidence() -> None:
    found = await probed(prices((0, simple())))
    assert (found.made, found.agent_version, found.largest) == (7.0, "1.2.3", LADDER[-1])
    assert Sample(cost=D("0.5"), input=100_000) in found.evidence
    assert all(
        found.cost(bill.tokens, searches=bill.searches, speed=bill.speed, region=bill.region) == bill.cost
        for bill in found.evidence
        if bill.region != "eu"
    )


async def test_the_noise_of_doubles_is_rounded_away() -> None:
    assert (await probed(prices((0, simple())), noise=1 + 4e-16)).rows == prices((0, simple())).rows


async def test_a_model_that_the_cli_prices_as_another_one_has_no_price() -> None:
    with pytest.raises(UnknownPrice, match="no price of m"):
        await probed(prices((0, simple())), known=False)


async def test_a_surcharge_on_the_part_above_a_line_is_no_tier_and_refused() -> None:
    async def marginal(bill: Sample) -> Charge:
        prompt = bill.tokens.billed_input
        return Charge("m", D(prompt + max(0, prompt - 200_000)) / 10**6 + D(bill.output) / 10**5, True)

    with pytest.raises(AgentError, match="do not follow from prices"):
        await probe_model(marginal, version="1", made=0.0)


async def test_counters_that_do_not_add_up_are_refused() -> None:
    async def discount(bill: Sample) -> Charge:
        cost = simple().cost(bill.tokens, searches=bill.searches)
        return Charge("m", cost * (D("0.9") if bill.input and bill.cache_read else 1), True)

    with pytest.raises(AgentError, match="one by one"):
        await probe_model(discount, version="1", made=0.0)


async def test_web_fetches_that_cost_something_are_refused() -> None:
    honest = cli(prices((0, simple())))

    async def ask(bill: Sample) -> Charge:
        charge = await honest(bill)
        return Charge(charge.model, charge.cost + D("0.01") * bill.fetches, charge.known)

    with pytest.raises(AgentError, match="web fetches cost"):
        await probe_model(ask, version="1", made=0)


async def test_a_cli_that_changes_the_model_is_refused() -> None:
    names = iter(["a", "a", *["b"] * 100])

    async def fickle(bill: Sample) -> Charge:
        return Charge(next(names), simple().cost(bill.tokens), True)

    with pytest.raises(AgentError, match="billed b after a"):
        await probe_model(fickle, version="1", made=0.0)
