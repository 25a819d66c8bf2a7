"""The results as plain text of 80 columns: banners, then the matrix."""

import textwrap
from collections.abc import Sequence

import msgspec

from tokenbench.experiment.composition import sentence
from tokenbench.experiment.model import QuestionClass
from tokenbench.figures import Figure, Published, Refusal
from tokenbench.findings.matrix import losing_first
from tokenbench.findings.report import abstained, show
from tokenbench.findings.results import Results
from tokenbench.text import one_line

WIDTH = 80


def summary(results: Results) -> str:
    """What was found, for a terminal or a log. Refusals stand where the numbers would."""
    about = results.experiment
    lines = [f"{one_line(about.name)}  {about.counted} of {about.cells} cells have a run that counts"]
    for banner in results.banners:
        lines += _banner(banner)
    lines.append("")
    rows = [["arm", "correct", "tokens per correct", "÷ baseline (95 %)", "turns"]]
    for arm in about.arms:
        counts = results.accuracy[arm].counts
        ratio = results.ratios.get(arm)
        rows.append(
            [
                one_line(arm, 20),
                f"{counts.correct}/{counts.runs}" if counts is not None else "–",
                _plain(results.headline[arm], bounds=False),
                "1" if ratio is None else _ratio(ratio.tokens_per_correct, ratio.reading),
                _plain(results.effort[arm].turns),
            ]
        )
    lines += _columns(rows)
    corpus = "REFUSED NO-COMPOSITION" if about.composition is None else sentence(about.composition)
    lines += textwrap.wrap(f"corpus {one_line(about.corpus)}: {one_line(corpus)}", WIDTH)
    lines.append("")
    rows = [["class", *(one_line(arm, 20) for arm in about.arms)]]
    for name, _ in losing_first(results, about.headline_arm):
        rows.append([name, *(_of_class(results, name, arm) for arm in about.arms)])
    lines += _columns(rows)
    return "\n".join(lines) + "\n"


def _banner(banner: Refusal) -> list[str]:
    indent = " " * 20
    text = f"! {banner.code:<17} {one_line(banner.reason)}."
    if banner.evidence:
        text += f" {one_line(banner.evidence[0], 160)}"
        text += f" (and {len(banner.evidence) - 1} more)." if len(banner.evidence) > 1 else "."
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent) + textwrap.wrap(
        f"→ {one_line(banner.remedy)}.", WIDTH, initial_indent=indent, subsequent_indent=indent
    )


def _plain(value: Published, *, bounds: bool = True) -> str:
    if isinstance(value, Refusal):
        return str(value.code)
    if not bounds:
        value = msgspec.structs.replace(value, interval=None)
    return show(value)


def _of_class(results: Results, name: QuestionClass, arm: str) -> str:
    share = results.abstention[arm].canary_abstained
    if name == "canary" and isinstance(share, Figure):
        return abstained(results, arm)
    return _plain(results.by_class[name][arm].tokens_per_correct)


def _ratio(value: Published, reading: str | None) -> str:
    if reading == "not distinguishable" and isinstance(value, Figure):
        return f"{show(value)} =?"
    return _plain(value)


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
