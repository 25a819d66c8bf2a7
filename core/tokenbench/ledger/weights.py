"""What a price table says to the attribution of one run: the prices of each of its calls."""

from collections.abc import Iterable

from tokenbench.ledger.attribution.model import ClassPrices
from tokenbench.ledger.model import CallRow, Ledger, Tokens
from tokenbench.ledger.prices import MILLION, PriceTable, Rates, Way


class TableWeights:
    """Prices of calls, each by its own tier, speed and region.

    Args:
        table: The prices.
        version: Of the CLI that ran.
        ways: Speeds and regions of the run's calls, for those that no row shows.
    """

    def __init__(self, table: PriceTable, *, version: str | None, ways: Iterable[Way] = ()) -> None:
        self._table = table
        self._version = version
        self._ways = tuple(dict.fromkeys(ways))

    def of_call(self, call: CallRow) -> ClassPrices | None:
        """USD per token of a call; None where the price of its tier, speed and region was never seen."""
        prices = self._table.find(call.model, self._version)
        rates = prices and prices.rates(call.tokens.billed_input, speed=call.speed, region=call.region)
        return None if rates is None else _per_token(rates)

    def of_rest(self, model: str, tokens: Tokens) -> ClassPrices | None:
        """USD per token of calls that no row shows; None unless all prices that they may have charge the same."""
        prices = self._table.find(model, self._version)
        known = prices and prices.candidates(tokens.billed_input, self._ways)
        if not known or len({rates.prompt(tokens) for rates in known}) > 1:
            return None
        return _per_token(known[0])


def _per_token(rates: Rates) -> ClassPrices:
    return ClassPrices(
        input=rates.input / MILLION,
        cache_write_5m=rates.cache_write_5m / MILLION,
        cache_write_1h=rates.cache_write_1h / MILLION,
        cache_read=rates.cache_read / MILLION,
        output=rates.output / MILLION,
    )


def weights(ledger: Ledger, table: PriceTable | None) -> TableWeights | None:
    """The weights of a run; None where there is no table, or the run's dollars are not reconciled with it."""
    if table is None or ledger.cost_reconciled is not True:
        return None
    ways = ((row.speed, row.region) for row in ledger.call_rows)
    return TableWeights(table, version=ledger.agent_version, ways=ways)
