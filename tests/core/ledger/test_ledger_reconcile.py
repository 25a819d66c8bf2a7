"""The equations: what explains a gap between the two sides, and what refuses a run."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from streams import DATA, Script, ledger, read, text, tool

from tokenbench.figures import Code
from tokenbench.ledger import read_ledger
from tokenbench.ledger.model import Equation, Ledger, Tokens

OPUS = "claude-opus-4-8"
FIRST, SECOND = (3, 0, 5_000, 0, 2), (4, 0, 100, 5_000, 2)
BOTH = (7, 0, 5_100, 5_000, 90)


def two_calls() -> Script:
    script = Script()
    script.call("m1", FIRST, tool("t1"))
    script.result_of("t1")
    script.call("m2", SECOND, text("done"))
    return script


def codes(found: Ledger) -> list[Code]:
    return [refusal.code for refusal in found.refusals]


def equation(found: Ledger, name: str) -> Equation:
    return next(row for row in found.equations if row.name.startswith(name))


def test_equal_sides_reconcile_and_only_the_price_is_unknown() -> None:
    script = two_calls()
    script.end(BOTH, {OPUS: BOTH})
    found = script.ledger()
    assert (found.token_reconciled, found.cost_reconciled, codes(found)) == (True, None, [Code.PRICE_UNKNOWN])
    assert found.tokens == found.main == Tokens.of(*BOTH)
    assert {row.name: row.holds for row in found.equations} == {
        "main loop": True,
        f"model {OPUS}": True,
        "cost": True,
        "price": None,
    }


COUNTERS = ("input", "write_5m", "write_1h", "read", "output")


def off(usage: tuple[int, ...], counter: str, by: int) -> tuple[int, ...]:
    return tuple(value + by * (name == counter) for name, value in zip(COUNTERS, usage, strict=True))


@pytest.mark.parametrize("by", [1, -1])
@pytest.mark.parametrize("counter", COUNTERS)
@pytest.mark.parametrize("side", ["usage", "models"])
def test_one_token_more_or_less_in_the_cli_s_accounts_refuses(counter: str, side: str, by: int) -> None:
    first, both = (3, 10, 5_000, 10, 2), (7, 10, 5_100, 5_010, 90)
    script = Script()
    script.call("m1", first, tool("t1"))
    script.result_of("t1")
    script.call("m2", SECOND, text("done"))
    script.end(
        off(both, counter, by if side == "usage" else 0), {OPUS: off(both, counter, by if side == "models" else 0)}
    )
    found = script.ledger()
    assert found.token_reconciled is False
    assert codes(found)[0] in {Code.CALLS_UNRECONCILED, Code.MODELS_UNRECONCILED}
    assert (found.tokens, found.main, found.cost_usd.own, found.cost_reconciled) == (None, None, None, False)


@pytest.mark.parametrize("counter", COUNTERS[:4])
def test_a_call_that_took_in_more_than_the_cli_counts_refuses(counter: str) -> None:
    script = Script()
    script.call("m1", off(FIRST, counter, 1), tool("t1"))
    script.result_of("t1")
    script.call("m2", SECOND, text("done"))
    script.end(BOTH, {OPUS: BOTH})
    found = script.ledger()
    assert (found.token_reconciled, codes(found)) == (False, [Code.CALLS_UNRECONCILED])
    assert found.lower_bound.output == 0


def test_a_refusal_names_both_sides_of_its_equation() -> None:
    script = two_calls()
    script.end(off(BOTH, "read", -5_000), {OPUS: BOTH})
    found = script.ledger()
    assert found.refusals[0].evidence == (
        "calls of the main loop: input 7, cache write 5100, cache read 5000, output 4",
        "usage of the result events: input 7, cache write 5100, cache read 0, output 90",
    )
    assert equation(found, "main loop").holds is False


@pytest.mark.parametrize("lost", range(1, 4))
def test_a_line_that_was_lost_is_not_taken_for_growth(lost: int) -> None:
    script = two_calls()
    script.end(BOTH, {OPUS: BOTH}, num_turns=2)
    del script.rows[lost]
    found = script.ledger()
    assert found.token_reconciled is (lost == 2)  # a tool result holds no counters


def test_growing_counters_are_taken_from_the_result_where_the_models_say_the_same() -> None:
    script = Script()
    script.call("m1", (0, 0, 0, 0, 0), tool("t1"))
    script.result_of("t1")
    script.call("m2", (1, 0, 0, 0, 0), text("done"))
    script.end(BOTH, {OPUS: BOTH})
    found = script.ledger()
    assert (found.token_reconciled, found.tokens) == (True, Tokens.of(*BOTH))
    assert "COUNTERS-GREW" in found.notes
    assert [rest.what for rest in found.remainder] == ["growth of counters"]


def test_growth_that_the_models_do_not_confirm_refuses() -> None:
    script = Script()
    script.call("m1", (1, 0, 0, 0, 0), text("done"))
    script.end(BOTH, {OPUS: off(BOTH, "input", 1)})
    assert script.ledger().token_reconciled is False


def test_replies_of_which_only_the_end_counts_all_are_exact_with_partial_messages() -> None:
    script = Script()
    for number, (started, ended) in enumerate([((3, 0, 9, 0, 1), 30), ((4, 0, 9, 9, 1), 40)]):
        usage = dict(zip(("input_tokens", "output_tokens"), (started[0], 1), strict=True)) | {
            "cache_creation_input_tokens": started[2],
            "cache_read_input_tokens": started[3],
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": started[2]},
        }
        message = {"id": f"m{number}", "model": OPUS, "content": [], "usage": usage}
        script.row("stream_event", event={"type": "message_start", "message": message})
        script.call(f"m{number}", started, text("done") if number else tool("t"))
        script.row("stream_event", event={"type": "message_delta", "usage": {"output_tokens": ended}})
        if not number:
            script.result_of("t")
    script.end((7, 0, 18, 9, 70), {OPUS: (7, 0, 18, 9, 70)})
    assert script.ledger().token_reconciled is True
    script.rows.pop()
    script.end((7, 0, 18, 9, 71), {OPUS: (7, 0, 18, 9, 71)})
    assert script.ledger().token_reconciled is False


def test_calls_that_the_result_leaves_out_count_where_the_models_hold_them() -> None:
    script = two_calls()
    script.end((3, 0, 5_000, 0, 40), {OPUS: BOTH}, subtype="error_max_budget_usd", is_error=True, text=None)
    found = script.ledger()
    assert (found.outcome, found.token_reconciled, found.tokens) == ("max_budget", True, Tokens.of(*BOTH))
    assert found.main == Tokens.of(*BOTH)
    assert "RESULT-USAGE-SHORT" in found.notes


def test_calls_that_neither_account_holds_refuse() -> None:
    script = two_calls()
    script.end((3, 0, 5_000, 0, 40), {OPUS: (3, 0, 5_000, 0, 40)}, text="")
    found = script.ledger()
    assert (found.outcome, codes(found)) == ("infrastructure", [Code.CALLS_UNRECONCILED])


def test_an_attempt_given_up_before_a_retry_counts_only_if_the_result_holds_it() -> None:
    script = Script()
    script.call("dead", (3, 0, 6_000, 0, 1), text("The size is 12"))
    script.row("system", subtype="api_retry", attempt=1, error_status=529, error="overloaded")
    script.call("live", (3, 0, 0, 6_000, 1), text("256"))
    script.end((3, 0, 0, 6_000, 20), {OPUS: (3, 0, 0, 6_000, 20)}, text="256")
    found = script.ledger()
    assert (found.abandoned_calls, found.calls, found.answer) == (1, 1, "256")
    script.rows.pop()
    script.end((6, 0, 6_000, 6_000, 30), {OPUS: (6, 0, 6_000, 6_000, 30)}, text="256")
    found = script.ledger()
    assert (found.abandoned_calls, found.calls, found.tokens) == (0, 2, Tokens.of(6, 0, 6_000, 6_000, 30))


def test_a_reply_that_was_cut_off_refuses_whatever_adds_up() -> None:
    script = Script()
    script.call("m1", FIRST, text("BLOCK"))
    script.row(
        "user",
        isSynthetic=True,
        message={"content": [text("Your response above was cut off mid-stream. Resume directly from where it stops")]},
    )
    script.call("m2", SECOND, text("done"))
    script.end(BOTH, {OPUS: BOTH})
    found = script.ledger()
    assert (found.token_reconciled, codes(found)[0]) == (False, Code.CALLS_UNRECONCILED)
    assert "STREAM-BROKEN" in found.notes


def test_a_rest_of_a_compaction_is_itemised_and_one_without_a_cause_refuses() -> None:
    more = (10, 0, 5_100, 11_000, 490)
    script = two_calls()
    script.row("system", subtype="compact_boundary", compact_metadata={"trigger": "auto"})
    script.end(BOTH, {OPUS: more}, num_turns=2)
    found = script.ledger()
    assert [(rest.what, rest.tokens) for rest in found.remainder] == [("compaction", Tokens.of(3, 0, 0, 6_000, 400))]
    assert (found.tokens, found.main) == (Tokens.of(*more), Tokens.of(*BOTH))

    script = two_calls()
    script.end(BOTH, {OPUS: more})
    found = script.ledger()
    assert (found.token_reconciled, codes(found)) == (False, [Code.CARRYOVER])
    assert "no event in it explains them" in found.refusals[0].reason


def test_totals_that_may_hold_an_earlier_session_are_not_explained_by_a_compaction() -> None:
    rows = read(DATA / "streams/claude-2.1.332/compact_cmd.jsonl").splitlines()
    result: dict[str, Any] = json.loads(rows[-1])
    del result["model_usage_since_last_result"]
    found = ledger(b"\n".join([*rows[:-1], json.dumps(result).encode()]))
    assert (found.token_reconciled, codes(found)[-1]) == (False, Code.CARRYOVER)


def test_a_resumed_session_without_its_own_account_needs_the_transcript_it_resumed(tmp_path: Path) -> None:
    rows = read(DATA / "streams/claude-2.1.332/resume.jsonl").splitlines()
    result: dict[str, Any] = json.loads(rows[-1])
    del result["model_usage_since_last_result"]
    resumed = tmp_path / "second.jsonl"
    resumed.write_bytes(b"\n".join([*rows[:-1], json.dumps(result).encode()]))
    assert read_ledger(resumed).refused(Code.CARRYOVER)

    first = Script("claude-opus-5-5")
    first.call("a", (7, 0, 10_100, 21_000, 121), text("first"))
    first.end((7, 0, 10_100, 21_000, 121), {"claude-opus-5-5": (7, 0, 10_100, 21_000, 121)}, "first", cost="0.087448")
    earlier = tmp_path / "first.jsonl"
    earlier.write_bytes(first.bytes())
    found = read_ledger(resumed, resumed_from=earlier)
    assert (found.token_reconciled, found.tokens) == (True, Tokens.of(7, 0, 10_100, 21_000, 121))
    assert (found.cost_usd.own, "CARRYOVER" in found.notes) == (Decimal("0.087448"), True)


def test_an_account_since_the_last_result_that_contradicts_the_totals_is_not_believed() -> None:
    rows = read(DATA / "streams/claude-2.1.332/normal3.jsonl").splitlines()
    result: dict[str, Any] = json.loads(rows[-1])
    result["model_usage_since_last_result"]["claude-opus-5-5"]["outputTokens"] -= 1
    found = ledger(b"\n".join([*rows[:-1], json.dumps(result).encode()]))
    assert (found.token_reconciled, codes(found)) == (False, [Code.MODELS_UNRECONCILED])


def test_a_second_model_without_calls_is_a_sidecar_and_out_of_the_totals() -> None:
    script = two_calls()
    script.end(BOTH, {OPUS: BOTH, "claude-haiku-4-5-20251001": (320, 0, 0, 0, 18)})
    found = script.ledger()
    assert found.tokens == Tokens.of(*BOTH)
    assert [(rest.what, rest.model) for rest in found.remainder] == [("sidecar", "claude-haiku-4-5-20251001")]


def test_without_a_call_or_an_announcement_no_model_is_the_run_s_own() -> None:
    script = Script()
    script.rows.clear()
    script.end((0, 0, 0, 0, 0), {OPUS: BOTH})
    assert script.ledger().token_reconciled is False


def test_a_reply_that_names_another_model_is_billed_as_the_one_asked_for() -> None:
    script = Script("house-opus")
    script.call("m1", FIRST, text("done"), model="vendor/opus-2026")
    script.end((3, 0, 5_000, 0, 40), {"house-opus": (3, 0, 5_000, 0, 40)})
    found = script.ledger()
    assert (found.token_reconciled, "REPLY-MODEL-DIFFERS" in found.notes) == (True, True)


@pytest.mark.parametrize(
    ("called", "reported", "same"),
    [
        (OPUS, OPUS + "[1m]", True),
        (OPUS, OPUS + "[1M]", True),
        ("claude-haiku-4-5", "claude-haiku-4-5-20251001", True),
        ("claude-opus-5", "claude-opus-5-5", False),
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5-20260101", False),
    ],
)
def test_a_model_is_its_name_but_for_the_context_suffix_and_the_date(called: str, reported: str, same: bool) -> None:
    script = Script("some-alias")
    script.call("m1", FIRST, text("done"), model=called)
    script.end((3, 0, 5_000, 0, 40), {reported: (3, 0, 5_000, 0, 40)})
    assert script.ledger().token_reconciled is same


def test_costs_that_do_not_add_up_refuse_dollars_and_no_tokens() -> None:
    script = two_calls()
    script.end(BOTH, {OPUS: BOTH}, cost="0.5")
    script.rows[-1]["total_cost_usd"] = 0.6
    found = script.ledger()
    assert (found.token_reconciled, found.cost_reconciled, found.cost_usd.reported) == (True, False, None)
    assert found.refused(Code.COST_UNRECONCILED)


@pytest.mark.parametrize("cost", ["1e99999999", "1e-99999999", "-5", '"sNaN"', '"-Infinity"', "1e400"])
@pytest.mark.parametrize("where", ["costUSD", "total_cost_usd"])
def test_a_cost_that_nobody_can_have_paid_refuses_dollars_and_no_tokens(cost: str, where: str) -> None:
    script = two_calls()
    script.end(BOTH, {OPUS: BOTH}, cost="0.5")
    found = ledger(script.bytes().replace(f'"{where}":'.encode(), f'"{where}":{cost},"was":'.encode()))
    assert (found.token_reconciled, found.cost_reconciled, found.cost_usd.reported) == (True, False, None)
    assert found.refused(Code.COST_UNRECONCILED)


@pytest.mark.parametrize(("total", "holds"), [(0.30000000000000004, True), (0.3000001, False)])
def test_costs_are_compared_at_a_billionth_of_a_dollar(total: float, holds: bool) -> None:
    script = two_calls()
    script.end(BOTH, {OPUS: BOTH}, cost="0.3")
    script.rows[-1]["total_cost_usd"] = total
    assert equation(script.ledger(), "cost").holds is holds


def test_without_totals_by_model_the_main_loop_stands_alone_or_not_at_all() -> None:
    script = two_calls()
    script.end(BOTH, None)
    found = script.ledger()
    assert (found.token_reconciled, "NO-MODEL-USAGE" in found.notes) == (True, True)
    assert equation(found, "models").holds is None

    script = two_calls()
    script.row("system", subtype="compact_boundary")
    script.end(BOTH, None, num_turns=2)
    assert codes(script.ledger()) == [Code.MODELS_UNRECONCILED]


def test_a_result_without_usage_refuses() -> None:
    script = two_calls()
    script.end(None, {OPUS: BOTH})
    found = script.ledger()
    assert codes(found) == [Code.CALLS_UNRECONCILED]
    assert "no usage" in found.refusals[0].reason


def test_a_turn_that_began_after_the_last_result_refuses() -> None:
    script = two_calls()
    script.end(BOTH, {OPUS: BOTH})
    script.row("system", subtype="init", model=OPUS)
    found = script.ledger()
    assert (found.outcome, codes(found), found.tokens) == ("no_result", [Code.NO_RESULT], None)


def test_a_background_task_that_goes_on_means_that_a_result_is_missing() -> None:
    script = two_calls()
    script.row("system", subtype="task_started", task_id="b1", task_type="local_bash")
    script.end(BOTH, {OPUS: BOTH}, num_turns=2)
    assert script.ledger().refused(Code.NO_RESULT)
    script.row("system", subtype="task_notification", task_id="b1", status="stopped")
    assert script.ledger().token_reconciled is True
    script.row("system", subtype="task_notification", task_id="b1", status="completed")
    assert script.ledger().refused(Code.NO_RESULT)


def test_a_repeated_result_is_not_a_second_one() -> None:
    script = two_calls()
    row = script.end(BOTH, {OPUS: BOTH})
    script.rows.append(row)
    assert script.ledger().tokens == Tokens.of(*BOTH)


def test_damage_refuses_and_names_its_lines() -> None:
    script = two_calls()
    script.end(BOTH, {OPUS: BOTH})
    whole = script.bytes()
    found = ledger(whole.replace(b'"type": "user"', b'"type": "user', 1))
    assert (found.token_reconciled, codes(found), found.tokens) == (False, [Code.TRANSCRIPT_DAMAGED], None)
    assert found.bad_lines == ("line 3: a row that does not parse as JSON",)
    assert found.refusals[0].evidence == found.bad_lines


@pytest.mark.parametrize("value", ["-5", "3.0", "true", "1e400", "123456789012345678901234567890", '"3"', "[]"])
@pytest.mark.parametrize("where", ["assistant", "result"])
def test_an_impossible_counter_is_damage(value: str, where: str) -> None:
    script = two_calls()
    script.end(BOTH, {OPUS: BOTH})
    rows = script.bytes().splitlines()
    number = {"assistant": 2, "result": 5}[where]
    old = b'"input_tokens": 3' if where == "assistant" else b'"input_tokens": 7'
    rows[number - 1] = rows[number - 1].replace(old, f'"input_tokens": {value}'.encode())
    found = ledger(b"\n".join(rows) + b"\n")
    assert Code.TRANSCRIPT_DAMAGED in codes(found)
    assert found.bad_lines[0].startswith(f"line {number}: ")
    assert found.tokens is None


def test_null_and_absent_counters_are_zero() -> None:
    script = Script()
    row = script.call("m1", (3, 0, 0, 0, 2), text("done"))
    row["message"]["usage"] = {"input_tokens": 3, "cache_read_input_tokens": None, "output_tokens": 2}
    script.end((3, 0, 0, 0, 20), {OPUS: (3, 0, 0, 0, 20)})
    assert script.ledger().tokens == Tokens.of(3, 0, 0, 0, 20)


def test_invalid_utf8_and_lone_surrogates_lose_no_counter() -> None:
    script = two_calls()
    script.end(BOTH, {OPUS: BOTH})
    data = script.bytes().replace(b'"content": "ok"', b'"content": "a\xff\\ud800b"')
    found = ledger(data)
    assert (found.token_reconciled, found.tools[0].result_characters) == (True, 4)
    assert "LINES-MENDED" in found.notes


def test_a_scripted_model_is_known_by_its_message_ids() -> None:
    script = Script()
    script.call("msg_scripted_1", FIRST, text("done"))
    script.end((3, 0, 5_000, 0, 40), {OPUS: (3, 0, 5_000, 0, 40)})
    assert script.ledger().notes[0] == "SCRIPTED-MODEL"
