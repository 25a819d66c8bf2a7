"""Closing a run so that a crash at any moment leaves it either closed or under way.

The order is: the transcript is on the disk as `*.part`; the record is written, and with it the run is closed; the
transcript gets its final name; the journal is told. A crash between two of these steps is finished by the next runner
(`recovery`), because the record names the transcript's sha256.
"""

import glob
import re
from pathlib import Path
from typing import Final, NamedTuple

from tokenbench.errors import RunsError
from tokenbench.files import sync_folder
from tokenbench.runner.schedule import Job
from tokenbench.transcripts.evidence import Record, Runs, write_record

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
            for here, there in (
                (runs.stderr(job.stem), runs.stderr(files.stem)),
                (runs.query_log(job.stem), runs.query_log(files.stem)),
            ):
                if here.exists():
                    here.replace(there)
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
