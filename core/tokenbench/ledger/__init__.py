"""What a transcript cost: calls, reconciliation, tools; or a refusal with both sides."""

from tokenbench.ledger.read import read_ledger, read_ledgers, tell_ledgers

__all__ = ["read_ledger", "read_ledgers", "tell_ledgers"]
