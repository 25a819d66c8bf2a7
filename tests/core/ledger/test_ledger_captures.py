"""Every capture of the real CLI against what the scripted API served: reconciled to the token, or refused."""

from typing import NamedTuple

import pytest
from streams import DATA, ledger, read, served

from tokenbench.figures import Code
from tokenbench.ledger.model import Tokens

STREAMS = DATA / "streams"
FOUND = "BLOCK_SIZE is 256, src/Store.java:5"


class Expected(NamedTuple):
    """What must come of a capture."""

    answer: str | None = FOUND
    outcome: str = "answered"
    refused: Code | None = None
    """The code that refuses its tokens."""
    notes: tuple[str, ...] = ()


INFRASTRUCTURE = Expected(None, "infrastructure")
KILLED = Expected(None, "no_result", Code.NO_RESULT)
CAPTURES = {
    "claude/bare": Expected(notes=("TOOL-DENIED", "PERMISSION-DENIALS-INCOMPLETE")),
    "claude/bash_bg": Expected(),
    "claude/bash_denied": Expected("could not, but " + FOUND, notes=("TOOL-DENIED",)),
    "claude/bash_timeout": Expected(),
    "claude/bash_xq_allowed": Expected(),
    "claude/bash_xq_compound": Expected("done", notes=("TOOL-DENIED",)),
    "claude/compact_reactive": Expected(notes=("COMPACTION", "TTL-SPLIT-ASSUMED")),
    "claude/cut_final_text": Expected(None, "infrastructure", Code.CALLS_UNRECONCILED, ("STREAM-BROKEN",)),
    "claude/cut_start": Expected(notes=("RESULT-USAGE-SHORT",)),
    "claude/cut_text": Expected(None, "infrastructure", Code.CALLS_UNRECONCILED, ("STREAM-BROKEN",)),
    "claude/delta_grow": Expected(notes=("COUNTERS-GREW", "USAGE-INCONSISTENT")),
    "claude/e400": INFRASTRUCTURE,
    "claude/e400_mid": INFRASTRUCTURE,
    "claude/e401": INFRASTRUCTURE,
    "claude/empty": Expected(None, notes=("EMPTY-REPLIES",)),
    "claude/env_mcp": Expected("ok"),
    "claude/f529_max2": INFRASTRUCTURE,
    "claude/fallback": Expected(notes=("MODEL-SWITCHED",)),
    "claude/hang_mid": Expected(),
    "claude/hook_events": Expected(),
    "claude/huge_grep": Expected("big"),
    "claude/huge_read": Expected("big"),
    "claude/image": Expected("a picture", notes=("IMAGE-ESTIMATE",)),
    "claude/json_schema": Expected('{"name":"BLOCK_SIZE","value":256,"file":"src/Store.java"}'),
    "claude/json_schema_never": Expected("BLOCK_SIZE is 256", notes=("UNGROUNDED",)),
    "claude/max_budget": Expected(None, "max_budget", notes=("RESULT-USAGE-SHORT",)),
    "claude/max_turns": Expected(None, "max_turns"),
    "claude/mcp": Expected(),
    "claude/mcp_broken_server": Expected(),
    "claude/model_haiku": Expected(),
    "claude/model_sonnet": Expected(),
    "claude/no_verbose": KILLED,
    "claude/nokey": INFRASTRUCTURE,
    "claude/normal3": Expected(),
    "claude/oneline": Expected("long"),
    "claude/out_json": Expected(refused=Code.CALLS_UNRECONCILED, notes=("ANSWER-FROM-RESULT", "UNGROUNDED")),
    "claude/parallel": Expected(),
    "claude/partial": Expected(),
    "claude/r529": Expected(),
    "claude/refusal": Expected(None, notes=("MODEL-REFUSED",)),
    "claude/resume": Expected("second answer"),
    "claude/same_id": Expected(),
    "claude/sigint_api": KILLED,
    "claude/sigkill_api": KILLED,
    "claude/sigterm_tool": KILLED,
    "claude/stdin_open": Expected(notes=("UNGROUNDED",)),
    "claude/stdout_closed": KILLED,
    "claude/sub_bg": Expected(notes=("SUBAGENTS",)),
    "claude/sub_multi": Expected(notes=("SUBAGENTS",)),
    "claude/subagent": Expected(notes=("SUBAGENTS",)),
    "claude/system_prompt": Expected(),
    "claude/think": Expected("Part one. Part two.", notes=("RESULT-TEXT-SHORTER-THAN-STREAM",)),
    "claude/tools_restrict": Expected(),
    "claude/ttl_mix": Expected(),
    "claude/unicode": Expected("结果 😀 \x00 \u2028 \x1b[31mred\x1b[0m done"),
    "claude/websearch": Expected(notes=("SIDE-CALLS", "SEARCHES-DIFFER")),
    "claude-2.1.332/bash_denied": Expected("could not, but " + FOUND, notes=("TOOL-DENIED",)),
    "claude-2.1.332/compact_cmd": Expected(None, notes=("COMPACTION", "CARRYOVER")),
    "claude-2.1.332/cut_text": Expected(refused=Code.CALLS_UNRECONCILED, notes=("STREAM-BROKEN",)),
    "claude-2.1.332/e400": INFRASTRUCTURE,
    "claude-2.1.332/empty": Expected(None, notes=("EMPTY-REPLIES",)),
    "claude-2.1.332/f529_max2": INFRASTRUCTURE,
    "claude-2.1.332/huge_bash": Expected("big"),
    "claude-2.1.332/json_schema": Expected('{"name":"BLOCK_SIZE","value":256,"file":"src/Store.java"}'),
    "claude-2.1.332/max_budget": Expected(None, "max_budget", notes=("RESULT-USAGE-SHORT",)),
    "claude-2.1.332/model_nosuch-model": Expected(notes=("COST-GUESSED-BY-CLI",)),
    "claude-2.1.332/no_verbose": KILLED,
    "claude-2.1.332/normal3": Expected(),
    "claude-2.1.332/parallel": Expected(),
    "claude-2.1.332/refusal": Expected(None, notes=("RESULT-USAGE-SHORT", "MODEL-SWITCHED", "MODEL-REFUSED")),
    "claude-2.1.332/resume": Expected("second answer", notes=("CARRYOVER",)),
    "claude-2.1.332/sigterm_tool": KILLED,
    "claude-2.1.332/sub_bg": Expected(notes=("SUBAGENTS",)),
    "claude-2.1.332/subagent": Expected(notes=("SUBAGENTS",)),
    "claude-2.1.332/ttl_mix": Expected(),
    "claude-2.1.332/unicode": Expected("结果 😀 \x00 \u2028 \x1b[31mred\x1b[0m done"),
    "claude-2.1.332/websearch": Expected(notes=("SIDE-CALLS", "SEARCHES-DIFFER")),
}


def test_the_table_holds_every_capture() -> None:
    names = {
        f"{path.parent.name}/{path.name.removesuffix('.gz').removesuffix('.jsonl')}"
        for path in STREAMS.glob("claude*/*.jsonl*")
        if ".calls." not in path.name
    }
    assert names == set(CAPTURES)


@pytest.mark.parametrize(("name", "expected"), CAPTURES.items(), ids=CAPTURES)
def test_a_capture_equals_what_was_served_or_is_refused(name: str, expected: Expected) -> None:
    found = ledger(read(STREAMS / f"{name}.jsonl"))
    assert (found.outcome, found.answer, found.notes) == (expected.outcome, expected.answer, expected.notes)
    if expected.refused is not None:
        assert found.token_reconciled is False
        assert found.refusals[0].code is expected.refused
        assert (found.tokens, found.main, found.cost_usd.reported, found.cost_usd.own) == (None, None, None, None)
        assert found.refusals[0].evidence
    else:
        assert found.token_reconciled is True
        assert found.tokens == served(read(STREAMS / f"{name}.calls.jsonl"))
        assert all(equation.holds is not False or equation.note for equation in found.equations)


@pytest.mark.parametrize("name", sorted(CAPTURES))
def test_a_lower_bound_is_never_above_what_was_served(name: str) -> None:
    found = ledger(read(STREAMS / f"{name}.jsonl")).lower_bound
    truth = served(read(STREAMS / f"{name}.calls.jsonl"))
    if name in {"claude/cut_text", "claude/cut_final_text", "claude-2.1.332/cut_text"}:
        truth += Tokens.of(4, 0, 5100, 21000, 64) if "final" not in name else Tokens.of(3, 0, 5000, 0, 57)
    assert found.billed_input <= truth.billed_input
    assert found.output <= truth.output


def test_a_subagent_in_the_foreground_has_a_last_message_that_is_only_in_its_report() -> None:
    found = ledger(read(STREAMS / "claude/subagent.jsonl"))
    (rest,) = found.remainder
    assert (rest.what, rest.tokens) == ("subagent", Tokens.of(5, 0, 55_200, 72_000, 71))
    assert found.main == Tokens.of(7, 0, 10_100, 21_000, 121)


def test_a_resumed_session_is_charged_for_what_it_did_itself() -> None:
    found = ledger(read(STREAMS / "claude-2.1.332/resume.jsonl"))
    assert found.tokens == Tokens.of(7, 0, 10_100, 21_000, 121)
    assert (str(found.cost_usd.reported), str(found.cost_usd.own)) == ("0.174896", "0.087448")


def test_ids_that_collide_refuse_figures_by_call_and_nothing_else() -> None:
    found = ledger(read(STREAMS / "claude/same_id.jsonl"))
    assert found.refused(Code.CALLS_COLLIDE)
    assert (found.call_rows, found.calls) == ((), 3)
    assert found.main == Tokens.of(12, 0, 15_300, 43_000, 192)


def test_a_fallback_after_a_refusal_belongs_to_the_main_loop() -> None:
    found = ledger(read(STREAMS / "claude-2.1.332/refusal.jsonl"))
    assert {name: row.role for name, row in found.models.items()} == {
        "claude-opus-5-5": "main",
        "claude-opus-4-8": "main",
    }
    assert found.main == found.tokens == Tokens.of(17, 0, 20_500, 65_000, 263)


def test_partial_messages_make_every_output_exact() -> None:
    found = ledger(read(STREAMS / "claude/partial.jsonl"))
    assert [(row.tokens.output, row.output_is_partial) for row in found.call_rows] == [
        (57, False),
        (64, False),
        (71, False),
    ]


def test_a_price_that_the_cli_guessed_is_no_cost() -> None:
    found = ledger(read(STREAMS / "claude-2.1.332/model_nosuch-model.jsonl"))
    assert (str(found.cost_usd.reported), found.cost_usd.own, found.cost_reconciled) == ("0.134888", None, None)
