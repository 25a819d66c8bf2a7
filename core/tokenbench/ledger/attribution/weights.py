"""A price table as what attribution weighs parts with."""

from tokenbench.ledger.attribution.model import ClassPrices
from tokenbench.ledger.model import Tokens
from tokenbench.ledger.prices import MILLION, PriceTable


class TableWeights:
    """Prices of a table for one version of the CLI, at standard speed and without a region.

    Args:
        table: The table.
        version: Of the CLI that ran.
    """

    def __init__(self, table: PriceTable, version: str | None) -> None:
        self._table = table
        self._version = version

    def of_call(self, model: str, tokens: Tokens) -> ClassPrices | None:
        """Prices of a call, in the tier that its prompt puts it in."""
        found = self._table.find(model, self._version)
        rates = found.rates(tokens.billed_input) if found is not None else None
        if rates is None:
            return None
        return ClassPrices(
            rates.input / MILLION,
            rates.cache_write_5m / MILLION,
            rates.cache_write_1h / MILLION,
            rates.cache_read / MILLION,
            rates.output / MILLION,
        )
