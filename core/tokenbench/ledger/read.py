"""Ledgers of files: one, or several of which session files share their history."""

import gc
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeVar, cast

import msgspec

from tokenbench.errors import TranscriptError
from tokenbench.ledger.build import LedgerBuilder
from tokenbench.ledger.model import Ledger
from tokenbench.ledger.pool import in_order
from tokenbench.ledger.prices import PriceTable
from tokenbench.ledger.process import Models, merged
from tokenbench.transcripts.evidence import Record
from tokenbench.transcripts.lines import read_many

_Told = TypeVar("_Told")
_ENDS: Final = 1 << 16
"""Bytes that are looked at on either end of a file to see whether it is a session file, and of when."""
_WORTH_A_PROCESS: Final = 16_000_000
"""Bytes of transcripts from which on a second process is worth its start."""
_MOST_PROCESSES: Final = 2
"""Each takes the memory of one ledger, and reading is soon bound by memory, not by cores."""


def read_ledger(
    path: Path,
    *,
    resumed_from: Path | None = None,
    record: Record | None = None,
    prices: PriceTable | None = None,
) -> Ledger:
    """The ledger of one transcript.

    Args:
        path: A transcript, or a session file of `~/.claude/projects`.
        resumed_from: The transcript that this one resumed, whose totals it carries on.
        record: How the run was closed, where it is known.
        prices: Recomputes the CLI's costs; without, they stay PRICE-UNKNOWN.

    Raises:
        TranscriptError: A file cannot be read at all.
    """
    with _no_search_for_cycles():
        earlier = _totals(resumed_from) if resumed_from is not None else None
        return _read(path, prices).finish(record=record, earlier=earlier, notes=_beside(path))


def read_ledgers(
    paths: Sequence[Path],
    *,
    resumed_from: Path | None = None,
    records: Sequence[Record | None] = (),
    prices: Sequence[PriceTable | None] = (),
) -> Iterator[Ledger]:
    """Ledgers in the order of the files, each as soon as it can be told; `tell_ledgers` has the rest."""
    return tell_ledgers(paths, [_itself] * len(paths), resumed_from=resumed_from, records=records, prices=prices)


def tell_ledgers(
    paths: Sequence[Path],
    tell: Sequence[Callable[[Ledger], _Told]],
    *,
    resumed_from: Path | None = None,
    records: Sequence[Record | None] = (),
    prices: Sequence[PriceTable | None] = (),
) -> Iterator[_Told]:
    """What is to be said of each ledger, in the order of the files, each as soon as it can be told.

    A call that several session files hold (resuming and forking copy what was said before) belongs to the earliest of
    them; only for that is a file read out of turn.

    Args:
        paths: Transcripts.
        tell: For each file what makes of its ledger what is wanted. It is called where the file was read, which may
            be another process, so that a long ledger need not be handed over.
        resumed_from: The transcript that all of them resumed.
        records: How each run was closed, in the order of the files.
        prices: The price table of each.

    Raises:
        TranscriptError: A file cannot be read at all.
    """
    sessions = {index: period for index, path in enumerate(paths) if (period := _period(path)) is not None}
    order = sorted(sessions, key=lambda index: (*sessions[index], index)) if len(sessions) > 1 else []
    owned: frozenset[str] = frozenset()
    ready: dict[int, Ledger] = {}
    pending = list(order)
    jobs = [
        _Job(
            tell[index],
            path,
            resumed_from,
            records[index] if index < len(records) else None,
            prices[index] if index < len(prices) else None,
        )
        for index, path in enumerate(paths)
        if index not in order
    ]
    others = in_order(_told, jobs, _processes([job.path for job in jobs]))
    for index in range(len(paths)):
        if index not in order:
            yield cast(_Told, next(others))
            continue
        while index not in ready:
            earliest = pending.pop(0)
            builder = _read(paths[earliest], prices[earliest] if earliest < len(prices) else None)
            ready[earliest] = builder.finish(owned_elsewhere=owned, notes=_beside(paths[earliest]))
            owned |= builder.owned()
        yield tell[index](ready.pop(index))


class _Job(NamedTuple):
    tell: Callable[[Ledger], object]
    path: Path
    resumed_from: Path | None
    record: Record | None
    prices: PriceTable | None


def _told(job: _Job) -> object:
    found = read_ledger(job.path, resumed_from=job.resumed_from, record=job.record, prices=job.prices)
    return job.tell(found)


def _itself(ledger: Ledger) -> Ledger:
    return ledger


def _processes(paths: Sequence[Path]) -> int:
    size = sum(path.stat().st_size for path in paths if path.is_file())
    return min(_MOST_PROCESSES, os.cpu_count() or 1) if size > _WORTH_A_PROCESS else 1


def _read(path: Path, prices: PriceTable | None = None) -> LedgerBuilder:
    # A file name need not be UTF-8; JSON has to be.
    name = str(path).encode(errors="surrogateescape").decode(errors="replace")
    builder = LedgerBuilder(transcript=name, prices=prices)
    with _no_search_for_cycles():
        many = read_many(path)
        while (lines := next(many, None)) is not None:
            builder.feed_many(lines)
            # Before the next ones are read: two of them could be 100 MB each.
            del lines
    return builder


@contextmanager
def _no_search_for_cycles() -> Generator[None]:
    """Nothing that is built here refers back to itself; looking for cycles in all that has been built costs a fifth."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _totals(path: Path) -> Models:
    """The last totals by model of a transcript.

    Raises:
        TranscriptError: It holds none.
    """
    ended = _read(path).ended
    models = ended[-1].models if ended else None
    if models is None:
        raise TranscriptError(
            "holds no totals that could be carried over",
            where=str(path),
            remedy="Name the transcript, with its result event, of the session that was resumed",
        )
    return merged(models)


def _beside(path: Path) -> tuple[str, ...]:
    """A session's subagents have files of their own, in a folder named like it."""
    folder = path.with_suffix("") / "subagents"
    return ("SUBAGENT-FILES-NOT-READ",) if folder.is_dir() and any(folder.glob("*.jsonl")) else ()


class _Stamp(msgspec.Struct):
    session: str | None = msgspec.field(default=None, name="sessionId")
    stream_session: str | None = msgspec.field(default=None, name="session_id")
    timestamp: str | None = None


def _period(path: Path) -> tuple[str, str] | None:
    """First and last time stamp of a session file; None for anything else, of which nothing is read."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            head = file.read(_ENDS)
            size = file.seek(0, 2)
            file.seek(max(0, size - _ENDS))
            tail = file.read()
    except OSError:
        return None
    stamps = [stamp for line in head.split(b"\n") if (stamp := _stamp(line)) is not None]
    if any(stamp.stream_session for stamp in stamps) or not any(stamp.session for stamp in stamps):
        return None
    first = next((stamp.timestamp for stamp in stamps if stamp.timestamp), "")
    ends = [stamp for line in tail.split(b"\n") if (stamp := _stamp(line)) is not None]
    last = next((stamp.timestamp for stamp in reversed(ends) if stamp.timestamp), first)
    return first, last


def _stamp(line: bytes) -> _Stamp | None:
    try:
        return msgspec.json.decode(line, type=_Stamp)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
