"""Corpora: a folder, or a source archive that is fetched once into the user's cache; pinned by content either way.

In the cache, `corpora/SHA256/` holds for each archive:

- `archive`: its bytes, whose sha256 is the folder's name;
- `tree/`: the archive unpacked, all files read-only;
- `tree.json`: name of the top folder and sha256 of the tree, written last: a tree without it was never finished.

A tree that is not what `tree.json` says is unpacked anew. `corpora/SHA256.lock` lets one process at a time work there.
"""

import fcntl
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from tokenbench.decoding import UNREADABLE
from tokenbench.errors import CorpusError, RunsError
from tokenbench.experiment import pip_fetch
from tokenbench.experiment.archives import HONEST, Bounds, unpack
from tokenbench.experiment.model import CorpusSource
from tokenbench.experiment.tree import Tree, file_sha256, sentences, tree_sha256, walk
from tokenbench.files import private_folder, write_atomically
from tokenbench.text import one_line

Progress = Callable[[str], None]
"""Takes one sentence at a time on what is being done."""


class Corpus(msgspec.Struct, frozen=True):
    """A corpus that is there and is what was pinned."""

    root: Path
    """The top of the tree: what the agent sees as its working folder."""
    sha256: str
    """Of the tree's content (`tree.tree_sha256`)."""
    label: str
    """For people: `click==8.1.8`, or the folder's name."""
    left_out: tuple[str, ...] = ()
    """Sentences on what lies there and is no part of the corpus."""


class _Unpacked(msgspec.Struct, frozen=True):
    """tree.json"""

    top: str
    sha256: str
    left_out: tuple[str, ...]


def default_cache(environment: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_CACHE_HOME/tokenbench`, or `~/.cache/tokenbench`; a relative XDG path is ignored, as its standard says."""
    named = environment.get("XDG_CACHE_HOME", "")
    base = Path(named) if Path(named).is_absolute() else Path(environment.get("HOME") or Path.home()) / ".cache"
    return base / "tokenbench"


def obtain(
    source: CorpusSource, *, experiment: Path, cache: Path, progress: Progress, bounds: Bounds = HONEST
) -> Corpus:
    """The corpus, fetched if it is not in the cache yet, and checked.

    Args:
        source: `[corpus]` of tokenbench.toml.
        experiment: The experiment's folder, which a folder corpus is relative to.
        cache: Where archives are kept.
        progress: Called with what is being done and what was left out.
        bounds: What an archive may unpack to.

    Raises:
        CorpusError: It could not be fetched, is not what was pinned, or cannot be read.
    """
    try:
        if source.kind == "folder":
            return _folder(source, experiment, progress)
        return _pypi(source, cache, progress, bounds)
    except RunsError as error:
        raise CorpusError(error.what, where=error.where, remedy="Free space or mend the permissions there") from error


def _folder(source: CorpusSource, experiment: Path, progress: Progress) -> Corpus:
    where = experiment / Path(source.path or "").expanduser()
    shown = one_line(str(where))
    try:
        root = where.resolve(strict=True)
        inside = experiment.resolve().is_relative_to(root)
    except (OSError, RuntimeError) as error:
        raise CorpusError(
            f"there is no such folder: {getattr(error, 'strerror', None) or 'its links run in a circle'}",
            where=shown,
            remedy="Set `path` in [corpus] to the folder of the code, absolute or relative to tokenbench.toml",
        ) from error
    if not root.is_dir():
        raise CorpusError("is not a folder", where=shown, remedy="Set `path` in [corpus] to a folder")
    if inside:
        raise CorpusError(
            "holds the experiment itself, so an agent could read the questions and their answers",
            where=shown,
            remedy="Move the experiment out of the corpus",
        )
    progress(f"reading {shown}")
    tree, sha256 = _hashed(root)
    left_out = sentences(tree.left_out)
    for sentence in left_out:
        progress(sentence)
    if source.sha256 is not None and sha256 != source.sha256:
        raise CorpusError(
            f"is not the pinned tree: its sha256 is {sha256}",
            where=shown,
            remedy="Put the pinned content back; if the new one is meant, set `sha256` in [corpus] to that",
        )
    return Corpus(root, sha256, root.name or "/", left_out)


def _hashed(root: Path) -> tuple[Tree, str]:
    tree = walk(root)
    if not tree.files:
        raise CorpusError("holds no file", where=one_line(str(root)), remedy="Name a folder that holds code")
    return tree, tree_sha256(tree)


def _pypi(source: CorpusSource, cache: Path, progress: Progress, bounds: Bounds) -> Corpus:
    package, sha256 = source.package or "", source.sha256 or ""
    corpora = private_folder(cache / "corpora")
    home = corpora / sha256
    try:
        with _alone(corpora / f"{sha256}.lock", progress):
            private_folder(home)
            _clear(home)
            if (ready := _ready(home)) is not None:
                return Corpus(home / "tree" / ready.top, ready.sha256, package, ready.left_out)
            archive = home / "archive"
            if archive.is_file() and file_sha256(archive) != sha256:
                progress("the archive in the cache is damaged and is fetched anew")
                archive.unlink()
            if not archive.is_file():
                progress(f"fetching {package}")
                _fetch(package, sha256, home, progress)
            progress(f"unpacking {package}")
            unpacked = _unpack(archive, home, bounds)
            for sentence in unpacked.left_out:
                progress(sentence)
            return Corpus(home / "tree" / unpacked.top, unpacked.sha256, package, unpacked.left_out)
    except OSError as error:
        raise CorpusError(
            f"could not be written: {error.strerror or error}",
            where=one_line(str(error.filename or home)),
            remedy="Free space or mend the permissions there, then start again; what was fetched is kept",
        ) from error


@contextmanager
def _alone(lock: Path, progress: Progress) -> Generator[None]:
    """Hold the lock, waiting for whoever has it; it goes with its process, so it is never stale."""
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another process that is fetching the same corpus")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _clear(home: Path) -> None:
    """Remove what a process left behind that did not come to its end."""
    for rest in home.glob("*.part"):
        _remove(rest)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _part(home: Path) -> Path:
    return home / f"{secrets.token_hex(6)}.part"


def _ready(home: Path) -> _Unpacked | None:
    """What is unpacked already, if it is still what it was; None if it has to be unpacked."""
    try:
        unpacked = msgspec.json.decode((home / "tree.json").read_bytes(), type=_Unpacked)
        tree = walk(home / "tree" / unpacked.top)
    except (FileNotFoundError, *UNREADABLE, CorpusError):
        return None
    return unpacked if tree_sha256(tree) == unpacked.sha256 and not tree.left_out else None


def _unpack(archive: Path, home: Path, bounds: Bounds) -> _Unpacked:
    """Unpack beside the old tree, then change places: a reader finds a whole tree or none."""
    part = _part(home)
    try:
        left_out = unpack(archive, part, bounds)
        tops = sorted(entry.name for entry in part.iterdir())
        if len(tops) != 1 or not (part / tops[0]).is_dir():
            raise CorpusError(
                f"is no source archive: it holds {len(tops)} entries at its top, and not one folder",
                where=one_line(str(archive)),
                remedy="Pin an archive with one top folder",
            )
        tree, sha256 = _hashed(part / tops[0])
        unpacked = _Unpacked(tops[0], sha256, sentences((*left_out, *tree.left_out)))
        for entry in tree.left_out:
            _remove(part / tops[0] / entry.relative)
        target = home / "tree"
        (home / "tree.json").unlink(missing_ok=True)
        if target.exists():
            old = _part(home)
            target.rename(old)
            shutil.rmtree(old)
        part.rename(target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    write_atomically(home / "tree.json", msgspec.json.format(msgspec.json.encode(unpacked), indent=1) + b"\n")
    return unpacked


def _fetch(package: str, sha256: str, home: Path, progress: Progress) -> None:
    """Have pip fetch the archive with this sha256, running nothing of it (see `pip_fetch`).

    Raises:
        CorpusError: pip is missing, found no such archive, or could not reach its index.
    """
    temporary = _part(home)
    private_folder(temporary)
    requirements = temporary / "requirements.txt"
    requirements.write_text(f"{package} --hash=sha256:{sha256}\n")
    target = home / "archive"
    command = (sys.executable, "-P", str(Path(pip_fetch.__file__)), sha256, str(target))
    arguments = (
        *("download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--require-hashes"),
        *("--disable-pip-version-check", "--no-input", "--progress-bar", "off"),
        *("--dest", str(temporary / "dest"), "--requirement", str(requirements)),
    )
    said: list[str] = []
    try:
        with subprocess.Popen(
            (*command, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=temporary,
            env={**os.environ, "TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1"},
        ) as pip:
            assert pip.stdout is not None
            try:
                for line in pip.stdout:
                    sentence = one_line(_ORIGIN.sub("", line.decode(errors="replace")), 200)
                    if sentence:
                        said = [*said[-40:], sentence]
                        progress(f"pip: {sentence}")
            except BaseException:
                pip.kill()
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    if not target.is_file():
        raise _not_fetched(package, sha256, target, said)


_ORIGIN: Final = re.compile(r" \(from -r [^)]*\)")
"""Where pip was told so: a temporary file of ours."""


def _not_fetched(package: str, sha256: str, target: Path, said: list[str]) -> CorpusError:
    """Why pip has no archive for us, as far as its words tell."""
    text = "\n".join(said)
    by_hand = f"or put the archive there yourself, as {one_line(str(target))}"
    if "No module named pip" in text:
        return CorpusError(
            "pip is not installed for this Python, and it is needed to fetch a corpus",
            where=package,
            remedy=f"Run `{one_line(sys.executable)} -m ensurepip`, {by_hand}",
        )
    if "DO NOT MATCH THE HASHES" in text or "Hashes are required" in text:
        return CorpusError(
            f"no archive of it has the pinned sha256 {sha256}",
            where=package,
            remedy="Compare `sha256` in [corpus] with the index; an archive that changed is not the pinned corpus",
        )
    errors = [line.removeprefix("ERROR: ") for line in said if line.startswith("ERROR: ")]
    network = next((line for line in said if "Retrying" in line or "Connection" in line or "HTTP error" in line), None)
    if network is not None:
        return CorpusError(
            f"the package index could not be reached: {network.rpartition('after ')[2]}",
            where=package,
            remedy=f"Go online, or set pip's index (`pip config set global.index-url …`), {by_hand}",
        )
    return CorpusError(
        f"pip could not fetch it: {errors[0] if errors else (said[-1] if said else 'it said nothing')}",
        where=package,
        remedy=f"Ask `pip index versions {package.partition('==')[0]}` what there is, {by_hand}",
    )
