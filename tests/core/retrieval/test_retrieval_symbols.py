"""Symbols of Python files: what is a symbol, where it begins and ends, and that nothing is left over."""

import ast
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.retrieval.symbols import Symbol, python_symbols

REAL = Path(__file__).parents[2] / "data/corpus/click/src/click"
FILE = dedent('''\
    """What the module is for."""
    import os

    LIMIT: int = 3
    names = [
        "a",
    ]
    left, right = 1, 2
    os.environ["x"] = "y"


    # Opens
    # the door.
    @decorated
    @decorated_again(
        1
    )
    async def door(
        key: str,
        *, slow=False,  # a comment
    ) -> None:
        """Opens it.

            Slowly.
        Or not."""
        def hinge():
            pass
        return hinge()


    class Outer(Base, metaclass=Meta):
        """Holds."""

        size = 1

        @property
        def width(self): return 1

        class Inner:
            def deep(self):
                """Deep."""
                class Local:
                    def method(self): ...

        if True:
            def conditional(self):
                pass


    try:
        def attempted(): pass
    except ImportError:
        def attempted(a): pass
    finally:
        FALLBACK = None
    ''')


def symbols(text: str = FILE) -> list[Symbol]:
    found = python_symbols("pkg/mod.py", text)
    assert found is not None
    return found


def one(qualified: str) -> Symbol:
    (symbol,) = [symbol for symbol in symbols() if symbol.qualified == qualified]
    return symbol


@pytest.mark.parametrize(
    ("qualified", "kind", "lines"),
    [
        ("LIMIT", "constant", (4, 4)),
        ("names", "variable", (5, 7)),
        ("left, right", "variable", (8, 8)),
        ("door", "function", (14, 28)),
        ("door.hinge", "function", (26, 27)),
        ("Outer", "class", (31, 47)),
        ("Outer.width", "method", (36, 37)),
        ("Outer.Inner", "class", (39, 43)),
        ("Outer.Inner.deep", "method", (40, 43)),
        ("Outer.Inner.deep.Local", "class", (42, 43)),
        ("Outer.Inner.deep.Local.method", "method", (43, 43)),
        ("Outer.conditional", "method", (46, 47)),
        ("FALLBACK", "constant", (55, 55)),
    ],
)
def test_each_definition_has_its_kind_its_qualified_name_and_its_lines(
    qualified: str, kind: str, lines: tuple[int, int]
) -> None:
    symbol = one(qualified)
    assert (symbol.kind, symbol.lines) == (kind, lines)
    assert symbol.body == "\n".join(FILE.split("\n")[lines[0] - 1 : lines[1]])


@pytest.mark.parametrize("path", sorted(REAL.glob("*.py")), ids=lambda path: path.name)
def test_in_real_code_the_definitions_are_those_that_python_itself_sees(path: Path) -> None:
    text = path.read_text()
    expected = sorted(
        (min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]), node.end_lineno, node.name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    )
    found = [symbol for symbol in symbols(text) if symbol.kind in {"class", "function", "method"}]
    assert sorted((*symbol.lines, symbol.name) for symbol in found) == expected
    assert len(expected) > 15


def test_a_name_that_is_defined_twice_is_two_symbols() -> None:
    assert [symbol.lines for symbol in symbols() if symbol.name == "attempted"] == [(51, 51), (53, 53)]


def test_decorators_belong_to_the_span_and_not_to_the_signature() -> None:
    assert one("door").body.startswith("@decorated\n")
    assert one("door").signature == "async def door( key: str, *, slow=False, # a comment ) -> None:"
    assert one("Outer").signature == "class Outer(Base, metaclass=Meta):"
    assert one("Outer.width").signature == "def width(self):"
    assert one("LIMIT").signature == "LIMIT: int = 3"


def test_a_docstring_is_cleaned_and_the_comment_above_is_kept_beside_it() -> None:
    assert one("door").docstring == "Opens it.\n\n    Slowly.\nOr not."
    assert one("door").docstring_lines == (22, 25)
    assert one("door").comment == "Opens\nthe door."
    assert one("door.hinge").docstring == ""


def test_a_class_leaves_out_the_bodies_of_its_definitions_and_keeps_their_headers() -> None:
    assert one("Outer").holes == ((40, 43), (47, 47))
    assert one("door").holes == ()


def test_what_no_symbol_holds_is_the_module() -> None:
    rest = [symbol for symbol in symbols() if symbol.kind == "module"]
    assert [symbol.lines for symbol in rest] == [(1, 2), (9, 13), (50, 50), (52, 52), (54, 54)]
    assert {symbol.name for symbol in rest} == {"mod.py"}
    assert rest[0].docstring == "What the module is for."


def test_symbols_come_in_the_order_of_their_lines_the_outer_first() -> None:
    starts = [symbol.lines[0] for symbol in symbols()]
    assert starts == sorted(starts)


def test_line_ends_of_other_systems_and_form_feeds_do_not_shift_lines() -> None:
    (first, second) = symbols("def a():\r\n    '''A.'''\r\n\f\r\ndef b():\r\n    pass\r\n")
    assert (first.lines, second.lines) == ((1, 2), (4, 5))
    assert first.docstring == "A."


def test_a_type_alias_is_a_symbol() -> None:
    (alias,) = symbols("type Pair[T] = tuple[T, T]\n")
    assert (alias.kind, alias.name) == ("type", "Pair")


def test_the_names_of_other_languages_are_names() -> None:
    (symbol,) = symbols("class Größe:\n    '''块'''\n")
    assert (symbol.name, symbol.docstring) == ("Größe", "块")


@pytest.mark.parametrize("text", ["def broken(:\n  pass", "class", "<?xml version='1.0'?>\n<a>b</a>", "((((", "\x00"])
def test_text_that_does_not_parse_has_no_symbols(text: str) -> None:
    assert python_symbols("a.py", text) is None


def test_deep_nesting_is_no_danger() -> None:
    text = "".join(f"{' ' * depth}def f{depth}():\n" for depth in range(300)) + " " * 300 + "pass\n"
    assert len(symbols(text)) == 300
    python_symbols("a.py", "(" * 5000 + ")" * 5000)


@given(st.lists(st.sampled_from(FILE.split("\n")), max_size=30).map("\n".join))
def test_every_line_that_is_not_blank_belongs_to_a_symbol(text: str) -> None:
    found = python_symbols("a.py", text)
    if found is not None:
        held = {line for symbol in found for line in range(symbol.lines[0], symbol.lines[1] + 1)}
        assert {number for number, line in enumerate(text.split("\n"), 1) if line.strip()} <= held


@given(st.text())
def test_no_text_raises(text: str) -> None:
    python_symbols("a.py", text)
