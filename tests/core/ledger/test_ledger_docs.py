"""docs/ledger.md names every note in the words of the code."""

from pathlib import Path

import pytest

from tokenbench.ledger.notes import NOTES

PAGE = (Path(__file__).parents[3] / "docs" / "ledger.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", NOTES)
def test_every_note_is_documented(code: str) -> None:
    assert f"| `{code}` | {NOTES[code]} |" in PAGE
