"""Screen 5 shows how warm each arm began, the runs in time and what that cost; live, and blind to the answers."""

from collections.abc import Callable
from decimal import Decimal as D

import msgspec
import pytest

from tokenbench.experiment.model import Cell
from tokenbench.figures import Code, Figure, refuse
from tokenbench.findings import caching
from tokenbench.findings.caching import Caching
from tokenbench_tui.console.screens.cache.page import cache_page, subtitle, title
from tokenbench_tui.console.widgets.ink import Page, width


def text_of(page: Page) -> str:
    return "\n".join("".join(part for part, _ in line) for line in page.lines)


@pytest.fixture
def done(lab: object) -> Caching:
    """Nine runs that all began cold; no price table."""
    lab.begin()
    lab.finish()
    return caching.compute(lab.loaded)


@pytest.fixture
def confounded(done: Caching) -> Caching:
    """The same, but that hybrid began warm; every other cost is known."""
    replace = msgspec.structs.replace
    refusal = refuse(Code.WARMTH_CONFOUNDED, "native: the first calls read 12% from cache")

    def share(value: float) -> Figure:
        return Figure(value=value, unit="share", basis="exact")

    def usd(value: str) -> Figure:
        return Figure(value=D(value), unit="USD", basis="estimate")

    arms = {
        arm: replace(one, share=share(0.64 if arm == "hybrid" else 0.12), paid=refusal, cold=usd("0.214"),
                     warm=usd("0.093"), neutral=usd("0.421"))
        for arm, one in done.arms.items()
    }  # fmt: skip
    return replace(done, arms=arms, difference=0.52, warmest="hybrid", coldest="native", confounded=refusal)


@pytest.mark.parametrize("cells", [60, 80, 120, 160])
def test_a_page_keeps_to_its_width(done: Caching, confounded: Caching, cells: int) -> None:
    for found in (done, confounded):
        assert all(width(line) <= cells for line in cache_page(found, cells).lines)
        assert width(title(found, cells)) <= cells
        assert width(subtitle(found, cells)) <= cells


@pytest.mark.parametrize("cells", [60, 80, 160])
def test_dollars_that_warmth_confounds_are_refused_in_their_place_and_the_others_stand(
    confounded: Caching, cells: int
) -> None:
    text = text_of(cache_page(confounded, cells))
    assert "52.0 points > 10: WARMTH-CONFOUNDED" in text
    assert "64.0 %" in text
    assert "0.4210" in text
    assert "Use tokens or the cache-neutral cost" in text
    assert "the first calls read 12% from cache" in text
    row = next(line for line in cache_page(confounded, cells).lines if "difference" in "".join(t for t, _ in line))
    assert any(ink == "loud" for _, ink in row)


def test_the_middle_first_calls_of_the_warmest_and_the_coldest_arm_stand_side_by_side(confounded: Caching) -> None:
    rows = text_of(cache_page(confounded, 80)).splitlines()
    at = next(index for index, row in enumerate(rows) if row.startswith(" first call  "))
    assert rows[at].split()[-2:] == ["hybrid", "native"]
    assert rows[at + 1].split() == ["prompt", "1,003", "1,003"]


def test_an_arm_whose_dollars_are_all_refused_says_so_once(done: Caching) -> None:
    text = text_of(cache_page(done, 80))
    assert text.count("REFUSED PRICE-UNKNOWN") == 3
    assert "tokenbench-tui prices --probe" in text


def test_a_scripted_model_is_said_beside_the_title(done: Caching) -> None:
    assert any("SCRIPTED-MODEL" in part and ink == "loud" for part, ink in subtitle(done, 80))


def test_an_arm_without_a_run_has_no_share(done: Caching) -> None:
    none = refuse(Code.INCOMPLETE, reason="No run of native has ended yet")
    arms = {**done.arms, "native": msgspec.structs.replace(done.arms["native"], share=none, typical=None, starts=())}
    page = cache_page(msgspec.structs.replace(done, arms=arms, difference=None, warmest=None, coldest=None), 80)
    row = next(line for line in page.lines if line and line[0][0].startswith(" native"))
    assert "INCOMPLETE" in "".join(part for part, _ in row)


def test_hostile_names_are_text(done: Caching) -> None:
    evil = "na\x1b]0;owned\x07tive[/]"
    arms = {evil if arm == "native" else arm: one for arm, one in done.arms.items()}
    found = msgspec.structs.replace(done, arms=arms, experiment=evil, warmest=evil, coldest=evil)
    text = text_of(cache_page(found, 80))
    assert "\x1b" not in text
    assert "\x07" not in text


async def test_it_is_live_and_opens_the_ledger_of_a_run(
    lab: object, until: Callable, shown: Callable, transcript: Callable
) -> None:
    lab.begin()
    async with lab.app().run_test(size=(80, 24)) as pilot:
        await pilot.press("5")
        await until(pilot, lambda: "nothing to compare yet" in shown(pilot))
        first, second = lab.cells[:2]
        lab.start(first)
        await until(pilot, lambda: "under way" in shown(pilot))
        lab.close(first, transcript("the secret answer"))
        await until(pilot, lambda: "1 of 9 runs" in shown(pilot) and "1 of 3 runs" in shown(pilot))
        lab.start(second)
        lab.close(second, transcript("the secret answer"))
        await until(pilot, lambda: "so far: not confounded" in shown(pilot))
        lab.finish(lambda cell: "the secret answer")
        await until(pilot, lambda: "9 of 9 runs" in shown(pilot))
        assert "secret" not in shown(pilot)
        await pilot.press("end", "enter")
        starts = [start for one in caching.compute(lab.loaded).arms.values() for start in one.starts]
        last = Cell.parse(max(starts, key=lambda start: (start.started, start.cell)).cell)
        name = f"{last.arm} · {last.question} · 1"
        await until(pilot, lambda: name in shown(pilot) and "TOKENS ok" in shown(pilot))


async def test_what_cannot_be_read_is_said_and_the_console_lives_on(
    lab: object, until: Callable, shown: Callable
) -> None:
    lab.begin()
    lab.finish()
    lab.runs.blind.write_text("{")
    async with lab.app().run_test(size=(80, 24)) as pilot:
        await pilot.press("5")
        await until(pilot, lambda: "The cache cannot be told" in shown(pilot) and "blind.json" in shown(pilot))
        await pilot.press("1")
        await until(pilot, lambda: "9 done" in shown(pilot))


async def test_in_ascii_only_ascii_is_drawn(lab: object, until: Callable, shown: Callable) -> None:
    lab.begin()
    lab.finish()
    async with lab.app(ascii_only=True).run_test(size=(80, 24)) as pilot:
        await pilot.press("5")
        await until(pilot, lambda: "9 of 9 runs" in shown(pilot))
        drawn = pilot.app.screen._compositor.render_strips()
        gate = pilot.app._gate
        texts = ["".join(part.text for part in gate.apply(list(strip), None)) for strip in drawn]
        assert all(text.isascii() for text in texts)
