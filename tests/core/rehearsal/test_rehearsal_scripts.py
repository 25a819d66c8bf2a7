"""The script file: what it may hold, which script plays, and how errors are told."""

import json
from pathlib import Path

import pytest

from tokenbench.errors import RehearsalError
from tokenbench.rehearsal.scripts import ScriptBook, load_scripts


def load(tmp_path: Path, *lines: object) -> ScriptBook:
    path = tmp_path / "scripts.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return load_scripts(path)


def cell(answer: str, **fields: object) -> dict[str, object]:
    return {"question": "q1", "answer": answer, **fields}


def chosen(book: ScriptBook, arm: str, repeat: int) -> str:
    script = book.cell(arm, "q1", repeat)
    assert script is not None
    return script.last.text


def test_the_most_specific_script_plays(tmp_path: Path) -> None:
    book = load(
        tmp_path,
        cell("arm and repeat", arm="native", repeat=2),
        cell("any"),
        "",
        cell("repeat", repeat=2),
        cell("arm", arm=["native", "hybrid"]),
    )
    assert chosen(book, "native", 1) == "arm"
    assert chosen(book, "native", 2) == "arm and repeat"
    assert chosen(book, "hybrid", 2) == "arm"
    assert chosen(book, "retrieval", 1) == "any"
    assert chosen(book, "retrieval", 2) == "repeat"
    assert book.cell("native", "q2", 1) is None


def test_warm_ups_and_judges_have_scripts_of_their_own(tmp_path: Path) -> None:
    book = load(
        tmp_path,
        {"kind": "warmup", "answer": "warm"},
        {"kind": "warmup", "arm": "native", "answer": "warm and native"},
        {"kind": "judge", "question": "q1", "rules": [{"regex": "256", "verdict": "correct"}], "otherwise": "wrong"},
    )
    native, hybrid, judge = book.warmup("native"), book.warmup("hybrid"), book.judge("q1")
    assert native is not None
    assert hybrid is not None
    assert judge is not None
    assert (native.last.text, hybrid.last.text) == ("warm and native", "warm")
    assert judge.otherwise == "wrong"
    assert book.judge("q2") is None


def test_an_empty_file_is_a_book_of_defaults(tmp_path: Path) -> None:
    assert load(tmp_path, "") == ScriptBook()


GREP = {"tools": [{"name": "Grep", "input": {"pattern": "x"}}]}


@pytest.mark.parametrize(
    ("line", "key", "what"),
    [
        ("{", "", "is not JSON"),
        ("[1]", "", "is no object"),
        ({"kind": "cel", "answer": "a"}, "kind", "no kind of script"),
        ({"question": "q1"}, "", "`answer` is missing"),
        ({"question": 7, "answer": "a"}, "question", "Expected `str`"),
        (cell("a", stesp=[]), "", "unknown key `stesp`"),
        (cell("a", where="x"), "where", "unknown key"),
        (cell("a", steps=[{"tools": []}]), "steps[0].tools", "length"),
        (cell("a", steps=[{"tool": []}]), "steps[0]", "unknown key `tool`"),
        (cell("a", steps=[{**GREP, "faults": [{"fault": "530"}]}]), "steps[0].faults[0].fault", "530"),
        (cell("a", steps=[{**GREP, "thinking_tokens": -1}]), "steps[0].thinking_tokens", ">= 0"),
        (cell("{size}"), "answer", "nothing fills the placeholder {size}"),
        ({"question": "q1", "answer": {"text": "{size}"}}, "answer.text", "nothing fills the placeholder {size}"),
        (
            cell("a", steps=[{"tools": [{"name": "Read", "input": {"file_path": ["{path}"]}}]}]),
            "steps[0].tools[0].input",
            "{path}",
        ),
        (cell("a", steps=[GREP], take=[{"from": "Grep", "pattern": "("}]), "take[0].pattern", "regular expression"),
        (cell("a", steps=[GREP], take=[{"from": "Grep", "pattern": "x"}]), "take[0].pattern", "no named group"),
        (cell("a", steps=[GREP], take=[{"from": "Read", "pattern": "(?P<x>x)"}]), "take[0].from", "`Read` is neither"),
        (
            {"kind": "judge", "question": "q1", "rules": [{"regex": "(", "verdict": "wrong"}]},
            "rules[0].regex",
            "regular",
        ),
        (
            {"kind": "judge", "question": "q1", "rules": [{"regex": "x", "verdict": "right"}]},
            "rules[0].verdict",
            "right",
        ),
    ],
)
def test_a_wrong_line_is_told_with_file_line_and_key(tmp_path: Path, line: object, key: str, what: str) -> None:
    with pytest.raises(RehearsalError) as error:
        load(tmp_path, cell("fine", arm="other"), line)
    where = f"{tmp_path}/scripts.jsonl:2"
    assert error.value.where == (f"{where}: {key}" if key else where)
    assert what in error.value.what
    assert error.value.remedy


def test_a_key_that_is_almost_right_is_guessed(tmp_path: Path) -> None:
    with pytest.raises(RehearsalError, match="Did you mean `steps`"):
        load(tmp_path, cell("a", stesp=[]))


def test_two_scripts_for_the_same_runs_are_an_error_that_names_both(tmp_path: Path) -> None:
    with pytest.raises(RehearsalError, match=r"scripts\.jsonl:2: .* scripts?.*scripts\.jsonl:1"):
        load(tmp_path, cell("a", arm=["native", "hybrid"], repeat=1), cell("b", arm="hybrid", repeat=1))


def test_two_judges_of_a_question_are_an_error_that_names_both(tmp_path: Path) -> None:
    judge = {"kind": "judge", "question": "q1", "rules": []}
    with pytest.raises(RehearsalError, match=r"scripts\.jsonl:2: .*scripts\.jsonl:1"):
        load(tmp_path, judge, judge)


def test_a_file_that_is_not_there_or_no_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(RehearsalError, match="cannot be read: No such file"):
        load_scripts(tmp_path / "none.jsonl")
    (tmp_path / "binary.jsonl").write_bytes(b"\xff")
    with pytest.raises(RehearsalError, match="UTF-8"):
        load_scripts(tmp_path / "binary.jsonl")


def test_there_is_one_pace_and_it_is_not_negative(tmp_path: Path) -> None:
    assert load(tmp_path, {"kind": "pace", "seconds": 0.4}, cell("a")).pace.seconds == 0.4
    with pytest.raises(RehearsalError, match=r"scripts\.jsonl:2: there is a pace already, at .*scripts\.jsonl:1"):
        load(tmp_path, {"kind": "pace", "seconds": 1}, {"kind": "pace", "seconds": 1})
    with pytest.raises(RehearsalError, match=r"scripts\.jsonl:1: seconds"):
        load(tmp_path, {"kind": "pace", "seconds": -1})
