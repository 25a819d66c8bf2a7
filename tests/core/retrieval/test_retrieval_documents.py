"""Documents: none longer than what is shown of a hit, and together all that the file holds."""

from hypothesis import given
from hypothesis import strategies as st

from tokenbench.retrieval.analysis import tokens
from tokenbench.retrieval.documents import Document, documents_of
from tokenbench.retrieval.sources import Source
from tokenbench.retrieval.template import HIT_CHARACTERS


def documents(text: str, path: str = "pkg/mod.py") -> list[Document]:
    return documents_of(Source(path, text, len(text), ()))[0]


def long_function(lines: int) -> str:
    body = "".join(f"    value_{number} = {number}\n{chr(10) if number % 10 == 0 else ''}" for number in range(lines))
    return f"def long(argument):\n    '''Explains.'''\n{body}"


def test_a_long_function_is_several_documents_of_one_name() -> None:
    parts = documents(long_function(200))
    assert len(parts) > 2
    assert {(part.name, part.symbol_line, part.signature) for part in parts} == {("long", 1, "def long(argument):")}
    assert all(len(part.code) <= HIT_CHARACTERS for part in parts)
    assert all(part.name_tokens == "long" and "argument" in part.sig_tokens for part in parts)
    assert [part.line for part in parts[1:]] > [part.end_line for part in parts[:-1]]
    assert parts[0].doc_tokens == "explains"


def test_a_part_begins_after_a_blank_line_where_there_is_one() -> None:
    text = long_function(200).split("\n")
    assert all(text[part.line - 2] == "" for part in documents("\n".join(text))[1:])


def test_the_lines_of_a_document_are_those_of_the_file() -> None:
    text = long_function(200)
    for part in documents(text):
        assert part.code.split("\n") == text.split("\n")[part.line - 1 : part.end_line]


def test_a_class_names_the_lines_that_are_told_elsewhere() -> None:
    outline, method = documents("class A:\n    x = 1\n\n    def f(self):\n        a = 1\n        return a\n")
    assert outline.code == "class A:\n    x = 1\n\n    def f(self):\n[lines 5-6 left out]"
    assert (outline.line, outline.end_line) == (1, 6)
    assert "return" not in outline.code_tokens
    assert (method.name, method.line) == ("A.f", 4)


def test_what_a_document_of_its_function_shows_whole_has_no_document_of_its_own() -> None:
    text = "def outer():\n    def inner():\n        class Local:\n            pass\n    return inner\n"
    assert [document.name for document in documents(text)] == ["outer"]
    lines = "".join(f"    value_{number} = {number}\n" for number in range(90))
    text = f"def outer():\n{lines}    def inner():\n{lines.replace('    ', '        ')}    return inner\n"
    assert {document.name for document in documents(text)} == {"outer", "outer.inner"}


def test_a_line_longer_than_a_document_is_cut_between_words_and_loses_nothing() -> None:
    line = "word " * 2000
    parts = documents(line, "notes.txt")
    assert len(parts) > 5
    assert all(part.line == part.end_line == 1 and len(part.code) <= HIT_CHARACTERS for part in parts)
    assert sum(part.code.count("word") for part in parts) == 2000


def test_python_that_does_not_parse_is_text_and_counted() -> None:
    found, unparsed = documents_of(Source("a.py", "def broken(:\n", 13, ()))
    assert unparsed
    assert [(document.kind, document.name) for document in found] == [("text", "a.py")]
    assert not documents_of(Source("a.txt", "def broken(:\n", 13, ()))[1]


def test_the_name_of_a_file_finds_its_text() -> None:
    (document,) = documents("hello", "docs/release-notes.txt")
    assert document.name_tokens == "release notes"


def test_controls_are_shown_in_the_code_and_never_in_names() -> None:
    (document,) = documents("# T\x1b[31m\n", "a.md")
    assert "\x1b" not in document.code + document.name


@given(
    st.lists(st.text(alphabet="ab (:#\n\t'", max_size=400), max_size=8).map("\n".join),
    st.sampled_from(["a.py", "a.md"]),
)
def test_every_token_of_a_file_is_found_in_a_document_that_shows_its_line(text: str, path: str) -> None:
    found = documents(text, path)
    for number, line in enumerate(text.split("\n"), 1):
        here = [set(document.code_tokens.split()) for document in found if document.line <= number <= document.end_line]
        assert set(tokens(line)) <= set().union(*here) or len(line) >= HIT_CHARACTERS
    assert all(len(document.code) <= HIT_CHARACTERS for document in found)
