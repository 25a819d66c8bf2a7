"""Text that is no Python, by its own sections: Markdown and reStructuredText titles, `[tables]` of configuration."""

import re
from typing import Final

from tokenbench.retrieval.symbols import Kind, Symbol

_MARKDOWN: Final = (".md", ".markdown", ".mdx")
_RST: Final = (".rst", ".rest")
_TABLES: Final = (".toml", ".cfg", ".ini", ".conf", ".editorconfig", ".properties")
_ATX: Final = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*\r?")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_SETEXT: Final = re.compile(r" {0,3}(?:=+|-{2,})[ \t]*\r?")
_RST_LINE: Final = re.compile(r"([!-/:-@\[-`{-~])\1+[ \t]*\r?")
_TABLE: Final = re.compile(r"[ \t]*\[+([^\[\]]+)\]+[ \t]*(?:[#;].*)?\r?")


def text_symbols(path: str, text: str) -> list[Symbol]:
    """The sections of a file, or the whole file as one stretch where it has none, in the order of their lines."""
    lines = text.split("\n")
    lowered = path.lower()
    if lowered.endswith(_MARKDOWN):
        titles = _markdown_titles(lines)
    elif lowered.endswith(_RST):
        titles = _rst_titles(lines)
    elif lowered.endswith(_TABLES):
        titles = _table_titles(lines)
    else:
        titles = {}
    starts = sorted(titles)
    symbols: list[Symbol] = []
    for start, end in zip([0, *starts], [*starts, len(lines)], strict=True):
        title = titles.get(start, "")
        first, last = start, end
        while first < last and not lines[first].strip():
            first += 1
        while first < last and not lines[last - 1].strip():
            last -= 1
        if first < last:
            kind: Kind = "section" if title else "text"
            name = title or path.rpartition("/")[2]
            symbols.append(
                Symbol(
                    path=path,
                    kind=kind,
                    name=name,
                    qualified=name,
                    lines=(first + 1, last),
                    signature="",
                    docstring="",
                    body="\n".join(lines[first:last]),
                )
            )
    return symbols


def _markdown_titles(lines: list[str]) -> dict[int, str]:
    titles: dict[int, str] = {}
    fence = ""
    for index, line in enumerate(lines):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif mark:
            fence = mark[1]
        elif (atx := _ATX.fullmatch(line)) and atx[1]:
            titles[index] = atx[1].strip()
        elif (
            _SETEXT.fullmatch(line)
            and index
            and (above := lines[index - 1].strip())
            and index - 1 not in titles
            and above[0] not in "|>-*#`~"
        ):
            titles[index - 1] = above
    return titles


def _rst_titles(lines: list[str]) -> dict[int, str]:
    """A line of text with a line of one repeated sign below it that is at least as long, and perhaps one above."""
    titles: dict[int, str] = {}
    for index in range(1, len(lines)):
        title = lines[index - 1].strip()
        line = lines[index].rstrip()
        if not title or not _RST_LINE.fullmatch(line) or _RST_LINE.fullmatch(title) or len(line) < len(title):
            continue
        overlined = index > 1 and lines[index - 2].rstrip() == line
        if not overlined and (lines[index - 1][:1].isspace() or (index > 1 and lines[index - 2].strip())):
            continue
        titles[index - 2 if overlined else index - 1] = title
    return titles


def _table_titles(lines: list[str]) -> dict[int, str]:
    return {index: found[1].strip() for index, line in enumerate(lines) if (found := _TABLE.fullmatch(line))}
