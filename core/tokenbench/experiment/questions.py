"""questions.jsonl: one question a line, each fault said with file, line and key."""

import json
import re
from pathlib import Path, PurePosixPath
from typing import Final, NoReturn, cast

from tokenbench.errors import QuestionsError
from tokenbench.experiment import decoding
from tokenbench.experiment.decoding import WrongDataError, key_path
from tokenbench.experiment.model import Check, Citation, Question, Rule
from tokenbench.experiment.reading import UnreadableError, read_text
from tokenbench.text import one_line

QUESTION_ID: Final = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*\Z")
"""Ids become part of file names, `arm__question__r1`, so `__` must stay free."""
ID_LIMIT: Final = 100
LONGEST_REGEX: Final = 2_000
"""Characters of a regex that a person can still read."""
_FILE_BYTES: Final = 64 << 20
_LINES: Final = re.compile(r"([1-9]\d{0,8})-([1-9]\d{0,8})\Z")
_SHA1: Final = re.compile(r"[0-9a-f]{40}\Z")


def load_questions(path: Path) -> tuple[Question, ...]:
    """The questions of this file, in its order. Empty lines, a byte order mark and CRLF are tolerated.

    Raises:
        QuestionsError: The file is missing, empty or no UTF-8, or a line of it is not a question; a duplicate id
            names both lines.
    """
    try:
        text = read_text(path, _FILE_BYTES)
    except UnreadableError as error:
        raise QuestionsError(error.what, where=_where(path, error.line), remedy=error.remedy) from error
    questions: list[Question] = []
    first_seen: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            question = parse_question(line)
        except WrongDataError as error:
            raise QuestionsError(error.what, where=_where(path, number), remedy=error.remedy) from error
        if question.id in first_seen:
            raise QuestionsError(
                f"the id `{question.id}` stands on line {first_seen[question.id]} already",
                where=_where(path, number),
                remedy="Give one of the two another id",
            )
        first_seen[question.id] = number
        questions.append(question)
    if not questions:
        raise QuestionsError("holds no question", where=_where(path), remedy="Write one question a line, as JSON")
    return tuple(questions)


def parse_question(line: str) -> Question:
    """One line.

    Raises:
        WrongDataError: It is no JSON, or not a question; the key is named.
    """
    try:
        question = decoding.decode(Question, parse_json(line))
        _check(question)
    except RecursionError:
        raise WrongDataError((), "is nested too deeply", "Write it flat") from None
    return question


def parse_json(line: str) -> object:
    """One JSON value, where a key given twice and NaN are errors too.

    Raises:
        WrongDataError: It is not that.
        RecursionError: It is nested without bottom.
    """
    try:
        return cast("object", json.loads(line, object_pairs_hook=_once, parse_constant=_no_constant))
    except json.JSONDecodeError as error:
        raise WrongDataError(
            (), f"is not JSON: {error.msg} at column {error.colno}", "Write one JSON object on the line"
        ) from error
    except ValueError as error:
        raise WrongDataError(
            (), f"holds a number that cannot be read: {one_line(str(error), 100)}", "Write it shorter"
        ) from error


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table: dict[str, object] = {}
    for key, value in pairs:
        if key in table:
            raise WrongDataError((key,), f"`{one_line(key, 60)}` is given twice", "Keep one of the two")
        table[key] = value
    return table


def _no_constant(name: str) -> NoReturn:
    raise WrongDataError((), f"holds {name}, which is no number", "Write a number, or leave the key out")


def _where(path: Path, line: int | None = None) -> str:
    return one_line(str(path)) + (f":{line}" if line else "")


def _wrong(path: decoding.Path, what: str, remedy: str) -> NoReturn:
    raise WrongDataError(path, f"`{key_path(path)}` {what}", remedy)


def _check(question: Question) -> None:
    if not QUESTION_ID.match(question.id) or len(question.id) > ID_LIMIT:
        _wrong(
            ("id",),
            f"is `{one_line(question.id, 60)}`",
            f"Use at most {ID_LIMIT} of a-z, 0-9 and single underscores between them: file names are made of it",
        )
    for key, text in (("text", question.text), ("truth", question.truth)):
        if not text.strip():
            _wrong((key,), "is empty", "Write it out: a judge decides by it")
    for position, rule in enumerate(question.must):
        _check_rule(rule, ("must", position), may_except=False)
    for position, rule in enumerate(question.must_not):
        _check_rule(rule, ("must_not", position), may_except=True)
    for position, citation in enumerate(question.citations):
        _check_citation(citation, ("citations", position))
    for position, check in enumerate(question.checks):
        _check_check(check, ("checks", position))


def _check_rule(rule: Rule, path: decoding.Path, *, may_except: bool) -> None:
    kinds = [key for key in ("number", "word", "regex", "any") if getattr(rule, key) is not None]
    if len(kinds) != 1:
        _wrong(
            path,
            f"has {' and '.join(kinds) if kinds else 'no rule'}",
            "A rule is exactly one of number, word, regex, any; write several rules, or an `any`",
        )
    if rule.word is not None:
        words = (rule.word,) if isinstance(rule.word, str) else rule.word
        if not words or any(not word.strip() for word in words):
            _wrong((*path, "word"), "holds no word", "Name the word, or a list of words of which one is enough")
    if rule.regex is not None:
        _check_regex(rule.regex, (*path, "regex"))
    if rule.any is not None:
        if not rule.any:
            _wrong((*path, "any"), "is empty", "Name the rules of which one is enough")
        for position, inner in enumerate(rule.any):
            _check_rule(inner, (*path, "any", position), may_except=False)
    if rule.unless is not None:
        if not may_except:
            _wrong(
                (*path, "unless"),
                "cannot stand here",
                "Only a rule that stands directly under must_not can have an exception",
            )
        _check_rule(rule.unless, (*path, "unless"), may_except=False)


def _check_regex(pattern: str, path: decoding.Path) -> None:
    if not pattern or len(pattern) > LONGEST_REGEX:
        _wrong(
            path,
            f"is {len(pattern):,} characters long",
            f"Write 1 to {LONGEST_REGEX:,} characters; number, word and any say most things readably",
        )
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        _wrong(path, f"does not compile: {one_line(str(error), 100)}", "Mend the regular expression (Python's `re`)")


def _check_path(text: str, path: decoding.Path) -> None:
    if not text.strip() or text.startswith("/") or "\0" in text or ".." in PurePosixPath(text).parts:
        _wrong(path, f"is `{one_line(text, 100)}`", "Write a path from the corpus' top, such as `src/click/core.py`")


def _check_citation(citation: Citation, path: decoding.Path) -> None:
    _check_path(citation.path, (*path, "path"))
    lines = _LINES.match(citation.lines)
    if lines is None or int(lines[1]) > int(lines[2]):
        _wrong((*path, "lines"), f"is `{one_line(citation.lines, 40)}`", "Write first and last line, as `25-29`")
    digest = citation.quote_sha1_of_line_range
    if digest is not None and not _SHA1.match(digest):
        _wrong((*path, "quote_sha1_of_line_range"), "is no SHA-1", "Write its 40 hexadecimal digits, or leave it out")


def _check_check(check: Check, path: decoding.Path) -> None:
    _check_path(check.path, (*path, "path"))
    if not check.glob.strip():
        _wrong((*path, "glob"), "is empty", "Write which files are meant, such as `*.py`")
    if check.kind == "absent":
        needed, foreign = ("regex",), ("text", "equals")
    else:
        needed, foreign = ("text", "equals"), ("regex",)
    for key in needed:
        if getattr(check, key) is None:
            _wrong((*path, key), f'is missing, and a check of kind "{check.kind}" needs it', "Add it")
    for key in foreign:
        if getattr(check, key) is not None:
            _wrong((*path, key), f'does not belong to a check of kind "{check.kind}"', "Take it out")
    if check.regex is not None:
        _check_regex(check.regex, (*path, "regex"))
    if check.text is not None and not check.text:
        _wrong((*path, "text"), "is empty", "Write the text that is counted")
    if check.equals is not None and check.equals < 0:
        _wrong((*path, "equals"), f"is {check.equals}", "Counts are 0 or more")
