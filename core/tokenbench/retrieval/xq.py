"""`xq "<query>" [k]`: all that the retrieval arm gets.

Exit codes keep apart what an agent must not confuse: 0 hits, 1 nothing matches, 2 the question or the index is at fault
(so nothing is known), 3 no corpus is loaded. Only hits go to standard output.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tokenbench.errors import RunsError, SearchIndexError
from tokenbench.files import append_line
from tokenbench.retrieval.access import Access, find_access
from tokenbench.retrieval.index import Found, Hit, SearchIndexMissing, open_index
from tokenbench.retrieval.template import HIT_CHARACTERS, K_DEFAULT, K_MAX, K_MIN, QUERY_TOKENS, SCORE_DECIMALS, held
from tokenbench.text import one_line, visible

HITS: Final = 0
NO_MATCH: Final = 1
FAULT: Final = 2
NOT_LOADED: Final = 3

USAGE: Final = f"""\
usage: xq "<query>" [k]
Searches the code and text of the corpus by words: names, parts of names, words of comments.
One query, quoted; k hits, {K_MIN} to {K_MAX}, {K_DEFAULT} unless told. There are no options: `-x` is a query.
Exit codes: 0 hits, 1 no match, 2 wrong usage or a faulty index, 3 no corpus is loaded.
"""
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_LOGGED_CHARACTERS: Final = 4000


class Answer(NamedTuple):
    """What the process will say and how it will end."""

    exit: int
    out: str = ""
    err: str = ""


class _Request(NamedTuple):
    query: str
    k: int


def main() -> int:
    """Entry point of the script; the exit code is the return value."""
    return run(sys.argv[1:])


def run(arguments: Sequence[str]) -> int:
    """Answer these arguments on the process's own standard output and error; returns the exit code."""
    try:
        return _tell(answer(arguments, environment=os.environ, folder=_here()))
    except KeyboardInterrupt:
        return 130


def answer(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    now: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
) -> Answer:
    """Everything but the writing to standard output.

    Args:
        arguments: One query, and perhaps k: nothing is an option.
        environment: Where the access file may be named.
        folder: Where `xq` stands.
        now: Seconds since the Unix epoch, for the log.
        monotonic: Seconds, for the time that a query took.
    """
    started = monotonic()
    request = _parse(arguments)
    access: Access | None = None
    found = Found((), 0, 0, 0)
    try:
        access = find_access(environment, folder)
        if isinstance(request, _Request):
            found = open_index(access.folder, corpus_sha256=access.corpus_sha256).find(request.query, request.k)
            told = _answer(request, found)
        else:
            told = request
    except SearchIndexError as error:
        told = Answer(
            NOT_LOADED if isinstance(error, SearchIndexMissing) else FAULT, err=f"xq: {visible(str(error))}\n"
        )
        told = request if isinstance(request, Answer) else told
    if access is None or access.log is None:
        return told
    query, k = (request.query, request.k) if isinstance(request, _Request) else (" ".join(arguments), None)
    line = {
        "t": now(),
        "query": query[:_LOGGED_CHARACTERS].encode("utf-8", "backslashreplace").decode(),
        "query_characters": len(query),
        "k": k,
        "hits": [
            {"path": hit.path, "line": hit.line, "end_line": hit.end_line, "score": hit.score} for hit in found.hits
        ],
        "total": found.total,
        "milliseconds": round((monotonic() - started) * 1000, 3),
        "exit": told.exit,
    }
    try:
        append_line(access.log, json.dumps(line).encode(), durable=False)
    except RunsError as error:
        return Answer(FAULT, err=f"xq: the query could not be logged, so it was not answered. {visible(str(error))}\n")
    return told


def _parse(arguments: Sequence[str]) -> _Request | Answer:
    if not arguments or not arguments[0].strip():
        return Answer(FAULT, err=USAGE)
    query, *rest = arguments
    if not rest:
        return _Request(query, K_DEFAULT)
    if len(rest) > 1 or not _INTEGER.fullmatch(rest[0]):
        return Answer(FAULT, err=f"xq: more than one query; put quotation marks around all its words\n{USAGE}")
    digits = rest[0]
    # int() refuses numbers of thousands of digits; whatever has more than nine is held to the bounds all the same.
    k = int(digits) if len(digits) < 10 else K_MIN if digits.startswith("-") else K_MAX
    return _Request(query, held(k))


def _answer(request: _Request, found: Found) -> Answer:
    if not found.asked:
        return Answer(NO_MATCH, err="xq: no match: the query holds no word to search for\n")
    if not found.hits:
        return Answer(NO_MATCH, err=f"xq: no match for {one_line(request.query, 100)}\n")
    blocks = [show(hit) for hit in found.hits]
    tail = f"{len(found.hits)} of {found.total} shown"
    if found.left_out:
        tail += f"; only the first {QUERY_TOKENS} words of the query were searched for"
    return Answer(HITS, out="\n".join([*blocks, tail]) + "\n")


def show(hit: Hit) -> str:
    """A hit as it is printed: where and what it is, its signature where the code does not begin with it, its code."""
    lines = [f"{_field(hit.path)}:{hit.line} [{_field(hit.kind)}] {_field(hit.name)} {hit.score:.{SCORE_DECIMALS}f}"]
    if hit.line > hit.symbol_line and hit.signature:
        lines.append(f"{_field(hit.signature)} [begins at line {hit.symbol_line}]")
    code = visible(hit.code, keep_keys=True).split("\n")
    size = 0
    for index, text in enumerate(code):
        size += len(text) + 1
        if size > HIT_CHARACTERS + 1:
            lines.append(f"[cut here; {len(code) - index} more lines]")
            break
        lines.append(text)
    if hit.end_line < hit.symbol_end_line:
        lines.append(f"[goes on to line {hit.symbol_end_line}]")
    return "\n".join([*lines, ""])


def _field(text: str) -> str:
    """Text that stays within its line, spaces as they are."""
    return visible(text, keep_keys=True).replace("\n", "\u240a").replace("\t", "\u2409")


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError:
        return Path("/")


def _tell(told: Answer) -> int:
    for stream, text in ((sys.stdout, told.out), (sys.stderr, told.err)):
        if not text:
            continue
        try:
            stream.buffer.write(text.encode("utf-8", "backslashreplace"))
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except OSError as error:
            if stream is sys.stdout:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
                return _tell(Answer(FAULT, err=f"xq: the answer could not be written: {error.strerror}\n"))
    return told.exit


if __name__ == "__main__":
    sys.exit(main())
