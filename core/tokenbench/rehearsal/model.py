"""The scripted model: it hears a request, says what the script says, and bills it."""

from collections import Counter as Tally
from collections.abc import Callable

import msgspec

from tokenbench.agents.claude.compaction import asks_for_summary, continues
from tokenbench.clock import Clock
from tokenbench.rehearsal.caching import CacheMisuse, PromptCache, Settled
from tokenbench.rehearsal.counting import Counter
from tokenbench.rehearsal.playing import REHEARSAL, Turn, judge_text, play, play_default
from tokenbench.rehearsal.replies import Reply, build_reply
from tokenbench.rehearsal.request import BadRequest, Counted, Meter, Request, ToolOutcome, read_request
from tokenbench.rehearsal.scripts import SUMMARY, Fault, ScriptBook
from tokenbench.rehearsal.served import Played, RunKey


class Run:
    """One agent process, as the scripted model knows it."""

    def __init__(self, key: RunKey, tools: tuple[str, ...], folder: str) -> None:
        self.key = key
        self.tools = tools
        self.folder = folder
        self.opening: str | None = None
        """First user message of the main conversation; None until it has begun, another one after a compaction."""
        self.faults: Tally[tuple[int, int]] = Tally()
        """How often each fault of each step has happened."""
        self.summed_up = False
        """The agent has asked for a summary: the main conversation may go on with one."""
        self._asked = 0
        self._outcomes: dict[tuple[int, int], ToolOutcome] = {}

    def whole(self, request: Request) -> Request:
        """A request of the main conversation, with what compactions have taken out of it put back.

        The script goes by the tool calls in a conversation; where those are gone it would begin anew.
        """
        self._asked = max(self._asked, request.asked)
        self._outcomes |= {(outcome.step, outcome.index): outcome for outcome in request.outcomes}
        if not self.summed_up:
            return request
        outcomes = tuple(self._outcomes[key] for key in sorted(self._outcomes))
        return msgspec.structs.replace(request, asked=self._asked, outcomes=outcomes)


class Heard(msgspec.Struct, frozen=True):
    """A request that is understood; nothing has been billed yet."""

    request: Request
    settled: Settled
    turn: Turn
    played: Played
    fault: Fault | None

    @property
    def prompt(self) -> tuple[Counted, ...]:
        """The prompt's blocks, each with what the cache does for it."""
        return tuple(
            msgspec.structs.replace(counted, cache=state)
            for counted, state in zip(self.request.counted, self.settled.states, strict=True)
        )


class ScriptedModel:
    """Answers from a script and counts by a stated rule; one prompt cache for all runs."""

    def __init__(
        self,
        book: ScriptBook,
        *,
        clock: Clock,
        counter: Counter,
        minimum_prefix: int | None,
        token: Callable[[], str],
    ) -> None:
        self._book = book
        self._meter = Meter(counter)
        self._cache = PromptCache(clock, minimum=minimum_prefix)
        self._token = token

    def count(self, body: bytes) -> Request:
        """Count a request without answering it.

        Raises:
            BadRequest: It is no request of the Messages API.
        """
        return read_request(body, self._meter)

    def hear(self, run: Run, body: bytes) -> Heard:
        """Understand a request, and decide what becomes of it.

        Raises:
            BadRequest: The API would reject it.
        """
        request = read_request(body, self._meter)
        try:
            settled = self._cache.settle(request.model, request.blocks)
        except CacheMisuse as error:
            raise BadRequest(str(error)) from error
        turn, played = self._say(run, request)
        return Heard(request, settled, turn, played, _due(run, turn))

    def answer(self, heard: Heard) -> Reply:
        """Begin to answer: from here on the prompt is billed and cached."""
        self._cache.commit(heard.settled)
        return build_reply(
            heard.turn,
            model=heard.request.model,
            prompt=heard.settled.usage,
            thinks=heard.request.thinking,
            meter=self._meter,
            token=self._token,
        )

    def _say(self, run: Run, request: Request) -> tuple[Turn, Played]:
        key = run.key
        if key.kind == "judge":
            return Turn(0, judge_text(self._book.judge(key.question), request.opening)), "judge"
        if run.tools and not request.tools:
            return Turn(0, REHEARSAL), "side"
        if run.opening is None or (run.summed_up and continues(request.opening)):
            run.opening = request.opening
        elif run.opening != request.opening:
            return Turn(0, REHEARSAL), "side"
        script = (
            self._book.cell(key.arm, key.question, key.repeat) if key.kind == "cell" else self._book.warmup(key.arm)
        )
        if asks_for_summary(request.closing):
            run.summed_up = True
            summary = script.summary if script is not None else SUMMARY
            return Turn(request.asked, f"<analysis>{REHEARSAL}</analysis>\n<summary>{summary}</summary>"), "summary"
        request = run.whole(request)
        if script is None:
            return play_default(run.tools, request, run.folder), "default"
        return play(script, request, run.folder), "script"


def _due(run: Run, turn: Turn) -> Fault | None:
    """The fault that happens to this request: the first that has not happened as often as it should."""
    for at, fault in enumerate(turn.faults):
        if fault.attempts and run.key.attempt not in fault.attempts:
            continue
        if fault.times == "always" or run.faults[turn.step, at] < fault.times:
            run.faults[turn.step, at] += 1
            return fault
    return None
