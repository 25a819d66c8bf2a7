"""What a price table says to the attribution of one run: the prices of each of its calls."""

from tokenbench.ledger.attribution.model import ClassPrices
from tokenbench.ledger.model import Ledger, Tokens
from tokenbench.ledger.prices import MILLION, PriceTable


class TableWeights:
    """Prices of calls that all have the same speed and region; each call's tier is decided by its own prompt."""

    def __init__(self, table: PriceTable, *, version: str | None, speed: str = "", region: str = "") -> None:
        self._table = table
        self._version = version
        self._speed = speed
        self._region = region

    def of_call(self, model: str, tokens: Tokens) -> ClassPrices | None:
        """Prices per token of a call; None where they are unknown."""
        prices = self._table.find(model, self._version)
        rates = prices and prices.rates(tokens.billed_input, speed=self._speed, region=self._region)
        if rates is None:
            return None
        return ClassPrices(
            input=rates.input / MILLION,
            cache_write_5m=rates.cache_write_5m / MILLION,
            cache_write_1h=rates.cache_write_1h / MILLION,
            cache_read=rates.cache_read / MILLION,
            output=rates.output / MILLION,
        )


def weights(ledger: Ledger, table: PriceTable | None) -> TableWeights | None:
    """The weights of a run; None where its dollars are not reconciled, or its calls differ in speed or region."""
    ways = {(row.speed, row.region) for row in ledger.call_rows}
    if table is None or ledger.cost_reconciled is not True or len(ways) > 1:
        return None
    speed, region = next(iter(ways), ("", ""))
    return TableWeights(table, version=ledger.agent_version, speed=speed, region=region)
