"""Parts as lines of text: bars, three shares with their denominators, and how sure each is."""

from collections.abc import Iterator
from typing import Final

from tokenbench.figures import Refusal
from tokenbench.ledger.attribution.model import Attributed, Attribution, Part
from tokenbench.text import one_line

_WIDTH: Final = 20
"""Signs of a whole bar."""


def lines(found: Attributed) -> Iterator[str]:
    """Lines that are safe to print on a terminal, of at most 80 columns."""
    if isinstance(found, Refusal):
        yield f"  shares refused  {found.code}: {one_line(found.reason)}"
        yield from (f"           {one_line(item, 200)}" for item in found.evidence)
        yield f"           {one_line(found.remedy)}"
        return
    yield "  parts, estimated; shares of billed input"
    for part in found.parts:
        share = f"{_share(part.share_of_billed_input)} ± {_bound(part, found)}"
        yield f"    {name(part):<26.26} {_bar(part):<{_WIDTH}} {share}"
    yield f"    {'all of them':<26} {'':<{_WIDTH}} {'100.0%':>7}   of {found.billed_input:,}"
    yield f"  shares of unique context, {found.unique_context:,} tokens"
    for part in found.parts:
        yield f"    {name(part):<26.26} {_share(part.share_of_unique_context)}  {part.unique:>10,}"
    if found.usd is not None:
        yield f"  shares of what the billed input cost, {found.usd:.6f} USD"
        for part in found.parts:
            yield f"    {name(part):<26.26} {_share(part.share_of_input_usd)}  {part.usd or 0:>10.6f}"
    if not found.prompt_known:
        yield "  the prompt's size is unknown: prefix holds it"
    if found.growth:
        yield "  second meter: growth of the prompt, a bound from above, tokens billed"
        for row in found.growth:
            split = "  split between parallel tools" if row.split else ""
            yield f"    {one_line(f'{row.tool} ({row.use})', 26):<26} {row.billed:>10,}{split}"


def name(part: Part) -> str:
    """What a part is called on a line."""
    match part.kind:
        case "result" if part.use == "retrieval":
            return one_line(f"{part.name} retrieval: code", 26)
        case "envelope":
            return one_line(f"{part.name} retrieval: heads", 26)
        case "result":
            return one_line(f"{part.name} ({part.use})", 26)
        case "denied":
            return one_line(f"{part.name} (denied)", 26)
        case "own":
            return "own earlier words"
        case "thinking":
            return "own earlier thinking"
        case "side":
            return one_line(part.name, 26)
        case "prefix" | "prompt" | "summary":
            return part.kind if part.name == "main" else f"{part.kind} of subagents"
        case "unattributed":
            return "unattributed (below zero)" if part.billed < 0 else "unattributed"


def _bar(part: Part) -> str:
    share = part.share_of_billed_input or 0.0
    return "#" * max(0, min(_WIDTH, round(share * _WIDTH)))


def _share(value: float | None) -> str:
    return f"{'-':>7}" if value is None else f"{value:>7.1%}"


def _bound(part: Part, found: Attribution) -> str:
    return f"{part.bound_billed / found.billed_input:.1%}" if found.billed_input > 0 else "-"
