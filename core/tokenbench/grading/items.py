"""What a judge gets to see, and nothing else.

`BlindItem` has no field for arm, run, repeat, order, cost, time or tools: whoever is handed one, a pane, a file or a
model's prompt, cannot pass on what it does not hold.
"""

import hashlib

import msgspec

from tokenbench.experiment.model import QuestionClass


class Seen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """sha256 of what a verdict was given on: when one of them changes, the verdict is stale."""

    question: str
    truth: str
    """Of the truth and the grader's note."""
    answer: str


class BlindItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One answer to be judged."""

    id: str
    """Random; it says nothing about the answer."""
    question: str
    """Id of the question."""
    question_class: QuestionClass = msgspec.field(name="class")
    """A property of the question, the same for every arm, so it tells nothing about one."""
    text: str
    truth: str
    note: str
    answer: str
    """Arm-revealing words masked, control characters shown."""
    masked: int
    """Places masked in the answer."""

    @property
    def seen(self) -> Seen:
        """What a verdict on this item is bound to."""
        return Seen(
            question=_digest(self.question, self.text),
            truth=_digest(self.truth, self.note),
            answer=_digest(" ".join(self.answer.split())),
        )


def _digest(*parts: str) -> str:
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
