"""Ledgers of files: one, or several of which session files share their history."""

import gc
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tokenbench.errors import TranscriptError
from tokenbench.ledger.build import LedgerBuilder
from tokenbench.ledger.model import Ledger
from tokenbench.ledger.pool import in_order
from tokenbench.ledger.prices import PriceTable
from tokenbench.ledger.process import Models, merged
from tokenbench.transcripts.evidence import Record
from tokenbench.transcripts.lines import read_lines

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
    earlier = _totals(resumed_from) if resumed_from is not None else None
    return _read(path, prices).finish(record=record, earlier=earlier, notes=_beside(path))


def read_ledgers(
    paths: Sequence[Path],
    *,
    resumed_from: Path | None = None,
    records: Sequence[Record | None] = (),
    prices: Sequence[PriceTable | None] = (),
) -> Iterator[Ledger]:
    """Ledgers in the order of the files, each as soon as it can be told.

    A call that several session files hold (resuming and forking copy what was said before) belongs to the earliest of
    them; only for that is a file read out of turn.

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
            path,
            resumed_from,
            records[index] if index < len(records) else None,
            prices[index] if index < len(prices) else None,
        )
        for index, path in enumerate(paths)
        if index not in order
    ]
    others = in_order(_ledger, jobs, _processes([job.path for job in jobs]))
    for index in range(len(paths)):
        if index not in order:
            yield next(others)
            continue
        while index not in ready:
            earliest = pending.pop(0)
            builder = _read(paths[earliest], prices[earliest] if earliest < len(prices) else None)
            ready[earliest] = builder.finish(owned_elsewhere=owned, notes=_beside(paths[earliest]))
            owned |= builder.owned()
        yield ready.pop(index)


class _Job(NamedTuple):
    path: Path
    resumed_from: Path | None
    record: Record | None
    prices: PriceTable | None


def _ledger(job: _Job) -> Ledger:
    return read_ledger(job.path, resumed_from=job.resumed_from, record=job.record, prices=job.prices)


def _processes(paths: Sequence[Path]) -> int:
    size = sum(path.stat().st_size for path in paths if path.is_file())
    return min(_MOST_PROCESSES, os.cpu_count() or 1) if size > _WORTH_A_PROCESS else 1


def _read(path: Path, prices: PriceTable | None = None) -> LedgerBuilder:
    # A file name need not be UTF-8; JSON has to be.
    name = str(path).encode(errors="surrogateescape").decode(errors="replace")
    builder = LedgerBuilder(transcript=name, prices=prices)
    # Nothing that is built here refers back to itself; looking for cycles in all that has been built costs a fifth.
    collecting = gc.isenabled()
    gc.disable()
    try:
        for line in read_lines(path):
            builder.feed(line)
    finally:
        if collecting:
            gc.enable()
    return builder


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
