"""`runs/verdicts/<judge>.jsonl`: what one judge decided, append-only; an undo is a line too.

A line that cannot be read is reported by its number and loses no other line. A skip is no verdict and leaves no line.
"""

import hashlib
import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec

from tokenbench.clock import Clock
from tokenbench.decoding import UNREADABLE
from tokenbench.errors import GradingError
from tokenbench.files import append_line, private_folder
from tokenbench.grading.items import BlindItem, Seen
from tokenbench.text import one_line
from tokenbench.transcripts.evidence import Runs

Decision = Literal["correct", "wrong", "abstained", "unknown"]
"""`unknown` is "cannot say", and what a reply of a model judge is that holds no verdict."""
DECISIONS: Final[tuple[Decision, ...]] = get_args(Decision)

_JUDGE: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}", re.ASCII)


def check_judge(name: str) -> str:
    """The name, if a judge may have it: it becomes the name of a file.

    Raises:
        GradingError: It may not.
    """
    if not _JUDGE.fullmatch(name):
        raise GradingError(
            f"`{one_line(name, 60)}` cannot be a judge's name",
            remedy="Use 1 to 40 of a-z, 0-9, - and _, beginning with a letter or digit",
        )
    return name


class Act(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line: a verdict, or the undoing of an earlier line."""

    act: str
    """Random name of this line, by which it can be undone."""
    t: float
    """Seconds since the Unix epoch."""
    item: str | None = None
    verdict: Decision | None = None
    seen: Seen | None = None
    note: str = ""
    seconds: float | None = None
    """How long the judge looked at the item."""
    model: str | None = None
    """The model, where the judge is one."""
    failed: bool = False
    """model judges: there was no reply to read a verdict from; `note` says why."""
    scripted: bool = False
    """The judge was a scripted model."""
    undoes: str | None = None
    """The act that this one takes back."""


class Placed(msgspec.Struct, frozen=True):
    """An act and where it stands in its file."""

    act: Act
    line: int
    """1 is the first."""
    end: int
    """Bytes of the file up to the end of this line."""


class JudgeLog(msgspec.Struct, frozen=True, kw_only=True):
    """A file of verdicts, read."""

    judge: str
    standing: Mapping[str, Placed]
    """The verdict that holds, by item."""
    order: tuple[Placed, ...]
    """Verdicts that were not undone, in the order they were given; a later one on the same item stands for it."""
    problems: tuple[str, ...]
    """`verdicts/ann.jsonl:3: what is wrong`."""
    size: int
    """Bytes."""


def _read_act(raw: bytes) -> Act | str:
    """The act on a line, or what is wrong with it."""
    try:
        act = msgspec.json.decode(raw, type=Act)
    except UNREADABLE as error:
        return f"is no verdict and was left out: {error}"
    if act.undoes is not None:
        return act if act.item is None and act.verdict is None else "is a verdict and an undo at once, and was left out"
    if act.item is None or act.verdict is None or act.seen is None:
        return "lacks its item, its verdict or what it is bound to, and was left out"
    return act


def read_log(path: Path, blind: Callable[[Act, int], bool] = lambda _act, _end: True) -> JudgeLog:
    """Read one judge's file; one that is not there holds nothing.

    Args:
        path: The file.
        blind: Whether an act was done blind, from the act and the bytes up to its end. What was decided blind is
            neither replaced nor taken back by an act that was not.

    Raises:
        GradingError: It is there but cannot be opened.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        data = b""
    except OSError as error:
        raise GradingError(
            f"cannot be read: {error.strerror}", where=str(path), remedy="Mend its permissions"
        ) from error
    place = f"{path.parent.name}/{path.name}"
    placed: dict[str, Placed] = {}
    problems: list[str] = []
    end = 0
    for number, raw in enumerate(data.split(b"\n"), 1):
        end = min(len(data), end + len(raw) + 1)
        if not raw.strip():
            continue
        act = _read_act(raw)
        if isinstance(act, str):
            problems.append(f"{place}:{number}: {act}")
        elif act.act in placed:
            problems.append(f"{place}:{number}: repeats the line of act {one_line(act.act, 20)}, and was left out")
        elif act.undoes is None:
            placed[act.act] = Placed(act, number, end)
        elif act.undoes not in placed:
            problems.append(f"{place}:{number}: takes back a line that is not there")
        elif blind(placed[act.undoes].act, placed[act.undoes].end) and not blind(act, end):
            problems.append(f"{place}:{number}: takes back a blind verdict and is not blind; the verdict stands")
        else:
            del placed[act.undoes]
    order = tuple(placed.values())
    standing: dict[str, Placed] = {}
    for entry in order:
        item = entry.act.item or ""
        before = standing.get(item)
        if before is not None and blind(before.act, before.end) and not blind(entry.act, entry.end):
            problems.append(f"{place}:{entry.line}: changes a blind verdict and is not blind; the earlier one stands")
        else:
            standing[item] = entry
    return JudgeLog(judge=path.stem, standing=standing, order=order, problems=tuple(problems), size=len(data))


def judges(runs: Runs) -> tuple[str, ...]:
    """Names of the judges that have files."""
    return tuple(sorted(path.stem for path in runs.verdicts.glob("*.jsonl") if _JUDGE.fullmatch(path.stem)))


class Verdicts:
    """The writing end of one judge's file. Each verdict is on the disk before the call returns.

    Args:
        runs: The results folder.
        judge: The judge's name.
        clock: Gives the time of a verdict.

    Raises:
        GradingError: The name may not be a judge's.
    """

    def __init__(self, runs: Runs, judge: str, clock: Clock) -> None:
        self.judge = check_judge(judge)
        self.path = runs.verdicts / f"{judge}.jsonl"
        self._clock = clock

    def read(self) -> JudgeLog:
        """What the file holds now."""
        return read_log(self.path)

    def give(
        self,
        item: BlindItem,
        verdict: Decision,
        *,
        note: str = "",
        seconds: float | None = None,
        model: str | None = None,
        failed: bool = False,
        scripted: bool = False,
    ) -> Act:
        """Write a verdict on an item; it replaces an earlier one of this judge.

        Raises:
            RunsError: The disk is full, or the file may not be written.
        """
        act = Act(
            act=secrets.token_hex(6),
            t=self._clock.now(),
            item=item.id,
            verdict=verdict,
            seen=item.seen,
            note=note.encode("utf-8", "replace").decode(),
            seconds=seconds,
            model=model,
            failed=failed,
            scripted=scripted,
        )
        self._append(act)
        return act

    def undo(self) -> Act | None:
        """Take back the latest verdict that stands, and return it; None when there is none left."""
        order = self.read().order
        if not order:
            return None
        last = order[-1].act
        self._append(Act(act=secrets.token_hex(6), t=self._clock.now(), undoes=last.act))
        return last

    def _append(self, act: Act) -> None:
        private_folder(self.path.parent)
        append_line(self.path, msgspec.json.encode(act))


class LogState(msgspec.Struct, frozen=True):
    """How long a judge's file was when the queue was locked, and what it held."""

    bytes: int
    sha256: str


def log_state(path: Path) -> LogState:
    """The state of a judge's file now."""
    data = path.read_bytes()
    return LogState(len(data), hashlib.sha256(data).hexdigest())


def unchanged_since(path: Path, state: LogState) -> bool:
    """Whether the file still begins with what it held when the queue was locked."""
    with path.open("rb") as file:
        head = file.read(state.bytes)
    return len(head) == state.bytes and hashlib.sha256(head).hexdigest() == state.sha256
