"""tokenbench.toml, its prompts and questions.jsonl into one `Loaded`.

Whatever is wrong is said with the file, the line where it can be found, the key and what would be right.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final, NoReturn

from tokenbench.errors import ConfigError
from tokenbench.experiment import decoding
from tokenbench.experiment.decoding import WrongDataError, did_you_mean, key_path, named
from tokenbench.experiment.model import Arm, Config, CorpusSource, Limits, Loaded
from tokenbench.experiment.questions import load_questions
from tokenbench.experiment.reading import UnreadableError, read_text
from tokenbench.experiment.servers import Fail, check_servers
from tokenbench.text import one_line

CONFIG_FILE: Final = "tokenbench.toml"
QUESTIONS_FILE: Final = "questions.jsonl"

NAME: Final = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*\Z")
"""Names of arms: they become part of file names, `arm__question__r1`, so `__` must stay free."""
NAME_LIMIT: Final = 64
PACKAGE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?==[A-Za-z0-9][A-Za-z0-9.!+_-]*\Z")
SHA256: Final = re.compile(r"[0-9a-f]{64}\Z")
_CONFIG_BYTES: Final = 1 << 20
_PROMPT_BYTES: Final = 1 << 20
_MOST_REPEATS: Final = 1000
"""A plan names every cell: a slip of the finger must not fill the memory with them."""
_MOST_AT_ONCE: Final = 256
"""Agents at once; each is a process of some hundred megabytes."""


def load(folder: Path) -> Loaded:
    """The experiment in this folder, read and checked whole.

    Raises:
        ConfigError: tokenbench.toml or a prompt is missing or not what it must be.
        QuestionsError: questions.jsonl is missing or not what it must be.
    """
    config = load_config(folder / CONFIG_FILE)
    prompts = {name: _prompt(folder, name, arm) for name, arm in config.arms.items()}
    questions = load_questions(folder / QUESTIONS_FILE)
    return Loaded(folder=folder, config=config, questions=questions, prompts=prompts)


def load_config(path: Path) -> Config:
    """One tokenbench.toml, without the files that it names.

    Raises:
        ConfigError: It is missing, no TOML, or not what it must be.
    """
    text = _read(path)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, line = _syntax(str(error))
        raise ConfigError(
            f"is not TOML: {one_line(what, 200)}", where=_where(path, line), remedy="Mend the syntax of that line"
        ) from error
    except RecursionError:
        raise ConfigError("is nested too deeply", where=_where(path), remedy="Write it flat") from None
    except ValueError as error:
        raise ConfigError(
            f"holds a value that cannot be read: {one_line(str(error), 200)}",
            where=_where(path),
            remedy="Look for a number or date that is out of all bounds",
        ) from error

    def fail(keys: decoding.Path, what: str, remedy: str) -> NoReturn:
        raise ConfigError(what, where=_where(path, line_of(text, keys)), remedy=remedy)

    try:
        config = decoding.decode(Config, data)
    except WrongDataError as error:
        fail(error.path, error.what, error.remedy)
    for name, arm in config.arms.items():
        _check_arm(name, arm, fail)
    _check_experiment(config, fail)
    _check_corpus(config.corpus, fail)
    _check_limits(config.limits, fail)
    return config


def _where(path: Path, line: int | None = None) -> str:
    return one_line(str(path)) + (f":{line}" if line else "")


def _read(path: Path) -> str:
    try:
        return read_text(path, _CONFIG_BYTES)
    except UnreadableError as error:
        if error.missing:
            raise ConfigError(
                f"there is no {CONFIG_FILE} here, so this is no experiment",
                where=one_line(str(path.parent)),
                remedy="Go to the folder of an experiment, or lay one out with `tokenbench-tui init DIR`",
            ) from None
        raise ConfigError(error.what, where=_where(path, error.line), remedy=error.remedy) from error


_AT_LINE: Final = re.compile(r" ?\(at (?:line (?P<line>\d+), column \d+|end of document)\)\Z")


def _syntax(message: str) -> tuple[str, int | None]:
    """The parser's message without its place, and the line."""
    found = _AT_LINE.search(message)
    if found is None:
        return message, None
    return message[: found.start()], int(found["line"]) if found["line"] else None


_BARE_OR_QUOTED: Final = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_DOTTED: Final = rf"{_BARE_OR_QUOTED}(?:[ \t]*\.[ \t]*{_BARE_OR_QUOTED})*"
_HEADER: Final = re.compile(rf"[ \t]*\[\[?[ \t]*({_DOTTED})[ \t]*\]")
_ASSIGNMENT: Final = re.compile(rf"[ \t]*({_DOTTED})[ \t]*=")
_KEY: Final = re.compile(_BARE_OR_QUOTED)


def _keys_of(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Each table header and assignment of a TOML text, with its line; inside of multi-line strings nothing counts."""
    table: tuple[str, ...] = ()
    delimiter: str | None = None
    for number, line in enumerate(text.split("\n"), 1):
        if delimiter is not None:
            if line.count(delimiter) % 2:
                delimiter = None
            continue
        if header := _HEADER.match(line):
            table = _keys(header[1])
            yield table, number
        elif assignment := _ASSIGNMENT.match(line):
            yield (*table, *_keys(assignment[1])), number
        delimiter = next((quote for quote in ('"""', "'''") if line.count(quote) % 2), None)


def _keys(dotted: str) -> tuple[str, ...]:
    return tuple(key.strip("\"'") for key in _KEY.findall(dotted))


def line_of(text: str, path: decoding.Path) -> int | None:
    """The line of this key in the TOML text, else of the nearest table around it; None where neither is found."""
    lines: dict[tuple[str, ...], int] = {}
    for keys, line in _keys_of(text):
        lines.setdefault(keys, line)
    wanted = tuple(str(part) for part in path)
    return next((lines[wanted[:end]] for end in range(len(wanted), 0, -1) if wanted[:end] in lines), None)


def _check_experiment(config: Config, fail: Fail) -> None:
    experiment = config.experiment
    for key, text in (("name", experiment.name), ("model", experiment.model)):
        if not text.strip():
            fail(("experiment", key), f"`experiment.{key}` is empty", "Write a name between the quotes")
    for key, number, least, most in (
        ("repeats", experiment.repeats, 1, _MOST_REPEATS),
        ("concurrency", experiment.concurrency, 1, _MOST_AT_ONCE),
        ("warmups", experiment.warmups, 0, _MOST_REPEATS),
    ):
        if number < least:
            fail(("experiment", key), f"`experiment.{key}` is {number}", f"It must be {least} or more")
        if number > most:
            fail(("experiment", key), f"`experiment.{key}` is {number}", f"It must be {most} or less")
    if not config.arms:
        fail(("arms",), "`arms` names no arm", "Add one: `[arms.native]` with `tools` and `prompt`")
    for key, arm in (("baseline", experiment.baseline), ("headline_arm", experiment.headline_arm)):
        if arm not in config.arms:
            fail(
                ("experiment", key),
                f"`experiment.{key}` is `{one_line(arm, 60)}`, and no arm has that name",
                f"Set it to one of the arms: {named(config.arms)}",
            )
    if not 0 <= config.grading.audit_share <= 1:
        fail(
            ("grading", "audit_share"),
            f"`grading.audit_share` is {config.grading.audit_share}",
            "It is a share: write a number from 0 to 1",
        )


def _check_arm(name: str, arm: Arm, fail: Fail) -> None:
    where = ("arms", name)
    if not NAME.match(name) or len(name) > NAME_LIMIT:
        fail(
            where,
            f"`{key_path(where)}` cannot be the name of an arm",
            f"Use at most {NAME_LIMIT} of a-z, 0-9 and single underscores between them: file names are made of it",
        )
    for key, names in (("tools", arm.tools), ("allowed", arm.allowed), ("disallowed", arm.disallowed)):
        for position, item in enumerate(names):
            shown = key_path((*where, key, position))
            if not item.strip():
                fail((*where, key), f"`{shown}` is empty", "Name a tool, or take it out")
            if item in names[:position]:
                fail((*where, key), f"`{shown}` names {one_line(item, 60)} a second time", "Take one of the two out")
    if both := set(arm.allowed) & set(arm.disallowed):
        fail(
            (*where, "disallowed"),
            f"`{key_path(where)}` both allows and disallows {named(sorted(both))}",
            "Decide for one of the two lists",
        )
    if arm.model is not None and not arm.model.strip():
        fail((*where, "model"), f"`{key_path((*where, 'model'))}` is empty", "Name a model, or take the key out")
    check_servers(name, arm, fail)
    if not _stays_inside(arm.prompt):
        fail(
            (*where, "prompt"),
            f"`{key_path((*where, 'prompt'))}` is `{one_line(arm.prompt, 100)}`",
            "Name a file below the experiment's own folder, such as `prompts/native.md`",
        )


def _stays_inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(path.strip()) and "\0" not in path and not path.startswith(("/", "~")) and ".." not in parts


def _check_corpus(source: CorpusSource, fail: Fail) -> None:
    needed = {"folder": ("path",), "pypi": ("package", "sha256")}[source.kind]
    foreign = {"folder": ("package",), "pypi": ("path",)}[source.kind]
    for key in needed:
        if getattr(source, key) is None:
            fail(("corpus", key), f"`corpus.{key}` is missing", f'A corpus of kind "{source.kind}" needs it: add it')
    for key in foreign:
        if getattr(source, key) is not None:
            fail(
                ("corpus", key),
                f'`corpus.{key}` does not belong to a corpus of kind "{source.kind}"',
                f"Take it out; this kind has: {named((*needed, 'sha256'))}",
            )
    if source.path is not None and (not source.path.strip() or "\0" in source.path):
        fail(("corpus", "path"), "`corpus.path` is empty or holds a NUL", "Name the folder of the corpus")
    if source.package is not None and not PACKAGE.match(source.package):
        fail(
            ("corpus", "package"),
            f"`corpus.package` is `{one_line(source.package, 60)}`",
            "Pin one version, as `click==8.1.8`",
        )
    if source.sha256 is not None and not SHA256.match(source.sha256):
        fail(
            ("corpus", "sha256"),
            f"`corpus.sha256` is `{one_line(source.sha256, 70)}`",
            "Write the 64 hexadecimal digits, in lower case, of the archive (kind pypi) or of the tree (kind folder)",
        )


def _check_limits(limits: Limits, fail: Fail) -> None:
    for key, number in (
        ("run_wall_seconds", limits.run_wall_seconds),
        ("run_silence_seconds", limits.run_silence_seconds),
        ("run_turns", limits.run_turns),
        ("run_usd", limits.run_usd),
        ("experiment_tokens", limits.experiment_tokens),
        ("experiment_usd", limits.experiment_usd),
        ("attempts", limits.attempts),
    ):
        if number is not None and number <= 0:
            fail(
                ("limits", key),
                f"`limits.{key}` is {number}, so nothing could ever run",
                "Write a number above 0, or take the key out",
            )


def _prompt(folder: Path, name: str, arm: Arm) -> str:
    """The prompt of one arm: UTF-8, not empty, below the experiment's folder; a byte order mark is dropped."""
    path = folder / arm.prompt
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(
            f"{one_line(arm.prompt, 100)} leads out of the experiment's folder",
            where=f"{_where(folder / CONFIG_FILE)}: arms.{name}.prompt",
            remedy="Copy the prompt into the experiment, so that it can be sealed with it",
        )
    try:
        text = read_text(path, _PROMPT_BYTES)
    except UnreadableError as error:
        if not error.missing:
            raise ConfigError(
                f"the prompt of arm {name} {error.what}", where=_where(path, error.line), remedy=error.remedy
            ) from error
        near = sorted(entry.relative_to(folder).as_posix() for entry in folder.glob("prompts/*.md"))
        raise ConfigError(
            f"the prompt of arm {name} does not exist",
            where=_where(path),
            remedy=f"Write it, or name another in arms.{name}.prompt. {did_you_mean(arm.prompt, near)}",
        ) from None
    if not text.strip():
        raise ConfigError(
            f"the prompt of arm {name} is empty",
            where=_where(path),
            remedy="Write what the agent is told before the question",
        )
    return text
