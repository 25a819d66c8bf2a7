"""What the cache did as lines: how warm each arm began, the runs in time, and what that cost."""

from collections.abc import Sequence
from typing import Final

from tokenbench.figures import Figure, Published, Refusal
from tokenbench.findings.caching import Band, Caching, Start, bands
from tokenbench.findings.caching_plain import amount, costs, elapsed, refusals, share, verdict
from tokenbench.ledger.model import Tokens
from tokenbench.text import one_line
from tokenbench_tui.console import amounts
from tokenbench_tui.console.widgets.ink import Ink, Line, Page, Pages, Span, clip, fit, line, paragraph, spread

SCRIPTED: Final = "SCRIPTED-MODEL: nothing here is a measurement"
COSTS: Final = ("paid", "cold", "warm", "neutral")
SIGNS: Final = "W wrote  r read  p in part  · lifetime ran out"
COUNTERS: Final = (
    ("prompt", "billed_input"),
    ("fresh", "input"),
    ("write 5m", "cache_write_5m"),
    ("write 1h", "cache_write_1h"),
    ("read", "cache_read"),
)
BAR: Final = 24
"""Cells of a whole bar, at most."""


def title(found: Caching, cells: int) -> Line:
    """What this is of."""
    left = line((" cache", "strong"), f"   {one_line(found.experiment, 24)}")
    ended, planned = (sum(getattr(one, name) for one in found.arms.values()) for name in ("ended", "planned"))
    return spread(left, line((f"{ended} of {planned} runs ", "quiet")), cells)


def subtitle(found: Caching, cells: int) -> Line:
    """Whether the model was scripted, and whether dollars can be compared."""
    if found.scripted:
        return clip(line((f" {SCRIPTED}", "loud")), cells)
    return clip(line((" what runs found in the cache when they began", "quiet")), cells)


def cache_page(found: Caching, cells: int) -> Page:
    """Shares, time line, costs, reasons, and every run; runs can be chosen."""
    pages = Pages()
    name = _name_cells(found, cells)
    _shares(pages, found, name, cells)
    ink: Ink = "loud" if found.confounded is not None else "plain" if found.difference is None else "good"
    pages.add(*paragraph(((" ", "plain"),), verdict(found), cells - 1, indent=1, ink=ink))
    _time_line(pages, found, name, cells)
    _costs(pages, found, name, cells)
    _reasons(pages, found, cells)
    _side_by_side(pages, found, cells)
    _runs(pages, found, cells)
    return pages.done()


def _name_cells(found: Caching, cells: int) -> int:
    longest = max((len(one_line(arm, 24)) for arm in found.arms), default=8)
    return max(8, min(longest, 12 if cells < 110 else 24)) + 2


def _shares(pages: Pages, found: Caching, name: int, cells: int) -> None:
    pages.add(clip(line((" first call read from cache", "quiet")), cells))
    bar = max(0, min(BAR, cells - name - 34))
    for arm, one in found.arms.items():
        runs = f"  {one.ended} of {one.planned} runs"
        label = f" {fit(one_line(arm, 24), name)}"
        if isinstance(one.share, Refusal):
            shown = line(label, (share(one.share), "loud"), (runs, "quiet"))
        else:
            filled = round(float(one.share.value) * bar)
            signs = fit("█" * filled, bar) if bar else ""
            shown = line(label, (fit(share(one.share), 9, "right"), "strong"), "  ", (signs, "bar"), (runs, "quiet"))
        pages.add(clip(shown, cells), key=one.typical.cell if one.typical is not None else None)


def _time_line(pages: Pages, found: Caching, name: int, cells: int) -> None:
    room = cells - name - 2
    stretches = bands(found, room)
    if not stretches:
        pages.add(line((" no run has begun yet", "quiet")))
        return
    for number, stretch in enumerate(stretches):
        pages.add(_axis(stretch, name, cells))
        for arm, row in stretch.rows.items():
            pages.add(clip(line(f" {fit(one_line(arm, 24), name)}", (row, "strong")), cells))
        if number == len(stretches) - 1:
            pages.add(clip(line((f" {fit('', name)}{SIGNS}", "quiet")), cells))


def _axis(stretch: Band, name: int, cells: int) -> Line:
    room = cells - name - 2
    begin, end = elapsed(stretch.begin), elapsed(stretch.end)
    middle = elapsed((stretch.begin + stretch.end) / 2)
    left = fit(begin, room // 2) + middle
    return line((f" {fit('started', name)}{fit(left, room - len(end))}{end}", "quiet"))


def _costs(pages: Pages, found: Caching, name: int, cells: int) -> None:
    shown = {arm: tuple(map(amount, costs(one))) for arm, one in found.arms.items()}
    widths = [
        max(len(head), *(len(row[column]) for row in shown.values() if len(set(row)) > 1), 6) + 3
        for column, head in enumerate(COSTS)
    ]
    if 1 + name + sum(widths) > cells:
        _costs_one_below_the_other(pages, found, cells)
        return
    heads = "".join(fit(head, size, "right") for head, size in zip(COSTS, widths, strict=True))
    unit = "   USD per run, median"
    beside = unit if 1 + name + len(heads) + len(unit) <= cells else ""
    pages.add(clip(line((f" {fit('arm', name)}{heads}{beside}", "quiet")), cells))
    for arm, one in found.arms.items():
        spans: list[Span] = [(f" {fit(one_line(arm, 24), name)}", "plain")]
        if _same(costs(one)):
            spans.append((f"REFUSED {shown[arm][0]}", "loud"))
        else:
            for value, text, size in zip(costs(one), shown[arm], widths, strict=True):
                spans.append((fit(text, size, "right"), _ink(value)))
        pages.add(clip(tuple(spans), cells))


def _same(values: Sequence[Published]) -> bool:
    """Whether one refusal stands in every place."""
    return all(isinstance(value, Refusal) for value in values) and len({amount(value) for value in values}) == 1


def _ink(value: Published) -> Ink:
    return "strong" if isinstance(value, Figure) else "loud"


def _costs_one_below_the_other(pages: Pages, found: Caching, cells: int) -> None:
    pages.add(line((" USD per run, median", "quiet")))
    for arm, one in found.arms.items():
        if _same(costs(one)):
            pages.add(clip(line(f" {one_line(arm, 24)}  ", (f"REFUSED {amount(one.paid)}", "loud")), cells))
            continue
        pages.add(clip(line(f" {one_line(arm, 24)}"), cells))
        for head, value in zip(COSTS, costs(one), strict=True):
            pages.add(clip(line((f"   {fit(head, 9)}", "quiet"), (amount(value), _ink(value))), cells))


def _reasons(pages: Pages, found: Caching, cells: int) -> None:
    for refusal in refusals(found):
        pages.add(*paragraph(((f" {refusal.code}  ", "loud"),), refusal.reason, cells - 1, indent=3))
        for evidence in refusal.evidence:
            pages.add(*paragraph((("   ", "plain"),), evidence, cells - 1, indent=5, ink="quiet"))
        pages.add(*paragraph((("   mend  ", "key"),), refusal.remedy, cells - 1, indent=9))


def _side_by_side(pages: Pages, found: Caching, cells: int) -> None:
    """The middle first call of the warmest arm beside that of the coldest."""
    pair = [(arm, found.arms[arm].typical) for arm in (found.warmest, found.coldest) if arm is not None]
    calls = [(arm, start, start.first) for arm, start in pair if start is not None and start.first is not None]
    if len(calls) < 2:
        return
    size = min(30, (cells - 12) // 2)
    heads = "".join(fit(one_line(arm, 24), size, "right") for arm, _, _ in calls)
    pages.add(clip(line((f" {fit('first call', 11)}{heads}", "quiet")), cells))
    for label, counter in COUNTERS:
        values = [_counter(first, counter) for _, _, first in calls]
        if any(values) or counter != "cache_write_1h":
            row = "".join(fit(f"{value:,}", size, "right") for value in values)
            pages.add(clip(line((f" {fit(label, 11)}", "quiet"), row), cells))
    shares = "".join(fit(_percent(start), size, "right") for _, start, _ in calls)
    pages.add(clip(line((f" {fit('from cache', 11)}", "quiet"), (shares, "strong")), cells))
    pages.add(clip(line((" the run of each arm whose share is the middle one", "quiet")), cells))


def _counter(tokens: Tokens, name: str) -> int:
    return int(getattr(tokens, name))


def _percent(start: Start) -> str:
    return amounts.UNKNOWN if start.share is None else f"{start.share * 100:.1f} %"


def _runs(pages: Pages, found: Caching, cells: int) -> None:
    """Every run in the order of its start, with what its first call read."""
    every = sorted(
        (start for one in found.arms.values() for start in one.starts), key=lambda start: (start.started, start.cell)
    )
    if not every:
        return
    zero = every[0].started
    pages.add(clip(line((f" {'started':>9}{'prompt':>10}{'read':>10}{'share':>9}  begun  run", "quiet")), cells))
    for start in every:
        first = start.first
        prompt = amounts.UNKNOWN if first is None else f"{first.billed_input:,}"
        read = amounts.UNKNOWN if first is None else f"{first.cache_read:,}"
        state = "  under way" if start.under_way else ""
        left = f" {elapsed(start.started - zero):>9}{prompt:>10}{read:>10}{_percent(start):>9}"
        word = fit(start.word or amounts.UNKNOWN, 5)
        lapsed: Span = ("  lifetime ran out", "warn") if start.lapsed is not None else ("", "plain")
        name = one_line(start.cell, 60)
        pages.add(clip(line(f"{left}  {word}  {name}", (state, "accent"), lapsed), cells), key=start.cell)
