"""What the cache did, as plain text and as JSON (`cache`; docs/results.md)."""

import json
import textwrap
from collections.abc import Iterator
from decimal import Decimal

from tokenbench.figures import Figure, Published, Refusal
from tokenbench.findings.caching import ArmCache, Caching, bands
from tokenbench.findings.results import plain
from tokenbench.text import one_line

WIDTH = 80
NAME = 14
"""Cells for the name of an arm."""
LEGEND = "W wrote (began cold)  r read (warm)  p read in part  ? not known yet  · lifetime ran out (reckoned)"


def to_json(found: Caching) -> bytes:
    """One object, indented; money as text, shares as numbers, times in seconds since the Unix epoch."""
    return (json.dumps(plain(found), ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode(
        "utf-8", "surrogatepass"
    )


def text(found: Caching) -> str:
    """Lines of 80 columns."""
    return "\n".join(_lines(found)) + "\n"


def verdict(found: Caching) -> str:
    """What the difference of the shares means, in a sentence."""
    refused = {arm: one.refused.code for arm, one in found.arms.items() if one.refused is not None}
    if refused:
        arm, code = next(iter(refused.items()))
        others = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
        return f"No difference is given: the share of {one_line(arm, NAME)}{others} is refused, {code}"
    if found.difference is None:
        return "Fewer than two arms have a run that ended: nothing to compare yet"
    points, limit = found.difference * 100, found.limit * 100
    so_far = "" if found.complete else " so far"
    if found.confounded is not None:
        return (
            f"difference {points:.1f} points > {limit:.0f}{so_far}: {found.confounded.code}, dollars paid are refused"
        )
    return f"difference {points:.1f} points ≤ {limit:.0f}{so_far}: not confounded"


def amount(value: Published) -> str:
    """A cost per run, or the code in its place."""
    if isinstance(value, Refusal):
        return str(value.code)
    marks = "".join(f" {code}" for code in value.codes)
    return f"{Decimal(str(value.value)):.4f}{marks}"


def share(value: Published) -> str:
    """A share, or the code in its place."""
    if isinstance(value, Refusal):
        return str(value.code)
    return f"{float(value.value):.1%}".replace("%", " %") + "".join(f" {code}" for code in value.codes)


def costs(one: ArmCache) -> tuple[Published, Published, Published, Published]:
    """Paid, cold, warm, neutral."""
    return one.paid, one.cold, one.warm, one.neutral


def refusals(found: Caching) -> tuple[Refusal, ...]:
    """Every refusal that stands on the page, each code once."""
    all_of = [value for one in found.arms.values() for value in (one.share, *costs(one))]
    first: dict[str, Refusal] = {}
    for value in all_of:
        if not isinstance(value, Figure):
            first.setdefault(value.code, value)
    return tuple(first.values())


def elapsed(seconds: float) -> str:
    """Since the first start: 4:05, 2:10:00."""
    whole = max(0, round(seconds))
    hours = f"{whole // 3600}:{whole % 3600 // 60:02}" if whole >= 3600 else f"{whole // 60}"
    return f"{hours}:{whole % 60:02}"


def _lines(found: Caching) -> Iterator[str]:
    yield f"{one_line(found.experiment)}  what the cache did"
    if found.scripted:
        yield "! SCRIPTED-MODEL: nothing here is a measurement"
    yield "share of the first calls read from cache"
    for arm, one in found.arms.items():
        yield f"  {one_line(arm, NAME):<{NAME}} {share(one.share):>10}   {one.ended} of {one.planned} runs"
    yield f"  {verdict(found)}"
    for stretch in bands(found, WIDTH - NAME - 3):
        yield f"runs by their start, {elapsed(stretch.begin)} to {elapsed(stretch.end)} after the first"
        yield from (f"  {one_line(arm, NAME):<{NAME}} {row}" for arm, row in stretch.rows.items())
    yield from textwrap.wrap(LEGEND, WIDTH, initial_indent="  ", subsequent_indent="  ")
    yield "median USD per run"
    rows = [("paid", "cold", "warm", "neutral"), *(tuple(map(amount, costs(one))) for one in found.arms.values())]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for name, row in zip(("arm", *found.arms), rows, strict=True):
        cells = "  ".join(value.rjust(width) for value, width in zip(row, widths, strict=True))
        yield f"  {one_line(name, NAME):<{NAME}} {cells}"
    for refusal in refusals(found):
        told = f"! {refusal.code}: {one_line(refusal.reason)}. {'; '.join(one_line(one) for one in refusal.evidence)}"
        yield from textwrap.wrap(told, WIDTH, subsequent_indent="  ")
        yield from textwrap.wrap(f"→ {one_line(refusal.remedy)}.", WIDTH, initial_indent="  ", subsequent_indent="    ")
