"""Closing a run so that a crash at any moment leaves it either closed or under way.

The order is: the transcript is on the disk as `*.part`; the record is written, and with it the run is closed; the
transcript gets its final name; the journal is told. A crash between two of these steps is finished by the next runner
(`recovery`), because the record names the transcript's sha256.
"""

import glob
import re
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tokenbench.errors import RunsError
from tokenbench.files import sync_folder
from tokenbench.runner.schedule import Job
from tokenbench.transcripts.evidence import Record, Runs, read_record, write_record

_ATTEMPT: Final = re.compile(r"(.+)__a(\d+)\.jsonl?")


class Files(NamedTuple):
    """The files of one job's run, under way and closed."""

    stem: str
    partial: Path
    transcript: Path
    record: Path


def files_of(runs: Runs, job: Job) -> Files:
    """Where the run that counts for a job (or the warm-up) is written."""
    transcript = runs.transcript(job.cell) if job.cell is not None else runs.warmup(job.arm, job.number)
    return Files(job.stem, _part(transcript), transcript, transcript.with_suffix(".json"))


def attempt_files(runs: Runs, job: Job, attempt: int) -> Files:
    """Where an attempt that does not count ends up; it is written where the run that counts would be."""
    stem = f"{job.stem}__a{attempt}"
    transcript = runs.attempts / f"{stem}.jsonl"
    return Files(stem, files_of(runs, job).partial, transcript, transcript.with_suffix(".json"))


def _part(transcript: Path) -> Path:
    return transcript.with_name(f"{transcript.name}.part")


def attempts_made(runs: Runs, stem: str) -> int:
    """The highest number of an attempt of this job that did not count; 0 for none."""
    numbers = [0]
    for path in runs.attempts.glob(f"{glob.escape(stem)}__a*.json*"):
        match = _ATTEMPT.fullmatch(path.name)
        if match is not None and match[1] == stem:
            numbers.append(int(match[2]))
    return max(numbers)


def close(runs: Runs, job: Job, files: Files, record: Record) -> None:
    """Close a run: its record first, then the names of its files.

    Raises:
        RunsError: The disk is full, or the folder may not be written; the transcript stays as `*.part`.
    """
    write_record(files.record, record)
    settle(runs, job, files)


def settle(runs: Runs, job: Job, files: Files) -> None:
    """Give the files of a closed run their names; done twice it does nothing more.

    Raises:
        RunsError: The folder may not be written.
    """
    try:
        # The transcript moves last: as long as it is `*.part`, the next runner knows that this is unfinished.
        if files.stem != job.stem:
            _move_logs(runs, job.stem, files.stem)
        if files.partial.exists():
            files.partial.replace(files.transcript)
        sync_folder(files.transcript.parent)
        if files.transcript.parent != files.partial.parent:
            sync_folder(files.partial.parent)
    except OSError as error:
        raise RunsError(
            f"could not be given its name: {error.strerror or error}",
            where=str(files.transcript),
            remedy="Free space or mend the permissions there, then start again; the run is closed and is not repeated",
        ) from error


def number_apart(runs: Runs, stem: str, record: Record) -> int:
    """The number under which a run that counts is kept among the attempts, once its cell is run again."""
    return max(attempts_made(runs, stem) + 1, record.attempt)


def set_aside(runs: Runs, job: Job, attempt: int, reason: str) -> None:
    """Make an attempt of the run that counts for a cell; done twice, or begun and done again, it does nothing more.

    The journal knows of it before (`rerun`), so the next runner finishes what a crash left. At every moment the run
    counts whole, or is kept whole: its record is copied, its logs and then its transcript move, and last the record
    that made it count is removed.

    Args:
        runs: The results.
        job: The cell.
        attempt: The number under which the run is kept.
        reason: Why the cell is run again.

    Raises:
        RunsError: The disk is full, or the folder may not be written.
    """
    here, there = files_of(runs, job), attempt_files(runs, job, attempt)
    record = read_record(here.record)
    try:
        if record is not None:
            write_record(there.record, msgspec.structs.replace(record, set_aside=reason))
            _move_logs(runs, job.stem, there.stem)
            if here.transcript.exists():
                here.transcript.replace(there.transcript)
            sync_folder(runs.attempts)
            sync_folder(runs.folder)
            here.record.unlink()
            sync_folder(runs.folder)
    except OSError as error:
        raise RunsError(
            f"could not be kept among the attempts: {error.strerror or error}",
            where=str(here.transcript),
            remedy="Free space or mend the permissions there, then start again; nothing is lost",
        ) from error


def _move_logs(runs: Runs, stem: str, kept: str) -> None:
    """What was written beside a transcript goes where the transcript goes."""
    for here, there in (
        (runs.stderr(stem), runs.stderr(kept)),
        (runs.query_log(stem), runs.query_log(kept)),
    ):
        if here.exists():
            here.replace(there)
