"""docs/rehearsal.md says what the script format is."""

import json
import re
from pathlib import Path

import pytest

from tokenbench.rehearsal.scripts import (
    Answer,
    CellScript,
    Fault,
    JudgeRule,
    JudgeScript,
    Pace,
    Step,
    Take,
    ToolCall,
    WarmupScript,
    load_scripts,
)

PAGE = (Path(__file__).parents[3] / "docs" / "rehearsal.md").read_text()


@pytest.mark.parametrize(
    "struct", [CellScript, WarmupScript, JudgeScript, Pace, Step, ToolCall, Take, Answer, Fault, JudgeRule]
)
def test_every_key_is_documented(struct) -> None:
    for key in set(struct.__struct_encode_fields__) - {"where"}:
        assert f"`{key}`" in PAGE, key


def test_the_examples_are_scripts(tmp_path: Path) -> None:
    examples = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "scripts.jsonl"
    path.write_text("\n".join(json.dumps(json.loads(example)) for example in examples))
    book = load_scripts(path)
    assert (len(book.cells), len(book.judges)) == (1, 1)
