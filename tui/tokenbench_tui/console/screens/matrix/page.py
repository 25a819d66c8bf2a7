"""The figures as lines: a refusal stands where the number would, as loud as the number."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal, cast

from tokenbench.experiment.composition import Composition
from tokenbench.experiment.model import Cell
from tokenbench.figures import Code, Figure, Published, Refusal
from tokenbench.findings.results import Breakdown, Results
from tokenbench.text import one_line
from tokenbench_tui.console import amounts
from tokenbench_tui.console.codes import way
from tokenbench_tui.console.widgets.ink import (
    EMPTY,
    Line,
    Page,
    Pages,
    Span,
    clip,
    fit,
    join,
    line,
    paragraph,
    spread,
    width,
)

CANARY: Final = "canary"
"""The class of questions whose answer is not in the corpus."""
SCRIPTED: Final = "SCRIPTED-MODEL: nothing here is a measurement"


@dataclass(frozen=True, slots=True)
class Why:
    """Something one can ask the reason of."""

    kind: Literal["headline", "ratio", "accuracy", "class", "question", "banner", "more"]
    of: str
    """The arm, class, question, or the number of the banner."""


def number(figure: Figure) -> str:
    """A figure's value in its unit."""
    value = figure.value
    if figure.unit == "share" and not isinstance(value, Decimal):
        return amounts.percent(value)
    if isinstance(value, Decimal):
        return f"${value:.4f}"
    if isinstance(value, float) and math.isinf(value):
        return "∞"
    if figure.unit == "ratio":
        return f"{value:.2f}"
    if figure.unit.startswith("seconds"):
        return f"{value:.1f} s"
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}"


def interval(figure: Figure) -> str:
    """The bounds of the 95 % interval; empty where there is none."""
    if figure.interval is None:
        return ""
    low, high = (_bound(bound, figure.unit) for bound in figure.interval)
    return f"({low} – {high})"


def _bound(bound: float, unit: str) -> str:
    if math.isinf(bound):
        return "∞"
    if unit == "share":
        return amounts.percent(bound)
    return f"{bound:.2f}" if unit == "ratio" else f"{bound:,.0f}"


def short(published: Published | None, cells: int) -> Span:
    """A figure or a refusal for a narrow cell; a number that is too long for it is rounded, never cut."""
    if published is None:
        return amounts.UNKNOWN, "quiet"
    if isinstance(published, Refusal):
        return published.code, "loud"
    shown, value = number(published), published.value
    if len(shown) > cells and not isinstance(value, Decimal) and value >= 1000 and not math.isinf(value):
        shown = amounts.tokens(round(value))
    return shown, "strong"


def title(results: Results, cells: int) -> Line:
    """The experiment, and what its corpus is made of."""
    subject = results.experiment
    left = line((" tokens per correct answer", "strong"), f"   {one_line(subject.name, 24)}")
    made_of = composition(subject.composition)
    return spread(left, line((f"{one_line(subject.corpus, 30)}{made_of} ", "quiet")), cells)


def composition(measured: Composition | None) -> str:
    """The shares of the corpus's text, the largest first; says so where they are unknown."""
    if measured is None:
        return ": composition unknown"
    shares = measured.shares
    parts = {"code": shares.code, "comments": shares.comments, "prose": shares.prose, "data": shares.data}
    largest = sorted(parts.items(), key=lambda part: -part[1])
    return ": " + ", ".join(f"{amounts.percent(share)} {name}" for name, share in largest[:2])


def subtitle(results: Results, cells: int) -> Line:
    """Whether the model was scripted, and what the figures rest on."""
    subject = results.experiment
    rest = f"{subject.counted} of {subject.cells} cells, {subject.questions} questions, {subject.repeats} repeats"
    if cells < 100:
        rest = f"{subject.counted} of {subject.cells} cells"
    if results.banner(Code.SCRIPTED_MODEL) is not None:
        return spread(line((f" {SCRIPTED}", "loud")), line((f"{rest} ", "quiet")), cells)
    return line((f" {rest}", "quiet"))


def matrix_page(results: Results, cells: int) -> Page:
    """Headline, banners, classes, questions, and what else was measured."""
    pages = Pages()
    _headline(pages, results, cells)
    pages.add(())
    _banners(pages, results, cells)
    pages.add(())
    _breakdowns(pages, results, cells, "class", results.by_class)
    pages.add(())
    _breakdowns(pages, results, cells, "question", results.by_question)
    pages.add(())
    _more(pages, results, cells)
    return pages.done()


def _arm_width(results: Results) -> int:
    return max(8, min(16, max((len(arm) for arm in results.experiment.arms), default=8))) + 2


def _headline(pages: Pages, results: Results, cells: int) -> None:
    wide = cells >= 110
    arm_cells, figure_cells = _arm_width(results), 34 if wide else 15
    heads = f" {fit('arm', arm_cells - 1)}{fit('correct', 8, 'right')}{fit('turns', 7, 'right')}"
    ratio_head = f"÷ {one_line(results.experiment.baseline, 14)} (95 %)"
    figure_head = fit("tokens per correct" if wide else "tokens/correct", figure_cells, "right")
    pages.add(clip(line((f"{heads}{figure_head}   {ratio_head}", "quiet")), cells))
    for arm in results.experiment.arms:
        published = results.headline.get(arm)
        start = line(
            (
                f" {fit(one_line(arm, 30), arm_cells - 1)}",
                "strong" if arm == results.experiment.headline_arm else "plain",
            ),
            fit(_correct(results, arm), 8, "right"),
            fit(_turns(results, arm), 7, "right"),
        )
        if isinstance(published, Refusal):
            reason: Line = (("   REFUSED ", "loud"), (f"{published.code}  ", "loud"), (published.reason, "plain"))
            pages.add(clip((*start, *reason), cells), key=Why("headline", arm))
            continue
        shown = number(published) if published is not None else amounts.UNKNOWN
        if wide and published is not None:
            both = f"{shown} {interval(published)}".rstrip()
            shown = both if len(both) <= figure_cells else shown
        head: Line = (*start, (fit(shown, figure_cells, "right"), "strong"), ("   ", "plain"))
        pages.add(*_beside_or_below(head, _ratio(results, arm), cells), key=Why("headline", arm))


def _beside_or_below(head: Line, parts: Sequence[Line], cells: int) -> list[Line]:
    """A row whose last column holds several parts: each stands whole, below the row where it has no room there."""
    lines = [head]
    for index, part in enumerate(parts):
        gap = line(" ") if index else EMPTY
        if width(lines[-1]) + width(gap) + width(part) <= cells:
            lines[-1] = (*lines[-1], *gap, *part)
        else:
            rest = width(join(parts[index:], " "))
            lines.append(line(" " * max(1, min(width(head), cells - rest)), *part))
    return lines


def _correct(results: Results, arm: str) -> str:
    accuracy = results.accuracy.get(arm)
    if accuracy is None or accuracy.counts is None:
        return amounts.UNKNOWN
    return f"{accuracy.counts.correct}/{accuracy.counts.runs}"


def _turns(results: Results, arm: str) -> str:
    effort = results.effort.get(arm)
    if effort is None or isinstance(effort.turns, Refusal):
        return amounts.UNKNOWN
    return f"{effort.turns.value:.1f}"


def _ratio(results: Results, arm: str) -> Sequence[Line]:
    """Parts of which each has to stand whole: the ratio, its interval, how it reads."""
    if arm == results.experiment.baseline:
        return (line(("1", "quiet")),)
    ratio = results.ratios.get(arm)
    if ratio is None:
        return (line((amounts.UNKNOWN, "quiet")),)
    published = ratio.tokens_per_correct
    if isinstance(published, Refusal):
        return (line((f"REFUSED {published.code}", "loud")),)
    bounds = interval(published)
    parts: list[Line] = [line((number(published), "strong"), f" {bounds}" if bounds else "")]
    if ratio.reading == "not distinguishable":
        parts.insert(0, line(("not distinguishable", "warn")))
    elif ratio.reading:
        parts.append(line((ratio.reading, "good" if ratio.reading == "fewer" else "bad")))
    return parts


def _banners(pages: Pages, results: Results, cells: int) -> None:
    for index, banner in enumerate(results.banners):
        key, words = way(banner.code)
        if key == "4":
            key = "Enter"
        head: Line = ((f" ! {banner.code}  ", "loud"), (banner.reason, "plain"))
        pages.add(spread(head, line((key, "key"), f" {words} "), cells), key=Why("banner", str(index)))
        pages.add(clip(line(("     mend  ", "quiet"), (banner.remedy, "quiet")), cells))


def _one_code(everything: Sequence[Published]) -> str | None:
    """The code that refuses all of them; None where they are not refused alike."""
    codes = {one.code for one in everything if isinstance(one, Refusal)}
    alike = len(codes) == 1 and all(isinstance(one, Refusal) for one in everything)
    return next(iter(codes)) if alike else None


def _loses(results: Results, parts: Mapping[str, Breakdown]) -> bool:
    """Whether the headline arm costs more than the baseline there."""
    one = parts.get(results.experiment.headline_arm)
    return one is not None and isinstance(one.ratio, Figure) and one.ratio.value > 1


def _breakdowns(
    pages: Pages,
    results: Results,
    cells: int,
    kind: Literal["class", "question"],
    table: Mapping[Any, Mapping[str, Breakdown]],
) -> None:
    """Tokens per correct answer of each arm there; what the headline arm loses stands first."""
    arms = results.experiment.arms
    name_cells = 22 if cells >= 76 else 18
    loses = f"  {one_line(results.experiment.headline_arm, 16)} loses"
    column = max(9, min(22, (cells - name_cells - len(loses)) // max(1, len(arms))))
    code = _one_code([part.tokens_per_correct for parts in table.values() for part in parts.values()])
    if code is not None:
        pages.add(line((f" by {kind}  ", "quiet"), (f"all {len(table)} REFUSED {code}", "loud")))
        for name in table:
            pages.add(line((f"   {one_line(str(name), 60)}", "quiet")), key=Why(kind, str(name)))
        return
    canaries = {CANARY} if kind == "class" else _canary_questions(results)
    heads = "".join(f" {fit(one_line(arm, 20), column - 1, 'right')}" for arm in arms)
    pages.add(clip(line((f" {fit(kind, name_cells - 1)}{heads}", "quiet")), cells))
    for name in sorted(table, key=lambda one: not _loses(results, table[one])):
        spans: list[Span] = [(f" {fit(one_line(str(name), 40), name_cells - 1)}", "plain")]
        for arm in arms:
            one = table[name].get(arm)
            published = one.tokens_per_correct if one is not None else None
            text, ink = short(published, column - 1)
            if str(name) in canaries and isinstance(published, Refusal) and published.code == Code.NO_CORRECT:
                text, ink = _abstained(results, arm, column - 1) if kind == "class" else (amounts.UNKNOWN, "quiet")
            spans.append((" " + fit(text, column - 1, "right"), ink))
        if _loses(results, table[name]):
            spans.append((loses, "bad"))
        pages.add(clip(tuple(spans), cells), key=Why(kind, str(name)))


def _abstained(results: Results, arm: str, cells: int) -> Span:
    """What a canary is for: how often the arm abstained. A correct answer there is none."""
    abstention = results.abstention.get(arm)
    if abstention is None or isinstance(abstention.canary_abstained, Refusal):
        return amounts.UNKNOWN, "quiet"
    share = number(abstention.canary_abstained)
    words = next((one for one in (f"abstained {share}", f"abst. {share}") if len(one) <= cells), amounts.UNKNOWN)
    return words, "plain"


def _canary_questions(results: Results) -> set[str]:
    """The questions that no corpus answers, by the runs on which abstaining was measured."""
    found: set[str] = set()
    for abstention in results.abstention.values():
        if isinstance(abstention.canary_abstained, Figure):
            found.update(Cell.parse(name).question for name in abstention.canary_abstained.runs)
    return found


def more_rows(results: Results) -> Sequence[tuple[str, Mapping[str, Published]]]:
    """What else was measured, by arm."""
    arms = results.experiment.arms

    def each(table: Mapping[str, Any], name: str) -> dict[str, Published]:
        return {arm: cast(Published, getattr(table[arm], name)) for arm in arms if arm in table}

    rows: list[tuple[str, Mapping[str, Published]]] = [
        ("correct of all", each(results.accuracy, "correct_of_all")),
        ("correct of answered", each(results.accuracy, "correct_of_answered")),
        ("abstained of all", each(results.accuracy, "abstained_of_all")),
        ("÷ baseline, both right", each(results.ratios, "both_correct")),
        ("median tokens a run", each(results.medians, "tokens")),
        ("median seconds a run", each(results.medians, "seconds")),
        ("seconds per correct", each(results.effort, "seconds_per_correct")),
        ("USD per correct", each(results.cost, "per_correct")),
        ("abstention score", each(results.abstention, "score")),
        ("canaries attempted", each(results.abstention, "canary_violations")),
        ("tokens in attempts", each(results.apart, "tokens")),
        ("… per correct with them", each(results.apart, "tokens_per_correct")),
        ("looked up, of billed input", dict(results.shares)),
    ]
    return [(name, row) for name, row in rows if row]


def _more(pages: Pages, results: Results, cells: int) -> None:
    arms = results.experiment.arms
    name_cells = 25
    column = max(9, min(22, (cells - name_cells - 2) // max(1, len(arms))))
    heads = "".join(f" {fit(one_line(arm, 20), column - 1, 'right')}" for arm in arms)
    pages.add(clip(line((f" {fit('more', name_cells - 1)}{heads}", "quiet")), cells))
    for name, row in more_rows(results):
        spans: list[Span] = [(f" {fit(name, name_cells - 1)}", "plain")]
        for arm in arms:
            text, ink = short(row.get(arm), column - 1)
            spans.append((" " + fit(text, column - 1, "right"), "plain" if ink == "strong" else ink))
        pages.add(clip(tuple(spans), cells), key=Why("more", name))


def why_title(results: Results, why: Why) -> str:
    """What the reason is of."""
    match why.kind:
        case "headline" | "ratio" | "accuracy":
            return f"{why.of}: tokens per correct answer"
        case "banner":
            return str(results.banners[int(why.of)].code)
        case _:
            return f"{why.kind} {why.of}" if why.kind != "more" else why.of


def why_page(results: Results, why: Why, cells: int) -> Page:
    """The reason of a figure or a refusal: both sides, its runs, the way out."""
    pages = Pages()
    match why.kind:
        case "banner":
            _explain(pages, results, "", results.banners[int(why.of)], cells)
        case "class" | "question":
            table = cast("Mapping[str, Mapping[str, Breakdown]]", getattr(results, f"by_{why.kind}"))
            for arm, one in table.get(why.of, {}).items():
                _explain(pages, results, f"{arm}, tokens per correct answer", one.tokens_per_correct, cells)
                if one.ratio is not None:
                    _explain(pages, results, f"{arm} ÷ {results.experiment.baseline}", one.ratio, cells, runs=False)
        case "more":
            for arm, published in dict(more_rows(results)).get(why.of, {}).items():
                _explain(pages, results, arm, published, cells)
        case _:
            _explain_arm(pages, results, why.of, cells)
    return pages.done()


def _explain_arm(pages: Pages, results: Results, arm: str, cells: int) -> None:
    published = results.headline.get(arm)
    if published is not None:
        _explain(pages, results, f"{arm}, tokens per correct answer", published, cells)
    ratio = results.ratios.get(arm)
    if ratio is not None:
        _explain(pages, results, f"{arm} ÷ {results.experiment.baseline}", ratio.tokens_per_correct, cells, runs=False)
    accuracy = results.accuracy.get(arm)
    if accuracy is not None:
        _explain(pages, results, "correct of all", accuracy.correct_of_all, cells, runs=False)


def _explain(pages: Pages, results: Results, what: str, published: Published, cells: int, *, runs: bool = True) -> None:
    label: Line = ((f" {one_line(what, 60)}  ", "accent"),) if what else ((" ", "plain"),)
    if isinstance(published, Refusal):
        pages.add(*paragraph((*label, (f"REFUSED {published.code}  ", "loud")), published.reason, cells - 1, indent=3))
        for evidence in published.evidence:
            key = evidence if any(evidence == row.cell for row in results.runs) else None
            pages.add(*paragraph((("   ", "plain"),), evidence, cells - 1, indent=5), key=key)
        key_name, words = way(published.code)
        pages.add(*paragraph((("   mend  ", "key"),), published.remedy, cells - 1, indent=9))
        # The key of this screen leads nowhere from its own box.
        pages.add(*(() if key_name == "4" else (line(("   ", "plain"), (key_name, "key"), f" {words}"),)), ())
        return
    bounds = f"  95 % {interval(published)}" if published.interval is not None else ""
    words = f"{number(published)} {published.unit}{bounds}, {published.basis}"
    pages.add(*paragraph(label, words, cells - 1, indent=3))
    if runs and published.runs:
        pages.add(line((f"   from {len(published.runs)} runs; Enter opens the ledger", "quiet")))
        by_cell = {row.cell: row for row in results.runs}
        for cell in published.runs:
            row = by_cell.get(cell)
            tokens = amounts.UNKNOWN if row is None or row.tokens is None else f"{row.tokens.total:,}"
            worth = (row.result or "") if row is not None else ""
            shown = f"   {fit(one_line(cell, 80), max(20, cells - 30))}{fit(tokens, 12, 'right')}  {worth}"
            pages.add(clip(line(shown), cells), key=cell)
    pages.add(())
