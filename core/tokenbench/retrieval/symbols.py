"""Symbols of Python files, through tree-sitter: what a document of the index is about.

Lines are counted as editors and grep count them: from 1, ended by `\\n` alone.
"""

import inspect
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

import tree_sitter_python
from tree_sitter import Language, Node, Parser

Kind = Literal["class", "function", "method", "constant", "variable", "type", "module", "section", "text"]
Lines = tuple[int, int]
"""First and last line, both included, counted from 1."""

_PYTHON: Final = Language(tree_sitter_python.language())
_DEFINITIONS: Final = frozenset({"function_definition", "class_definition"})
_BLOCKS: Final = frozenset(
    {
        "module",
        "block",
        "if_statement",
        "elif_clause",
        "else_clause",
        "try_statement",
        "except_clause",
        "except_group_clause",
        "finally_clause",
        "with_statement",
        "for_statement",
        "while_statement",
        "match_statement",
        "case_clause",
    }
)
"""Nodes that may hold a definition of the same scope."""


class Symbol(NamedTuple):
    """A definition, or a stretch of text that stands for one."""

    path: str
    kind: Kind
    name: str
    qualified: str
    """`Class.method`, `outer.inner`; of a section its title, of other text its file's name."""
    lines: Lines
    """From the first decorator to the last line of the body."""
    signature: str
    """The header without its decorators, in one line; "" where there is none."""
    docstring: str
    """Cleaned of its indentation; "" where there is none."""
    body: str
    """The lines, verbatim."""
    comment: str = ""
    """The comment lines directly above, which are not part of `lines`."""
    docstring_lines: Lines | None = None
    holes: tuple[Lines, ...] = ()
    """Lines within it that are told elsewhere: of a class, the bodies of its methods."""


def python_symbols(path: str, text: str) -> list[Symbol] | None:
    """The symbols of a Python file, and its remainder as `module` stretches, in the order of their lines.

    Returns:
        None where the text does not parse as Python.
    """
    tree = Parser(_PYTHON).parse(text.encode("utf-8", "backslashreplace"))
    if tree.root_node.has_error:
        return None
    file = _File(path, text)
    symbols = sorted(file.definitions(tree.root_node), key=_outer_first)
    symbols.extend(file.remainder(tree.root_node, symbols))
    return sorted(symbols, key=_outer_first)


def _outer_first(symbol: Symbol) -> tuple[int, int, str]:
    return symbol.lines[0], -symbol.lines[1], symbol.qualified


class _File:
    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._text = text.split("\n")

    def definitions(self, root: Node) -> Iterator[Symbol]:
        """Every definition at any depth, and the assignments of the module's own scope."""
        waiting: list[tuple[Node, tuple[str, ...], bool]] = [(root, (), False)]
        while waiting:
            node, scope, in_class = waiting.pop()
            for child in node.named_children:
                definition = child.child_by_field_name("definition") if child.type == "decorated_definition" else child
                if definition is not None and definition.type in _DEFINITIONS:
                    symbol = self._definition(child, definition, scope, in_class=in_class)
                    yield symbol
                    body = definition.child_by_field_name("body")
                    if body is not None:
                        waiting.append((body, (*scope, symbol.name), definition.type == "class_definition"))
                elif child.type in _BLOCKS:
                    waiting.append((child, scope, in_class))
                elif not scope:
                    assigned = self._assignment(child)
                    if assigned is not None:
                        yield assigned

    def _definition(self, whole: Node, definition: Node, scope: tuple[str, ...], *, in_class: bool) -> Symbol:
        name = _text(definition.child_by_field_name("name"))
        body = definition.child_by_field_name("body")
        docstring, docstring_lines = _docstring(body)
        is_class = definition.type == "class_definition"
        lines = _lines(whole)
        return Symbol(
            path=self._path,
            kind="class" if is_class else "method" if in_class else "function",
            name=name,
            qualified=".".join((*scope, name)),
            lines=lines,
            signature=_header(definition),
            docstring=docstring,
            body=self._verbatim(lines),
            comment=self._comment_above(lines[0]),
            docstring_lines=docstring_lines,
            holes=tuple(_bodies(body)) if is_class and body is not None else (),
        )

    def _assignment(self, node: Node) -> Symbol | None:
        """`NAME = …` or `type Name = …` as a symbol; None for any other statement."""
        if node.type == "type_alias_statement":
            name = _text(node.named_children[0]).split("[")[0].strip()
            return self._value(node, "type", name)
        assigned = node.named_children[0] if node.type == "expression_statement" and node.named_children else None
        target = (
            assigned.child_by_field_name("left") if assigned is not None and assigned.type == "assignment" else None
        )
        if target is None or target.type not in {"identifier", "pattern_list", "tuple_pattern"}:
            return None
        names = [target] if target.type == "identifier" else target.named_children
        if any(name.type != "identifier" for name in names):
            return None
        name = ", ".join(map(_text, names))
        return self._value(node, "constant" if name.isupper() else "variable", name)

    def _value(self, node: Node, kind: Kind, name: str) -> Symbol:
        lines = _lines(node)
        return Symbol(
            path=self._path,
            kind=kind,
            name=name,
            qualified=name,
            lines=lines,
            signature=" ".join(_text(node).split("\n", 1)[0].split()),
            docstring="",
            body=self._verbatim(lines),
            comment=self._comment_above(lines[0]),
        )

    def remainder(self, root: Node, symbols: list[Symbol]) -> Iterator[Symbol]:
        """What no symbol holds, stretch by stretch: the module's docstring, imports, statements, comments."""
        docstring, docstring_lines = _docstring(root)
        name = self._path.rpartition("/")[2]
        next_line = 1
        end = len(self._text)
        for first, last in [*(symbol.lines for symbol in symbols), (end + 1, end + 1)]:
            lines = self._without_blank_edges(next_line, first - 1)
            next_line = max(next_line, last + 1)
            if lines is None:
                continue
            told = docstring_lines is not None and lines[0] <= docstring_lines[0] <= lines[1]
            yield Symbol(
                path=self._path,
                kind="module",
                name=name,
                qualified=name,
                lines=lines,
                signature="",
                docstring=docstring if told else "",
                body=self._verbatim(lines),
                docstring_lines=docstring_lines if told else None,
            )

    def _verbatim(self, lines: Lines) -> str:
        return "\n".join(self._text[lines[0] - 1 : lines[1]])

    def _comment_above(self, first: int) -> str:
        start = first - 1
        while start > 0 and self._text[start - 1].lstrip().startswith("#"):
            start -= 1
        return "\n".join(line.strip().lstrip("#:! ") for line in self._text[start : first - 1])

    def _without_blank_edges(self, first: int, last: int) -> Lines | None:
        while first <= last and not self._text[first - 1].strip():
            first += 1
        while last >= first and not self._text[last - 1].strip():
            last -= 1
        return (first, last) if first <= last else None


def _text(node: Node | None) -> str:
    return node.text.decode("utf-8", "replace") if node is not None and node.text is not None else ""


def _colon(definition: Node) -> Node | None:
    """The colon that ends a definition's header."""
    return next((child for child in reversed(definition.children) if child.type == ":"), None)


def _header(definition: Node) -> str:
    colon = _colon(definition)
    if definition.text is None or colon is None:
        return ""
    header = definition.text[: colon.end_byte - definition.start_byte]
    return " ".join(header.decode("utf-8", "replace").split())


def _lines(node: Node) -> Lines:
    first, last = node.start_point.row, node.end_point.row
    if node.end_point.column == 0 and last > first:
        last -= 1
    return first + 1, last + 1


def _docstring(body: Node | None) -> tuple[str, Lines | None]:
    for statement in body.named_children if body is not None else ():
        if statement.type == "comment":
            continue
        string = statement.named_children[0] if statement.type == "expression_statement" else None
        if string is None or string.type != "string" or any(c.type == "interpolation" for c in string.named_children):
            break
        content = "".join(_text(part) for part in string.named_children if part.type == "string_content")
        return inspect.cleandoc(content), _lines(string)
    return "", None


def _bodies(block: Node) -> Iterator[Lines]:
    """The lines of the definitions within a class that come after their headers."""
    waiting = [block]
    while waiting:
        for child in waiting.pop().named_children:
            definition = child.child_by_field_name("definition") if child.type == "decorated_definition" else child
            if definition is not None and definition.type in _DEFINITIONS:
                colon = _colon(definition)
                last = _lines(child)[1]
                if colon is not None and colon.end_point.row + 2 <= last:
                    yield colon.end_point.row + 2, last
            elif child.type in _BLOCKS:
                waiting.append(child)
