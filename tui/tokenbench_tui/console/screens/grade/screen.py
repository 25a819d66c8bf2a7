"""Screen 3: answers, judged blind from the home row."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from tokenbench.errors import TokenbenchError
from tokenbench.grading.items import BlindItem
from tokenbench.grading.verdicts import Decision
from tokenbench.text import one_line
from tokenbench_tui.console import keymap
from tokenbench_tui.console.screens.base import ConsoleScreen, TooSmall
from tokenbench_tui.console.screens.boxes import AskBox, TextBox
from tokenbench_tui.console.screens.grade import page
from tokenbench_tui.console.widgets.ink import EMPTY, Ink, Line, line
from tokenbench_tui.console.widgets.keyline import Hint, KeyLine, hint
from tokenbench_tui.console.widgets.lines import Lines, Sheet

if TYPE_CHECKING:
    from tokenbench_tui.console.screens.grade.desk import AsyncDesk, DeskState

SAID_FOR = 20.0
"""Seconds for which the end of a model judge is told."""
SHOWN_FOR = 0.3
"""Seconds that an item has to be on the screen before a verdict key counts: a key that repeats judges nothing."""
VERDICT_KEYS = ("verdict_correct", "verdict_wrong", "verdict_abstained", "verdict_unknown", "skip", "undo", "note")
WORDS: dict[Decision, str] = {
    "correct": "correct",
    "wrong": "wrong",
    "abstained": "abstained",
    "unknown": "can't say",
}


class GradeScreen(ConsoleScreen):
    """One item at a time, and never its arm."""

    CONTEXT = "grade"
    BINDINGS: ClassVar[list[BindingType]] = keymap.bindings("grade")

    def __init__(self) -> None:
        super().__init__()
        self.desk: AsyncDesk | None = None
        self.state: DeskState | None = None
        self.item: BlindItem | None = None
        self.note = ""
        self._skipped: set[str] = set()
        self._shown_at = 0.0
        self._saving = False
        self._asked = False
        self._refreshed_for: object = None
        self._refreshing = False
        self._problem = ""
        self._last: Line = EMPTY

    def compose(self) -> ComposeResult:
        """What was asked above, what was answered below."""
        yield Lines(2, id="title", classes="title")
        yield Sheet(id="question")
        yield Lines(id="rule")
        yield Sheet(id="answer")
        yield Lines(id="last")
        yield KeyLine()
        yield TooSmall()

    def furnish(self) -> None:
        """The answer has the keys."""
        self.query_one("#answer", Sheet).focus()

    def bring_up_to_date(self) -> None:
        """Ask who judges; queue what has come; keep the clock."""
        if self.desk is None:
            if not self._asked and self.console.followed and not self.tiny:
                self._asked = True
                self.action_judge_name()
        elif self._refreshed_for != self.console.bench.evidence and not (self._refreshing or self._saving):
            self._refreshing = True
            self._refreshed_for = self.console.bench.evidence
            self.console.run_worker(self._refresh(self.desk), name="desk", exit_on_error=True)
        self._say_where()
        self.say_keys()

    async def _refresh(self, desk: "AsyncDesk") -> None:
        try:
            state = await desk.refresh()
        except TokenbenchError as error:
            self._problem = str(error)
        else:
            self._problem = ""
            if desk is self.desk:
                self.state = state
        finally:
            self._refreshing = False
        ids = [item.id for item in self.state.items] if self.state is not None else []
        if self.item is None or self.item.id not in ids:
            self._next()
        self._say_where()
        self.say_keys()

    @property
    def blind(self) -> bool:
        """Whether verdicts are blind still."""
        return self.console.view.mapping_opened is None

    def _next(self, after: str | None = None) -> None:
        """Show the next item that this judge has not judged, those that were skipped last; with none, say what now."""
        state = self.state
        items = [item for item in state.items if item.id in state.unjudged] if state is not None else []
        order = [item.id for item in state.items] if state is not None else []
        start = order.index(after) + 1 if after in order else 0
        places = {item: (place - start) % max(1, len(order)) for place, item in enumerate(order)}
        items.sort(key=lambda item: (item.id in self._skipped, places[item.id]))
        self._show(items[0] if items else None)

    def _show(self, item: BlindItem | None) -> None:
        self.item = item
        self._shown_at = self.console.clock.monotonic()
        if not self.laid_out:
            return
        question, answer, rule = (
            self.query_one("#question", Sheet),
            self.query_one("#answer", Sheet),
            self.query_one("#rule", Lines),
        )
        if item is None:
            question.display = False
            rule.show(EMPTY)
            answer.show(partial(page.message_page, self._message()))
        else:
            question.display = True
            question.show(partial(page.question_page, item))
            answer.show(partial(page.answer_page, item))
            rule.show(page.rule(item, answer.count(), self.size.width))
            question.to_top()
        answer.to_top()

    def _message(self) -> Sequence[Line | str]:
        """What stands where an item would."""
        if self._problem:
            return [line((" The queue cannot be read", "loud")), self._problem]
        if self.desk is None:
            opened = [] if self.blind else [line((" The mapping is open.", "strong"), " A verdict now is not blind.")]
            kept = "Verdicts are kept under the name of who judged."
            return [*opened, kept, line(" ", ("J", "key"), " names the judge")]
        if self.state is None:
            return ["The queue is being made."]
        if not self.blind:
            return [
                line((" The mapping is open.", "strong"), " Verdicts from now on count as not blind."),
                line(" ", ("4", "key"), " shows the figures"),
            ]
        if not self.state.items:
            return [
                "No answer waits for a judge. An answer is queued when its question has been run in every arm; what a "
                "rule decides for certain never is.",
                self._opening(),
            ]
        return [
            line((f" You have judged all {len(self.state.items)} answers.", "good")),
            self._opening() if self.state.waiting == 0 else line(f" {self.state.waiting} are unjudged by anybody."),
        ]

    def _opening(self) -> Line:
        totals = self.console.view.totals
        left = totals.cells - totals.done
        if left:
            return line(
                (f" {left} of {totals.cells} cells have no run yet; the mapping is opened after the last.", "quiet")
            )
        return line(" ", ("o", "key"), " locks the queue and opens the mapping: then the figures can be shown")

    def _say_where(self) -> None:
        if not self.laid_out:
            return
        cells = self.size.width
        title = self.query_one("#title", Lines)
        if self.desk is None:
            title.show(line((" Grade", "strong"), ("   no judge is named here yet", "quiet")), EMPTY)
            if self.item is None:
                self.query_one("#question", Sheet).display = False
                self.query_one("#answer", Sheet).show(partial(page.message_page, self._message()))
            self.query_one("#last", Lines).show(self._model_line())
            return
        state, item = self.state, self.item
        order = [one.id for one in state.items] if state is not None else []
        place = page.Place(
            judge=self.desk.judge,
            position=order.index(item.id) + 1 if item is not None and item.id in order else 0,
            items=len(order),
            unjudged=len(state.unjudged) if state is not None else 0,
            skipped=len(self._skipped & state.unjudged) if state is not None else 0,
            seconds=self.console.clock.monotonic() - self._shown_at if item is not None else None,
            mean_seconds=state.mean_seconds if state is not None else None,
            blind=self.blind,
            waiting=state.waiting if state is not None else None,
        )
        title.show(page.title(place, cells), page.subtitle(item, place, cells))
        if item is None:
            self.query_one("#answer", Sheet).show(partial(page.message_page, self._message()))
        else:
            self.query_one("#rule", Lines).show(page.rule(item, self.query_one("#answer", Sheet).count(), cells))
        note = line((" note  ", "warn"), one_line(self.note, 120)) if self.note else self._last
        self.query_one("#last", Lines).show(self._model_line() or note)

    def _model_line(self) -> Line:
        """A model judge at work, or one that failed."""
        judges = self.console.view.judges
        for judge in judges:
            if judge.state == "running":
                return line(
                    (" model judge at work  ", "accent"), f"{one_line(judge.judge, 40)}  {one_line(judge.reason, 80)}"
                )
        latest = max(judges, key=lambda judge: judge.since, default=None)
        if latest is None or self.console.clock.now() - latest.since > SAID_FOR:
            return EMPTY
        ink: Ink = "bad" if latest.state == "failed" else "good"
        words = "failed" if latest.state == "failed" else "has ended"
        return line((f" model judge {one_line(latest.judge, 40)} {words}  ", ink), one_line(latest.reason, 120))

    def hints(self) -> Sequence[Hint]:
        """The verdict keys while there is something to judge; else what leads on."""
        if self.desk is None:
            return [hint("judge_name", "name the judge")]
        if self.item is not None:
            first = [hint("open_mapping", "open the mapping")] if self._ready_to_open() else []
            return [*first, *(hint(name) for name in VERDICT_KEYS), hint("model_judge")]
        now = [hint("undo")]
        if self._ready_to_open():
            now.insert(0, hint("open_mapping", "open the mapping"))
        elif self.state is not None and self.state.waiting:
            now.insert(0, hint("model_judge", "model judges the rest"))
        if not self.blind:
            now.insert(0, hint("matrix"))
        return now

    def _ready_to_open(self) -> bool:
        """Whether everything has run and every answer has somebody's verdict."""
        totals = self.console.view.totals
        judged = self.state is not None and self.state.waiting == 0
        return judged and self.blind and 0 < totals.cells == totals.done

    def action_judge_name(self) -> None:
        """Ask who judges."""
        from tokenbench_tui.console.screens.grade.desk import name_problem

        def named(name: object) -> None:
            if isinstance(name, str):
                from tokenbench_tui.console.screens.grade.desk import AsyncDesk

                self.desk = AsyncDesk(self.console.bench.loaded, name, self.console.clock)
                self.state, self.item, self.note, self._last = None, None, "", EMPTY
                self._skipped.clear()
                self._refreshed_for = None
            self.project()

        self.console.push_screen(
            TextBox(
                line(("Who judges?", "strong"), "  Verdicts are kept under this name"),
                check=name_problem,
                placeholder="a short name, such as ann",
            ),
            named,
        )

    def _judge(self, verdict: Decision) -> None:
        """Take a verdict on the item that is on the screen."""
        item, desk = self.item, self.desk
        if desk is None:
            self._say_who_is_missing()
            return
        if item is None or self._saving:
            return
        looked = self.console.clock.monotonic() - self._shown_at
        if looked < SHOWN_FOR:
            return
        self._saving = True
        self.console.run_worker(self._save(desk, item, verdict, looked), name="verdict", exit_on_error=True)

    async def _save(self, desk: "AsyncDesk", item: BlindItem, verdict: Decision, looked: float) -> None:
        try:
            self.state = await desk.give(item, verdict, note=self.note, seconds=round(looked, 1))
        except TokenbenchError as error:
            self.console.trouble(error, "NOT SAVED: ")
            return
        finally:
            self._saving = False
        self.note = ""
        self._skipped.discard(item.id)
        self._last = line((" last  ", "quiet"), f"{WORDS[verdict]} ({one_line(item.question, 40)})")
        self._next(item.id)
        self._say_where()
        self.say_keys()

    def _say_who_is_missing(self) -> None:
        self.say("J names the judge first", "warn")

    def action_verdict_correct(self) -> None:
        """Correct."""
        self._judge("correct")

    def action_verdict_wrong(self) -> None:
        """Wrong."""
        self._judge("wrong")

    def action_verdict_abstained(self) -> None:
        """Abstained."""
        self._judge("abstained")

    def action_verdict_unknown(self) -> None:
        """Can't say."""
        self._judge("unknown")

    def action_skip(self) -> None:
        """Later; a skip leaves no line."""
        if self.desk is None:
            self._say_who_is_missing()
        if self.item is None or self._saving:
            return
        self._skipped.add(self.item.id)
        self.note = ""
        self._last = line((" last  ", "quiet"), f"skipped ({one_line(self.item.question, 40)})")
        self._next(self.item.id)
        self.project()

    def action_note(self) -> None:
        """A note for the next verdict."""
        if self.desk is None:
            self._say_who_is_missing()
        if self.item is None:
            return

        def noted(text: object) -> None:
            if isinstance(text, str):
                self.note = text
            self.project()

        self.console.push_screen(
            TextBox(line(("Note to your verdict", "strong")), value=self.note, check=lambda _: None), noted
        )

    def action_undo(self) -> None:
        """Take the latest verdict back, and show its item again."""
        if self.desk is None:
            self._say_who_is_missing()
            return
        if self._saving:
            return
        self._saving = True
        self.console.run_worker(self._undo(self.desk), name="verdict", exit_on_error=True)

    async def _undo(self, desk: "AsyncDesk") -> None:
        try:
            act, self.state = await desk.undo()
        except TokenbenchError as error:
            self.console.trouble(error, "NOT UNDONE: ")
            return
        finally:
            self._saving = False
        if act is None:
            self.say("There is no verdict of yours to take back", "quiet")
            return
        item = next((one for one in self.state.items if one.id == act.item), None)
        self._last = line((" last  ", "quiet"), "took a verdict back")
        self._show(item)
        self._say_where()
        self.say_keys()

    def action_open_mapping(self) -> None:
        """Lock the queue, open the mapping."""
        from tokenbench_tui.console.screens.grade.desk import AsyncDesk, decisions

        desk = self.desk or AsyncDesk(self.console.bench.loaded, "nobody", self.console.clock)

        async def work() -> None:
            try:
                opening = await desk.open_mapping()
            except TokenbenchError as error:
                self.console.trouble(error)
                return
            self.say(f"The mapping of {opening.items} items is open; 4 shows the figures", "good")
            self.console.findings.again()
            self._show(None)

        def answered(yes: object) -> None:
            if yes:
                self.console.run_worker(work(), name="open", exit_on_error=True)

        async def ask() -> None:
            try:
                said = await asyncio.to_thread(decisions, self.console.bench.loaded)
            except TokenbenchError as error:
                self.console.trouble(error)
                return
            self._ask_to_open(said.count(None), said.count("unknown"), answered)

        if self.state is None:
            self.console.run_worker(ask(), name="waiting", exit_on_error=True)
        else:
            self._ask_to_open(self.state.waiting, self.state.undecided, answered)

    def _ask_to_open(self, waiting: int, undecided: int, answered: Callable[[object], None]) -> None:
        """Ask, with what one has to know first."""
        unjudged = (
            f"{waiting} distinct {'answer is' if waiting == 1 else 'answers are'} unjudged: it will be refused until "
            f"{'it is' if waiting == 1 else 'they are'} judged. "
            if waiting
            else ""
        )
        dispute = (
            f"{undecided} {'answer is' if undecided == 1 else 'answers are'} in dispute and will count neither way: "
            "only now can one more judge settle that blind. "
            if undecided
            else ""
        )
        self.console.push_screen(
            AskBox(
                "Lock the queue and open the mapping?",
                f"{unjudged}{dispute}There is no way back. The figures can be shown then; a verdict given later counts "
                "as not blind. The opening is a line of the journal.",
                "open it",
            ),
            answered,
        )

    def action_model_judge(self) -> None:
        """Let the model judge what is left."""
        bench = self.console.bench
        scripted = self.console.view.scripted
        if any(judge.state == "running" for judge in self.console.view.judges):
            self.say("A model judge is at work already", "quiet")
            return

        async def work() -> None:
            from tokenbench_tui.console.screens.grade.desk import start_model_judge

            try:
                start_model_judge(bench.loaded.folder, bench.runs.logs / "judge.log")
            except OSError as error:
                self.say(f"The model judge could not be started: {error.strerror or error}", "bad")
                return
            self.say("The model judge was started; closing the console does not stop it", "good")

        def answered(yes: object) -> None:
            if yes:
                self.console.run_worker(work(), name="judge", exit_on_error=True)

        question = (
            "Let the SCRIPTED model judge what is not judged?" if scripted else "Let the model judge what is left?"
        )
        cost = (
            "This is a rehearsal: the verdicts come from a script and say nothing about the answers. It costs nothing."
            if scripted
            else "It sees what you see, and no more. It costs money, which is charged to no arm."
        )
        self.console.push_screen(AskBox(question, cost, "start it"), answered)
