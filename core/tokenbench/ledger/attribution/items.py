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
    """How far the estimate may be off to either side for reasons that all pieces share, in tokens."""
    scatter: float = 0.0
    """The same for reasons of this piece alone: scatters of several things add up as squares."""


UNATTRIBUTED: Final = Key("unattributed", "")
