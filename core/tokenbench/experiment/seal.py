"""The seal: what must not change after the first counted run, and what has changed since.

What is sealed is meaning, not bytes: a comment in tokenbench.toml, the order of keys or a byte order mark may change.
The sha256 of each file is kept beside it, so that anybody can check a copy with `sha256sum`.

Of tokenbench.toml these may change without breaking the seal, because they decide how an experiment is carried out and
not what it measures (`FREE`):

- `experiment.concurrency`, which can be set while it runs;
- `limits.experiment_tokens` and `limits.experiment_usd`: a limit that was reached is raised to go on;
- `limits.attempts`: how often infrastructure may spoil a cell before it is given up;
- `agents.claude.path` and `corpus.path`, places on one machine: what lies there is sealed by version and by content.

The limits of a run (time, silence, turns, USD) decide whether an answer comes, so they are sealed.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast

import msgspec

from tokenbench.decoding import UNREADABLE
from tokenbench.errors import RunsError
from tokenbench.experiment.config import CONFIG_FILE, QUESTIONS_FILE
from tokenbench.experiment.model import Cell, Config, Loaded
from tokenbench.experiment.plan import plan_cells
from tokenbench.files import write_atomically
from tokenbench.text import one_line

FORMAT: Final = 1
"""Version of the seal's shape."""
FREE: Final = frozenset(
    {
        "experiment.concurrency",
        "limits.experiment_tokens",
        "limits.experiment_usd",
        "limits.attempts",
        "agents.claude.path",
        "corpus.path",
    }
)
"""Keys of tokenbench.toml that may change after the first run."""


class Confined(msgspec.Struct, frozen=True, kw_only=True):
    """Whether and how the agents are confined."""

    confined: bool
    tool: str = ""
    """`bubblewrap 0.8.0`; a later one may take its place."""
    reason: str = ""
    """Why they are not."""
    argv: tuple[str, ...] = ()
    """How they are, without what belongs to one machine or run."""


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    """`runs/seal.json`."""

    format: int = FORMAT
    scripted: bool
    """Whether the model is scripted: then nothing below it is a measurement."""
    model: str
    config: dict[str, str]
    """Each sealed key of tokenbench.toml, `experiment.repeats`, and its value as JSON, defaults written out."""
    questions: dict[str, str]
    """sha256 of each question, by id, in the order of the file; of its canonical JSON."""
    prompts: dict[str, str]
    """sha256 of each arm's prompt, by arm."""
    files: dict[str, str]
    """sha256 of the bytes of tokenbench.toml, questions.jsonl and the prompts, by path: to check a copy with."""
    corpus_sha256: str
    """Of the tree's content."""
    index_sha256: str | None
    """None where no arm uses the index."""
    template_sha256: str
    """Of the query template of `xq`."""
    calibration_sha256: str | None = None
    """None until characters per token are measured."""
    agents: dict[str, str]
    """Version of each agent CLI, by name."""
    environment: dict[str, str]
    """The agent's environment, values included: they stand in its prompt."""
    sandbox: Confined | None = None
    """None where nothing was said of it."""
    servers: dict[str, str] = {}
    """sha256 of what each MCP server said of itself, by `arm.server`; one that said nothing is left out."""
    plan: tuple[str, ...]
    """Every cell, in its planned order."""


def seal_of(
    loaded: Loaded,
    *,
    scripted: bool,
    corpus_sha256: str,
    index_sha256: str | None,
    template_sha256: str,
    agents: Mapping[str, str],
    environment: Mapping[str, str],
    plan: Sequence[Cell],
    calibration_sha256: str | None = None,
    sandbox: Confined | None = None,
    servers: Mapping[str, str] = MappingProxyType({}),
) -> Seal:
    """The seal of an experiment as it was loaded.

    Args:
        loaded: The experiment.
        scripted: Whether the model is scripted.
        corpus_sha256: Of the corpus' tree.
        index_sha256: Of the retrieval index, None if no arm uses it.
        template_sha256: Of the query template of `xq`.
        agents: Version of each agent CLI, by name.
        environment: Names and values that every agent process is given; nothing that differs between runs.
        plan: All cells in their order.
        calibration_sha256: Of calibration.json, once there is one.
        sandbox: How runs are confined.
        servers: sha256 of what each MCP server said of itself, by `arm.server`.
        sandbox: Whether and how the agents are confined.
        servers: sha256 of what each MCP server said of itself, by `arm.server`.

    Raises:
        RunsError: A file of the experiment vanished since it was loaded.
    """
    return Seal(
        scripted=scripted,
        model=loaded.config.experiment.model,
        config=sealed_config(loaded.config),
        questions={question.id: _canonical_sha256(question) for question in loaded.questions},
        prompts={arm: hashlib.sha256(text.encode()).hexdigest() for arm, text in loaded.prompts.items()},
        files=_files(loaded),
        corpus_sha256=corpus_sha256,
        index_sha256=index_sha256,
        template_sha256=template_sha256,
        calibration_sha256=calibration_sha256,
        agents=dict(agents),
        environment=dict(environment),
        sandbox=sandbox,
        servers=dict(servers),
        plan=tuple(cell.name for cell in plan),
    )


def as_it_lies(sealed: Seal, loaded: Loaded) -> Seal:
    """What the seal would be now, as far as the experiment's own folder tells.

    Corpus, index, agents and environment are taken over from the seal: whoever can see them compares them with
    `msgspec.structs.replace`.
    """
    return seal_of(
        loaded,
        scripted=sealed.scripted,
        corpus_sha256=sealed.corpus_sha256,
        index_sha256=sealed.index_sha256,
        template_sha256=sealed.template_sha256,
        agents=sealed.agents,
        environment=sealed.environment,
        plan=plan_cells(loaded.config, loaded.questions),
        calibration_sha256=sealed.calibration_sha256,
        sandbox=sealed.sandbox,
        servers=sealed.servers,
    )


def sealed_config(config: Config) -> dict[str, str]:
    """The keys of tokenbench.toml that matter, each with its value as canonical JSON."""
    flat: dict[str, str] = {}

    def walk(value: object, path: str) -> None:
        if isinstance(value, dict):
            for key, inner in cast("dict[str, object]", value).items():
                walk(inner, f"{path}.{key}" if path else key)
        elif path not in FREE:
            flat[path] = msgspec.json.encode(value).decode()

    walk(msgspec.to_builtins(config), "")
    return dict(sorted(flat.items()))


def _canonical_sha256(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def _files(loaded: Loaded) -> dict[str, str]:
    names = [CONFIG_FILE, QUESTIONS_FILE, *sorted({arm.prompt for arm in loaded.config.arms.values()})]
    return {name: digest(loaded.folder / name) for name in names}


def digest(path: Path) -> str:
    """sha256 of a file's bytes, in hexadecimal digits.

    Raises:
        RunsError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise RunsError(
            f"cannot be read: {error.strerror or error}",
            where=one_line(str(path)),
            remedy="Put the file back, or make it one that you may read",
        ) from error


def write(path: Path, seal: Seal, *, replace: bool = False) -> None:
    """Write `runs/seal.json`. A seal that is there already is not overwritten, unless `replace` says so.

    Raises:
        RunsError: Another seal is there, or the folder cannot be written.
    """
    if not replace and path.exists():
        if (changed := differences(read(path), seal)) or read(path) != seal:
            raise RunsError(
                f"seals something else already: {changed[0] if changed else 'its values differ'}",
                where=one_line(str(path)),
                remedy="Put the sealed content back, or move runs/ away and start again",
            )
        return
    write_atomically(path, msgspec.json.format(msgspec.json.encode(seal), indent=1) + b"\n")


def read(path: Path) -> Seal:
    """The seal at this path.

    Raises:
        RunsError: There is none, it cannot be read as a seal, or a later version wrote it.
    """
    remedy = "Restore the file from a copy of runs/; without it no figure of these runs can be justified"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise RunsError(
            "there is no seal, so nothing has been run here",
            where=one_line(str(path)),
            remedy="Start with `tokenbench-tui rehearse`, which costs nothing",
        ) from None
    except OSError as error:
        raise RunsError(
            f"cannot be read: {error.strerror or error}", where=one_line(str(path)), remedy=remedy
        ) from error
    try:
        written = msgspec.json.decode(data, type=_Format)
        if written.format > FORMAT:
            raise RunsError(
                f"has format {written.format}, and this version knows {FORMAT}",
                where=one_line(str(path)),
                remedy="Use the version of tokenbench-tui that made it, or a later one",
            )
        return msgspec.json.decode(data, type=Seal)
    except UNREADABLE as error:
        raise RunsError(
            f"is not a seal: {one_line(str(error), 200)}", where=one_line(str(path)), remedy=remedy
        ) from error


class _Format(msgspec.Struct):
    format: int


def differences(sealed: Seal, now: Seal) -> tuple[str, ...]:
    """Sentences without a final full stop, each naming the file and what changed; empty if the seal holds."""
    found: list[str] = []
    if sealed.scripted != now.scripted:
        kinds = {True: "a scripted model", False: "a real model"}
        found.append(f"the runs are sealed with {kinds[sealed.scripted]}, and this is {kinds[now.scripted]}")
    if sealed.model != now.model:
        found.append(f"the model was {_short(sealed.model)} and is now {_short(now.model)}")
    for key, old, new in _changes(sealed.config, now.config):
        found.append(f"{CONFIG_FILE}: `{one_line(key, 80)}` {_was(old, new)}")
    for key, old, new in _changes(sealed.questions, now.questions):
        found.append(f"{QUESTIONS_FILE}: the question {one_line(key, 80)} {_happened(old, new)}")
    if not _changes(sealed.questions, now.questions) and list(sealed.questions) != list(now.questions):
        found.append(f"{QUESTIONS_FILE}: the questions stand in another order")
    for key, old, new in _changes(sealed.prompts, now.prompts):
        found.append(f"the prompt of arm {one_line(key, 80)} {_happened(old, new)}")
    for what, old, new in (
        ("the corpus", sealed.corpus_sha256, now.corpus_sha256),
        ("the retrieval index", sealed.index_sha256, now.index_sha256),
        ("the query template of `xq`", sealed.template_sha256, now.template_sha256),
        ("calibration.json", sealed.calibration_sha256, now.calibration_sha256),
    ):
        if old != new:
            found.append(f"{what} {_happened(old, new)}: sha256 {_sha(old)} was sealed, and now it is {_sha(new)}")
    for key, old, new in _changes(sealed.agents, now.agents):
        found.append(f"the version of the agent {one_line(key, 40)} {_was(old, new)}")
    if (confined := _confined(sealed.sandbox, now.sandbox)) is not None:
        found.append(confined)
    for key, digest_now in now.servers.items():
        if sealed.servers.get(key, digest_now) != digest_now:
            found.append(f"the MCP server {one_line(key, 80)} offers other tools or instructions than were sealed")
    for key, old, new in _changes(sealed.environment, now.environment):
        found.append(f"the agent's environment variable {one_line(key, 60)} {_was(old, new)}")
    if sealed.plan != now.plan and not found:
        place = next((i for i, (a, b) in enumerate(zip(sealed.plan, now.plan, strict=False)) if a != b), None)
        at = (
            f", from its cell {place + 1} on"
            if place is not None
            else f": {len(sealed.plan)} cells, now {len(now.plan)}"
        )
        found.append(f"the plan of cells is another{at}")
    return tuple(found)


def _confined(old: Confined | None, new: Confined | None) -> str | None:
    """What has changed in how agents are confined, which decides what they could reach and what stands in a prompt."""
    if old is None and new is None:
        return None
    if old is not None and new is not None and (old.confined, old.argv) == (new.confined, new.argv):
        return None
    if old is not None and new is not None and old.confined and new.confined:
        return "the agents are confined in another way"
    return f"the agents were {_how(old)} and are now {_how(new)}"


def _how(confined: Confined | None) -> str:
    if confined is None:
        return "started without a word on a sandbox"
    if confined.confined:
        return f"confined by {one_line(confined.tool, 60)}"
    return f"not confined ({one_line(confined.reason, 200)})"


def _changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[tuple[str, str | None, str | None]]:
    """Keys whose values differ, with both; None where a side has no such key."""
    keys = dict.fromkeys((*old, *new))
    return [(key, old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key)]


def _short(value: str) -> str:
    return one_line(value, 60)


def _sha(value: str | None) -> str:
    return f"{one_line(value, 12)}" if value is not None else "none"


def _was(old: str | None, new: str | None) -> str:
    if old is None:
        return f"was not there and is now {_short(new or 'empty')}"
    if new is None:
        return f"was {_short(old or 'empty')} and is gone"
    return f"was {_short(old or 'empty')} and is now {_short(new or 'empty')}"


def _happened(old: str | None, new: str | None) -> str:
    if old is None:
        return "was added"
    return "was taken away" if new is None else "has changed"
