"""A tree has one name: the hash of its paths and contents, and of nothing else."""

import hashlib
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.errors import CorpusError
from tokenbench.experiment.tree import LeftOut, file_sha256, sentences, tree_sha256, walk

names = st.binary(min_size=1, max_size=6).filter(
    lambda name: b"/" not in name and b"\0" not in name and name not in (b".", b"..", b".git")
)
trees = st.dictionaries(st.tuples(names) | st.tuples(names, names), st.binary(max_size=20), min_size=1, max_size=6)


def laid_out(root: Path, files: dict[tuple[bytes, ...], bytes]) -> dict[bytes, bytes]:
    """Write the files, leaving out those whose place is taken by a folder or a file; return what is there."""
    written: dict[bytes, bytes] = {}
    for parts, content in files.items():
        path = root.joinpath(*map(os.fsdecode, parts))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError:
            continue
        written[b"/".join(parts)] = content
    return written


@given(trees)
def test_the_hash_is_what_its_definition_says(
    tmp_path_factory: pytest.TempPathFactory, files: dict[tuple[bytes, ...], bytes]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    written = laid_out(root, files)
    records = b"".join(
        path + b"\0" + hashlib.sha256(written[path]).hexdigest().encode() + b"\n" for path in sorted(written)
    )
    tree = walk(root)
    assert [os.fsencode(file.relative) for file in tree.files] == sorted(written)
    assert tree_sha256(tree) == hashlib.sha256(records).hexdigest()


@given(trees, trees)
def test_two_trees_have_the_same_hash_only_if_they_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, one: dict[tuple[bytes, ...], bytes], two: dict[tuple[bytes, ...], bytes]
) -> None:
    first, second = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    same = laid_out(first, one) == laid_out(second, two)
    assert (tree_sha256(walk(first)) == tree_sha256(walk(second))) == same


def test_permissions_times_and_empty_folders_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    before = tree_sha256(walk(tmp_path))
    (tmp_path / "a.py").chmod(0o755)
    os.utime(tmp_path / "a.py", (1, 1))
    (tmp_path / "empty").mkdir()
    assert tree_sha256(walk(tmp_path)) == before


def test_links_git_and_special_files_are_left_out_and_said(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    alone = tree_sha256(walk(tmp_path))
    (tmp_path / "secret").symlink_to("/etc")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "sub" / ".git").mkdir(parents=True)
    (tmp_path / "sub" / ".git" / "HEAD").write_text("ref")
    (tmp_path / ".git").write_text("gitdir: elsewhere")
    os.mkfifo(tmp_path / "pipe")
    tree = walk(tmp_path)
    assert tree_sha256(tree) == alone
    assert set(tree.left_out) == {
        LeftOut(".git", "git folder"),
        LeftOut("sub/.git", "git folder"),
        LeftOut("loop", "link"),
        LeftOut("secret", "link"),
        LeftOut("pipe", "special file"),
    }
    assert "2 links left out: loop, secret" in sentences(tree.left_out)
    assert "1 special file left out: pipe" in sentences(tree.left_out)


def test_a_hostile_name_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    (tmp_path / "\x1b]0;x\x07").symlink_to("/etc")
    assert "\x1b" not in sentences(walk(tmp_path).left_out)[0]


def test_a_file_that_became_a_link_or_a_pipe_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CorpusError, match="link"):
        file_sha256(tmp_path / "link")
    with pytest.raises(CorpusError, match="pipe"):
        file_sha256(tmp_path / "pipe")


def test_a_socket_is_a_special_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        assert walk(tmp_path).left_out == (LeftOut("s", "special file"),)
