"""Screen 4: a refusal stands where the number would, and everything can be asked why."""

from collections.abc import Callable

import msgspec
import pytest

from tokenbench.figures import Code, Figure, Refusal, refuse
from tokenbench.findings import matrix
from tokenbench.findings.results import Results
from tokenbench_tui.console.screens.matrix.page import (
    Why,
    interval,
    matrix_page,
    number,
    short,
    subtitle,
    title,
    why_page,
    why_title,
)
from tokenbench_tui.console.widgets.ink import Page, width


@pytest.fixture
def ungraded(lab: object) -> Results:
    """All runs done, nothing judged."""
    lab.begin()
    lab.finish(lambda cell: f"256 {lab.cells.index(cell)}")
    return matrix.compute(lab.loaded)


@pytest.fixture
def stands(ungraded: Results) -> Results:
    """The same with a headline: hybrid is cheaper, but loses a class."""

    def figure(value: float, unit: str = "tokens/correct", bounds: tuple[float, float] | None = None) -> Figure:
        return Figure(value=value, unit=unit, basis="exact", interval=bounds, runs=("native__q1__r1",))

    replace = msgspec.structs.replace
    part = ungraded.by_class["lookup"]["native"]
    ratios = {
        "hybrid": replace(
            ungraded.ratios["hybrid"], tokens_per_correct=figure(0.73, "ratio", (0.61, 0.88)), reading="fewer"
        ),
        "retrieval": replace(
            ungraded.ratios["retrieval"],
            tokens_per_correct=figure(1.02, "ratio", (0.8, float("inf"))),
            reading="not distinguishable",
        ),
    }
    return replace(
        ungraded,
        experiment=replace(ungraded.experiment, arms=(*ungraded.experiment.arms, "bare")),
        headline={
            "native": figure(84_120, bounds=(80_000, 90_000)),
            "hybrid": figure(61_480),
            "retrieval": figure(90_100),
            "bare": refuse(Code.QUARANTINED, "bare__q1__r1 reached the corpus"),
        },
        ratios=ratios,
        by_class={
            "lookup": {"native": replace(part, tokens_per_correct=figure(61_200), ratio=None)},
            "index_hostile": {
                "native": replace(part, tokens_per_correct=figure(71_900), ratio=None),
                "hybrid": replace(part, tokens_per_correct=figure(180_400), ratio=figure(2.5, "ratio")),
            },
        },
    )


def text_of(page: Page) -> str:
    return "\n".join("".join(part for part, _ in line) for line in page.lines)


@pytest.mark.parametrize("cells", [60, 80, 120, 160])
def test_a_page_keeps_to_its_width(ungraded: Results, stands: Results, cells: int) -> None:
    for results in (ungraded, stands):
        page = matrix_page(results, cells)
        assert all(width(line) <= cells for line in page.lines)
        assert width(title(results, cells)) <= cells
        assert width(subtitle(results, cells)) <= cells
        for why in page.keys.values():
            assert all(width(line) <= cells for line in why_page(results, why, cells).lines)


def test_a_refused_headline_stands_where_the_number_would_and_is_loud(ungraded: Results) -> None:
    page = matrix_page(ungraded, 80)
    row = next(line for line in page.lines if line and line[0][0].startswith(" hybrid"))
    assert "UNGRADED" in "".join(part for part, _ in row)
    assert any(ink == "loud" for _, ink in row)
    assert "9 answers wait for a judge" in text_of(page)


def test_a_scripted_model_is_said_beside_the_title(ungraded: Results) -> None:
    assert any("SCRIPTED-MODEL" in part and ink == "loud" for part, ink in subtitle(ungraded, 80))


def test_figures_have_their_interval_and_their_reading(stands: Results) -> None:
    text = text_of(matrix_page(stands, 80))
    assert "84,120" in text
    assert "0.73 (0.61 – 0.88) fewer" in text
    assert "not distinguishable 1.02 (0.80 – ∞)" in text
    assert "REFUSED QUARANTINED" in text
    assert "84,120 (80,000 – 90,000)" in text_of(matrix_page(stands, 160))


def test_a_canary_has_no_correct_answer_to_fail_at(stands: Results) -> None:
    replace = msgspec.structs.replace
    none = refuse(Code.NO_CORRECT, "native: 0 of 4 runs")
    share = Figure(value=0.75, unit="share", basis="exact", runs=("native__q3__r1",))
    part = replace(stands.by_class["lookup"]["native"], tokens_per_correct=none)
    results = replace(
        stands,
        by_class={**stands.by_class, "canary": {"native": part}},
        by_question={"q1": {"native": part}, "q2": stands.by_class["lookup"], "q3": {"native": part}},
        abstention={"native": replace(stands.abstention["native"], canary_abstained=share)},
    )
    text = text_of(matrix_page(results, 140))
    rows = {one.split()[0]: one for one in text.splitlines() if one.strip()}
    assert "abstained 75 %" in rows["canary"]
    assert "NO-CORRECT" not in rows["canary"]
    assert "abst. 75 %" in text_of(matrix_page(results, 80))
    assert "NO-CORRECT" not in rows["q3"]
    assert "NO-CORRECT" in rows["q1"]


def test_a_refusal_that_no_other_screen_mends_leads_to_none(stands: Results) -> None:
    banner = refuse(Code.NO_SANDBOX, "without bwrap")
    results = msgspec.structs.replace(stands, banners=(banner,))
    assert "1 runs" not in next(one for one in text_of(matrix_page(results, 80)).splitlines() if "NO-SANDBOX" in one)
    assert "4 why" not in text_of(why_page(results, Why("banner", "0"), 76))


@pytest.mark.parametrize("cells", [60, 66, 72, 80, 90, 110, 160])
def test_an_interval_is_whole_however_narrow_it_is(stands: Results, cells: int) -> None:
    lines = text_of(matrix_page(stands, cells)).splitlines()
    for whole in ("0.73 (0.61 – 0.88)", "1.02 (0.80 – ∞)", "not distinguishable", "fewer"):
        assert any(whole in one for one in lines), whole


def test_a_number_that_is_too_long_for_its_column_is_rounded(stands: Results) -> None:
    big = Figure(value=1_284_120.0, unit="tokens/correct", basis="exact")
    assert short(big, 9) == ("1,284,120", "strong")
    assert short(big, 8) == ("1.28M", "strong")


def test_what_the_headline_arm_loses_stands_first(stands: Results) -> None:
    text = text_of(matrix_page(stands, 80))
    assert text.index("index_hostile") < text.index("lookup")
    assert "hybrid loses" in text


def test_every_banner_has_its_remedy_and_its_key(ungraded: Results) -> None:
    page = matrix_page(ungraded, 80)
    text = text_of(page)
    for banner in ungraded.banners:
        assert f"! {banner.code}" in text
        assert banner.remedy[:40] in text
    assert "3 judge" in text


def test_everything_that_can_be_chosen_has_a_reason(ungraded: Results, stands: Results) -> None:
    for results in (ungraded, stands):
        page = matrix_page(results, 80)
        assert {why.kind for why in page.keys.values()} == {"headline", "banner", "class", "question", "more"}
        for why in page.keys.values():
            assert why_title(results, why)
            assert text_of(why_page(results, why, 76)).strip()


def test_the_reason_of_a_refusal_holds_evidence_and_remedy_and_that_of_a_figure_its_runs(stands: Results) -> None:
    refused = text_of(why_page(stands, Why("headline", "bare"), 76))
    assert "bare__q1__r1 reached the corpus" in refused
    assert "mend" in refused
    page = why_page(stands, Why("headline", "native"), 76)
    assert "native__q1__r1" in page.keys.values()
    assert "95 % (80,000 – 90,000)" in " ".join(text_of(page).split())


@pytest.mark.parametrize(
    ("figure", "shown"),
    [
        (Figure(value=0.31, unit="share", basis="exact"), "31 %"),
        (Figure(value=84120.4, unit="tokens/correct", basis="exact"), "84,120"),
        (Figure(value=float("inf"), unit="ratio", basis="exact"), "∞"),
        (Figure(value=1.234, unit="ratio", basis="exact"), "1.23"),
        (Figure(value=12, unit="answers", basis="exact"), "12"),
    ],
)
def test_numbers_are_written_in_their_unit(figure: Figure, shown: str) -> None:
    assert number(figure) == shown
    assert interval(figure) == ""


async def test_enter_asks_why_and_a_run_leads_to_its_ledger(lab: object, until: Callable, shown: Callable) -> None:
    lab.begin()
    lab.finish(lambda cell: f"256 {lab.cells.index(cell)}")
    app = lab.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4")
        await until(pilot, lambda: "REFUSED UNGRADED" in shown(pilot))
        await pilot.press("enter")
        await until(pilot, lambda: "native: tokens per correct answer" in shown(pilot))
        await pilot.press("escape")
        await until(pilot, lambda: "Esc closes" not in shown(pilot))
        assert isinstance(app.findings.headline, Refusal)


async def test_damage_is_a_sentence_and_not_the_end(lab: object, until: Callable, shown: Callable) -> None:
    lab.begin()
    lab.finish()
    lab.runs.blind.write_text("not json")
    app = lab.app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4")
        await until(pilot, lambda: "The figures cannot be computed" in shown(pilot))
        await until(pilot, lambda: "blind.json" in shown(pilot))
        await pilot.press("1")
        await until(pilot, lambda: "9 done" in shown(pilot))
