"""Corpora are obtained once, checked always, and nothing of them is ever run."""

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

from tokenbench.errors import CorpusError
from tokenbench.experiment.corpora import Corpus, default_cache, obtain
from tokenbench.experiment.model import CorpusSource
from tokenbench.experiment.tree import tree_sha256, walk

HOSTILE = "import pathlib; pathlib.Path({marker!r}).write_text('ran'); raise SystemExit(1)\n"


def sdist(folder: Path, marker: Path, **more: str) -> str:
    """A source archive whose every hook would leave a marker; its sha256."""
    files = {
        "setup.py": HOSTILE.format(marker=str(marker)),
        "backend/hooks.py": HOSTILE.format(marker=str(marker)),
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "hooks"\nbackend-path = ["backend"]\n',
        "PKG-INFO": "Metadata-Version: 2.1\nName: trap\nVersion: 1.0\n",
        "src/trap/__init__.py": "x = 1\n",
        **more,
    }
    path = folder / "trap-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(f"trap-1.0/{name}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Shelf:
    """A folder that pip takes for its only index, an empty cache, and what was said."""

    def __init__(self, root: Path) -> None:
        self.links = root / "links"
        self.cache = root / "cache"
        self.marker = root / "marker"
        self.links.mkdir()
        self.said: list[str] = []
        self.sha256 = sdist(self.links, self.marker)

    @property
    def home(self) -> Path:
        return self.cache / "corpora" / self.sha256

    def obtain(self, sha256: str | None = None, package: str = "trap==1.0") -> Corpus:
        source = CorpusSource(kind="pypi", package=package, sha256=sha256 or self.sha256)
        return obtain(source, experiment=self.cache.parent, cache=self.cache, progress=self.said.append)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    shelf = Shelf(tmp_path)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf.links))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return shelf


def test_an_archive_is_fetched_unpacked_and_named_by_content_and_nothing_of_it_runs(shelf: Shelf) -> None:
    corpus = shelf.obtain()
    assert corpus.root == shelf.home / "tree" / "trap-1.0"
    assert (corpus.root / "src/trap/__init__.py").read_text() == "x = 1\n"
    assert corpus.sha256 == tree_sha256(walk(corpus.root))
    assert corpus.label == "trap==1.0"
    assert not shelf.marker.exists()
    assert {path.name for path in shelf.home.iterdir()} == {"archive", "tree", "tree.json"}
    assert "fetching trap==1.0" in shelf.said


def test_pip_itself_would_have_run_it(shelf: Shelf, tmp_path: Path) -> None:
    command = (sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation")
    subprocess.run((*command, "--dest", str(tmp_path / "d"), "trap==1.0"), capture_output=True, cwd=tmp_path)
    assert shelf.marker.exists()


def test_what_is_in_the_cache_needs_no_index(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    first = shelf.obtain()
    (shelf.links / "trap-1.0.tar.gz").unlink()
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    shelf.said.clear()
    assert shelf.obtain() == first
    assert shelf.said == []


def test_an_archive_put_there_by_hand_is_taken(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.home.mkdir(parents=True)
    (shelf.links / "trap-1.0.tar.gz").rename(shelf.home / "archive")
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    assert shelf.obtain().label == "trap==1.0"


def test_another_archive_than_the_pinned_one_is_refused(shelf: Shelf) -> None:
    with pytest.raises(CorpusError, match="no archive of it has the pinned sha256 0000"):
        shelf.obtain("0" * 64)
    assert not shelf.marker.exists()


def test_a_package_that_is_not_there_says_where_to_put_it(shelf: Shelf) -> None:
    with pytest.raises(CorpusError, match="pip could not fetch it") as caught:
        shelf.obtain("0" * 64, "nothing-of-that-name==1.0")
    assert str(shelf.cache / "corpora" / ("0" * 64) / "archive") in caught.value.remedy


def test_a_python_without_pip_says_how_to_get_it_and_gives_no_traceback(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    with pytest.raises(CorpusError, match="pip is not installed for this Python") as caught:
        shelf.obtain()
    assert "-m ensurepip" in caught.value.remedy
    assert not any("Traceback" in said for said in shelf.said)


def test_a_tree_that_was_changed_in_the_cache_is_unpacked_anew(shelf: Shelf) -> None:
    first = shelf.obtain()
    changed = first.root / "src/trap/__init__.py"
    changed.chmod(0o644)
    changed.write_text("x = 2\n")
    (first.root / "planted.py").symlink_to("/etc/passwd")
    assert shelf.obtain() == first
    assert changed.read_text() == "x = 1\n"
    assert not (first.root / "planted.py").is_symlink()


def test_a_damaged_archive_in_the_cache_is_fetched_anew(shelf: Shelf) -> None:
    first = shelf.obtain()
    (shelf.home / "archive").write_bytes(b"damaged")
    (shelf.home / "tree.json").write_text("{")
    assert shelf.obtain() == first
    assert "the archive in the cache is damaged and is fetched anew" in shelf.said


def test_what_an_interrupted_fetch_left_behind_is_cleared_and_not_used(shelf: Shelf) -> None:
    (shelf.home / "0123.part" / "trap-1.0").mkdir(parents=True)
    (shelf.home / "archive.part").write_bytes(b"half")
    (shelf.home / "tree" / "trap-1.0").mkdir(parents=True)
    (shelf.home / "tree" / "trap-1.0" / "half.py").write_text("")
    corpus = shelf.obtain()
    assert not (corpus.root / "half.py").exists()
    assert list(shelf.home.glob("*.part")) == []


def test_git_folders_and_links_of_an_archive_are_left_out_and_said(shelf: Shelf) -> None:
    shelf.sha256 = sdist(shelf.links, shelf.marker, **{".git/HEAD": "ref\n"})
    corpus = shelf.obtain()
    assert corpus.left_out == ("1 git folder left out: .git",)
    assert not (corpus.root / ".git").exists()
    assert shelf.obtain() == corpus


def test_two_processes_at_once_get_the_same_tree(shelf: Shelf) -> None:
    program = (
        "import sys; from pathlib import Path; from tokenbench.experiment.corpora import obtain;"
        "from tokenbench.experiment.model import CorpusSource;"
        f"source = CorpusSource(kind='pypi', package='trap==1.0', sha256={shelf.sha256!r});"
        f"print(obtain(source, experiment=Path('/'), cache=Path({str(shelf.cache)!r}), progress=lambda said: None))"
    )
    running = [subprocess.Popen((sys.executable, "-c", program), stdout=subprocess.PIPE) for _ in range(3)]
    printed = {process.communicate(timeout=60)[0] for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(printed) == 1
    assert {path.name for path in shelf.home.iterdir()} == {"archive", "tree", "tree.json"}


def test_an_archive_without_one_top_folder_is_refused(shelf: Shelf) -> None:
    with tarfile.open(shelf.links / "trap-1.0.tar.gz", "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("loose.py"))
        tar.addfile(tarfile.TarInfo("another.py"))
    sha256 = hashlib.sha256((shelf.links / "trap-1.0.tar.gz").read_bytes()).hexdigest()
    with pytest.raises(CorpusError, match="2 entries at its top"):
        shelf.obtain(sha256)


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    source = CorpusSource(kind="pypi", package="trap==1.0", sha256="0" * 64)
    with pytest.raises(CorpusError, match="could not make the folder"):
        obtain(source, experiment=tmp_path, cache=tmp_path / "cache", progress=lambda said: None)


def folder(root: Path, path: str, sha256: str | None = None) -> Corpus:
    source = CorpusSource(kind="folder", path=path, sha256=sha256)
    return obtain(source, experiment=root, cache=root / "cache", progress=lambda said: None)


def test_a_folder_is_taken_where_it_lies_and_pinned_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.py").write_text("x = 1\n")
    (tmp_path / "corpus" / "link").symlink_to("/etc")
    corpus = folder(tmp_path, "corpus")
    assert corpus.root == tmp_path / "corpus"
    assert corpus.label == "corpus"
    assert corpus.left_out == ("1 link left out: link",)
    assert folder(tmp_path, str(tmp_path / "corpus"), corpus.sha256) == corpus
    (tmp_path / "corpus" / "a.py").write_text("x = 2\n")
    with pytest.raises(CorpusError, match="is not the pinned tree: its sha256 is"):
        folder(tmp_path, "corpus", corpus.sha256)


def test_a_folder_that_is_no_corpus_says_why(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path, what in (
        ("../nowhere", "there is no such folder"),
        ("../loop", "there is no such folder"),
        ("../file", "is not a folder"),
        ("../empty", "holds no file"),
        ("..", "holds the experiment itself"),
        (".", "holds the experiment itself"),
    ):
        with pytest.raises(CorpusError, match=what):
            folder(tmp_path / "bench", path)


def test_the_cache_lies_where_the_user_keeps_caches() -> None:
    assert default_cache({"HOME": "/home/ada"}) == Path("/home/ada/.cache/tokenbench")
    assert default_cache({"HOME": "/home/ada", "XDG_CACHE_HOME": "/var/c"}) == Path("/var/c/tokenbench")
    assert default_cache({"HOME": "/home/ada", "XDG_CACHE_HOME": "relative"}) == Path("/home/ada/.cache/tokenbench")
