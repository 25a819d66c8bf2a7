"""questions.jsonl: what is accepted, and how each fault names file, line, key and what would be right."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.errors import QuestionsError
from tokenbench.experiment.model import Rule
from tokenbench.experiment.questions import load_questions

GOOD: dict[str, Any] = {"id": "q01", "class": "lookup", "text": "Where?", "truth": "There."}


def line(**changes: object) -> str:
    return json.dumps({**GOOD, **changes})


def written(folder: Path, *lines: str) -> Path:
    path = folder / "questions.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def refusal(path: Path) -> QuestionsError:
    with pytest.raises(QuestionsError) as caught:
        load_questions(path)
    return caught.value


def test_questions_are_read_in_their_order_with_their_rules(tmp_path: Path) -> None:
    rules = {
        "must": [{"number": 256}, {"word": ["BLOCK_SIZE", "block size"]}],
        "must_not": [{"any": [{"number": 128}, {"regex": "(?i)half"}], "unless": {"number": 256}}],
    }
    first, second = load_questions(written(tmp_path, line(id="b", **rules), "", line(id="a")))
    assert (first.id, second.id) == ("b", "a")
    assert first.must == (Rule(number=256), Rule(word=("BLOCK_SIZE", "block size")))
    assert first.must_not[0].unless == Rule(number=256)


def test_a_byte_order_mark_crlf_and_strange_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + line(text="a\u2028b").encode() + b"\r\n\r\n" + line(id="q02").encode())
    assert [question.id for question in load_questions(path)] == ["q01", "q02"]
    path.write_text(json.dumps({**GOOD, "text": "a\u2028b\x85c"}, ensure_ascii=False))
    assert load_questions(path)[0].text == "a\u2028b\x85c"


@pytest.mark.parametrize(
    ("text", "what", "remedy"),
    [
        ("{'id': 1}", "is not JSON", "one JSON object"),
        ("[1]", "is a list", "a table of keys"),
        ("null", "is null", "a table of keys"),
        ("[" * 100_000, "is nested too deeply", "Write it flat"),
        (line(truht="x"), "`truht` is not a key", "Did you mean `truth`?"),
        (json.dumps({"id": "q01", "class": "lookup", "text": "Where?"}), "`truth` is missing", "Add it"),
        (line(**{"class": "lokup"}), "`class` is `lokup`", "Did you mean `lookup`?"),
        (line(**{"class": 3}), "`class` is the number 3", 'one of "lookup"'),
        (line(id="Q 1"), "`id` is `Q 1`", "a-z, 0-9"),
        (line(id="a__b"), "`id` is `a__b`", "single underscores"),
        (line(id="a_"), "`id` is `a_`", "single underscores"),
        (line(id="../x"), "`id` is `../x`", "a-z, 0-9"),
        (line(id="q" * 101), "`id`", "at most 100"),
        (line(text=" "), "`text` is empty", "Write it out"),
        (line(truth=""), "`truth` is empty", "Write it out"),
        (line(text="\ud800"), "`text` holds half a surrogate pair", "UTF-8"),
        ('{"id": "q01", "id": "q02"}', "`id` is given twice", "Keep one"),
        (line(must=[{}]), "`must[0]` has no rule", "exactly one of number, word, regex, any"),
        (line(must=[{"number": 1, "word": "x"}]), "`must[0]` has number and word", "exactly one"),
        (line(must=[{"numbre": 1}]), "`must[0].numbre` is not a key", "Did you mean `number`?"),
        (line(must=[{"number": True}]), "`must[0].number` is true", "a whole number or a number"),
        (line(must=[{"number": "1"}]), "`must[0].number` is the text `1`", "a whole number or a number"),
        ('{"id": "q01", "must": [{"number": NaN}]}', "holds NaN", "Write a number"),
        ('{"id": "q01", "must": [{"number": 1' + "0" * 5000 + "}]}", "cannot be read", "shorter"),
        (line(must=[{"word": ""}]), "`must[0].word` holds no word", "Name the word"),
        (line(must=[{"word": []}]), "`must[0].word` holds no word", "Name the word"),
        (line(must=[{"word": ["a", 1]}]), "`must[0].word[1]` is the number 1", "text in quotes"),
        (line(must=[{"regex": "("}]), "`must[0].regex` does not compile", "Mend the regular expression"),
        (line(must=[{"regex": "a{99999999999999999999}"}]), "does not compile", "Mend the regular expression"),
        (line(must=[{"regex": ""}]), "`must[0].regex` is 0 characters", "Write 1 to"),
        (line(must=[{"any": []}]), "`must[0].any` is empty", "Name the rules"),
        (line(must=[{"any": [{"regex": "("}]}]), "`must[0].any[0].regex` does not compile", "Mend"),
        (line(must=[{"number": 1, "unless": {"number": 2}}]), "`must[0].unless` cannot stand here", "must_not"),
        (line(must_not=[{"any": [{"word": "x", "unless": {"word": "y"}}]}]), "`must_not[0].any[0].unless`", "must_not"),
        (line(must_not=[{"word": "x", "unless": {}}]), "`must_not[0].unless` has no rule", "exactly one"),
        (line(must={"number": 1}), "`must` is a table", "a list"),
        (line(citations=[{"path": "a.py", "lines": "9-2"}]), "`citations[0].lines` is `9-2`", "25-29"),
        (line(citations=[{"path": "a.py", "lines": "0-2"}]), "`citations[0].lines` is `0-2`", "25-29"),
        (line(citations=[{"path": "a.py", "lines": "12"}]), "`citations[0].lines` is `12`", "25-29"),
        (line(citations=[{"path": "../a.py", "lines": "1-2"}]), "`citations[0].path`", "from the corpus' top"),
        (line(citations=[{"path": "a", "lines": "1-2", "quote_sha1_of_line_range": "x"}]), "is no SHA-1", "40"),
        (line(checks=[{"kind": "absent", "path": "src", "glob": "*.py"}]), "`checks[0].regex` is missing", "Add it"),
        (line(checks=[{"kind": "count_files", "path": ".", "glob": "*"}]), "`checks[0].text` is missing", "Add it"),
        (line(checks=[{"kind": "count", "path": ".", "glob": "*"}]), "`checks[0].kind` is `count`", "Did you mean"),
        (
            line(checks=[{"kind": "absent", "path": ".", "glob": "*", "regex": "x", "equals": 1}]),
            "`checks[0].equals` does not belong",
            "Take it out",
        ),
    ],
)
def test_each_fault_names_its_line_the_key_and_what_would_be_right(
    tmp_path: Path, text: str, what: str, remedy: str
) -> None:
    path = written(tmp_path, line(id="first"), "", text)
    error = refusal(path)
    assert error.where == f"{path}:3"
    assert what in error.what
    assert remedy in error.remedy


def test_rules_nested_without_bottom_are_a_fault_and_no_crash(tmp_path: Path) -> None:
    deep = '{"any": [' * 300 + '{"number": 1}' + "]}" * 300
    error = refusal(written(tmp_path, line()[:-1] + ', "must": [' + deep + "]}"))
    assert "nested too deeply" in error.what


def test_a_duplicate_id_names_both_lines(tmp_path: Path) -> None:
    error = refusal(written(tmp_path, line(), line(id="q02"), line()))
    assert error.where.endswith("questions.jsonl:3")
    assert "line 1" in error.what


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf\r\n"])
def test_a_file_without_a_question_is_a_fault(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_bytes(content)
    assert "holds no question" in refusal(path).what


def test_what_is_no_utf8_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_bytes(line().encode() + b"\n\xff\n")
    assert refusal(path).where == f"{path}:2"


def test_hostile_text_does_not_reach_the_terminal(tmp_path: Path) -> None:
    path = written(tmp_path, '{"\\u001b[2J\\u202e": 1}')
    assert not {"\x1b", "\u202e"} & set(str(refusal(path)))


def fault_of(path: Path) -> QuestionsError | None:
    try:
        load_questions(path)
    except QuestionsError as error:
        return error
    return None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["id", "class", "must", "must_not", "citations", "checks", "x"]), json_values))
def test_any_json_gives_questions_or_a_sentence_with_its_line(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[str, object]
) -> None:
    path = written(tmp_path_factory.mktemp("any"), json.dumps({**GOOD, **changes}))
    error = fault_of(path)
    assert error is None or (error.where == f"{path}:1" and error.remedy)
