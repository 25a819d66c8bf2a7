"""The report and the summary: refusals and banners as loud as the numbers, the losing classes first."""

import re
from collections.abc import Callable

import pytest
from fabricated import Fabricated, question

from tokenbench.figures import Code, Figure, refuse
from tokenbench.findings.matrix import compute
from tokenbench.findings.report import report, show
from tokenbench.findings.summary import WIDTH, summary

Fabricate = Callable[..., Fabricated]


def a_bench(fabricate: Fabricate, **options: object) -> Fabricated:
    """hybrid loses index_hostile (q03) and no other."""
    bench = fabricate(questions=4, **options)
    bench.run_all(
        None,
        lambda cell: (
            ((5, 1000, 90_000, 100) if cell.question == "q03" and cell.arm == "hybrid" else (5, 1000, 4000, 100))
            if cell.arm == "native" or cell.question == "q03"
            else (5, 1000, 1000, 100)
        ),
    )
    return bench


@pytest.fixture
def opened(fabricate: Fabricate) -> Fabricated:
    bench = a_bench(fabricate, scripted=True)
    bench.judge("ann")
    bench.open()
    return bench


def test_the_banners_come_before_the_figures_and_are_headings(opened: Fabricated) -> None:
    text = report(compute(opened.loaded))
    assert text.index("> ## SCRIPTED-MODEL") < text.index("## Headline")
    assert "nothing here is a measurement" in text
    assert "> ## ONE-CORPUS" in text


def test_the_losing_class_comes_first_and_is_called_so(opened: Fabricated) -> None:
    text = report(compute(opened.loaded))
    table = text[text.index("## By class") :]
    rows = [line for line in table.split("\n") if line.startswith("| ")][1:4]
    assert rows[0].startswith("| index")
    assert "**loses**" in rows[0]
    assert all(row.endswith("| – |") for row in rows[1:]), "a ratio without an interval is called no win"


def test_the_composition_stands_beside_the_ratios(opened: Fabricated) -> None:
    text = report(compute(opened.loaded))
    section = text[text.index("## Headline") : text.index("## By class")]
    assert "62% code" in section


def test_savings_are_no_llm_tokens_and_never_free(opened: Fabricated) -> None:
    text = report(compute(opened.loaded))
    assert "no LLM tokens" in text
    assert not re.search(r"\bfree\b", text, re.IGNORECASE)


def test_every_run_is_printed(opened: Fabricated) -> None:
    text = report(compute(opened.loaded))
    for cell in opened.cells:
        assert cell.name.replace("_", "\\_") in text


def test_a_refusal_stands_where_the_number_would_with_what_would_mend_it(fabricate: Fabricate) -> None:
    text = report(compute(a_bench(fabricate).loaded))
    section = text[text.index("## Headline") : text.index("## By class")]
    assert section.count("**REFUSED UNGRADED**") >= 2
    assert "tokenbench-tui grade" in section
    assert "wait for a judge" in section


def test_a_closed_mapping_lets_no_grade_into_the_report(fabricate: Fabricate) -> None:
    bench = a_bench(fabricate)
    bench.judge("ann")
    text = report(compute(bench.loaded))
    rows = [line for line in text[text.index("## Every run") :].split("\n") if "\\_\\_r1" in line]
    assert len(rows) == 8
    assert all(row.split(" | ")[2] == "–" for row in rows)
    assert "One block holds" not in text


def test_hostile_text_stays_in_its_cell(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    bench.run_all()
    bench.edit(
        bench.folder / "tokenbench.toml",
        lambda text: text.replace('name = "fabricated"', 'name = "a | <script> \\u001b[31m"'),
    )
    text = report(compute(bench.loaded))
    assert "<script>" not in text
    assert "\x1b" not in text
    assert "\x1b" not in summary(compute(bench.loaded))


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (Figure(value=84_120.4, unit="tokens/correct", basis="exact"), "84,120"),
        (Figure(value=0.725, unit="ratio", basis="exact", interval=(0.61, float("inf"))), "0.72 (0.61 – ∞)"),
        (Figure(value=0.625, unit="share", basis="exact", interval=(0.3057, 0.8632)), "62.5% (30.6% – 86.3%)"),
        (Figure(value=4.1, unit="turns/run", basis="exact"), "4.1"),
        (Figure(value=5005, unit="tokens", basis="estimate"), "≈ 5,005"),
        (refuse(Code.NO_CORRECT), "**REFUSED NO-CORRECT**"),
    ],
)
def test_how_a_number_is_written(figure: Figure, text: str) -> None:
    assert show(figure) == text


def test_the_summary_fits_80_columns_and_shows_refusals(fabricate: Fabricate) -> None:
    bench = a_bench(fabricate)
    before = summary(compute(bench.loaded))
    assert before.count("UNGRADED") >= 3
    bench.judge("ann")
    bench.open()
    after = summary(compute(bench.loaded))
    assert "5,105" in after
    for text in (before, after):
        assert max(map(len, text.split("\n"))) <= WIDTH


def test_a_class_of_canaries_says_how_often_the_arm_abstained(fabricate: Fabricate) -> None:
    bench = fabricate(questions=[question(1, "index_hostile"), question(2, "canary")])
    bench.run_all(lambda cell: "NOT FOUND" if cell.question == "q02" else None)
    bench.judge("ann")
    bench.open()
    found = compute(bench.loaded)
    assert re.search(r"^\| canary \| abstained 100\.0% .*\| – \| – \|$", report(found), re.MULTILINE)
    assert re.search(r"^canary .*abstained 100\.0%", summary(found), re.MULTILINE)
    assert "NO-CORRECT" not in summary(found)
