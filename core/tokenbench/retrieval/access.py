"""What `xq` is told: which index to ask, and where to write down what it was asked.

One small JSON file says it: `{"index": FOLDER, "log": FILE or null, "corpus_sha256": SHA or null}`. The runner writes
one for each run and names it in the one environment variable. A person who stands in an experiment needs none:
`runs/index.json` has the same first keys, and beside them the report of the index.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from tokenbench.errors import SearchIndexError
from tokenbench.files import write_atomically
from tokenbench.retrieval.index import SearchIndexMissing

if TYPE_CHECKING:
    from tokenbench.retrieval.building import IndexReport

VARIABLE: Final = "TOKENBENCH_XQ"
"""The environment variable that names the file."""


class Access(NamedTuple):
    """Which index, and which log."""

    folder: Path
    """Of the index."""
    log: Path | None
    """Each query is appended to it; None: nothing is logged."""
    corpus_sha256: str | None
    """The corpus that the index must be of; None: any."""


def write_access(path: Path, *, index: Path, log: Path | None, corpus_sha256: str | None = None) -> None:
    """Write the file that `TOKENBENCH_XQ` names. Paths are as `xq` will see them; relative ones start at the file.

    Raises:
        RunsError: The disk is full, or the folder may not be written.
    """
    document = {
        "index": str(index),
        "log": None if log is None else str(log),
        "corpus_sha256": corpus_sha256,
    }
    write_atomically(path, json.dumps(document, indent=1).encode() + b"\n")


def write_index_report(path: Path, *, index: Path, report: "IndexReport") -> None:
    """Write `runs/index.json`: where the experiment's index lies, and what it was made of and cost.

    Raises:
        RunsError: The disk is full, or the folder may not be written.
    """
    import msgspec

    document = {
        "index": str(index.absolute()),
        "log": None,
        "corpus_sha256": report.corpus_sha256,
        "report": report,
    }
    write_atomically(path, msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")


def read_index_report(path: Path) -> "tuple[Path, IndexReport]":
    """The folder of the experiment's index and its report, from `runs/index.json`.

    Raises:
        SearchIndexMissing: No index was built for the experiment.
        SearchIndexError: The file cannot be read.
    """
    import msgspec

    from tokenbench.retrieval.building import IndexReport

    access = read_access(path)
    try:
        report = cast("dict[str, object]", json.loads(path.read_bytes())).get("report")
        return access.folder, msgspec.convert(report, IndexReport)
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(path, str(error)) from error


def read_access(path: Path) -> Access:
    """Read either file.

    Raises:
        SearchIndexMissing: It is not there.
        SearchIndexError: It does not say what it must.
    """
    try:
        document: object = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise SearchIndexMissing(
            "no index is named: the file is not there",
            where=str(path),
            remedy="Build the index with `tokenbench-tui index` in the folder of the experiment",
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(path, str(error)) from error
    if not isinstance(document, dict):
        raise _unreadable(path, "it is no object")
    fields = cast("dict[str, object]", document)
    index, log, corpus_sha256 = fields.get("index"), fields.get("log"), fields.get("corpus_sha256")
    if not isinstance(index, str) or not index:
        raise _unreadable(path, "`index` is no path")
    if not isinstance(log, str | None) or not isinstance(corpus_sha256, str | None):
        raise _unreadable(path, "`log` or `corpus_sha256` is no text")
    return Access(path.parent / index, None if log is None else path.parent / log, corpus_sha256)


def find_access(environment: Mapping[str, str], folder: Path) -> Access:
    """What the environment names, else what the experiment names in which `folder` lies.

    Args:
        environment: Only `TOKENBENCH_XQ` is looked at.
        folder: Where `xq` stands; it and the folders above it are searched for a tokenbench.toml.

    Raises:
        SearchIndexMissing: Neither names an index.
        SearchIndexError: What names it cannot be read.
    """
    named = environment.get(VARIABLE)
    if named:
        return read_access(folder / named)
    for candidate in (folder, *folder.parents):
        if (candidate / "tokenbench.toml").is_file():
            return read_access(candidate / "runs" / "index.json")
    raise SearchIndexMissing(
        f"no index is named: {VARIABLE} is not set, and there is no tokenbench.toml here or above",
        where=str(folder),
        remedy="Go to the folder of an experiment and build its index with `tokenbench-tui index`",
    )


def _unreadable(path: Path, why: str) -> SearchIndexError:
    return SearchIndexError(
        f"does not say which index to ask: {why}",
        where=str(path),
        remedy="Write it again with `tokenbench-tui index`, or start the run again",
    )
