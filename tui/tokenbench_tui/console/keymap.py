"""Every key of the console, in one place: an action has an id, its keys, and its words for key line, help and palette.

Keys that tmux, screen, mosh, flow control or a browser terminal may keep for themselves are not used; ctrl+m, ctrl+i
and ctrl+h are Enter, Tab and Backspace there. An action named `x` is the method `action_x` of the screen (or widget)
whose context it has.
"""

from dataclasses import dataclass
from typing import Final, Literal

from textual.binding import Binding, BindingType

Context = Literal["app", "list", "runs", "ledger", "grade", "matrix", "cache", "modal"]
CONTEXTS: Final[dict[Context, str]] = {
    "app": "everywhere",
    "list": "tables and text",
    "runs": "1 Runs",
    "ledger": "2 Ledger",
    "grade": "3 Grade",
    "matrix": "4 Matrix",
    "cache": "5 Cache",
    "modal": "boxes",
}
SCREENS: Final[tuple[Context, ...]] = ("runs", "ledger", "grade", "matrix", "cache")


@dataclass(frozen=True, slots=True)
class Action:
    """Something a key does."""

    id: str
    context: Context
    keys: tuple[str, ...]
    """As Textual names them; the first is the one that is shown."""
    label: str
    """One or two words for the key line."""
    help: str
    """A sentence for `?` and the palette."""
    goes_there: bool = False
    """Whether the palette, on another screen, only goes to this action's screen: what it does needs to be seen."""

    @property
    def palette(self) -> str:
        """The entry in the palette."""
        return self.help if self.context in ("app", "list", "modal") else f"{CONTEXTS[self.context][2:]}: {self.help}"


ACTIONS: Final[tuple[Action, ...]] = (
    Action("runs", "app", ("1",), "Runs", "Every cell, live"),
    Action("ledger", "app", ("2",), "Ledger", "What one run cost, and whether that is reconciled"),
    Action("grade", "app", ("3",), "Grade", "Judge answers blind"),
    Action("matrix", "app", ("4",), "Matrix", "Tokens per correct answer, or why there are none"),
    Action("cache", "app", ("5",), "Cache", "Whether the arms began equally warm, and what that cost"),
    Action("help", "app", ("question_mark",), "keys", "What the keys do here"),
    Action("palette", "app", ("ctrl+p", "colon"), "actions", "Find an action by its name"),
    Action("theme", "app", ("T",), "light/dark", "Change between the dark and the light theme"),
    Action("leave", "app", ("q",), "quit", "Close the console; the runner goes on"),
    Action("line_down", "list", ("down", "j"), "down", "One line on"),
    Action("line_up", "list", ("up", "k"), "up", "One line back"),
    Action("page_on", "list", ("pagedown", "space"), "page on", "One page on"),
    Action("page_back", "list", ("pageup", "b"), "page back", "One page back"),
    Action("first_line", "list", ("home", "g"), "top", "To the first line"),
    Action("last_line", "list", ("end", "G"), "end", "To the last line"),
    Action("choose", "list", ("enter",), "open", "Open what the cursor stands on"),
    Action("pause", "runs", ("p",), "pause/resume", "Start no more runs, or go on", goes_there=True),
    Action("stop", "runs", ("S",), "stop", "End the runner after the current runs", goes_there=True),
    Action("cancel", "runs", ("x",), "cancel", "End the run under the cursor, or take its cell out", goes_there=True),
    Action("next_trouble", "runs", ("f",), "next refused", "To the next run that is refused, failed or quarantined"),
    Action("next_running", "runs", ("r",), "next running", "To the next run that is under way"),
    Action("follow", "runs", ("F",), "follow", "Let the cursor go along with the runs"),
    Action("previous_run", "ledger", ("left_square_bracket",), "run before", "The run before this one"),
    Action("next_run", "ledger", ("right_square_bracket",), "next run", "The run after this one"),
    Action("next_section", "ledger", ("s",), "section", "To the next section: equations, calls, parts, dollars, tools"),
    Action("back", "ledger", ("escape", "backspace"), "back", "Back to Runs"),
    Action("verdict_correct", "grade", ("c",), "correct", "The answer is correct", goes_there=True),
    Action("verdict_wrong", "grade", ("w",), "wrong", "The answer is wrong", goes_there=True),
    Action("verdict_abstained", "grade", ("a",), "abstained", "The answer says that it does not know", goes_there=True),
    Action("verdict_unknown", "grade", ("d",), "can't say", "You can't tell; it counts neither way", goes_there=True),
    Action("skip", "grade", ("s",), "skip", "Leave this answer for later", goes_there=True),
    Action("note", "grade", ("n",), "note", "Add a note to your next verdict", goes_there=True),
    Action("undo", "grade", ("u",), "undo", "Take your last verdict back", goes_there=True),
    Action(
        "open_mapping", "grade", ("o",), "open", "Lock the queue and open the mapping: no way back", goes_there=True
    ),
    Action("model_judge", "grade", ("m",), "model", "Let the model judge what is not judged yet", goes_there=True),
    Action("judge_name", "grade", ("J",), "judge", "Grade under another name", goes_there=True),
    Action("recompute", "matrix", ("c",), "recompute", "Compute the figures again now"),
    Action("close", "modal", ("escape", "q"), "close", "Close the box"),
)
KEY_NAMES: Final[dict[str, str]] = {
    "question_mark": "?",
    "colon": ":",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "escape": "Esc",
    "enter": "Enter",
    "space": "Space",
    "backspace": "Bksp",
    "pagedown": "PgDn",
    "pageup": "PgUp",
    "home": "Home",
    "end": "End",
    "up": "Up",
    "down": "Down",
    "ctrl+p": "Ctrl+P",
}


def key_name(key: str) -> str:
    """How a key is written on the screen."""
    return KEY_NAMES.get(key, key)


def actions(context: Context) -> tuple[Action, ...]:
    """The actions of a context, in the order in which help shows them."""
    return tuple(action for action in ACTIONS if action.context == context)


def action(action_id: str) -> Action:
    """The action of that id."""
    return next(one for one in ACTIONS if one.id == action_id)


def bindings(context: Context) -> list[BindingType]:
    """The bindings of a context, as Textual takes them."""
    return [Binding(",".join(one.keys), one.id, one.label, show=False) for one in actions(context)]
