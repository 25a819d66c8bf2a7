"""Whatever an archive holds: it unpacks inside its folder, within its bounds, or not at all."""

import gzip
import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.errors import CorpusError
from tokenbench.experiment.archives import Bounds, unpack
from tokenbench.experiment.tree import LeftOut

Member = tuple[str, bytes, str]
"""Name, tar type, link target; the content of a file is its name."""


def tar_of(path: Path, members: list[Member], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as tar:
        for name, kind, target in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            info.linkname = target
            info.mode = 0o7777
            content = name.encode(errors="surrogateescape") if kind == tarfile.REGTYPE else b""
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def below(folder: Path) -> dict[str, str]:
    """Everything that lies in a folder: files with their content, folders with '/'."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        assert not path.is_symlink()
        found[path.relative_to(folder).as_posix()] = "/" if path.is_dir() else path.read_text()
    return found


FILE, FOLDER, SYMLINK, HARDLINK = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz", "w"])
def test_an_honest_archive_is_unpacked_read_only_whatever_its_compression(tmp_path: Path, mode: str) -> None:
    archive = tar_of(
        tmp_path / "archive", [("p-1/", FOLDER, ""), ("p-1/src/a.py", FILE, ""), ("p-1/b", FILE, "")], mode
    )
    assert unpack(archive, tmp_path / "out") == ()
    assert below(tmp_path / "out") == {"p-1": "/", "p-1/b": "p-1/b", "p-1/src": "/", "p-1/src/a.py": "p-1/src/a.py"}
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert modes == {0o444}
    assert stat.S_IMODE((tmp_path / "out" / "p-1").stat().st_mode) == 0o755


def test_a_zip_is_unpacked_too_without_its_links(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("p-1/", b"")
        zipped.writestr("p-1/a.py", "x = 1\n")
        link = zipfile.ZipInfo("p-1/link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        zipped.writestr(link, "/etc/passwd")
    assert unpack(tmp_path / "a.zip", tmp_path / "out") == (LeftOut("p-1/link", "link"),)
    assert below(tmp_path / "out") == {"p-1": "/", "p-1/a.py": "x = 1\n"}


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../up", "p/../../up", "p/..", "..", "p/./../../x", "//x", "p/\x1b[2J/../../y"]
)
def test_a_path_that_leads_outside_refuses_the_whole_archive(tmp_path: Path, name: str) -> None:
    archive = tar_of(tmp_path / "a", [("p/a", FILE, ""), (name, FILE, "")])
    with pytest.raises(CorpusError, match="leads out of its folder") as caught:
        unpack(archive, tmp_path / "out")
    assert "\x1b" not in str(caught.value)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "out"}


def test_links_and_devices_are_left_out_and_nothing_is_written_through_them(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    archive = tar_of(
        tmp_path / "a",
        [
            ("p/dir", SYMLINK, str(outside)),
            ("p/dir/planted", FILE, ""),
            ("p/hard", HARDLINK, "/etc/passwd"),
            ("p/device", tarfile.CHRTYPE, ""),
            ("p/pipe", tarfile.FIFOTYPE, ""),
        ],
    )
    assert set(unpack(archive, tmp_path / "out")) == {
        LeftOut("p/dir", "link"),
        LeftOut("p/hard", "link"),
        LeftOut("p/device", "special file"),
        LeftOut("p/pipe", "special file"),
    }
    assert list(outside.iterdir()) == []
    assert below(tmp_path / "out") == {"p": "/", "p/dir": "/", "p/dir/planted": "p/dir/planted"}


@pytest.mark.parametrize(
    "members",
    [
        [("p/a", FILE, ""), ("p/./a", FILE, "")],
        [("p/a", FILE, ""), ("p/a/b", FILE, "")],
        [("p/a/b", FILE, ""), ("p/a", FILE, "")],
    ],
)
def test_a_path_that_stands_for_two_things_refuses_the_archive(tmp_path: Path, members: list[Member]) -> None:
    with pytest.raises(CorpusError, match="twice"):
        unpack(tar_of(tmp_path / "a", members), tmp_path / "out")


def test_what_unpacks_beyond_its_bounds_is_stopped(tmp_path: Path) -> None:
    many = tar_of(tmp_path / "many", [(f"p/{number}", FILE, "") for number in range(20)])
    with pytest.raises(CorpusError, match="more than 10 entries"):
        unpack(many, tmp_path / "1", Bounds(entries=10))
    with pytest.raises(CorpusError, match="more than its bounds"):
        unpack(many, tmp_path / "2", Bounds(file=2))
    with pytest.raises(CorpusError, match="more than its bounds"):
        unpack(many, tmp_path / "3", Bounds(total=30))


def test_a_bomb_costs_no_more_than_its_bounds(tmp_path: Path) -> None:
    size = 64 << 20
    with tarfile.open(tmp_path / "bomb", "w:gz") as tar:
        info = tarfile.TarInfo("p/zeros")
        info.size = size
        tar.addfile(info, io.BytesIO(bytes(size)))
    assert (tmp_path / "bomb").stat().st_size < 100_000
    with pytest.raises(CorpusError, match="bounds"):
        unpack(tmp_path / "bomb", tmp_path / "out", Bounds(file=1 << 20))
    assert (tmp_path / "out" / "p" / "zeros").stat().st_size <= 2 << 20


def test_a_header_that_asks_for_all_memory_is_refused(tmp_path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type = tarfile.XHDTYPE
    header.size = 1 << 30
    with gzip.open(tmp_path / "a", "wb") as file:
        file.write(header.tobuf())
        file.write(bytes(4 << 20))
    with pytest.raises(CorpusError, match=r"header|damaged"):
        unpack(tmp_path / "a", tmp_path / "out", Bounds(read=1 << 20))


def test_a_cut_or_changed_archive_is_damaged_and_no_traceback(tmp_path: Path) -> None:
    whole = tar_of(tmp_path / "a", [(f"p/{number}", FILE, "") for number in range(50)]).read_bytes()
    for place, data in enumerate((b"", b"PK\x03\x04", whole[:40], whole[: len(whole) // 2], os.urandom(2000))):
        (tmp_path / "cut").write_bytes(data)
        with pytest.raises(CorpusError, match="damaged"):
            unpack(tmp_path / "cut", tmp_path / f"out{place}")


parts = st.sampled_from(["a", "b", "..", ".", "", "\u00fc", "x\ny", "link", "c" * 60])
paths = st.lists(parts, min_size=1, max_size=5).map("/".join)
kinds = st.sampled_from([FILE, FILE, FOLDER, SYMLINK, HARDLINK, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.CONTTYPE])
members = st.lists(st.tuples(paths, kinds, st.sampled_from(["/etc", "..", "../../x", "a", "link"])), max_size=8)


@given(members)
def test_no_archive_reaches_outside_or_makes_a_link(
    tmp_path_factory: pytest.TempPathFactory, members: list[Member]
) -> None:
    home = tmp_path_factory.mktemp("hostile")
    archive = tar_of(home / "archive", members)
    refused = False
    try:
        unpack(archive, home / "out")
    except CorpusError:
        refused = True
    assert {path.name for path in home.iterdir()} == {"archive", "out"}
    for path in (home / "out").rglob("*"):
        assert stat.S_ISDIR(path.lstat().st_mode) or stat.S_ISREG(path.lstat().st_mode)
    climbs = any(name.startswith("/") or ".." in name.split("/") for name, _, _ in members)
    assert refused or not climbs


@given(st.binary(max_size=400), st.integers(0, 300))
def test_no_bytes_give_a_traceback(tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int) -> None:
    home = tmp_path_factory.mktemp("noise")
    good = tar_of(home / "good", [("p/a", FILE, ""), ("p/b", FOLDER, "")], "w:gz" if at % 2 else "w").read_bytes()
    (home / "bad").write_bytes(good[:at] + noise + good[at + len(noise) :])
    try:
        left_out = unpack(home / "bad", home / "out")
    except CorpusError as error:
        left_out = ()
        shown = str(error)
        assert shown.isprintable()
    assert isinstance(left_out, tuple)
