"""A ledger as lines: what was refused first, then what has to be equal, then where the tokens went."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple

from tokenbench.figures import Code, Refusal
from tokenbench.ledger.attribution.model import Attributed
from tokenbench.ledger.model import Equation, Ledger, Live, Tokens
from tokenbench.ledger.sources import PriceSource
from tokenbench.text import one_line
from tokenbench_tui.console import amounts
from tokenbench_tui.console.codes import MONEY
from tokenbench_tui.console.screens.ledger.calls import add_calls
from tokenbench_tui.console.screens.ledger.dollars import add_dollars, money
from tokenbench_tui.console.screens.ledger.parts import add_parts
from tokenbench_tui.console.widgets.ink import Line, Page, Pages, Span, clip, fit, line, paragraph, spread

COUNTERS: Final = ("input", "cache_write_5m", "cache_write_1h", "cache_read", "output")
COUNTER_NAMES: Final = ("fresh", "write 5m", "write 1h", "read", "out")
WITHHELD: Final = "withheld until the answers are judged and the mapping is opened"
CITED: Final = 12
"""Lines of evidence of one refusal that are shown."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What the page is made of."""

    ledger: Ledger
    parts: Attributed | None = None
    """None where nobody asked where the tokens went."""
    sources: tuple[PriceSource, ...] = ()


def tokens_of(ledger: Ledger) -> str:
    """Tokens of the run, or the least that was seen."""
    shown, sign = (ledger.tokens, "") if ledger.tokens is not None else (ledger.lower_bound, "≥")
    # A refused run's output was streamed as placeholders, so that nothing is known of it.
    out = f"{shown.output:,}" if shown.output or not sign else amounts.UNKNOWN
    return f"{sign}{shown.billed_input:,} billed in, {sign if shown.output else ''}{out} out"


def title(ledger: Ledger, name: str, cells: int) -> Line:
    """Which run this is, and whether its two totals are reconciled."""
    who = ", ".join(one_line(part, 30) for part in (ledger.model, _version(ledger)) if part)
    marks = line(*mark("TOKENS", ledger.token_reconciled), "  ", *mark("COST", ledger.cost_reconciled), " ")
    return spread(line((f" {name}", "strong"), (f"   {who}", "quiet")), marks, cells)


def _version(ledger: Ledger) -> str:
    return f"{ledger.agent} {ledger.agent_version}" if ledger.agent_version else ledger.agent


def mark(what: str, holds: bool | None) -> tuple[Span, ...]:
    """A word and its sign: ok, REFUSED, or that nothing could be checked."""
    if holds is None:
        return ((f"{what} ", "quiet"), ("not checked", "warn"))
    return ((f"{what} ", "quiet"), ("ok", "good")) if holds else ((f"{what} ", "quiet"), ("REFUSED", "loud"))


def subtitle(ledger: Ledger) -> Line:
    """Outcome and totals, and whether the model was scripted."""
    cost = ledger.cost_usd.own
    dollars = f", ${amounts.usd(cost)}" if cost is not None else ", cost unknown"
    scripted: Span = (f"  {Code.SCRIPTED_MODEL}", "loud") if Code.SCRIPTED_MODEL in ledger.notes else ("", "plain")
    return line(f" {ledger.outcome.replace('_', ' ')}, {_calls(ledger)}, {tokens_of(ledger)}{dollars}", scripted)


def _calls(ledger: Ledger) -> str:
    abandoned = f" and {ledger.abandoned_calls} abandoned" if ledger.abandoned_calls else ""
    return f"{ledger.calls} call{'' if ledger.calls == 1 else 's'}{abandoned}"


def ledger_page(found: Shown, cells: int) -> Page:
    """The whole ledger for that many cells; calls, refusals and sections can be reached with the cursor."""
    ledger = found.ledger
    pages = Pages()
    refusals = [refusal for refusal in ledger.refusals if refusal.code not in MONEY]
    for refusal in refusals:
        head: Span = (f" REFUSED {refusal.code}  ", "loud")
        pages.add(*paragraph((head,), refusal.reason, cells - 1, indent=3), key=refusal.code)
    layout = _Layout.of(ledger.equations, cells, found.sources)
    failed = [one for one in ledger.equations if one.holds is False]
    for one in failed:
        _equation(pages, one, layout)
    if ledger.tokens is None:
        pages.add(line((" at least", "warn"), f"   {tokens_of(ledger)}", ("   seen all the same", "quiet")))
    _remedies(pages, refusals, cells)
    for one in ledger.equations:
        if one.holds is not False:
            _equation(pages, one, layout)
    for refusal in ledger.refusals:
        if refusal.code in MONEY:
            words = f"{refusal.reason}. {refusal.remedy}."
            label = (f" dollars: {refusal.code}  ", "warn")
            pages.add(*paragraph((label,), words, cells - 1, indent=3, ink="quiet"), key=refusal.code)
    add_calls(pages, ledger.call_rows, cells)
    _remainder(pages, ledger, cells)
    if found.parts is not None:
        add_parts(pages, ledger, found.parts, cells)
    add_dollars(pages, ledger, found.sources, cells)
    _models(pages, ledger, cells)
    _tools(pages, ledger)
    _answer(pages, ledger, cells)
    _stream(pages, ledger, cells)
    return pages.done()


def live_title(look_cell: str, live: Live) -> Line:
    """Which run this is, and what it does now."""
    return line(
        (f" {look_cell}", "strong"), "   ", (f"▸ {one_line(live.doing, 40)}", "accent"), ("   under way", "quiet")
    )


def live_subtitle(live: Live, *, scripted: bool) -> Line:
    """What was seen so far, and whether the model is scripted."""
    calls = f"{live.calls} call{'' if live.calls == 1 else 's'}"
    mark: Span = (f"  {Code.SCRIPTED_MODEL}", "loud") if scripted else ("", "plain")
    seen = f" {calls}, ≥{live.seen.billed_input:,} billed in, prompt {live.prompt:,}"
    return line(seen, ("  lower bounds", "quiet"), mark)


def live_page(so_far: Ledger, cells: int) -> Page:
    """A run under way: its calls and tools as they come; nothing is reconciled before its end."""
    pages = Pages()
    pages.add(line((" nothing is reconciled before the run has ended", "quiet")))
    add_calls(pages, so_far.call_rows, cells)
    _tools(pages, so_far)
    return pages.done()


def _heading(pages: Pages, words: str) -> None:
    pages.add(line((f" {words}", "quiet")))


def _remedies(pages: Pages, refusals: Sequence[Refusal], cells: int) -> None:
    """What mends it, each way once, and the evidence."""
    for remedy in dict.fromkeys(refusal.remedy for refusal in refusals):
        pages.add(*paragraph((("   mend  ", "key"),), remedy, cells - 1, indent=9))
    for refusal in refusals:
        for evidence in refusal.evidence[:CITED]:
            pages.add(*paragraph((("   ", "plain"),), evidence, cells - 1, indent=5, ink="quiet"))
        if len(refusal.evidence) > CITED:
            pages.add(line((f"     and {len(refusal.evidence) - CITED} more", "quiet")))


class _Layout(NamedTuple):
    """Columns of all equations of a page, in cells."""

    cells: int
    name: int
    left: int
    right: int
    priced: str
    """Where the prices come from."""

    @classmethod
    def of(cls, equations: Sequence[Equation], cells: int, sources: Sequence[PriceSource]) -> "_Layout":
        left = max((len(_side(one.left)) for one in equations), default=0)
        right = max((len(_side(one.right)) for one in equations), default=0)
        longest = max((len(_name(one)) for one in equations), default=0)
        priced = next((source.told for source in sources if source.known), "")
        return cls(cells, max(10, min(longest, cells - left - right - 10)), left, right, priced)


def _name(one: Equation) -> str:
    return f"{one_line(one.left_label, 40)} = {one_line(one.right_label, 40)}"


def _equation(pages: Pages, one: Equation, layout: _Layout) -> None:
    """Both sides and a mark; one that fails with every counter that differs; that of prices with their source."""
    cells, left_cells, right_cells = layout.cells, layout.left, layout.right
    used = layout.name + left_cells + right_cells + 13
    word: Span = ("–", "quiet") if one.holds is None else (("ok", "good") if one.holds else ("NO", "loud"))
    sign = "=" if one.holds is not False else "≠"
    both = f"{_side(one.left):>{left_cells}} {sign} {_side(one.right):<{right_cells}}"
    remark = one.note or (layout.priced if one.name == "price" and used + len(layout.priced) <= cells else "")
    beside = bool(remark) and used + len(remark) <= cells
    note: Span = (f"  {one_line(remark)}", "quiet") if beside else ("", "plain")
    shown = line(f" {fit(_name(one), layout.name)} {both} ", word, note)
    pages.add(clip(shown, cells), key=f"equation {one.name}")
    if one.holds is False and isinstance(one.left, Tokens) and isinstance(one.right, Tokens):
        for label, left, right in _differing(one.left, one.right):
            both = f"{left:>{left_cells},} ≠ {right:<{right_cells},}"
            pages.add(line(f"   {fit(label, layout.name - 2)} {both} ", (f"{left - right:+,}", "bad")))
    elif one.holds is False and isinstance(one.left, Decimal) and isinstance(one.right, Decimal):
        less = one.left - one.right
        if less.is_finite():
            label = f"   {fit('difference', layout.name - 2)} {'':>{left_cells}}   {'':<{right_cells}} "
            pages.add(line(label, (_money(less), "bad")))
    if one.note and not beside:
        pages.add(*paragraph((("   ", "plain"),), one.note, cells - 1, indent=3, ink="quiet"))


def _money(difference: Decimal) -> str:
    return f"{'-' if difference < 0 else '+'}{money(abs(difference))}"


def _side(side: Tokens | Decimal | None) -> str:
    if side is None:
        return amounts.UNKNOWN
    return f"{side.total:,}" if isinstance(side, Tokens) else money(side)


def _differing(left: Tokens, right: Tokens) -> Iterable[tuple[str, int, int]]:
    for counter, name in zip(COUNTERS, COUNTER_NAMES, strict=True):
        a, b = int(getattr(left, counter)), int(getattr(right, counter))
        if a != b:
            yield name, a, b


def _remainder(pages: Pages, ledger: Ledger, cells: int) -> None:
    if not ledger.remainder:
        return
    _heading(pages, "billed, but not streamed by the main loop")
    for one in ledger.remainder:
        what = f"   {fit(one_line(one.what, 24), 16)}{fit(one_line(one.model, 40), 28)}"
        pages.add(clip(line(f"{what}{one.tokens.billed_input:>10,} in {one.tokens.output:>8,} out"), cells))


def _models(pages: Pages, ledger: Ledger, cells: int) -> None:
    if len(ledger.models) < 2:
        return
    _heading(pages, "models of the process")
    for name, row in ledger.models.items():
        role = "reported apart, charged to no arm" if row.role == "sidecar" else row.role
        cost = f"${amounts.usd(row.cost_usd)}" if row.cost_usd is not None else amounts.UNKNOWN
        tokens = f"{row.tokens.billed_input:>10,} in {row.tokens.output:>8,} out  {cost:>8}"
        pages.add(clip(line(f"   {fit(one_line(name, 40), 25)}{tokens}", (f"  {role}", "quiet")), cells))


def _tools(pages: Pages, ledger: Ledger) -> None:
    if not ledger.tools:
        return
    heads = (
        fit(head, size, "right") for head, size in zip(("uses", "errors", "denied", "characters"), _TOOL, strict=True)
    )
    pages.add(line((fit(" tool", 22) + "".join(heads), "quiet")), key="section tools")
    for tool in ledger.tools:
        counts = (tool.uses, tool.errors, tool.denied, tool.result_characters)
        spans: list[Span] = [(fit(f"   {one_line(tool.name, 40)}", 22), "plain")]
        for index, (count, size) in enumerate(zip(counts, _TOOL, strict=True)):
            spans.append((fit(f"{count:,}", size, "right"), "warn" if index in (1, 2) and count else "plain"))
        pages.add(tuple(spans))


_TOOL: Final = (6, 8, 8, 14)
"""Cells of the columns of tools: uses, errors, denied, characters given back to the model."""


def _answer(pages: Pages, ledger: Ledger, cells: int) -> None:
    label: Line = ((" answer   ", "accent"),)
    if ledger.answer_withheld:
        pages.add(*paragraph(label, WITHHELD, cells - 1, indent=3, ink="quiet"))
    elif ledger.answer is None:
        pages.add(line(*label, ("none", "quiet")))
    else:
        pages.add(line(*label))
        pages.add(*paragraph((), ledger.answer, cells - 1, indent=3))


def _stream(pages: Pages, ledger: Ledger, cells: int) -> None:
    if ledger.announced is not None:
        tools = ", ".join(one_line(name, 30) for name in ledger.announced.tools) or "no tools"
        pages.add(*paragraph(((" announced  ", "accent"),), tools, cells - 1, indent=3, ink="quiet"))
    if ledger.notes:
        notes = ", ".join(ledger.notes)
        pages.add(*paragraph(((" notes  ", "accent"),), notes, cells - 1, indent=3, ink="quiet"))
    for bad in ledger.bad_lines:
        pages.add(*paragraph(((" bad line  ", "bad"),), bad, cells - 1, indent=3))
    counts = ", ".join(f"{one_line(kind, 30)} {count}" for kind, count in sorted(ledger.counts.items()))
    pages.add(*paragraph(((" events  ", "accent"),), counts, cells - 1, indent=3, ink="quiet"))
