"""Session files of ~/.claude/projects: the finished snapshot of each id, and nothing to reconcile it with."""

import os
import shutil
from pathlib import Path

from streams import DATA

from tokenbench.figures import Code
from tokenbench.ledger import read_ledger, shape
from tokenbench.ledger.model import Tokens

SESSIONS = DATA / "sessions"


def test_counters_that_grew_are_those_of_the_finished_reply() -> None:
    found = read_ledger(SESSIONS / "delta_grow.jsonl")
    assert (found.token_reconciled, found.outcome) == (None, "answered")
    assert found.tokens is not None
    assert (found.tokens.input, found.tokens.cache_read, found.tokens.output) == (3_007, 25_777, 121)
    assert found.tokens.billed_input == 3_007 + 13_000 + 25_777


def test_ids_that_collide_are_told_apart_by_their_api_requests() -> None:
    found = read_ledger(SESSIONS / "same_id.jsonl")
    assert (found.calls, found.tokens) == (3, Tokens.of(12, 0, 15_300, 43_000, 192))
    assert found.refused(Code.CALLS_COLLIDE)


def test_a_reply_whose_end_was_not_written_is_a_lower_bound() -> None:
    assert "PARTIAL-OUTPUT" in read_ledger(SESSIONS / "cut_text.jsonl").notes


def test_subagents_that_have_files_of_their_own_are_named(tmp_path: Path) -> None:
    session = shutil.copy(SESSIONS / "subagent.jsonl", tmp_path / "s.jsonl")
    folder = tmp_path / "s" / "subagents"
    folder.mkdir(parents=True)
    agent = shutil.copy(SESSIONS / "subagent-agent.jsonl", folder / "agent-1.jsonl")
    assert "SUBAGENT-FILES-NOT-READ" in read_ledger(session).notes
    found = read_ledger(agent)
    assert (found.tokens, found.main) == (Tokens.of(12, 0, 165_300, 143_000, 192), Tokens())
    assert {row.role for row in found.models.values()} == {"subagent"}


def test_no_cost_is_known() -> None:
    found = read_ledger(SESSIONS / "subagent.jsonl")
    assert (found.cost_usd.reported, found.cost_usd.own, found.cost_reconciled) == (None, None, None)
    assert found.refused(Code.PRICE_UNKNOWN)


def test_a_file_name_that_is_no_utf8_can_be_printed(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff.jsonl"))
    shutil.copy(SESSIONS / "subagent.jsonl", odd)
    assert b"odd\xef\xbf\xbd.jsonl" in shape.line(read_ledger(odd))
