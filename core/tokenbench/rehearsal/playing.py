"""What the scripted model says next: a pure function of the script and of the conversation so far."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, cast

import msgspec

from tokenbench.rehearsal.request import Json, Request, ToolOutcome
from tokenbench.rehearsal.scripts import FOLDER, PLACEHOLDER, CellScript, Fault, JudgeScript

REHEARSAL: Final = "rehearsal"
"""The answer where no script says anything else."""
ANY_CODE: Final = "main test name value get set new class"
"""What `xq` is asked where no script says what: almost any code holds one of these words."""
UNTOUCHED: Final = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
"""Tools that no input makes harmless: a rehearsal without a script leaves them alone."""
ANSWER_OPENS: Final = "<answer>"
ANSWER_CLOSES: Final = "</answer>"
"""What stands around the answer in a judge's prompt."""


class Use(msgspec.Struct, frozen=True):
    """A tool call of a reply."""

    name: str
    input: Mapping[str, object]


class Turn(msgspec.Struct, frozen=True):
    """One reply of the model. Without uses it is the last one."""

    step: int
    """0 is the script's first step; the answer comes after the last."""
    text: str = ""
    thinking: str = ""
    thinking_tokens: int | None = None
    uses: tuple[Use, ...] = ()
    faults: tuple[Fault, ...] = ()
    fell_back: bool = False
    """The answer is the script's fallback, because a placeholder could not be filled."""


class Unfilled(Exception):
    """A placeholder for which no tool returned anything."""


def taken(script: CellScript, outcomes: Sequence[ToolOutcome]) -> dict[str, str]:
    """What the script takes from the results that have come in, by name; failed calls give nothing."""
    values: dict[str, str] = {}
    for take in script.take:
        pattern = re.compile(take.pattern)
        for outcome in outcomes:
            if outcome.is_error or take.source not in {outcome.tool, _label(script, outcome)}:
                continue
            match = pattern.search(outcome.text)
            if match:
                for name, value in match.groupdict().items():
                    if value is not None:
                        values.setdefault(name, value)
                break
    return values


def fill(value: object, values: Mapping[str, str]) -> object:
    """A JSON value with its placeholders filled; a text that is one placeholder with `:d` becomes a number.

    Raises:
        Unfilled: There is no value for a placeholder, or it is no number where one is needed.
    """
    if isinstance(value, dict):
        return {key: fill(part, values) for key, part in cast("Json", value).items()}
    if isinstance(value, list):
        return [fill(part, values) for part in cast("list[object]", value)]
    if not isinstance(value, str):
        return value
    whole = PLACEHOLDER.fullmatch(value)
    if whole and whole.group(2):
        return _number(whole.group(1), values)
    return fill_text(value, values)


def fill_text(text: str, values: Mapping[str, str]) -> str:
    """A text with its placeholders filled; `{{` and `}}` are braces.

    Raises:
        Unfilled: There is no value for a placeholder.
    """

    def one(match: re.Match[str]) -> str:
        name = match.group(1)
        if not name:
            return match.group()[0]
        if match.group(2):
            return str(_number(name, values))
        if name not in values:
            raise Unfilled(name)
        return values[name]

    return PLACEHOLDER.sub(one, text)


def play(script: CellScript, request: Request, folder: str) -> Turn:
    """The next reply of a script, in a conversation that its own tool calls tell the length of."""
    values = {FOLDER: folder, **taken(script, request.outcomes)}
    if request.asked < len(script.steps):
        step = script.steps[request.asked]
        try:
            uses = tuple(Use(call.name, cast("Json", fill(call.input, values))) for call in step.tools)
        except Unfilled:
            return Turn(request.asked, text=script.last.fallback, fell_back=True)
        return Turn(request.asked, step.text, step.thinking, step.thinking_tokens, uses, step.faults)
    last = script.last
    at = len(script.steps)
    try:
        text = fill_text(last.text, values)
    except Unfilled:
        return Turn(at, last.fallback, last.thinking, last.thinking_tokens, faults=last.faults, fell_back=True)
    return Turn(at, text, last.thinking, last.thinking_tokens, faults=last.faults)


def play_default(tools: Sequence[str], request: Request, folder: str) -> Turn:
    """Without a script: each of the arm's tools once with a harmless input, then "rehearsal".

    Read comes in a step of its own, because it needs a file that another tool has found; with none it is given the
    folder, which it refuses.
    """
    wanted = [name for name in tools if name not in UNTOUCHED]
    steps = [names for names in ([n for n in wanted if n != "Read"], [n for n in wanted if n == "Read"]) if names]
    if request.asked >= len(steps):
        return Turn(request.asked, REHEARSAL)
    found = re.compile(r"^(?!Found |No )(?P<path>[^:\n]+\.\w+)(?=:|$)", re.MULTILINE)
    matches = (found.search(outcome.text) for outcome in request.outcomes if not outcome.is_error)
    path = next((match["path"] for match in matches if match), "")
    uses = tuple(Use(name, _harmless(name, request, folder, path)) for name in steps[request.asked])
    return Turn(request.asked, uses=uses)


def judge_text(script: JudgeScript | None, prompt: str) -> str:
    """A judge's reply: a sentence, then the verdict as a JSON object on the last line.

    Where no rule says anything there is no verdict: none is made up.

    Args:
        script: The question's judge.
        prompt: The judge's prompt, in which the answer stands between `<answer>` and `</answer>`.
    """
    if script is None:
        return REHEARSAL
    answer = answer_part(prompt)
    for number, rule in enumerate(script.rules, 1):
        if re.search(rule.regex, answer):
            return f'Rule {number} of the script fits this answer.\n{{"verdict": "{rule.verdict}"}}'
    if script.otherwise is None:
        return "No rule of the script fits this answer."
    return f'No rule of the script fits this answer.\n{{"verdict": "{script.otherwise}"}}'


def answer_part(prompt: str) -> str:
    """What stands between the first `<answer>` and the last `</answer>`; the whole prompt where they are missing."""
    opens = prompt.find(ANSWER_OPENS)
    closes = prompt.rfind(ANSWER_CLOSES)
    if opens < 0 or closes < opens:
        return prompt
    return prompt[opens + len(ANSWER_OPENS) : closes].strip()


def _label(script: CellScript, outcome: ToolOutcome) -> str | None:
    if outcome.step < len(script.steps) and outcome.index < len(script.steps[outcome.step].tools):
        return script.steps[outcome.step].tools[outcome.index].label or None
    return None


def _number(name: str, values: Mapping[str, str]) -> int:
    try:
        return int(values[name])
    except (KeyError, ValueError) as error:
        raise Unfilled(name) from error


def _harmless(name: str, request: Request, folder: str, path: str) -> Mapping[str, object]:
    match name:
        case "Grep":
            return {"pattern": ".", "head_limit": 1}
        case "Glob":
            return {"pattern": "*"}
        case "Read":
            return {"file_path": path if path.startswith("/") else f"{folder.rstrip('/')}/{path}", "limit": 1}
        case "Bash":
            command = f'xq "{ANY_CODE}"' if re.search(r"\bxq\b", request.opening) else "ls"
            return {"command": command, "description": "Rehearsal"}
        case "WebFetch":
            return {"url": "https://127.0.0.1/", "prompt": REHEARSAL}
        case "Task" | "Agent":
            return {
                "description": REHEARSAL,
                "prompt": "Answer with the word rehearsal.",
                "subagent_type": "general-purpose",
            }
        case _:
            return _from_schema(request.tools.get(name, {}))


_SAMPLES: Final[Mapping[str, object]] = {
    "string": REHEARSAL,
    "integer": 1,
    "number": 1,
    "boolean": False,
    "array": [],
    "object": {},
}


def _from_schema(schema: Json) -> Json:
    """The required arguments of a tool, each with a sample of its type."""
    properties = schema.get("properties")
    required = schema.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return {}
    arguments: Json = {}
    for name in cast("list[object]", required):
        described = cast("Json", properties).get(str(name))
        one = cast("Json", described) if isinstance(described, dict) else {}
        choices = one.get("enum")
        if isinstance(choices, list) and choices:
            arguments[str(name)] = cast("list[object]", choices)[0]
        else:
            arguments[str(name)] = _SAMPLES.get(str(one.get("type")), REHEARSAL)
    return arguments
