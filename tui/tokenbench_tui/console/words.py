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
    "ledger": (
        ("a = b ok", "Both sides of an equation; NO: they differ, so the run is refused; –: one side is not there"),
        ("prompt", "Billed input of one call: fresh + writes + read, in tokens"),
        (
            "prefix",
            "How warm: of what the call before left in the cache (of a first call: of its whole prompt), what this one "
            "read. Cold is next to nothing, warm nearly all, else the share",
        ),
        ("unique", "Share of the unique context: each thing counted once"),
        ("billed", "Share of billed input: each thing once for every call that billed it"),
        ("dollars", "Share of what the billed input cost; output is not in it"),
        ("± billed", "How far the estimate of a part may be off to either side, in points of billed input"),
        ("second meter", "By how much the prompt grew when a tool's results came in: a bound from above"),
        ("own", "What the run's own model cost: without models that the agent starts of its own accord"),
        ("neutral", "As if nothing were cached: all input at the price of fresh input"),
        ("cold cache", "As if the run's first call had found nothing in the cache"),
        ("warm cache", "As if the same run had ended a moment before"),
    ),
    "matrix": (
        ("correct", "Correct answers of all runs but those of canaries, whose answer is not in the corpus"),
        ("turns", "Mean turns of the agent in a run"),
        ("tokens", "Per correct answer: all of the arm, wrong answers and canaries included, over its correct ones"),
        ("÷", "Ratio to the baseline, and where it lies at 95 %; where that spans 1 nothing was told apart"),
        ("class", "By class and by question there are no ranges: too few questions. The losing ones stand first"),
        ("abstained", "Share of the runs of canaries that rightly did not assert anything"),
        ("both right", "Over those alone that both arms got right: what the cheaper one got wrong is left out"),
    ),
    "cache": (
        ("first call", "Of the billed input of an arm's first calls, what was read from cache"),
        ("W r p", "A run that began cold (wrote its prefix), warm (read it), or in between; ?: no call yet"),
        ("·", "The lifetime of the arm's last writes (5 min or 1 h) had run out: reckoned, not observed"),
        ("started", "Time since the first run began; a sign stands as near to its time as its neighbours allow"),
        ("paid", "Median dollars per run as the agent CLI reckons them; refused where the arms began unequally warm"),
        ("cold, warm", "The same runs replayed from an empty cache, and from the one that each leaves itself"),
        ("neutral", "The same with all input at the price of fresh input: no cache at all"),
    ),
}
