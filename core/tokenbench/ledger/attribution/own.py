"""How many tokens the model's own earlier words are, call by call."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from tokenbench.ledger.attribution.rates import Rates
from tokenbench.ledger.attribution.threads import Step
from tokenbench.ledger.model import CallRow

HIDDEN: Final = 2.0
"""An output that is more than so many times what its characters come to holds something that was not shown."""


class Words(NamedTuple):
    """One call's output, in tokens."""

    said: int
    """Text and tool calls."""
    thought: int
    """Thinking, at most: a call's own where its output is known, else what all calls have left to share."""


def own_words(calls: Sequence[CallRow], steps: Sequence[Step], rates: Rates, output: int | None) -> list[Words]:
    """The words of each call.

    Streamed output counts are placeholders, but their total is known: where nobody thought, it is shared out by
    what their characters come to. Where the model thought, what it said is estimated from its characters, and the rest
    was thinking.

    Args:
        calls: Of one thread.
        steps: What each call said.
        rates: Characters per token.
        output: Output of all these calls together, to the token; None where it is unknown.
    """
    estimates = [rates.tokens("prompt", step.said) + rates.tokens("call", step.called) for step in steps]
    open_calls = [at for at, call in enumerate(calls) if call.output_is_partial]
    finished = sum(call.tokens.output for call in calls if not call.output_is_partial)
    left = max(0, output - finished) if output is not None else None
    shown = sum(estimates[at] for at in open_calls)
    if left is not None and left <= HIDDEN * shown and not any(steps[at].thinks for at in open_calls):
        for at in open_calls:
            estimates[at] = round(left * estimates[at] / shown) if shown else 0
    hidden = max(0, left - shown) if left is not None else 0
    words: list[Words] = []
    for call, step, estimate in zip(calls, steps, estimates, strict=True):
        if call.output_is_partial:
            words.append(Words(estimate, hidden if step.thinks else 0))
            continue
        said = min(estimate, call.tokens.output) if step.thinks else call.tokens.output
        words.append(Words(said, call.tokens.output - said))
    return words
