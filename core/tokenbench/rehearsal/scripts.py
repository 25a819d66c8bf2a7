"""The script of a rehearsal: JSON lines into frozen types. The format is described in docs/rehearsal.md.

Each line is an object whose `kind` is `cell`, `warmup` or `judge`. Of several cell scripts that fit a run, the one that
names its arm goes before one that does not, and one that names its repeat before one that does not.
"""

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Final, Literal, cast

import msgspec

from tokenbench.errors import RehearsalError
from tokenbench.experiment.model import Loaded
from tokenbench.text import one_line

Verdict = Literal["correct", "wrong", "abstained"]
FaultKind = Literal["400", "401", "403", "429", "500", "503", "529", "too_long", "hang", "broken", "error", "ended"]
Place = Literal["nothing", "start", "block", "blocks", "usage"]
NO_FALLBACK: Final = "REHEARSAL: what the tools returned does not hold what this answer is made of."
SUMMARY: Final = "REHEARSAL: the conversation so far was the agent's work on the question."
PLACEHOLDER: Final = re.compile(r"\{\{|\}\}|\{([a-z_][a-z0-9_]*)(:d)?\}")
FOLDER: Final = "corpus"
"""The placeholder that stands for the run's working folder."""


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a step fails before it succeeds."""

    fault: FaultKind
    """An HTTP status, `too_long` (a 400 that says that the prompt is), `hang` (nothing more comes), or the end of the
    stream in mid-reply: `broken` (the connection closes), `error` (an error event) or `ended` (as if it were
    complete)."""
    times: int | Literal["always"] = 1
    """Requests of this step that fail so."""
    attempts: tuple[int, ...] = ()
    """Attempts of the cell in which it happens; empty for all."""
    after: Place = "start"
    """hang, broken, error, ended: what has been sent by then: nothing, the message's start, half of its first block,
    all its blocks, the final usage too."""
    seconds: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """hang: for how long; None until the agent gives up."""
    retry_after: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """HTTP faults: the header of that name, in seconds."""


class ToolCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"label": "as"}):
    """A tool that the scripted model calls."""

    name: str
    input: dict[str, object] = {}
    """Arguments; placeholders in their texts are filled."""
    label: str = ""
    """A name by which `take` can mean this call alone."""


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One reply that calls tools, all of them in parallel."""

    tools: Annotated[tuple[ToolCall, ...], msgspec.Meta(min_length=1)]
    thinking: str = ""
    thinking_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """What the thinking is billed; None counts its text."""
    text: str = ""
    faults: tuple[Fault, ...] = ()


class Take(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"source": "from"}):
    """Values out of what the tools returned: the named groups of a pattern."""

    source: str
    """A tool's name, or the label of a call."""
    pattern: str
    """A regular expression (`re.search`) with at least one named group; the first result that matches counts."""


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last reply."""

    text: str
    """Placeholders are filled."""
    fallback: str = NO_FALLBACK
    """Said instead when a placeholder of the text or of a tool's input could not be filled."""
    thinking: str = ""
    thinking_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    faults: tuple[Fault, ...] = ()


class CellScript(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the model does for one question."""

    question: str
    answer: Answer | str
    steps: tuple[Step, ...] = ()
    take: tuple[Take, ...] = ()
    arm: str | tuple[str, ...] = ()
    """The arm or arms it is for; empty for all."""
    repeat: int | None = None
    summary: str = SUMMARY
    """Said when the agent asks for a summary of the conversation, to put it in its place."""
    note: str = ""
    kind: Literal["cell"] = "cell"
    where: str = ""
    """`file:line`; set by the reader, not by the script."""

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms it is for; empty for all."""
        return (self.arm,) if isinstance(self.arm, str) else self.arm

    @property
    def last(self) -> Answer:
        """The last reply, whole."""
        return Answer(self.answer) if isinstance(self.answer, str) else self.answer

    def fits(self, arm: str, repeat: int) -> bool:
        """Whether a run of this arm and repeat can be played by it."""
        return (not self.arms or arm in self.arms) and self.repeat in {None, repeat}


class WarmupScript(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the model does in a warm-up run."""

    answer: Answer | str
    steps: tuple[Step, ...] = ()
    take: tuple[Take, ...] = ()
    arm: str | tuple[str, ...] = ()
    note: str = ""
    kind: Literal["warmup"] = "warmup"
    where: str = ""


class JudgeRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A verdict on every answer in which a pattern is found."""

    regex: str
    verdict: Verdict


class JudgeScript(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the scripted model judges the answers to one question: the first rule that matches decides."""

    question: str
    rules: tuple[JudgeRule, ...]
    otherwise: Verdict | None = None
    """None: no verdict where no rule matches."""
    note: str = ""
    kind: Literal["judge"] = "judge"
    where: str = ""


class Pace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long the scripted model takes, so that a person can watch it."""

    seconds: Annotated[float, msgspec.Meta(ge=0, le=600)]
    """From a request of a cell to the first byte of its reply."""
    note: str = ""
    kind: Literal["pace"] = "pace"
    where: str = ""


class ScriptBook(msgspec.Struct, frozen=True):
    """All scripts of a rehearsal. An empty one plays the default for every run."""

    cells: tuple[CellScript, ...] = ()
    warmups: tuple[WarmupScript, ...] = ()
    judges: tuple[JudgeScript, ...] = ()
    pace: Pace = Pace(seconds=0.0)

    def cell(self, arm: str, question: str, repeat: int) -> CellScript | None:
        """The most specific script of a run, or None for the default."""
        fitting = [script for script in self.cells if script.question == question and script.fits(arm, repeat)]
        return max(fitting, key=_precision, default=None)

    def warmup(self, arm: str) -> CellScript | None:
        """The script of an arm's warm-up runs, as one of a question without a name."""
        scripts = [
            CellScript("", script.answer, script.steps, script.take, script.arm, where=script.where)
            for script in self.warmups
        ]
        return max((script for script in scripts if script.fits(arm, 1)), key=_precision, default=None)

    def judge(self, question: str) -> JudgeScript | None:
        """The script of a question's judge."""
        return next((script for script in self.judges if script.question == question), None)


_TYPES: Final = {"cell": CellScript, "warmup": WarmupScript, "judge": JudgeScript, "pace": Pace}


def load_scripts(path: Path) -> ScriptBook:
    """Read a file of scripts.

    Raises:
        RehearsalError: The file cannot be read, or a line is wrong; file:line and key are named.
    """
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise RehearsalError(
            f"cannot be read: {error.strerror}",
            where=str(path),
            remedy="Name a file of scripts (JSON lines), or leave `--scripts` out to rehearse without one",
        ) from error
    except UnicodeDecodeError as error:
        raise RehearsalError("is not UTF-8", where=str(path), remedy="Save the file as UTF-8") from error
    cells: list[CellScript] = []
    warmups: list[WarmupScript] = []
    judges: list[JudgeScript] = []
    pace = Pace(seconds=0.0)
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        script = _read_line(line, f"{path}:{number}")
        match script:
            case CellScript():
                _once(script.where, ((arm, script.repeat) for arm in script.arms or ("",)), cells, script)
                cells.append(script)
            case WarmupScript():
                warmups.append(script)
            case JudgeScript():
                _judge_once(script, judges)
                judges.append(script)
            case Pace():
                if pace.where:
                    raise _wrong(script.where, f"there is a pace already, at {pace.where}", "Take one out")
                pace = script
    return ScriptBook(tuple(cells), tuple(warmups), tuple(judges), pace)


def scripts_for(path: Path, loaded: Loaded) -> ScriptBook:
    """Read the scripts of an experiment's rehearsal.

    Raises:
        RehearsalError: The file is not what it must be, or a script in it can never play: one with a slip of the pen
            would leave its question to the default, and nobody would notice.
    """
    book = load_scripts(path)
    idle = strangers(book, loaded)
    if idle:
        first, *others = idle
        more = f" (and {len(others)} more like it)" if others else ""
        where, _, what = first.partition(": ")
        raise _wrong(where, f"{what}{more}", "Correct the name, or take the line out")
    return book


def strangers(book: ScriptBook, loaded: Loaded) -> tuple[str, ...]:
    """Sentences on scripts that can never play, because the experiment has no such question, arm or repeat.

    Args:
        book: The scripts.
        loaded: The experiment that is to be rehearsed.
    """
    questions = {question.id for question in loaded.questions}
    repeats = loaded.config.experiment.repeats
    found: list[str] = []
    for script in (*book.cells, *book.judges):
        if script.question not in questions:
            found.append(f"{script.where}: the experiment has no question `{one_line(script.question, 60)}`")
    for script in (*book.cells, *book.warmups):
        found += [
            f"{script.where}: the experiment has no arm `{one_line(arm, 60)}`"
            for arm in ((script.arm,) if isinstance(script.arm, str) else script.arm)
            if arm not in loaded.config.arms
        ]
    for script in book.cells:
        if script.repeat is not None and not 1 <= script.repeat <= repeats:
            found.append(f"{script.where}: there is no repeat {script.repeat}; the experiment has {repeats}")
    return tuple(found)


def placeholders(value: object) -> Iterator[str]:
    """Names of the placeholders in all texts of a JSON value."""
    if isinstance(value, str):
        yield from (match.group(1) for match in PLACEHOLDER.finditer(value) if match.group(1))
    elif isinstance(value, dict):
        for part in cast("dict[str, object]", value).values():
            yield from placeholders(part)
    elif isinstance(value, list):
        for part in cast("list[object]", value):
            yield from placeholders(part)


def _precision(script: CellScript) -> tuple[bool, bool]:
    return bool(script.arms), script.repeat is not None


def _read_line(line: str, where: str) -> CellScript | WarmupScript | JudgeScript | Pace:
    try:
        data = cast("object", json.loads(line))
    except (ValueError, RecursionError) as error:
        raise _wrong(where, f"is not JSON: {error}", "Write one JSON object on the line") from error
    if not isinstance(data, dict):
        raise _wrong(where, "is no object", "Write one JSON object on the line")
    fields = cast("dict[str, object]", data)
    kind = fields.get("kind", "cell")
    kinds = ", ".join(f"`{name}`" for name in _TYPES)
    if not isinstance(kind, str) or kind not in _TYPES:
        raise _wrong(f"{where}: kind", f"{kind!r} is no kind of script", f"Write one of {kinds}")
    if "where" in fields:
        raise _wrong(f"{where}: where", "unknown key", "Take it out")
    try:
        script = msgspec.convert(fields | {"kind": kind, "where": where}, _TYPES[kind])
    except msgspec.ValidationError as error:
        raise _translated(where, kind, error) from error
    if isinstance(script, JudgeScript):
        for at, rule in enumerate(script.rules):
            _compiled(rule.regex, f"{where}: rules[{at}].regex")
    elif not isinstance(script, Pace):
        _check_play(script)
    return script


def _check_play(script: CellScript | WarmupScript) -> None:
    """Placeholders are known, patterns compile, and `from` names something the script calls."""
    callable_names = {call.name for step in script.steps for call in step.tools}
    callable_names |= {call.label for step in script.steps for call in step.tools if call.label}
    known = {FOLDER}
    for at, take in enumerate(script.take):
        pattern = _compiled(take.pattern, f"{script.where}: take[{at}].pattern")
        if not pattern.groupindex:
            raise _wrong(
                f"{script.where}: take[{at}].pattern",
                "has no named group",
                "Name what is to be taken: `(?P<name>…)`",
            )
        if take.source not in callable_names:
            raise _wrong(
                f"{script.where}: take[{at}].from",
                f"`{take.source}` is neither a tool that a step calls nor a call's `as`",
                f"Write one of {_listed(callable_names)}" if callable_names else "Give the script a step",
            )
        known |= set(pattern.groupindex)
    texts: list[tuple[str, object]] = [
        (f"steps[{at}].tools[{place}].input", call.input)
        for at, step in enumerate(script.steps)
        for place, call in enumerate(step.tools)
    ]
    answer = script.answer
    texts.append(("answer", answer) if isinstance(answer, str) else ("answer.text", answer.text))
    for key, value in texts:
        for name in placeholders(value):
            if name not in known:
                raise _wrong(
                    f"{script.where}: {key}",
                    f"nothing fills the placeholder {{{name}}}",
                    f"Take it with a named group, write {{{{ and }}}} for braces, or use one of {_listed(known)}",
                )


def _compiled(pattern: str, where: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise _wrong(where, f"is not a regular expression: {error}", "Mend the pattern") from error


def _once(
    where: str, keys: Iterable[tuple[str, int | None]], earlier: Iterable[CellScript], script: CellScript
) -> None:
    taken = {
        (arm, other.repeat): other.where
        for other in earlier
        if other.question == script.question
        for arm in other.arms or ("",)
    }
    for arm, repeat in keys:
        if (arm, repeat) in taken:
            raise _wrong(
                where,
                f"question `{script.question}` has a script for the same arm and repeat at {taken[arm, repeat]}",
                "Take one out, or name its arm or repeat",
            )


def _judge_once(script: JudgeScript, earlier: Iterable[JudgeScript]) -> None:
    for other in earlier:
        if other.question == script.question:
            raise _wrong(
                script.where,
                f"question `{script.question}` has a judge already, at {other.where}",
                "Write all rules of a question on one line",
            )


def _translated(where: str, kind: str, error: msgspec.ValidationError) -> RehearsalError:
    """msgspec says `Expected `int`, got `str` - at `$.steps[0].faults[1].times``."""
    what, _, path = str(error).partition(" - at `$")
    key = path.rstrip("`").removeprefix(".")
    place = f"{where}: {key}" if key else where
    unknown = re.search(r"unknown field `(.*)`", what)
    if unknown:
        names = sorted({name for struct in _structs() for name in struct.__struct_encode_fields__} - {"where"})
        close = difflib.get_close_matches(unknown.group(1), names, 1)
        remedy = f"Did you mean `{close[0]}`? If not, take it out" if close else "Take it out; see docs/rehearsal.md"
        return _wrong(place, f"unknown key `{unknown.group(1)}`", remedy)
    missing = re.search(r"missing required field `(.*)`", what)
    if missing:
        return _wrong(place, f"the key `{missing.group(1)}` is missing", f"Add it: a script of kind `{kind}` needs it")
    return _wrong(place, what, "See docs/rehearsal.md for what may stand there")


def _structs() -> tuple[type[msgspec.Struct], ...]:
    return (CellScript, WarmupScript, JudgeScript, Pace, Step, ToolCall, Take, Answer, Fault, JudgeRule)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _wrong(where: str, what: str, remedy: str) -> RehearsalError:
    return RehearsalError(what, where=where, remedy=remedy)
