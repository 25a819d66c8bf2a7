"""A transcript, fed line by line, becomes a ledger; while it grows, `live` says how far it has come."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from tokenbench.agents.claude.stream import ClaudeReader
from tokenbench.ledger import assemble
from tokenbench.ledger.assemble import Material
from tokenbench.ledger.attribution.timeline import Timeline
from tokenbench.ledger.broken import BreakWatch
from tokenbench.ledger.calls import CallBook
from tokenbench.ledger.model import Ledger, Live
from tokenbench.ledger.outcome import AnswerTracker, Segment
from tokenbench.ledger.prices import PriceTable
from tokenbench.ledger.process import Models
from tokenbench.ledger.sums import ZERO, Sum
from tokenbench.ledger.tools import ToolTable
from tokenbench.transcripts.events import (
    AgentNotice,
    Announcement,
    Background,
    Bad,
    CallSeen,
    Compaction,
    Ended,
    Event,
    Mended,
    MessagePart,
    ModelChange,
    Noise,
    Other,
    Reader,
    Retry,
    SubagentReport,
    Superseded,
    ToolResult,
    ToolUse,
    UserRow,
)
from tokenbench.transcripts.evidence import Record
from tokenbench.transcripts.lines import Line, Lines

SCRIPTED_PREFIX: Final = "msg_scripted_"
"""Beginning of every message id that the scripted API serves."""


class LedgerBuilder:
    """Builds the ledger of one transcript. What it keeps grows with the calls, not with the text."""

    def __init__(
        self,
        *,
        transcript: str,
        agent: str = "claude",
        reader: Reader | None = None,
        prices: PriceTable | None = None,
    ) -> None:
        """Begin.

        Args:
            transcript: Its name in the ledger.
            agent: The agent CLI that wrote it.
            reader: What turns its lines into events; by default claude's.
            prices: Recomputes the CLI's costs; without, they stay PRICE-UNKNOWN.
        """
        self._transcript = transcript
        self._agent = agent
        self._prices = prices
        self._reader: Reader = reader if reader is not None else ClaudeReader()
        self._book = CallBook()
        self._tools = ToolTable()
        self._timeline = Timeline()
        self._answer = AnswerTracker()
        self._segment: Segment | None = None
        self._announced: Announcement | None = None
        self._ended: dict[str, Ended] = {}
        self._reports: dict[str, SubagentReport] = {}
        self._bad: list[Bad] = []
        self._rows: set[str] = set()
        """Ids of the rows of both sides, so that a row that is repeated says nothing new."""
        self._repeated = False
        self._call_key: str | None = None
        self._user_rows = 0
        self._nudges: set[str] = set()
        self._breaks = BreakWatch()
        self._compacted = False
        self._fallbacks: dict[str, None] = {}
        self._tasks: dict[str, bool] = {}
        """Tasks in the background by id, and whether they go on."""
        self._last_wake = 0
        """Line of the last sign that another turn begins."""
        self._mended = False
        self._inconsistent = False
        self._scripted = False
        self._seen = ZERO
        self._contributed: dict[str, Sum] = {}
        self._first: Sum | None = None
        self._turns = 0
        self._prompt = 0
        self._doing = "starting"
        self._last_line = 0

    def feed(self, line: Line) -> Sequence[Event]:
        """Take one line in, and return the events it held."""
        events = self._reader.feed(line)
        self._last_line = line.number
        self._repeated = False
        self._call_key = None
        handlers = self._handlers
        for event in events:
            handlers[type(event)](self, event)
        return events

    def feed_many(self, lines: Lines) -> None:
        """Take many lines in, as `feed` would one by one, in less time."""
        handlers = self._handlers
        for events in self._reader.feed_many(lines):
            self._repeated = False
            self._call_key = None
            for event in events:
                handlers[type(event)](self, event)
        self._last_line = lines.first + len(lines.data) - 1

    def live(self) -> Live:
        """How far the run has come: lower bounds, never a ledger."""
        return Live(
            calls=len(self._contributed),
            turns=self._turns,
            seen=self._seen.tokens(),
            prompt=self._prompt,
            first_call=self._first.tokens() if self._first is not None else None,
            doing=self._doing,
            last_line=self._last_line,
            ended=bool(self._ended),
        )

    @property
    def own_log(self) -> bool:
        """Whether this is the agent's own log of a session, which holds no result."""
        return self._reader.own_log and not self._ended

    @property
    def announced(self) -> Announcement | None:
        """What the agent has said first of itself; None until it has."""
        return self._announced

    @property
    def ended(self) -> tuple[Ended, ...]:
        """The result events so far."""
        return tuple(self._ended.values())

    def owned(self) -> frozenset[str]:
        """Keys of all calls seen so far."""
        return frozenset(self._contributed)

    def finish(
        self,
        *,
        record: Record | None = None,
        earlier: Models | None = None,
        owned_elsewhere: frozenset[str] = frozenset(),
        notes: Sequence[str] = (),
    ) -> Ledger:
        """The ledger of what was fed; it can be asked for more than once.

        Args:
            record: How the run was closed; its outcome and refusals are the run's.
            earlier: Totals by model of the transcript that this one resumed.
            owned_elsewhere: Keys of calls that an earlier session file holds; a session file leaves them out.
            notes: What the caller has to add.
        """
        return assemble.ledger(
            Material(
                transcript=self._transcript,
                agent=self._agent,
                calls=self._book.calls(),
                abandoned=frozenset(self._book.abandoned),
                tools=self._tools,
                threads=self._timeline.finish(),
                announced=self._announced,
                ended=self.ended,
                segment=self._segment or self._answer.peek(),
                reports=tuple(self._reports.values()),
                bad=tuple(self._bad),
                user_rows=self._user_rows,
                nudges=frozenset(self._nudges),
                breaks=self._breaks.signs(),
                compacted=self._compacted,
                fallbacks=tuple(self._fallbacks),
                open_tasks=sum(self._tasks.values()),
                last_wake=self._last_wake,
                mended=self._mended,
                inconsistent=self._inconsistent,
                scripted=self._scripted or bool(record is not None and record.scripted),
                own_log=self.own_log,
                last_line=self._last_line,
                counts=dict(self._reader.counts),
                record=record,
                earlier=earlier,
                owned_elsewhere=owned_elsewhere,
                notes=tuple(notes),
                prices=self._prices,
            )
        )

    def _call(self, event: CallSeen) -> None:
        self._repeated = event.row_id in self._rows
        self._rows.add(event.row_id)
        self._call_key = event.message_id or event.row_id
        if self._book.again(event):
            return
        self._inconsistent = self._inconsistent or not event.usage.consistent
        call, new = self._book.add(event)
        self._breaks.call(event)
        if new:
            self._timeline.call(call.key, call.parent)
        counters = call.counters if call.final else call.counters.with_output(0)
        before = self._contributed.get(call.key)
        self._seen = (self._seen if before is None else self._seen - before) + counters
        self._contributed[call.key] = counters
        self._scripted = self._scripted or call.message_id.startswith(SCRIPTED_PREFIX)
        if call.parent is not None:
            return
        self._turns += new
        self._prompt = counters.billed_input
        if self._turns == 1:
            self._first = counters
        if new:
            self._doing = "thinking"

    def _part(self, event: MessagePart) -> None:
        if self._repeated:
            return
        self._answer.part(event)
        self._timeline.said(event.message_id or self._call_key, event)
        if event.parent is None:
            self._doing = "answering" if event.kind == "text" else "thinking"

    def _use(self, event: ToolUse) -> None:
        self._tools.use(event)
        self._book.use_tool(self._call_key, event.id, event.line, event.name)
        if self._repeated:
            return
        self._timeline.asked(event.message_id or self._call_key, event)
        self._answer.tool(event)
        if event.parent is None:
            self._doing = event.name

    def _user(self, event: UserRow) -> None:
        self._repeated = event.row_id in self._rows
        self._rows.add(event.row_id)
        self._timeline.row(event)
        if event.nudge is not None:
            self._nudges.add(event.nudge)
        if event.parent is None and not event.replay and not self._repeated:
            self._user_rows += 1

    def _result(self, event: ToolResult) -> None:
        self._tools.result(event)
        if self._repeated:
            return
        self._timeline.result(event)
        self._answer.result(event)
        if event.parent is None:
            self._book.main_result()
            self._doing = "thinking"

    def _announce(self, event: Announcement) -> None:
        if self._announced is None:
            self._announced = event
        self._last_wake = event.line

    def _end(self, event: Ended) -> None:
        if event.row_id in self._ended:
            return
        self._ended[event.row_id] = event
        self._segment = self._answer.close(event.text)
        self._tools.listed(event.denials)
        self._timeline.ended(event)
        if event.usage is not None:
            self._inconsistent = self._inconsistent or not event.usage.consistent
        self._doing = "done"

    def _report(self, event: SubagentReport) -> None:
        self._reports[event.tool_use_id] = event
        self._timeline.reported(event)

    def _retry(self, event: Retry) -> None:
        if event.row_id in self._rows:
            return
        self._rows.add(event.row_id)
        self._book.api_failed()
        self._breaks.retry(event)
        self._answer.retry()
        self._doing = "retrying"

    def _compact(self, event: Compaction) -> None:
        self._compacted = True
        self._timeline.compacted(event.kept)

    def _background(self, event: Background) -> None:
        if event.state == "running":
            self._tasks.setdefault(event.task_id, True)
        else:
            self._tasks[event.task_id] = False
            if event.state == "ended":
                self._last_wake = event.line

    def _change_model(self, event: ModelChange) -> None:
        self._fallbacks.setdefault(event.model)

    def _notice(self, event: AgentNotice) -> None:
        if event.row_id not in self._rows:
            self._rows.add(event.row_id)
            self._answer.notice(event)
            self._breaks.notice(event)

    def _supersede(self, event: Superseded) -> None:
        if not self._repeated:
            self._answer.withdraw(event)

    def _mend(self, event: Mended) -> None:
        del event
        self._mended = True

    def _damage(self, event: Bad) -> None:
        self._bad.append(event)

    def _nothing(self, event: Event) -> None:
        """Counted by the reader; there is nothing else to do."""

    _handlers: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        CallSeen: _call,
        MessagePart: _part,
        ToolUse: _use,
        ToolResult: _result,
        UserRow: _user,
        Announcement: _announce,
        Ended: _end,
        SubagentReport: _report,
        Retry: _retry,
        Compaction: _compact,
        Background: _background,
        ModelChange: _change_model,
        AgentNotice: _notice,
        Superseded: _supersede,
        Bad: _damage,
        Mended: _mend,
        Noise: _nothing,
        Other: _nothing,
    }
    """What takes in each kind of event. Of the class, so that no builder refers to itself and outlives its use."""
