"""What a transcript cost: calls, reconciliation, tools; or a refusal with both sides."""
