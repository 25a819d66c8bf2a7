"""What a corpus is made of: a token ratio depends on it, so it is printed beside every ratio.

Every character of every text file is code, comment, prose or data, so these four shares add up to 1. Test code is a
share of its own, across them. White space counts with what it stands in. Documentation strings count as comments.

Languages are told by file name. Comments are found by one scanner a family of languages, which knows strings and
comments but not grammar; Python's also knows which strings are documentation.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final, Literal, NamedTuple

import msgspec

from tokenbench.decoding import UNREADABLE
from tokenbench.errors import RunsError
from tokenbench.experiment.tree import Tree, TreeFile, sentences, tree_sha256, unreadable, walk
from tokenbench.files import write_atomically
from tokenbench.text import one_line

Kind = Literal["code", "prose", "data"]


class Language(msgspec.Struct, frozen=True, kw_only=True):
    """The files of one language."""

    name: str
    kind: Kind
    files: int
    lines: int
    bytes: int
    characters: int
    comment_characters: int
    code_lines: int
    """Lines that hold something beside comments and white space; 0 for prose and data."""
    test_files: int
    test_lines: int
    test_characters: int


class Shares(msgspec.Struct, frozen=True):
    """Shares of all characters of text, 0 to 1; code, comments, prose and data add up to 1."""

    code: float
    comments: float
    prose: float
    data: float
    tests: float
    """Of files that are tests, whatever is in them."""


class Composition(msgspec.Struct, frozen=True, kw_only=True):
    """`runs/composition.json`"""

    corpus_sha256: str
    """Of the tree that was measured."""
    files: int
    """Text and binary."""
    lines: int
    bytes: int
    """Text and binary."""
    characters: int
    """Of text."""
    binary_files: int
    binary_bytes: int
    shares: Shares
    languages: tuple[Language, ...]
    """The largest first, by characters."""
    left_out: tuple[str, ...]
    """Sentences on what lies in the folder and is no part of the corpus."""


def measure(root: Path, *, corpus_sha256: str | None = None) -> Composition:
    """Read the whole tree once and count.

    Args:
        root: The top of the corpus.
        corpus_sha256: Of its tree, if it is known; else it is computed.

    Raises:
        CorpusError: A part of it cannot be read.
    """
    tree = walk(root)
    counters: dict[str, _Counter] = {}
    binary_files = binary_bytes = 0
    for file in tree.files:
        text = _text(file)
        if text is None:
            binary_files += 1
            binary_bytes += file.size
            continue
        language = language_of(file.relative)
        counters.setdefault(language.name, _Counter(language)).add(file, text)
    languages = sorted((counter.total() for counter in counters.values()), key=lambda row: (-row.characters, row.name))
    return Composition(
        corpus_sha256=corpus_sha256 or tree_sha256(tree),
        files=len(tree.files),
        lines=sum(row.lines for row in languages),
        bytes=_bytes(tree),
        characters=sum(row.characters for row in languages),
        binary_files=binary_files,
        binary_bytes=binary_bytes,
        shares=_shares(languages),
        languages=tuple(languages),
        left_out=sentences(tree.left_out),
    )


def read(path: Path) -> Composition | None:
    """The composition at this path; None if there is none.

    Raises:
        RunsError: It is there, but it cannot be read.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Composition)
    except FileNotFoundError:
        return None
    except (OSError, *UNREADABLE) as error:
        raise RunsError(
            f"is not the composition of a corpus: {one_line(str(error), 200)}",
            where=one_line(str(path)),
            remedy="Delete it and run `tokenbench-tui corpus`, which measures anew",
        ) from error


def write(path: Path, composition: Composition) -> None:
    """Write `runs/composition.json`.

    Raises:
        RunsError: The disk is full, or the folder may not be written.
    """
    write_atomically(path, msgspec.json.format(msgspec.json.encode(composition), indent=1) + b"\n")


def sentence(composition: Composition) -> str:
    """One line for beside a ratio, without a final full stop."""
    shares = composition.shares
    parts = [
        f"{share:.0%} {name}"
        for name, share in (
            ("code", shares.code),
            ("comments", shares.comments),
            ("prose", shares.prose),
            ("data", shares.data),
        )
        if share >= 0.005
    ]
    total = composition.characters or 1
    names = [f"{row.name} {row.characters / total:.0%}" for row in composition.languages[:3]]
    return (
        f"{composition.files:,} files, {composition.lines:,} lines, {composition.bytes / 1e6:.1f} MB: "
        f"{', '.join(parts) or 'no text'}; tests {shares.tests:.0%}; {', '.join(names) or 'no language'}"
    )


def _bytes(tree: Tree) -> int:
    return sum(file.size for file in tree.files)


def _shares(languages: list[Language]) -> Shares:
    total = sum(row.characters for row in languages)
    if not total:
        return Shares(0.0, 0.0, 0.0, 0.0, 0.0)
    comments = sum(row.comment_characters for row in languages)
    kinds = {kind: sum(row.characters for row in languages if row.kind == kind) for kind in ("code", "prose", "data")}
    inside = sum(row.comment_characters for row in languages if row.kind == "data")
    return Shares(
        code=(kinds["code"] - (comments - inside)) / total,
        comments=comments / total,
        prose=kinds["prose"] / total,
        data=(kinds["data"] - inside) / total,
        tests=sum(row.test_characters for row in languages) / total,
    )


def _text(file: TreeFile) -> str | None:
    """The text of a file; None if it is binary. What is not UTF-8 is read as Latin-1, so that nothing is lost."""
    try:
        data = file.path.read_bytes()
    except OSError as error:
        raise unreadable(file.path, error) from error
    if b"\0" in data[:8192]:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


class _Counter:
    """Adds up the files of one language."""

    def __init__(self, syntax: "Syntax") -> None:
        self._syntax = syntax
        self._counts = dict.fromkeys(
            (
                *("files", "lines", "bytes", "characters", "comment_characters", "code_lines"),
                *("test_files", "test_lines", "test_characters"),
            ),
            0,
        )

    def add(self, file: TreeFile, text: str) -> None:
        """Count one file."""
        counts = self._counts
        lines = text.count("\n") + (not text.endswith("\n") if text else 0)
        counts["files"] += 1
        counts["lines"] += lines
        counts["bytes"] += file.size
        counts["characters"] += len(text)
        if is_test(file.relative):
            counts["test_files"] += 1
            counts["test_lines"] += lines
            counts["test_characters"] += len(text)
        if self._syntax.kind == "prose":
            return
        pieces: list[str] = []
        last = 0
        for start, end in self._syntax.comments(text):
            counts["comment_characters"] += end - start
            pieces.append(text[last:start])
            pieces.append("\n" * text.count("\n", start, end))
            last = end
        if self._syntax.kind == "code":
            pieces.append(text[last:])
            counts["code_lines"] += sum(1 for line in "".join(pieces).split("\n") if line.strip())

    def total(self) -> Language:
        """The row of this language."""
        return msgspec.convert({"name": self._syntax.name, "kind": self._syntax.kind, **self._counts}, Language)


_TEST_FOLDERS: Final = frozenset({"test", "tests", "__tests__", "spec", "specs", "testdata"})
_TEST_NAME: Final = re.compile(
    r"(?:test_.*|.*_(?:test|spec|unittest)|conftest|.*\.(?:test|spec)|.*[A-Za-z0-9]Tests?|Test[A-Z].*)\.[^.]+\Z"
)


def is_test(relative: str) -> bool:
    """Whether a file is a test, by its folder or its name."""
    *folders, name = relative.split("/")
    return any(folder.lower() in _TEST_FOLDERS for folder in folders) or _TEST_NAME.match(name) is not None


Spans = Iterator[tuple[int, int]]
"""Start and end of each comment, in characters, in order and apart."""


def _no_comments(text: str) -> Spans:
    del text
    return iter(())


class Syntax(NamedTuple):
    """One language."""

    name: str
    kind: Kind
    comments: Callable[[str], Spans] = _no_comments


_STRING: Final = r'"(?:\\.|[^"\\\n])*"'
_QUOTED: Final = r"'(?:\\.|[^'\\\n])*'"
_CHARACTER: Final = r"'(?:\\[^\n]{1,9}?|[^'\\\n])'"
_SLASHES: Final = r"//[^\n]*"
_STARRED: Final = r"/\*(?s:.*?)(?:\*/|\Z)"
_HASH: Final = r"#[^\n]*"


def _scanner(comments: tuple[str, ...], strings: tuple[str, ...] = ()) -> Callable[[str], Spans]:
    """A scanner that skips strings and gives comments; whichever begins first swallows the other."""
    pattern = re.compile("|".join((*(f"(?:{string})" for string in strings), f"({'|'.join(comments)})")))

    def spans(text: str) -> Spans:
        return (match.span(1) for match in pattern.finditer(text) if match[1] is not None)

    return spans


_C: Final = _scanner((_SLASHES, _STARRED), (r'"""(?s:.*?)"""', _STRING, _CHARACTER))
_JS: Final = _scanner((_SLASHES, _STARRED), (_STRING, _QUOTED, r"`(?:\\.|[^`\\])*`"))
_GO: Final = _scanner((_SLASHES, _STARRED), (_STRING, _CHARACTER, r"`[^`]*`"))
_PHP: Final = _scanner((_SLASHES, _STARRED, r"#(?!\[)[^\n]*"), (_STRING, _QUOTED))
_SHELL: Final = _scanner((r"(?<![^\s;|&(])#[^\n]*",), (r'"(?:\\.|[^"\\])*"', r"'[^']*'"))
_HASHES: Final = _scanner((r"(?<!\S)#[^\n]*",), (_STRING, _QUOTED))
_RUBY: Final = _scanner((r"(?m:^)=begin\b(?s:.*?)(?:(?m:^)=end[^\n]*|\Z)", _HASH), (_STRING, _QUOTED))
_SQL: Final = _scanner((r"--[^\n]*", _STARRED), (r"'(?:''|[^'])*'", r'"[^"\n]*"'))
_LUA: Final = _scanner((r"--\[\[(?s:.*?)(?:\]\]|\Z)", r"--[^\n]*"), (_STRING, _QUOTED, r"\[\[(?s:.*?)\]\]"))
_HASKELL: Final = _scanner((r"\{-(?s:.*?)(?:-\}|\Z)", r"--[^\n]*"), (_STRING,))
_MARKUP: Final = _scanner((r"<!--(?s:.*?)(?:-->|\Z)",))
_CSS: Final = _scanner((_STARRED,), (_STRING, _QUOTED))
_LISP: Final = _scanner((r";[^\n]*",), (r'"(?:\\.|[^"\\])*"',))
_INI: Final = _scanner((r"(?m:^)[ \t]*[;#][^\n]*",))
_PERCENT: Final = _scanner((r"(?<!\\)%[^\n]*",))
_POWERSHELL: Final = _scanner((r"<#(?s:.*?)(?:#>|\Z)", _HASH), (_STRING, r"'[^'\n]*'"))

_PYTHON_TOKEN: Final = re.compile(
    r"(?P<comment>#[^\n]*)"
    r"|(?P<string>(?:(?<!\w)(?P<prefix>[rRuUbBfFtT]{1,2}))?(?:"
    r'"""(?s:\\.|[^\\])*?(?:"""|\Z)' + r"|'''(?s:\\.|[^\\])*?(?:'''|\Z)"
    r'|"(?:\\(?s:.)|[^"\\\n])*(?:"|$)' + r"|'(?:\\(?s:.)|[^'\\\n])*(?:'|$)))"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<joined>\\\n)|(?P<newline>\n)|(?P<other>\w+|[^\s\w#\"'()\[\]{}\\]+|\\|[\"'])",
    re.MULTILINE,
)


def _python(text: str) -> Spans:
    """Comments, and strings that are a whole statement: documentation."""
    depth = 0
    fresh = True
    pending: tuple[int, int] | None = None
    for match in _PYTHON_TOKEN.finditer(text):
        kind = match.lastgroup if match.lastgroup != "prefix" else "string"
        if kind in ("newline", "comment") and pending is not None and depth == 0:
            yield pending
            pending = None
        if kind == "newline":
            fresh = fresh or depth == 0
        elif kind == "comment":
            yield match.span()
        elif kind == "string" and fresh and depth == 0 and not set((match["prefix"] or "").lower()) & set("bft"):
            pending = match.span()
            fresh = False
        elif kind != "joined":
            pending = None
            fresh = False
            depth = max(0, depth + {"open": 1, "close": -1}.get(kind or "", 0))
    if pending is not None:
        yield pending


_LANGUAGES: Final[tuple[tuple[Syntax, str], ...]] = (
    (Syntax("Python", "code", _python), ".py .pyi .pyx .pyw"),
    (Syntax("Java", "code", _C), ".java"),
    (Syntax("C", "code", _C), ".c .h"),
    (Syntax("C++", "code", _C), ".cc .cpp .cxx .hh .hpp .hxx .inl"),
    (Syntax("C#", "code", _C), ".cs"),
    (Syntax("Rust", "code", _C), ".rs"),
    (Syntax("Kotlin", "code", _C), ".kt .kts"),
    (Syntax("Scala", "code", _C), ".scala .sc"),
    (Syntax("Swift", "code", _C), ".swift"),
    (Syntax("Objective-C", "code", _C), ".m .mm"),
    (Syntax("Groovy", "code", _C), ".groovy .gradle"),
    (Syntax("Dart", "code", _C), ".dart"),
    (Syntax("Zig", "code", _C), ".zig"),
    (Syntax("Protocol Buffers", "code", _C), ".proto"),
    (Syntax("Go", "code", _GO), ".go"),
    (Syntax("JavaScript", "code", _JS), ".js .mjs .cjs .jsx"),
    (Syntax("TypeScript", "code", _JS), ".ts .mts .cts .tsx"),
    (Syntax("Vue and Svelte", "code", _MARKUP), ".vue .svelte"),
    (Syntax("PHP", "code", _PHP), ".php"),
    (Syntax("Ruby", "code", _RUBY), ".rb .rake .gemspec Rakefile Gemfile"),
    (Syntax("Perl", "code", _HASHES), ".pl .pm .t"),
    (Syntax("Shell", "code", _SHELL), ".sh .bash .zsh .fish"),
    (Syntax("PowerShell", "code", _POWERSHELL), ".ps1 .psm1"),
    (Syntax("R", "code", _HASHES), ".r"),
    (Syntax("Julia", "code", _HASHES), ".jl"),
    (Syntax("Elixir", "code", _HASHES), ".ex .exs"),
    (Syntax("Erlang", "code", _PERCENT), ".erl .hrl"),
    (Syntax("Haskell", "code", _HASKELL), ".hs .elm .purs"),
    (Syntax("OCaml", "code"), ".ml .mli"),
    (Syntax("Clojure and Lisp", "code", _LISP), ".clj .cljs .cljc .lisp .el .scm .rkt"),
    (Syntax("Lua", "code", _LUA), ".lua"),
    (Syntax("SQL", "code", _SQL), ".sql"),
    (Syntax("HTML", "code", _MARKUP), ".html .htm .xhtml .jinja .jinja2 .j2"),
    (Syntax("CSS", "code", _CSS), ".css .scss .sass .less"),
    (Syntax("Make", "code", _HASHES), ".mk .mak Makefile GNUmakefile"),
    (Syntax("CMake", "code", _HASHES), ".cmake CMakeLists.txt"),
    (Syntax("Docker", "code", _HASHES), ".dockerfile Dockerfile Containerfile"),
    (Syntax("Batch", "code"), ".bat .cmd"),
    (Syntax("Starlark", "code", _HASHES), ".bzl .bazel BUILD WORKSPACE"),
    (Syntax("Nix", "code", _HASHES), ".nix"),
    (Syntax("Terraform", "code", _HASHES), ".tf .tfvars .hcl"),
    (Syntax("Grammar", "code", _C), ".g4 .y .l .jj .jflex .jjt"),
    (Syntax("Markdown", "prose"), ".md .markdown .mdx"),
    (Syntax("reStructuredText", "prose"), ".rst .rest"),
    (Syntax("AsciiDoc", "prose"), ".adoc .asciidoc"),
    (Syntax("TeX", "prose"), ".tex"),
    (Syntax("Plain text", "prose"), ".txt .text .org .pod .1 .2 .3 .5 .7 .8"),
    (Syntax("YAML", "data", _HASHES), ".yaml .yml"),
    (Syntax("TOML", "data", _HASHES), ".toml"),
    (Syntax("INI", "data", _INI), ".ini .cfg .conf .properties .editorconfig .gitconfig"),
    (Syntax("XML", "data", _MARKUP), ".xml .xsd .xsl .xslt .svg .pom .plist"),
    (Syntax("JSON", "data"), ".json .jsonl .ndjson .json5 .ipynb .map"),
    (Syntax("Tables", "data"), ".csv .tsv"),
    (Syntax("Locks", "data"), ".lock .sum"),
)
_PROSE_NAMES: Final = frozenset(
    (
        *("readme", "license", "licence", "copying", "notice", "authors", "contributors", "changes", "changelog"),
        *("history", "news", "todo", "install", "security", "code_of_conduct", "contributing", "maintainers"),
    )
)
_OTHER: Final = Syntax("Other", "data")
_REQUIREMENTS: Final = Syntax("Requirements", "data", _HASHES)
_BY_NAME: Final = {
    name.lower(): syntax for syntax, names in _LANGUAGES for name in names.split() if not name.startswith(".")
}
_BY_SUFFIX: Final = {name: syntax for syntax, names in _LANGUAGES for name in names.split() if name.startswith(".")}
_BY_LANGUAGE: Final = {syntax.name: syntax for syntax, _ in _LANGUAGES}


def language_of(relative: str) -> Syntax:
    """The language of a file, by its name."""
    path = PurePosixPath(relative)
    name = path.name.lower()
    if name in _BY_NAME:
        return _BY_NAME[name]
    if path.suffix.lower() == ".txt" and ("requirements" in name or path.parent.name.lower() == "requirements"):
        return _REQUIREMENTS
    if path.suffix.lower() in _BY_SUFFIX:
        return _BY_SUFFIX[path.suffix.lower()]
    return _BY_LANGUAGE["Plain text"] if name.partition(".")[0] in _PROSE_NAMES else _OTHER
