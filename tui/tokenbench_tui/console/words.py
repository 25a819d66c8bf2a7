"""What the short words of a screen mean, for its help."""

from collections.abc import Mapping
from typing import Final

from tokenbench_tui.console.keymap import Context

WORDS: Final[Mapping[Context, tuple[tuple[str, str], ...]]] = {
    "runs": (
        ("r", "Repeat: an arm is asked each question several times"),
        ("state", "waits: not run yet; again: an attempt was spoilt, another will follow; retry 12 s: it follows then"),
        ("▸ Read", "Under way; the word is what the agent does now"),
        ("ok", "The run has ended and its tokens are reconciled"),
        ("REFUSED", "The run has ended, but its tokens cannot be justified; the ledger says why"),
        ("QUARANTINED", "The agent was not what the arm says, or it reached what it must not see"),
        ("max turns", "The agent reached a limit of its own (also: max USD, time limit); it counts as not correct"),
        ("gave up", "Infrastructure spoilt every attempt that is allowed"),
        ("cancelled", "Ended, or taken out of the queue, by the operator"),
        ("billed in", "Input, cache writes and cache reads of all calls, in tokens"),
        ("out", "Output tokens; a dash until they are known, as streamed counts are placeholders"),
        ("≥", "At least so many: seen so far, or all that could be seen of a run that is refused"),
        ("cost", "US dollars, as the agent CLI reports them"),
        ("cache", "What the first call read from cache: cold is next to nothing, warm is nearly all, else the share"),
        ("prompt", "Billed input of the latest call, in tokens"),
        ("try", "Number of the attempt, from the second on"),
        ("apart", "Tokens of warm-ups and of attempts that did not count; they are in no figure"),
    ),
}
