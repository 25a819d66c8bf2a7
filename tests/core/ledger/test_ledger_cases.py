"""The reported cases: what other tools got wrong, with the right values of the reports."""

import hashlib
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest
from streams import DATA, ledger, read

from tokenbench.figures import Code
from tokenbench.ledger import read_ledgers
from tokenbench.ledger.model import Ledger, Tokens

CASES = DATA / "cases"


def case(number: str) -> Ledger:
    (path,) = CASES.glob(f"{number}-*.jsonl*")
    return ledger(read(path.with_name(path.name.removesuffix(".gz"))))


def codes(found: Ledger) -> list[Code]:
    return [refusal.code for refusal in found.refusals if refusal.code is not Code.PRICE_UNKNOWN]


class Total(NamedTuple):
    """Calls, counters and the CLI's cost."""

    calls: int
    tokens: Tokens
    cost: str


RECONCILED = {
    "07": Total(2, Tokens.of(6, 0, 10_100, 20_000, 98), "0.11348"),
    "09": Total(3, Tokens.of(10, 0, 5_550, 10_400, 150), "0.0645"),
    "11": Total(4, Tokens.of(12, 2_100, 5_600, 7_000, 160), "0.063961"),
    "13": Total(2, Tokens.of(6, 0, 4_250, 4_000, 60), "0.04644"),
    "14": Total(2, Tokens.of(6, 0, 3_180, 3_000, 45), "0.034455"),
    "17": Total(1, Tokens.of(3, 0, 0, 6_000, 25), "0.00364"),
    "18": Total(5, Tokens.of(18, 0, 7_800, 18_700, 550), "0.10119"),
    "20": Total(1, Tokens.of(3, 0, 4_000, 0, 30), "0.040765"),
    "21": Total(1, Tokens.of(4, 12_000, 30_000, 1_000, 200), "0.38052"),
    "25": Total(2, Tokens.of(6, 0, 3_000, 8_000, 500), "0.07653"),
    "26": Total(1, Tokens.of(6, 0, 3_000, 2_000, 90), "0"),
    "31": Total(3, Tokens.of(9, 0, 458_000, 30_000, 70), "4.596795"),
    "32": Total(2, Tokens.of(6, 0, 2_080, 2_000, 40), "0.02283"),
    "33": Total(2, Tokens.of(6, 0, 1_060, 1_000, 20), "0.01163"),
    "37": Total(2, Tokens.of(6, 0, 1_050, 1_000, 20), "0.01153"),
    "44": Total(3, Tokens.of(9, 0, 900, 15_000, 77), "0.01847"),
    "45": Total(2, Tokens.of(6, 0, 3_520, 3_000, 50), "0.03798"),
    "48": Total(3, Tokens.of(9, 0, 3_180, 6_120, 70), "0.036655"),
}


@pytest.mark.parametrize(("number", "right"), RECONCILED.items(), ids=RECONCILED)
def test_reconciles_to_the_reported_values(number: str, right: Total) -> None:
    found = case(number)
    assert (found.token_reconciled, codes(found)) == (True, [])
    assert (found.calls, found.tokens, found.cost_usd.reported) == (right.calls, right.tokens, Decimal(right.cost))


def test_01_the_finished_row_of_a_reply_counts_once() -> None:
    found = case("01")
    assert (found.calls, found.tokens) == (2, Tokens.of(12, 0, 9_500, 39_200, 467))
    assert (found.token_reconciled, found.notes[0]) == (None, "SESSION-FILE")


def test_02_a_request_id_never_makes_one_reply_two() -> None:
    found = case("02")
    assert (found.calls, found.tokens) == (3, Tokens.of(2_110, 0, 0, 0, 121))
    assert found.cost_usd.own is None


def test_03_a_zeroed_row_never_wins_and_its_split_is_not_summed() -> None:
    found = case("03")
    assert found.tokens == Tokens.of(2, 0, 1_480, 210_000, 3_300)
    assert [row.tokens for row in found.call_rows][1] == Tokens()
    assert "USAGE-INCONSISTENT" in found.notes


def test_05_a_call_that_two_sessions_hold_belongs_to_the_earlier() -> None:
    a, b = (CASES / f"05-fork-copies-history-{x}.jsonl" for x in "ab")
    for order in ((a, b), (b, a)):
        found = {Path(one.transcript).stem[-1]: one for one in read_ledgers(order)}
        assert [Path(one.transcript).stem[-1] for one in read_ledgers(order)] == [path.stem[-1] for path in order]
        assert found["a"].tokens == Tokens.of(6, 0, 5_200, 5_000, 110)
        assert found["b"].tokens == Tokens.of(3, 0, 300, 5_200, 70)
        assert ("OWNED-ELSEWHERE" in found["b"].notes, "OWNED-ELSEWHERE" in found["a"].notes) == (True, False)


def test_07_the_last_delta_of_each_call_is_its_output() -> None:
    assert [row.tokens.output for row in case("07").call_rows] == [57, 41]


def test_08_without_a_result_there_is_a_lower_bound_and_no_output() -> None:
    found = case("08")
    assert (found.outcome, found.token_reconciled, codes(found)) == ("no_result", False, [Code.NO_RESULT])
    assert (found.calls, found.lower_bound) == (2, Tokens.of(6, 0, 10_100, 20_000, 0))
    assert (found.tokens, found.answer) == (None, None)


def test_09_the_answer_is_that_of_the_last_result() -> None:
    found = case("09")
    assert (found.answer, found.turns) == ("All 12 tests passed.", 3)


def test_11_the_subagent_is_in_the_total_and_not_in_the_main_loop() -> None:
    found = case("11")
    assert found.main == Tokens.of(6, 0, 5_600, 5_000, 90)
    haiku = found.models["claude-haiku-4-5-20251001"]
    assert (haiku.role, haiku.tokens) == ("subagent", Tokens.of(6, 2_100, 0, 2_000, 70))
    assert found.cost_usd.own == Decimal("0.063961")


def test_13_the_sidecar_is_charged_to_nobody() -> None:
    found = case("13")
    assert found.model == "claude-opus-4-8"
    assert {name: (row.role, row.cost_usd) for name, row in found.models.items()} == {
        "claude-opus-4-8": ("main", Decimal("0.04603")),
        "claude-haiku-4-5-20251001": ("sidecar", Decimal("0.00041")),
    }
    assert found.cost_usd.own == Decimal("0.04603")


def test_14_the_clis_own_notice_is_no_call_and_takes_no_result() -> None:
    found = case("14")
    assert list(found.models) == ["claude-opus-4-8"]
    assert [(row.name, row.result_characters) for row in found.tools] == [("Grep", 120)]
    assert found.call_rows[0].then == ("Grep",)


def test_15_a_success_that_is_an_error_is_an_infrastructure_failure() -> None:
    found = case("15")
    assert (found.outcome, found.answer, found.tokens) == ("infrastructure", None, Tokens())
    assert (found.cost_usd.reported, found.cost_usd.own) == (Decimal(0), Decimal(0))


def test_17_an_abandoned_attempt_is_listed_and_leaves_no_trace_in_the_answer() -> None:
    found = case("17")
    assert (found.abandoned_calls, found.answer) == (1, "The block size is 256.")
    assert [row.message_id for row in found.call_rows] == ["msg_s17live"]


def test_18_the_compaction_is_a_named_remainder() -> None:
    found = case("18")
    assert found.main == Tokens.of(15, 0, 7_800, 12_500, 150)
    assert [(rest.what, rest.tokens) for rest in found.remainder] == [("compaction", Tokens.of(3, 0, 0, 6_200, 400))]


def test_20_the_answer_is_every_text_block_of_the_last_message() -> None:
    found = case("20")
    assert (
        found.answer == "The backward codecs still say 128, but the current default is 256 (lucene104/ForUtil.java:34)."
    )
    assert "RESULT-TEXT-SHORTER-THAN-STREAM" in found.notes


def test_26_an_unknown_price_is_not_zero() -> None:
    found = case("26")
    assert (found.cost_usd.own, found.cost_usd.recomputed) == (None, None)
    assert found.refused(Code.PRICE_UNKNOWN)
    assert "COST-ZERO" in found.notes


def test_31_a_line_has_no_length_limit() -> None:
    found = case("31")
    assert [(row.name, row.result_characters) for row in found.tools] == [
        ("Read", 70_000),
        ("mcp__dump__all", 1_200_000),
    ]


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 7, 4096])
def test_32_pieces_may_be_cut_inside_a_character(piece: int) -> None:
    data = read(CASES / "32-split-utf8.jsonl")
    found = ledger(data, piece=piece)
    assert found == ledger(data)
    assert found.answer is not None
    assert (len(found.answer), "\ufffd" in found.answer) == (57, False)
    assert (
        hashlib.sha256(found.answer.encode()).digest() == hashlib.sha256((ledger(data).answer or "").encode()).digest()
    )


def test_33_only_a_newline_ends_a_line() -> None:
    found = case("33")
    assert (sum(found.counts.values()), found.bad_lines) == (5, ())
    assert [(row.name, row.result_characters) for row in found.tools] == [("Bash", 33)]


def test_36_a_result_that_was_cut_off_is_no_result() -> None:
    found = case("36")
    assert (codes(found), found.lower_bound) == ([Code.NO_RESULT], Tokens.of(3, 0, 2_000, 0, 0))
    assert ("TRUNCATED-TAIL" in found.notes, found.calls) == (True, 1)


def test_37_noise_is_counted_and_the_first_event_survives_its_byte_order_mark() -> None:
    found = case("37")
    assert (found.counts["noise"], found.counts["rate_limit_event"], found.bad_lines) == (7, 1, ())
    assert (found.counts["system/init"], "NOISE" in found.notes) == (1, True)


@pytest.mark.parametrize(
    ("part", "outcome", "reconciled"),
    [("done", "answered", True), ("infra", "infrastructure", True), ("killed", "no_result", False)],
)
def test_42_what_counts_as_done(part: str, outcome: str, reconciled: bool) -> None:
    found = ledger(read(CASES / f"42-resume-partial-transcript-{part}.jsonl"))
    assert (found.outcome, found.token_reconciled) == (outcome, reconciled)


def test_44_results_are_matched_by_id_and_not_by_position_or_usage() -> None:
    found = case("44")
    assert [(row.name, row.result_characters) for row in found.tools] == [("Grep", 70), ("Read", 300)]
    assert [len(row.then) for row in found.call_rows] == [1, 3, 0]


def test_45_pictures_are_counted_by_pixels_and_not_by_their_base64() -> None:
    rows = {row.name: row for row in case("45").tools}
    shot, bash = rows["mcp__shot__take"], rows["Bash"]
    assert (shot.result_characters, shot.images, shot.image_tokens) == (17, 1, 500)
    assert (bash.result_characters, bash.errors) == (0, 1)


def test_48_a_denial_that_the_list_leaves_out_is_found_in_the_result() -> None:
    found = case("48")
    rows = {row.name: row for row in found.tools}
    assert (sum(row.denied for row in rows.values()), rows["Read"].errors, rows["Bash"].result_characters) == (2, 1, 0)
    assert {"PERMISSION-DENIALS-INCOMPLETE", "TOOL-DENIED", "UNGROUNDED"} <= set(found.notes)


def test_23_and_27_session_files_hold_the_calls_of_several_models() -> None:
    assert case("23").tokens == Tokens.of(2_021, 0, 18_000, 679_980, 220)
    assert list(case("27").models) == ["claude-fable-5-1", "claude-opus-5-5", "claude-opus-5"]
