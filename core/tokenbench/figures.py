"""What may be published, and what stands where it may not.

Whatever is shown as a number has the type `Figure | Refusal`, so that code which would print a number has to deal
with its refusal.
"""

from decimal import Decimal
from enum import StrEnum
from typing import Final, Literal, NamedTuple

import msgspec

Basis = Literal["exact", "estimate"]
Value = int | float | Decimal
"""Counts are int, ratios and shares float, money Decimal."""


class Code(StrEnum):
    """Why a number is refused, or what a reader has to know beside it."""

    NO_RESULT = "NO-RESULT"
    TRANSCRIPT_DAMAGED = "TRANSCRIPT-DAMAGED"
    CALLS_UNRECONCILED = "CALLS-UNRECONCILED"
    MODELS_UNRECONCILED = "MODELS-UNRECONCILED"
    COST_UNRECONCILED = "COST-UNRECONCILED"
    CALLS_COLLIDE = "CALLS-COLLIDE"
    CARRYOVER = "CARRYOVER"
    WIRE_DISAGREES = "WIRE-DISAGREES"
    LIMIT_UNSETTLED = "LIMIT-UNSETTLED"
    PRICE_UNKNOWN = "PRICE-UNKNOWN"
    UNCALIBRATED = "UNCALIBRATED"
    WARMTH_CONFOUNDED = "WARMTH-CONFOUNDED"
    UNGRADED = "UNGRADED"
    INCOMPLETE = "INCOMPLETE"
    QUARANTINED = "QUARANTINED"
    RERUN = "RERUN"
    SEAL_BROKEN = "SEAL-BROKEN"
    ORDER_DIVERGED = "ORDER-DIVERGED"
    NO_CONTROL = "NO-CONTROL"
    NO_COMPOSITION = "NO-COMPOSITION"
    NO_CORRECT = "NO-CORRECT"
    TOO_FEW = "TOO-FEW"
    NOT_DISTINGUISHABLE = "NOT-DISTINGUISHABLE"
    NOT_BLIND = "NOT-BLIND"
    JUDGES_DISAGREE = "JUDGES-DISAGREE"
    RULE_SUSPENDED = "RULE-SUSPENDED"
    UNGROUNDED = "UNGROUNDED"
    MISLED = "MISLED"
    ONE_CLASS_DRIVES = "ONE-CLASS-DRIVES"
    ONE_CORPUS = "ONE-CORPUS"
    EXTERNAL_COST_UNKNOWN = "EXTERNAL-COST-UNKNOWN"
    NO_SANDBOX = "NO-SANDBOX"
    SCRIPTED_MODEL = "SCRIPTED-MODEL"


class Meaning(NamedTuple):
    """The one sentence of a code and the one way out, written nowhere else."""

    sentence: str
    remedy: str


RERUN_COMMAND: Final = "`tokenbench-tui run --rerun CELL`"
"""How the remedies name it; who knows the cell, and whether the model is scripted, can put that in its place."""

MEANINGS: Final[dict[Code, Meaning]] = {
    Code.NO_RESULT: Meaning(
        "The transcript holds no result event, so there is nothing to reconcile its calls with",
        "Run the cell again with `tokenbench-tui run`; this transcript counts only as an attempt",
    ),
    Code.TRANSCRIPT_DAMAGED: Meaning(
        "A line that counts could not be read",
        f"Restore the transcript from its original bytes, or run the cell again with {RERUN_COMMAND}",
    ),
    Code.CALLS_UNRECONCILED: Meaning(
        "The calls of the main loop do not add up to the usage of the result events",
        f"Look at the calls in the Ledger; run the cell again with {RERUN_COMMAND}, "
        "behind a witness, which sees the wire",
    ),
    Code.MODELS_UNRECONCILED: Meaning(
        "All calls of a model do not add up to what the CLI reports for that model",
        f"Look at the models in the Ledger; run the cell again with {RERUN_COMMAND}, "
        "behind a witness, which sees the wire",
    ),
    Code.COST_UNRECONCILED: Meaning(
        "The costs of the models do not add up to the CLI's total cost",
        "Use tokens, which stand on their own; dollars of this run cannot be shown",
    ),
    Code.CALLS_COLLIDE: Meaning(
        "Several calls carry the same message id, so they cannot be told apart",
        "Use the totals, which stand; per-call figures need a gateway that gives each reply its own id",
    ),
    Code.CARRYOVER: Meaning(
        "The totals of this process include an earlier session",
        "Name the earlier transcript with --resumed-from, or start each run in a session of its own",
    ),
    Code.WIRE_DISAGREES: Meaning(
        "The CLI's totals are not what the API served", "Use the wire's totals; the lost calls are listed"
    ),
    Code.LIMIT_UNSETTLED: Meaning(
        "A run that reached a limit has no reliable total",
        f"Run the cell again with {RERUN_COMMAND}; a higher limit of a run needs a new experiment",
    ),
    Code.PRICE_UNKNOWN: Meaning(
        "No price table covers this model, so the CLI's cost cannot be recomputed",
        "Make one with `tokenbench-tui prices --probe`, which costs nothing; until then use tokens",
    ),
    Code.UNCALIBRATED: Meaning(
        "Characters per token of this corpus and model were never measured",
        "Run `tokenbench-tui calibrate`; token totals stand without it",
    ),
    Code.WARMTH_CONFOUNDED: Meaning(
        "The arms began with caches of different warmth", "Use tokens or the cache-neutral cost"
    ),
    Code.UNGRADED: Meaning(
        "Not every answer has been judged",
        "Judge what is left in the Grade screen, or with `tokenbench-tui grade`",
    ),
    Code.INCOMPLETE: Meaning("Not every cell has a run that counts", "Finish the experiment with `tokenbench-tui run`"),
    Code.QUARANTINED: Meaning(
        "A run was not an instance of its arm",
        f"Mend what the evidence names, then run the cell again with {RERUN_COMMAND}; the first run is kept",
    ),
    Code.RERUN: Meaning(
        "A cell was run again after a run of it had counted, was cancelled or was cut off",
        "Report it with the figure; every run is kept",
    ),
    Code.SEAL_BROKEN: Meaning(
        "Something that was sealed before the first run has changed",
        "Put the sealed content back, or move runs/ away and start again",
    ),
    Code.ORDER_DIVERGED: Meaning(
        "The runs were not executed in the planned order",
        "Report it with the figure, or run the experiment again",
    ),
    Code.NO_CONTROL: Meaning(
        "The questions hold no class that retrieval should lose",
        "Add questions of class index_hostile, in a new experiment",
    ),
    Code.NO_COMPOSITION: Meaning("What the corpus is made of is unknown", "Run `tokenbench-tui corpus` to measure it"),
    Code.NO_CORRECT: Meaning(
        "The arm has no correct answer, so tokens per correct answer do not exist",
        "Read its answers; a cheaper wrong answer is a loss",
    ),
    Code.TOO_FEW: Meaning("Too few questions or repeats to tell", "Add questions or repeats, in a new experiment"),
    Code.NOT_DISTINGUISHABLE: Meaning(
        "The interval of the ratio spans 1", "Add questions or repeats, in a new experiment"
    ),
    Code.NOT_BLIND: Meaning(
        "Verdicts were given by somebody who could know the arm",
        "Have the answers judged by somebody who has not seen the mapping",
    ),
    Code.JUDGES_DISAGREE: Meaning(
        "The judges are split on an answer, so it counts neither way",
        "Have one more judge look at the answers in dispute",
    ),
    Code.RULE_SUSPENDED: Meaning(
        "A judge overturned a mechanical FAIL, so that question's rule no longer decides",
        "Judge that question's answers; mend the rule in the next experiment",
    ),
    Code.UNGROUNDED: Meaning(
        "The answer rests on no successful tool result", "It is shown as correct from memory, not as found"
    ),
    Code.MISLED: Meaning("A wrong answer cites a retrieved near-duplicate", "Read the hits of that run"),
    Code.ONE_CLASS_DRIVES: Meaning("Without one class of questions the result turns round", "Report the classes apart"),
    Code.ONE_CORPUS: Meaning("The figures speak of this corpus alone", "Repeat the experiment on another corpus"),
    Code.EXTERNAL_COST_UNKNOWN: Meaning(
        "A tool of this arm uses models of its own at an undeclared cost",
        "Declare the cost in tokenbench.toml",
    ),
    Code.NO_SANDBOX: Meaning(
        "The runs were not confined: an agent could have read what its arm was not given",
        "Read the leak check; a confined run needs bubblewrap",
    ),
    Code.SCRIPTED_MODEL: Meaning(
        "The model was scripted: nothing here is a measurement", "Run the experiment against a real model"
    ),
}


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """What stands where a figure would, had it been justified."""

    code: Code
    reason: str
    """One sentence: what exactly is wrong here."""
    evidence: tuple[str, ...] = ()
    """Where to look: both sides of an equation, files with lines, cells."""
    remedy: str


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A published number, with its basis and the runs it comes from."""

    value: Value
    unit: str
    """tokens, tokens/correct, ratio, share, USD, seconds, answers."""
    basis: Basis
    interval: tuple[float, float] | None = None
    """Bounds of the 95 % interval, in the unit of the value; infinite bounds are float('inf')."""
    runs: tuple[str, ...] = ()
    """Cells, as `arm__question__repeat`."""
    codes: tuple[Code, ...] = ()
    """What has to be said beside this figure: RERUN, where it holds a cell that was run again."""


Published = Figure | Refusal


def refuse(code: Code, *evidence: str, reason: str | None = None, remedy: str | None = None) -> Refusal:
    """A refusal in the words of its code, with what was found here.

    Args:
        code: The rule that refuses.
        *evidence: Both sides of an equation, file:line, cells: what a reader can check.
        reason: A sentence that is more exact than the code's own.
        remedy: A way out that is more exact than the code's own.
    """
    meaning = MEANINGS[code]
    return Refusal(
        code=code,
        reason=reason or meaning.sentence,
        evidence=tuple(evidence),
        remedy=remedy or meaning.remedy,
    )
