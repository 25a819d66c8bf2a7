"""Text that is no Python: by its sections where it has some, whole where it has none."""

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.retrieval.sections import text_symbols

MARKDOWN = dedent("""\
    Before any title.

    # First ##

    ```sh
    # no title
    ```

    Second
    ======

    - item
    ---
    ####### seven is no title
    ## Third
    """)
RST = dedent("""\
    =====
    First
    =====

    Second
    ------
    text

    a paragraph
    of two lines
    ------------

    ====  ====
    a     b
    ====  ====

    Third
    ~~~~~~~
    """)
TOML = dedent("""\
    name = "x"

    [tool.ruff]  # why
    select = [
        "E",
    ]

    [[array]]
    """)


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "docs/a.MD",
            MARKDOWN,
            [
                ("text", "a.MD", (1, 1)),
                ("section", "First", (3, 7)),
                ("section", "Second", (9, 14)),
                ("section", "Third", (15, 15)),
            ],
        ),
        (
            "a.rst",
            RST,
            [("section", "First", (1, 3)), ("section", "Second", (5, 15)), ("section", "Third", (17, 18))],
        ),
        (
            "pyproject.toml",
            TOML,
            [("text", "pyproject.toml", (1, 1)), ("section", "tool.ruff", (3, 6)), ("section", "array", (8, 8))],
        ),
        ("notes/LICENSE.txt", "one\n\n# two\n", [("text", "LICENSE.txt", (1, 3))]),
        ("empty.md", "\n \n", []),
    ],
)
def test_a_file_is_cut_at_its_titles(path: str, text: str, expected: list[tuple[str, str, tuple[int, int]]]) -> None:
    assert [(symbol.kind, symbol.name, symbol.lines) for symbol in text_symbols(path, text)] == expected


@given(st.sampled_from(["a.md", "a.rst", "a.toml", "a"]), st.text(alphabet="a#=-~`[ ]\n", max_size=80))
def test_every_line_that_is_not_blank_belongs_to_one_section(path: str, text: str) -> None:
    lines = [line for symbol in text_symbols(path, text) for line in range(symbol.lines[0], symbol.lines[1] + 1)]
    assert len(lines) == len(set(lines))
    assert {number for number, line in enumerate(text.split("\n"), 1) if line.strip()} <= set(lines)
