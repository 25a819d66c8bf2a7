"""A CLI at the till: one process for many bills, another where it takes no more, words where it says nothing."""

import sys
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from pathlib import Path

import aiohttp
import pytest

from tokenbench.agents.claude import launch
from tokenbench.clock import ManualClock
from tokenbench.errors import AgentError
from tokenbench.ledger.prices import Sample
from tokenbench.probes.crafted import CraftedApi
from tokenbench.probes.prices import probe
from tokenbench.probes.till import Till

FAKE = Path(__file__).with_name("fake_till.py")


@pytest.fixture
async def api() -> AsyncIterator[CraftedApi]:
    async with CraftedApi() as api:
        yield api


@pytest.fixture
def desk(api: CraftedApi, tmp_path: Path) -> Callable[[str], Till]:
    def make(mode: str) -> Till:
        return Till(fake(tmp_path, mode), "m", api, rooms(tmp_path))

    return make


def fake(folder: Path, mode: str) -> launch.Cli:
    return launch.Cli(FAKE, "2.1.332", "configured", (sys.executable, str(FAKE), mode, str(folder / "starts")))


def rooms(folder: Path) -> launch.Rooms:
    made = launch.Rooms(*(folder / name for name in launch.Rooms._fields))
    for room in made:
        room.mkdir()
    return made


def starts(folder: Path) -> int:
    return len((folder / "starts").read_text())


def bill(tokens: int) -> Sample:
    return Sample(cost=Decimal(0), input=tokens)


async def test_one_process_prices_one_bill_after_another(desk: Callable[[str], Till], tmp_path: Path) -> None:
    till = desk("")
    costs = [(await till.ask(bill(tokens))).cost for tokens in (1_000, 2_000, 4_000)]
    await till.close()
    assert costs == [Decimal("0.005"), Decimal("0.01"), Decimal("0.02")]
    assert starts(tmp_path) == 1


async def test_where_a_process_takes_no_more_another_takes_its_place(
    desk: Callable[[str], Till], tmp_path: Path
) -> None:
    till = desk("full")
    costs = [(await till.ask(bill(1_000))).cost for _ in range(5)]
    await till.close()
    assert costs == [Decimal("0.005")] * 5
    assert starts(tmp_path) == 3


async def test_a_version_that_prints_sums_only_is_read_by_their_growth(desk: Callable[[str], Till]) -> None:
    till = desk("old")
    costs = [(await till.ask(bill(1_000))).cost for _ in range(3)]
    await till.close()
    assert costs == [Decimal("0.005")] * 3


@pytest.mark.parametrize(
    ("mode", "said"),
    [("silent", "ended before it answered"), ("twice", "asked the API 2 times"), ("free", "says no cost")],
)
async def test_what_has_no_price_is_said(desk: Callable[[str], Till], mode: str, said: str) -> None:
    till = desk(mode)
    with pytest.raises(AgentError, match=said):
        await till.ask(bill(1_000))
    await till.close()


async def test_a_model_that_cannot_be_priced_spoils_no_other(tmp_path: Path) -> None:
    told: list[str] = []
    found = await probe(fake(tmp_path, "free"), ["a", "b"], clock=ManualClock(), progress=told.append)
    assert (found.table.models, list(found.failed)) == ((), ["a", "b"])
    assert all("says no cost" in line for line in told)


async def test_the_api_answers_below_its_own_address_alone(api: CraftedApi) -> None:
    api.usage = bill(5)
    root = api.url.rsplit("/run/", 1)[0]
    async with aiohttp.ClientSession() as session:
        for url, status in ((f"{root}/v1/messages", 404), (f"{api.url}/v1/messages", 200)):
            async with session.post(url, json={"model": "m"}) as response:
                assert response.status == status
        async with session.post(f"{api.url}/v1/messages", data=b"[") as response:
            assert response.status == 400
    assert api.asked == ["m"]


async def test_a_bill_stands_in_the_usage_as_it_was_crafted(api: CraftedApi) -> None:
    api.usage = Sample(cost=Decimal(0), cache_write_1h=7, cache_read=3, output=0, searches=2, speed="fast", region="us")
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{api.url}/v1/messages", json={"model": "m"}) as response,
    ):
        usage = (await response.json())["usage"]
    assert usage["cache_creation"] == {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 7}
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (0, 3, 0)
    assert (usage["speed"], usage["inference_geo"]) == ("fast", "us")
    assert usage["server_tool_use"]["web_search_requests"] == 2
