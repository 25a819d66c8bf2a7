"""What a corpus is made of: every character is counted once, and Python's documentation as comments."""

import io
import tokenize
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.errors import RunsError
from tokenbench.experiment import composition
from tokenbench.experiment.composition import is_test, language_of, measure, sentence
from tokenbench.experiment.tree import tree_sha256, walk


def spans(name: str, text: str) -> list[str]:
    """The comments that are found in a text."""
    return [text[start:end] for start, end in language_of(name).comments(text)]


def test_every_character_is_code_comment_prose_or_data(tmp_path: Path) -> None:
    files = {
        "src/a.py": '"""Doc."""\nx = 1  # one\n',
        "src/b.java": "/* c */ int x = 1; // d\n",
        "tests/test_a.py": "assert True\n",
        "README.md": "# Words\n",
        "LICENSE": "Words.\n",
        "data.json": "{}\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "logo.png").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "link").symlink_to("/etc")
    measured = measure(tmp_path)
    assert measured.corpus_sha256 == tree_sha256(walk(tmp_path))
    assert (measured.files, measured.binary_files, measured.binary_bytes) == (7, 1, 6)
    assert measured.bytes == sum(len(text) for text in files.values()) + 6
    assert measured.lines == sum(text.count("\n") for text in files.values())
    total = measured.characters
    assert total == sum(len(text) for text in files.values())
    shares = measured.shares
    assert shares.code + shares.comments + shares.prose + shares.data == pytest.approx(1)
    assert shares.comments == len('"""Doc."""' + "# one" + "/* c */" + "// d") / total
    assert shares.prose == len("# Words\nWords.\n") / total
    assert shares.data == len("{}\n") / total
    assert shares.tests == len("assert True\n") / total
    python = next(row for row in measured.languages if row.name == "Python")
    assert (python.files, python.lines, python.code_lines, python.test_files) == (2, 3, 2, 1)
    assert measured.left_out == ("1 link left out: link",)
    assert sentence(measured).startswith("7 files, 7 lines, 0.0 MB: ")


def test_a_corpus_without_text_has_no_shares_and_does_not_divide_by_zero(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0")
    measured = measure(tmp_path)
    assert measured.shares == composition.Shares(0, 0, 0, 0, 0)
    assert "no text" in sentence(measured)


def test_what_is_no_utf8_is_text_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b"x = 'caf\xe9'  # \xfc\n")
    assert measure(tmp_path).languages[0].comment_characters == 3


def test_a_composition_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.py").write_text("x = 1\n")
    measured = measure(tmp_path / "corpus", corpus_sha256="c" * 64)
    assert measured.corpus_sha256 == "c" * 64
    assert composition.read(tmp_path / "composition.json") is None
    composition.write(tmp_path / "composition.json", measured)
    assert composition.read(tmp_path / "composition.json") == measured
    (tmp_path / "composition.json").write_text("{}")
    with pytest.raises(RunsError, match="is not the composition"):
        composition.read(tmp_path / "composition.json")


@pytest.mark.parametrize(
    ("name", "text", "comments"),
    [
        ("a.py", "x = '# no'  # yes\n", ["# yes"]),
        ("a.py", 'def f():\n    """Doc\n    # more"""\n    return """no"""\n', ['"""Doc\n    # more"""']),
        ("a.py", "class A:\n    x: int\n    'attribute'\n    y = (\n        'no'\n    )\n", ["'attribute'"]),
        ("a.py", "f('''(''')\nr'''doc'''\n", ["r'''doc'''"]),
        ("a.py", "b'no'\nf'no'\n'no'.upper()\n'no' + x\n", []),
        ("a.py", "'''never closed\n# inside", ["'''never closed\n# inside"]),
        ("A.java", 'String s = "// no"; /* yes */ char c = \'"\'; // yes "\n', ["/* yes */", '// yes "']),
        ("a.rs", "fn f<'a>(x: &'a str) {} // yes\n", ["// yes"]),
        ("a.js", "x = `// no ${y}` + '/* no */' // yes\n", ["// yes"]),
        ("a.go", "x := `// no\n` /* yes\n*/\n", ["/* yes\n*/"]),
        ("a.c", "/* never closed", ["/* never closed"]),
        ("a.sh", "echo \"# no\" '# no' $# # yes\n", ["# yes"]),
        ("a.sql", "select '--no' -- yes\n/* yes */", ["-- yes", "/* yes */"]),
        ("a.html", "<p><!-- yes --></p>", ["<!-- yes -->"]),
        ("a.lua", "x = [[ -- no ]] --[[ yes\n]] -- yes", ["--[[ yes\n]]", "-- yes"]),
        ("a.rb", "=begin\nyes\n=end\nx = 1 # yes\n", ["=begin\nyes\n=end", "# yes"]),
        ("a.toml", "x = '# no' # yes\n", ["# yes"]),
        ("a.json", "// none are known\n", []),
    ],
)
def test_comments_are_told_from_strings(name: str, text: str, comments: list[str]) -> None:
    assert spans(name, text) == comments


def by_tokenize(text: str) -> list[tuple[int, int]]:
    """Comments and documentation strings as Python's own tokenizer sees them."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    place = [(starts[t.start[0] - 1] + t.start[1], starts[t.end[0] - 1] + t.end[1]) for t in tokens]
    found = [place[i] for i, token in enumerate(tokens) if token.type == tokenize.COMMENT]
    told = [(i, t) for i, t in enumerate(tokens) if t.type not in (tokenize.COMMENT, tokenize.NL)]
    ends = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    for at, (i, token) in enumerate(told):
        prefix = token.string[: min(token.string.find(quote) % 1000 for quote in "'\"")].lower()
        begins = at == 0 or told[at - 1][1].type in ends
        stands_alone = told[at + 1 : at + 2] and told[at + 1][1].type in (tokenize.NEWLINE, tokenize.ENDMARKER)
        if token.type == tokenize.STRING and begins and stands_alone and not set(prefix) & set("bft"):
            found.append(place[i])
    return sorted(found)


@pytest.mark.parametrize("module", ["gzip", "hashlib", "subprocess", "typing", "argparse", "tokenize", "decimal"])
def test_python_is_read_as_its_own_tokenizer_reads_it(module: str) -> None:
    text = Path(str(import_module(module).__file__)).read_text(encoding="utf-8")
    assert list(language_of("a.py").comments(text)) == by_tokenize(text)


@given(
    st.sampled_from(["a.py", "a.java", "a.js", "a.go", "a.sh", "a.sql", "a.rb", "a.lua", "a.hs", "a.html", "a.toml"]),
    st.lists(st.sampled_from(["'", '"', '"""', "#", "//", "/*", "*/", "--", "\\", "\n", "(", ")", "x", " ", "`"])).map(
        "".join
    ),
)
def test_comments_lie_inside_the_text_in_order_and_apart(name: str, text: str) -> None:
    found = list(language_of(name).comments(text))
    assert all(0 <= start < end <= len(text) for start, end in found)
    assert all(before[1] <= after[0] for before, after in pairwise(found))


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("tests/a.py", True),
        ("src/test/java/A.java", True),
        ("src/test_a.py", True),
        ("a_test.go", True),
        ("a.spec.ts", True),
        ("ATest.java", True),
        ("conftest.py", True),
        ("src/click/testing.py", False),
        ("src/latest.py", False),
        ("src/contest.py", False),
        ("attestation/a.py", False),
    ],
)
def test_tests_are_told_by_folder_or_name(path: str, test: bool) -> None:
    assert is_test(path) == test


@pytest.mark.parametrize(
    ("path", "language", "kind"),
    [
        ("a/B.PY", "Python", "code"),
        ("docs/a.rst", "reStructuredText", "prose"),
        ("requirements/dev.txt", "Requirements", "data"),
        ("notes.txt", "Plain text", "prose"),
        ("LICENSE.txt", "Plain text", "prose"),
        ("COPYING", "Plain text", "prose"),
        ("CMakeLists.txt", "CMake", "code"),
        ("Makefile", "Make", "code"),
        ("strange.xyz", "Other", "data"),
        (".gitignore", "Other", "data"),
    ],
)
def test_languages_are_told_by_name(path: str, language: str, kind: str) -> None:
    assert (language_of(path).name, language_of(path).kind) == (language, kind)
