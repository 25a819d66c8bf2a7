"""What the CLI reports for its process, model by model, with an earlier session taken out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from tokenbench.ledger import names
from tokenbench.ledger.sums import ZERO, Sum, of_model
from tokenbench.transcripts.events import Ended, ModelUsage

TOLERANCE: Final = Decimal("1e-9")
"""USD. The CLI adds doubles; exact arithmetic differs from it by up to 3e-14."""


@dataclass(frozen=True, slots=True)
class ModelTotal:
    """One model of the process."""

    sum: Sum
    cost: Decimal | None
    guessed: bool
    """The CLI does not know the model's price and took another one's."""
    searches: int


Models = dict[str, ModelTotal]
"""By name, without the suffix of the context window."""


@dataclass(frozen=True, slots=True)
class Account:
    """One reading of what the process used."""

    models: Models
    carried: bool
    """An earlier session was taken out."""
    certain: bool
    """Nothing of an earlier session can be left in it."""
    problem: str = ""
    """Why it cannot be used; empty where it can."""


def merged(models: Iterable[ModelUsage]) -> Models:
    """By plain name; `X` and `X[1m]` are one model."""
    result: Models = {}
    for entry in models:
        name = names.plain(entry.model)
        mine = ModelTotal(of_model(entry.usage), entry.cost, entry.cost_basis == "unknown", entry.usage.web_searches)
        before = result.get(name)
        result[name] = mine if before is None else _add(before, mine)
    return result


def _add(a: ModelTotal, b: ModelTotal) -> ModelTotal:
    cost = None if a.cost is None or b.cost is None else a.cost + b.cost
    return ModelTotal(a.sum + b.sum, cost, a.guessed or b.guessed, a.searches + b.searches)


def _less(a: Models, b: Models) -> Models | None:
    """a − b, without models of which nothing is left; None where b holds more than a."""
    result: Models = {}
    for name in a.keys() | b.keys():
        mine = a.get(name, ModelTotal(ZERO, Decimal(0), False, 0))
        theirs = b.get(name, ModelTotal(ZERO, Decimal(0), False, 0))
        left = mine.sum - theirs.sum
        if min(left.inside) < 0 or left.output < 0:
            return None
        if left.inside == (0, 0, 0) and left.output == 0:
            continue
        cost = None if mine.cost is None or theirs.cost is None else mine.cost - theirs.cost
        result[name] = ModelTotal(left, cost, mine.guessed, mine.searches - theirs.searches)
    return result


def accounts(ended: Sequence[Ended], earlier: Models | None) -> list[Account]:
    """The readings of the process's totals, the most trusted first; empty where the CLI reports none.

    `modelUsage` runs on from result to result, and in newer versions from session to resumed session; then
    `model_usage_since_last_result`, added up over the results, is what this process used. What it leaves out must be
    whole calls; else neither is believed.

    Args:
        ended: The result events.
        earlier: The totals of the transcript that was resumed, if it was named.
    """
    last = ended[-1].models
    if last is None:
        return []
    whole = merged(last)
    found: list[Account] = []
    if any(event.models_since_last is not None for event in ended):
        since = merged(entry for event in ended for entry in event.models_since_last or ())
        carried = _less(whole, since)
        if carried is not None and all(left.sum.billed_input and left.sum.output for left in carried.values()):
            return [Account(since if carried else whole, bool(carried), True)]
        return [Account(whole, False, False, "model_usage_since_last_result does not fit modelUsage")]
    if earlier is not None:
        own = _less(whole, earlier)
        if own is not None:
            found.append(Account(own, True, True))
    # Versions that name the basis of a cost carry totals over and say so; where they do not say so, nothing is certain.
    certain = all(entry.cost_basis is None for entry in last)
    found.append(Account(whole, False, certain))
    return found


def cost_sides(ended: Sequence[Ended]) -> tuple[Decimal | None, Decimal | None]:
    """Both sides of the cost equation, in USD: the models' costs added up, and the total; None where not reported."""
    last = ended[-1]
    if last.models is None or any(entry.cost is None for entry in last.models):
        return None, last.cost
    return sum((entry.cost for entry in last.models if entry.cost is not None), Decimal(0)), last.cost


def add_up(left: Decimal | None, right: Decimal | None) -> bool | None:
    """Whether two costs are the same, to 1e-9 USD."""
    if left is None or right is None:
        return None
    if not (left.is_finite() and right.is_finite()):
        return False
    return abs(left - right) <= TOLERANCE
