"""Where the billed input went: bars, three shares with their denominators, the bound, and the second meter."""

from typing import Final

from tokenbench.figures import Code, Refusal
from tokenbench.ledger.attribution.model import Attributed, Attribution, GrowthRow, Part
from tokenbench.ledger.attribution.plain import name as name_of
from tokenbench.ledger.model import Ledger
from tokenbench.text import one_line
from tokenbench_tui.console import amounts
from tokenbench_tui.console.codes import MONEY
from tokenbench_tui.console.widgets.ink import Ink, Line, Pages, Span, clip, fit, line, paragraph

SECTION: Final = "section parts"
BAR: Final = 40
"""Cells of a whole bar, at most."""
SHARE: Final = 9
"""Cells of a share."""
BOUND: Final = 11
"""Cells of a bound; that of what is not attributed may be above 100 %."""
COUNT: Final = 11
"""Cells of a number of tokens."""


def add_parts(pages: Pages, ledger: Ledger, parts: Attributed, cells: int) -> None:
    """Add the parts, or what refuses them in their place."""
    if isinstance(parts, Refusal):
        pages.add(line((" billed input went to", "quiet")), key=SECTION)
        if any(one.code == parts.code for one in ledger.refusals):
            code: Span = (f"REFUSED {parts.code}", "loud")
            pages.add(clip(line("   shares  ", code, ("  see above", "quiet")), cells))
            return
        label: Line = (("   shares  ", "plain"), (f"REFUSED {parts.code}  ", "loud"))
        pages.add(*paragraph(label, parts.reason, cells - 1, indent=5))
        for evidence in parts.evidence:
            pages.add(*paragraph((("     ", "plain"),), evidence, cells - 1, indent=7, ink="quiet"))
        pages.add(*paragraph((("   mend  ", "key"),), parts.remedy, cells - 1, indent=9))
        return
    _table(pages, ledger, parts, cells)
    _growth(pages, parts, cells)


def _table(pages: Pages, ledger: Ledger, found: Attribution, cells: int) -> None:
    wide = cells >= 110
    name = 28 if wide else 24 if cells >= 76 else 16
    dollars = _no_dollars(ledger, found)
    cost = "" if found.usd is None else f"of ${amounts.usd(found.usd)}"
    last = max(SHARE, len(dollars) + 2, len(cost) + 2)
    columns = (2 * COUNT if wide else 0) + 2 * SHARE + last + BOUND
    bar = max(0, min(BAR, cells - 2 - name - columns))
    counts = f"{'tokens once':>{COUNT}}{'billed':>{COUNT}}" if wide else ""
    heads = f"{counts}{'unique':>{SHARE}}{'billed':>{SHARE}}{'dollars':>{last}}{'± billed':>{BOUND}}"
    went = "billed input went to" if name > 20 else "billed input"
    pages.add(clip(line((f" {fit(went, name)}{fit('', bar)}{heads}", "quiet")), cells), key=SECTION)
    totals = f"{found.unique_context:>{COUNT},}{found.billed_input:>{COUNT},}" if wide else ""
    of = f"{totals}{'of ' + amounts.tokens(found.unique_context):>{SHARE}}"
    of += f"{'of ' + amounts.tokens(found.billed_input):>{SHARE}}"
    denominators: list[Span] = [(f" {fit('an estimate', name)}{fit('', bar)}{of}", "quiet")]
    denominators.append((f"{cost:>{last}}", "quiet") if cost else (f"{dollars:>{last}}", "loud"))
    pages.add(clip(tuple(denominators), cells))
    for part in found.parts:
        pages.add(clip(_row(part, found, name, bar, last, wide=wide), cells))
    if not found.prompt_known:
        pages.add(clip(line(("   the prompt's size is unknown: prefix holds it", "quiet")), cells))


def _row(part: Part, found: Attribution, name: int, bar: int, last: int, *, wide: bool) -> Line:
    share = part.share_of_billed_input or 0.0
    halves = max(0, min(2 * bar, round(share * bar * 2)))
    signs = "█" * (halves // 2) + "▌" * (halves % 2)
    counts = f"{part.unique:>{COUNT},}{part.billed:>{COUNT},}" if wide else ""
    shares = f"{_percent(part.share_of_unique_context):>{SHARE}}{_percent(part.share_of_billed_input):>{SHARE}}"
    shares += f"{_percent(part.share_of_input_usd):>{last}}"
    bound = f"{part.bound_billed / found.billed_input * 100:.1f} %" if found.billed_input > 0 else amounts.UNKNOWN
    ink: Ink = "warn" if part.billed < 0 else "plain"
    return line(
        (f"   {fit(name_of(part), name - 2)}", ink),
        (fit(signs, bar), "bar"),
        f"{counts}{shares}",
        (f"{'± ' + bound:>{BOUND}}", "quiet"),
    )


def _percent(share: float | None) -> str:
    return amounts.UNKNOWN if share is None else f"{share * 100:.1f} %"


def _no_dollars(ledger: Ledger, found: Attribution) -> str:
    """The code that stands where the denominator of the dollars would; empty where it is there."""
    if found.usd is not None:
        return ""
    return next((str(one.code) for one in ledger.refusals if one.code in MONEY), str(Code.PRICE_UNKNOWN))


def _growth(pages: Pages, found: Attribution, cells: int) -> None:
    """The second meter, in one paragraph."""
    if not found.growth:
        return
    told = ", ".join(_grown(row) for row in found.growth)
    split = "; * shared out between tools used in parallel" if any(row.split for row in found.growth) else ""
    words = f"{told} billed (a bound from above{split})"
    pages.add(*paragraph(((" second meter  ", "accent"),), words, cells - 1, indent=3))


def _grown(row: GrowthRow) -> str:
    return f"{one_line(row.tool, 24)} ({row.use}) ≤ {row.billed:,}{'*' if row.split else ''}"
