"""What a shell command was for: the reported table of 30, and what else was seen."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams import DATA

from tokenbench.ledger.shell import use_of_command

TABLE = [json.loads(line) for line in (DATA / "cases/47-bash-search-classifier.jsonl").read_text().splitlines()]


def test_the_table_has_its_30_rows() -> None:
    assert len(TABLE) == 30


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row["command"][:40])
def test_every_command_of_the_report_gets_its_class(row: dict[str, str]) -> None:
    assert use_of_command(row["command"]) == row["class"]


@pytest.mark.parametrize(
    ("command", "use"),
    [
        ("cat a.py | grep def", "search"),
        ("ls | grep test", "list"),
        ("xq 'block size' | head -20", "retrieval"),
        ("for f in *.py; do grep -n x $f; done", "search"),
        ("if grep -q x f; then echo yes; fi", "search"),
        ("find . -name '*.py' -exec grep -l foo {} \\;", "search"),
        ("find . -name '*.py' -exec cat {} +", "read"),
        ("find . -name x | xargs -n 1 cat", "read"),
        ("find . -delete", "other"),
        ("grep x f > found.txt", "write"),
        ("grep x f 2>/dev/null", "search"),
        ("grep x f 2>&1 | head", "search"),
        ("sudo -u root timeout -k 5 10 rg x", "search"),
        ("(cd src; rg x)", "search"),
        ("cat <<EOF\nrg x\nEOF\n", "read"),
        ("sh -c \"bash -c 'ls src'\"", "list"),
        ("git -C sub ls-files", "list"),
        ("perl -pi -e 's/a/b/' f", "edit"),
        ("make test; cat log.txt", "read"),
        ("echo hello", "other"),
        ("grep $(cat pattern) src", "unknown"),
        ("grep 'open", "unknown"),
        ("", "other"),
    ],
)
def test_what_stands_around_a_command_does_not_hide_it(command: str, use: str) -> None:
    assert use_of_command(command) == use


@given(st.text(alphabet="ab'\"\\$(|&;<>\n `-grepxq=", max_size=60))
def test_any_text_gets_a_class(command: str) -> None:
    assert use_of_command(command)
