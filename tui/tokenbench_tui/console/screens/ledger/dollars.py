"""What a run costs: as reported, as computed again, and with other caches; and where the prices come from."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from tokenbench.figures import Code
from tokenbench.ledger.model import Ledger
from tokenbench.ledger.sources import PriceSource
from tokenbench.text import one_line
from tokenbench_tui.console import amounts
from tokenbench_tui.console.codes import MONEY
from tokenbench_tui.console.widgets.ink import Pages, Span, clip, fit, line

SECTION: Final = "section dollars"


def money(cost: Decimal) -> str:
    """An amount to a millionth, without the zeros at its end."""
    return f"${cost:.6f}".rstrip("0").rstrip(".")


def add_dollars(pages: Pages, ledger: Ledger, sources: Sequence[PriceSource], cells: int) -> None:
    """Add every cost; a refusal stands where its figure would."""
    costs = ledger.cost_usd
    pages.add(line((" dollars", "quiet")), key=SECTION)
    for source in sources:
        ink = "plain" if source.known else "warn"
        words = line(
            (f"   {fit('prices', 20)}", "quiet"), (source.told, ink), (f"  {one_line(source.model, 40)}", "quiet")
        )
        pages.add(clip(words, cells))
    fees = f", ${costs.fees} of it for web searches" if costs.fees else ""
    sidecars = ", sidecars left out" if any(row.role == "sidecar" for row in ledger.models.values()) else ""
    code = _code(ledger)
    unknown = code if costs.recomputed is None else "not determined"
    for what, cost, missing, more in (
        ("reported by the CLI", costs.reported, amounts.UNKNOWN, ""),
        ("own", costs.own, code, sidecars),
        ("recomputed", costs.recomputed, code, fees),
        ("cache-neutral", costs.cache_neutral, unknown, f"{fees}{sidecars}, as if uncached"),
        ("from a cold cache", costs.cold, unknown, sidecars),
        ("from a warm cache", costs.warm, unknown, sidecars),
    ):
        value: Span = (f"{money(cost):>12}", "plain") if cost is not None else (_refused(missing), "loud")
        if cost is None and missing in (amounts.UNKNOWN, "not determined"):
            value = (f"{missing:>12}", "quiet")
        beside: Span = (more if cost is not None else "", "quiet")
        pages.add(clip(line(f"   {fit(what, 20)}", value, beside), cells))


def _refused(code: str) -> str:
    return f"REFUSED {code}"


def _code(ledger: Ledger) -> str:
    """What refuses the dollars of a run: its own code where there is one, else that of the tokens."""
    of_money = next((one.code for one in ledger.refusals if one.code in MONEY), None)
    return str(of_money or next((one.code for one in ledger.refusals), Code.PRICE_UNKNOWN))
