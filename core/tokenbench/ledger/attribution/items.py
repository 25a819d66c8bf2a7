"""What stands in a prompt."""

from typing import Final, NamedTuple

from tokenbench.ledger.attribution.model import Kind
from tokenbench.ledger.shell import Use


class Key(NamedTuple):
    """What a part is."""

    kind: Kind
    name: str
    use: Use | None = None


class Item(NamedTuple):
    """One thing in a prompt."""

    key: Key
    tokens: int
    bound: float
    """In tokens, to either side."""


UNATTRIBUTED: Final = Key("unattributed", "")
