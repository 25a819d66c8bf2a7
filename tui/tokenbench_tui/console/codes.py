"""Which refusals are of dollars alone, and which key leads to what would mend a refusal."""

from typing import Final

from tokenbench.figures import Code

MONEY: Final = frozenset({Code.PRICE_UNKNOWN, Code.COST_UNRECONCILED})
"""Codes that refuse dollars and leave tokens alone."""
_RUN_CODES: Final = frozenset(
    {
        Code.NO_RESULT,
        Code.TRANSCRIPT_DAMAGED,
        Code.CALLS_UNRECONCILED,
        Code.MODELS_UNRECONCILED,
        Code.COST_UNRECONCILED,
        Code.CALLS_COLLIDE,
        Code.CARRYOVER,
        Code.LIMIT_UNSETTLED,
    }
)


def way(code: str) -> tuple[str, str]:
    """The key that leads to what would mend a refusal, and what it does."""
    if code in (Code.UNGRADED, Code.JUDGES_DISAGREE, Code.RULE_SUSPENDED, Code.NOT_BLIND):
        return "3", "judge"
    if code in (Code.INCOMPLETE, Code.QUARANTINED, Code.RERUN, Code.ORDER_DIVERGED):
        return "1", "runs"
    if code in _RUN_CODES:
        return "2", "ledger"
    return "4", "why"
