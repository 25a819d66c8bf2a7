"""A ledger as plain text: refusals first, then every equation with both sides."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from tokenbench.figures import Code
from tokenbench.ledger.model import Equation, Ledger, Tokens
from tokenbench.ledger.notes import NOTES
from tokenbench.ledger.shape import words
from tokenbench.text import one_line, visible

_MOST_ANSWER: Final = 2000
"""Characters of an answer that are printed; the JSON holds it whole."""
_DOLLARS: Final = frozenset({Code.PRICE_UNKNOWN, Code.COST_UNRECONCILED})


def text(ledger: Ledger) -> str:
    """The ledger as lines of text, safe to print on a terminal."""
    return "\n".join(_lines(ledger))


def _lines(ledger: Ledger) -> Iterator[str]:
    yield one_line(ledger.transcript)
    who = " ".join(filter(None, (ledger.agent, ledger.agent_version, ledger.model)))
    yield f"  {one_line(who, 100)}: {ledger.outcome}"
    yield f"  {_standing(ledger)}"
    for refusal in sorted(ledger.refusals, key=lambda refusal: refusal.code in _DOLLARS):
        place = "dollars refused" if refusal.code in _DOLLARS else "refused"
        if refusal.code is Code.CALLS_COLLIDE:
            place = "figures by call refused"
        yield f"  {place}  {refusal.code}: {one_line(refusal.reason)}"
        for item in refusal.evidence:
            yield f"           {one_line(item, 300)}"
        yield f"           {one_line(refusal.remedy)}"
    if ledger.tokens is not None:
        yield f"  tokens   {ledger.tokens.total:,}: {words(ledger.tokens)}"
    elif ledger.calls:
        output = f"{ledger.lower_bound.output:,}" if ledger.lower_bound.output else "unknown"
        yield f"  at least {ledger.lower_bound.billed_input:,} tokens of input in {ledger.calls} calls; output {output}"
    yield f"  calls    {ledger.calls}, {ledger.turns} of them of the main loop, {ledger.abandoned_calls} abandoned"
    for equation in ledger.equations:
        yield from _equation(equation)
    for name, row in ledger.models.items():
        cost = "" if row.cost_usd is None else f"  {row.cost_usd} USD"
        yield f"  model    {one_line(name, 60)} ({row.role}): {words(row.tokens)}{cost}"
    for rest in ledger.remainder:
        yield f"  rest     {rest.what}, {one_line(rest.model, 60)}: {words(rest.tokens)}"
    for row in ledger.tools:
        pictures = f", {row.images} pictures" if row.images else ""
        yield (
            f"  tool     {one_line(row.name, 60)}: {row.uses} uses, {row.errors} errors, {row.denied} denied,"
            f" {row.result_characters:,} characters{pictures}"
        )
    if ledger.cost_usd.reported is not None:
        own = "unknown" if ledger.cost_usd.own is None else f"{ledger.cost_usd.own} USD"
        yield f"  cost     the CLI reports {ledger.cost_usd.reported} USD; without sidecars {own}"
    if ledger.cost_usd.recomputed is not None:
        yield f"  cost     by the price table {ledger.cost_usd.recomputed} USD"
    if ledger.cost_usd.cache_neutral is not None:
        fees = f"with {ledger.cost_usd.fees} USD of web searches" if ledger.cost_usd.fees else "no fees in it"
        yield f"  cost     with all input at the fresh price {ledger.cost_usd.cache_neutral} USD, {fees}"
    if ledger.cost_usd.warm is not None:
        cold = "unknown" if ledger.cost_usd.cold is None else f"{ledger.cost_usd.cold} USD"
        yield f"  cost     from a cold cache {cold}, from a warm one {ledger.cost_usd.warm} USD"
    for code in ledger.notes:
        yield f"  note     {one_line(code)}: {NOTES.get(code, '')}"
    for bad in ledger.bad_lines:
        yield f"  bad      {one_line(bad, 200)}"
    yield from _answer(ledger)


def _standing(ledger: Ledger) -> str:
    if ledger.token_reconciled:
        return "tokens reconciled to the CLI's totals"
    return "nothing to reconcile with" if ledger.token_reconciled is None else "tokens refused"


def _equation(equation: Equation) -> Iterator[str]:
    sign = {True: "=", False: "≠", None: "?"}[equation.holds]
    yield f"  {sign} {one_line(equation.name, 60)}"
    width = max(len(equation.left_label), len(equation.right_label))
    for label, side in ((equation.left_label, equation.left), (equation.right_label, equation.right)):
        yield f"      {label:<{width}}  {_side(side)}"
    if equation.note:
        yield f"      {one_line(equation.note, 300)}"


def _side(side: Tokens | Decimal | None) -> str:
    if isinstance(side, Tokens):
        return words(side)
    return "unknown" if side is None else f"{side} USD"


def _answer(ledger: Ledger) -> Iterator[str]:
    if ledger.answer_withheld:
        yield "  answer   withheld until the mapping is opened (--peek shows it, and is a line of the journal)"
    elif ledger.answer is None:
        yield "  answer   none"
    else:
        shown = visible(ledger.answer[:_MOST_ANSWER])
        yield "  answer"
        yield from (f"    {part}" for part in shown.split("\n"))
        if len(ledger.answer) > _MOST_ANSWER:
            yield f"    … {len(ledger.answer) - _MOST_ANSWER:,} characters more; --json prints them all"
