"""A board tells what the journal tells, in whatever shape the journal comes."""

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.ledger.model import Tokens
from tokenbench.runner.board import Board
from tokenbench.runner.journal import Entry
from tokenbench.runner.rows import Row, View

A, B, C = "native__q1__r1", "hybrid__q1__r1", "retrieval__q2__r2"
SEEN = Tokens.of(input=10, cache_read=90, output=5)
ALL = Tokens.of(input=20, cache_write_5m=100, cache_read=300, output=40)
COST = Decimal("0.25")


def entry(t: float, event: str, cell: str | None = None, **fields: object) -> Entry:
    return msgspec.convert({"t": t, "event": event, "cell": cell, **fields}, Entry)


def planned(*cells: str) -> Entry:
    return entry(1, "planned", cells=cells)


def started(t: float, cell: str, attempt: int = 1) -> Entry:
    return entry(t, "run_started", cell, attempt=attempt)


def usage(t: float, cell: str, attempt: int = 1, *, calls: int = 1, tokens: Tokens = SEEN) -> Entry:
    return entry(t, "usage", cell, attempt=attempt, calls=calls, turns=calls, doing="Read", tokens=tokens, prompt=100)


def answered(t: float, cell: str, attempt: int = 1, **fields: object) -> Entry:
    given_fields = {"outcome": "answered", "token_reconciled": True, "tokens": ALL, "cost_usd": COST, "seconds": 9.0}
    return entry(t, "run_ended", cell, attempt=attempt, calls=3, turns=3, **(given_fields | fields))


def failed(t: float, cell: str, attempt: int = 1, **fields: object) -> Entry:
    given_fields = {"outcome": "infrastructure", "reason": "529", "retry_in": 8.0, "tokens": SEEN}
    return entry(t, "attempt_failed", cell, attempt=attempt, **(given_fields | fields))


def board(*entries: Entry) -> View:
    folded = Board()
    folded.fold(entries)
    return folded.view()


def row(view: View, cell: str) -> Row:
    return next(r for r in view.rows if r.cell == cell)


def test_rows_stand_in_planned_order_and_wait() -> None:
    view = board(planned(A, B, C))
    assert [r.cell for r in view.rows] == [A, B, C]
    assert [r.position for r in view.rows] == [0, 1, 2]
    assert {r.state for r in view.rows} == {"waits"}
    assert (view.rows[2].arm, view.rows[2].question, view.rows[2].repeat) == ("retrieval", "q2", 2)


def test_a_run_under_way_shows_lower_bounds_and_what_it_does() -> None:
    shown = row(board(planned(A), started(2, A), usage(3, A)), A)
    assert (shown.state, shown.doing, shown.turns, shown.prompt) == ("running", "Read", 1, 100)
    assert shown.tokens == SEEN
    assert shown.lower_bound
    assert shown.read_share == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "ok"),
        ({"token_reconciled": False, "codes": ("NO-RESULT",)}, "refused"),
        ({"token_reconciled": None}, "refused"),
        ({"outcome": "quarantined", "codes": ("QUARANTINED",)}, "quarantined"),
        ({"outcome": "max_turns"}, "failed"),
        ({"outcome": "time_limit", "token_reconciled": False}, "failed"),
    ],
)
def test_an_ended_run_has_the_state_of_its_outcome(fields: dict[str, object], state: str) -> None:
    shown = row(board(planned(A), started(2, A), answered(5, A, **fields)), A)
    assert shown.state == state
    assert shown.done
    assert shown.lower_bound is (fields.get("token_reconciled", True) is not True)


def test_an_attempt_that_failed_waits_for_its_retry_and_its_tokens_stand_apart() -> None:
    view = board(planned(A, B), started(2, A), usage(3, A), failed(4, A))
    assert row(view, A).state == "retry"
    assert row(view, A).retry_at == 12
    assert row(view, A).tokens is None
    assert view.totals.tokens == 0
    assert view.totals.apart_tokens == SEEN.total
    assert (view.totals.retry, view.totals.to_go) == (1, 1)


def test_the_attempt_that_counts_replaces_the_one_that_failed() -> None:
    view = board(planned(A), started(2, A), failed(4, A), started(12, A, 2), answered(20, A, 2))
    assert (row(view, A).state, row(view, A).attempt) == ("ok", 2)
    assert view.totals.tokens == ALL.total
    assert view.totals.apart_tokens == SEEN.total
    assert view.totals.cost_usd == COST


def test_giving_up_and_cancelling_are_states_of_their_own() -> None:
    view = board(
        planned(A, B),
        started(2, A),
        failed(3, A),
        entry(4, "gave_up", A, reason="3 attempts"),
        started(5, B),
        usage(6, B),
        entry(7, "cancelled", B, reason="by the operator"),
    )
    assert (row(view, A).state, row(view, A).reason) == ("infrastructure", "3 attempts")
    assert (row(view, B).state, row(view, B).reason) == ("cancelled", "by the operator")
    assert (view.totals.given_up, view.totals.cancelled, view.totals.to_go) == (1, 1, 0)
    assert view.totals.apart_tokens == 2 * SEEN.total


@pytest.mark.parametrize("event", ["cancelled", "gave_up"])
def test_a_cell_that_a_later_runner_runs_after_all_is_no_longer_what_it_was(event: str) -> None:
    taken_out = (planned(A), entry(2, event, A), entry(3, "runner_ended"), entry(4, "runner_started", pid=2))
    assert row(board(*taken_out), A).state == ("cancelled" if event == "cancelled" else "infrastructure")
    assert row(board(*taken_out, started(5, A)), A).state == "running"
    view = board(*taken_out, started(5, A), answered(6, A))
    assert row(view, A).state == "ok"
    assert (view.totals.done, view.totals.cancelled, view.totals.given_up) == (1, 0, 0)


def test_a_late_line_from_before_the_cancelling_changes_nothing() -> None:
    view = board(planned(A), started(2, A), entry(4, "cancelled", A, attempt=1), started(2, A), usage(3, A))
    assert row(view, A).state == "cancelled"
    again = board(planned(A), entry(4, "cancelled", A), started(5, A), entry(4, "cancelled", A))
    assert row(again, A).state == "running"


def test_cancelling_a_finished_cell_undoes_nothing() -> None:
    assert row(board(planned(A), started(2, A), answered(3, A), entry(4, "cancelled", A)), A).state == "ok"


def test_a_rerun_keeps_the_first_run_apart() -> None:
    view = board(planned(A), started(2, A), answered(3, A), entry(4, "rerun", A), started(5, A, 2), usage(6, A, 2))
    assert (row(view, A).state, row(view, A).reruns) == ("running", 1)
    assert view.totals.tokens == SEEN.total
    assert view.totals.apart_tokens == ALL.total
    assert view.totals.apart_usd == COST


def test_unknown_events_and_cells_without_a_plan_are_survived() -> None:
    view = board(
        entry(1, "moon_phase", A),
        entry(1, "moon_phase"),
        started(2, "no cell"),
        planned(A),
        started(3, C),
    )
    assert [r.cell for r in view.rows] == ["no cell", A, C]
    assert view.rows[0].arm == "no cell"


def test_lines_of_an_earlier_attempt_do_not_turn_a_row_back() -> None:
    view = board(planned(A), started(5, A, 2), answered(9, A, 2), started(2, A), usage(3, A), failed(4, A))
    assert (row(view, A).state, row(view, A).attempt) == ("ok", 2)
    assert view.totals.apart_tokens == SEEN.total


def test_usage_that_comes_late_does_not_lower_what_is_shown() -> None:
    late = usage(3, A, calls=1)
    shown = row(board(planned(A), started(2, A), usage(4, A, calls=2, tokens=ALL), late), A)
    assert (shown.calls, shown.tokens) == (2, ALL)
    assert row(board(planned(A), started(2, A), answered(5, A), late), A).state == "ok"


def test_a_dead_runner_is_said_and_its_runs_wait_again() -> None:
    folded = Board()
    folded.fold([entry(0, "runner_started", pid=7), planned(A), started(2, A), usage(3, A)])
    folded.observe_runner(True)
    assert folded.view().phase.kind == "running"
    folded.observe_runner(False)
    view = folded.view()
    assert view.phase.kind == "lost"
    assert (row(view, A).state, row(view, A).doing) == ("waits", "runner lost")
    assert view.totals.apart_tokens == SEEN.total


def test_a_new_runner_takes_over_where_the_old_one_was_lost() -> None:
    view = board(
        entry(0, "runner_started", pid=7),
        planned(A, B),
        started(2, A),
        answered(4, A),
        started(5, B),
        usage(6, B),
        entry(50, "runner_started", pid=8),
        planned(A, B),
        entry(51, "recovered", B, attempt=1, reason="its runner was lost", tokens=SEEN),
        started(52, B, 2),
    )
    assert [r.state for r in view.rows] == ["ok", "running"]
    assert view.runner_pid == 8
    assert view.totals.tokens == ALL.total
    assert view.totals.apart_tokens == SEEN.total


def test_a_run_that_was_ended_with_its_runner_waits_for_the_next_one() -> None:
    stopped = failed(4, A, outcome="cancelled", retry_in=None, reason="ended with the runner")
    assert row(board(planned(A), started(2, A), stopped), A).state == "waits"


def test_a_warm_up_that_was_lost_with_its_runner_keeps_its_tokens_apart() -> None:
    lost = entry(9, "recovered", arm="native", attempt=1, outcome="no_result", tokens=SEEN)
    view = board(entry(1, "warmup_started", arm="native", attempt=1), lost)
    assert view.warmups == ()
    assert view.totals.apart_tokens == SEEN.total


def test_a_closed_run_that_is_recovered_counts() -> None:
    recovered = entry(51, "recovered", A, attempt=1, outcome="answered", token_reconciled=True, tokens=ALL)
    view = board(planned(A), started(2, A), entry(50, "runner_started", pid=8), recovered)
    assert row(view, A).state == "ok"


def test_phases_follow_the_runner() -> None:
    folded = Board()
    seen: list[tuple[str, str]] = []
    for line in (
        entry(1, "preparing", reason="fetching the corpus"),
        entry(2, "warmup_started", arm="native"),
        entry(3, "sealed"),
        entry(4, "paused"),
        entry(5, "resumed"),
        entry(6, "limit_reached", reason="$40 are spent"),
        entry(7, "runner_ended", reason="$40 are spent"),
    ):
        folded.fold([line])
        phase = folded.view().phase
        seen.append((phase.kind, phase.reason))
    assert seen == [
        ("preparing", "fetching the corpus"),
        ("preparing", "warming up"),
        ("running", ""),
        ("paused", ""),
        ("running", ""),
        ("stopping", "$40 are spent"),
        ("ended", "$40 are spent"),
    ]


def test_warm_ups_judges_and_the_mapping_are_told() -> None:
    view = board(
        entry(1, "warmup_started", arm="native", attempt=1),
        entry(2, "warmup_ended", arm="native", attempt=1, outcome="answered", tokens=SEEN, cost_usd=COST),
        entry(3, "judge_started", judge="model", scripted=True),
        entry(4, "judge_failed", judge="model", reason="no CLI"),
        entry(5, "queue_locked"),
        entry(6, "mapping_opened"),
    )
    assert [(w.arm, w.running, w.tokens) for w in view.warmups] == [("native", False, SEEN)]
    assert [(j.judge, j.state, j.reason) for j in view.judges] == [("model", "failed", "no CLI")]
    assert (view.queue_locked, view.mapping_opened, view.scripted) == (5, 6, True)
    assert view.totals.apart_usd == COST


def test_a_view_names_the_rows_that_changed_since_the_one_before() -> None:
    folded = Board()
    folded.fold([planned(A, B, C)])
    assert folded.view().plan == 1
    folded.fold([started(2, B)])
    view = folded.view()
    assert (view.changed, view.plan) == (frozenset({1}), 1)
    folded.fold([started(2, B)])
    assert folded.view().changed == frozenset()


def test_codes_are_counted_over_the_runs_that_ended() -> None:
    refused = {"token_reconciled": False, "codes": ("NO-RESULT", "PRICE-UNKNOWN")}
    view = board(planned(A, B), answered(2, A, **refused), answered(3, B, codes=("PRICE-UNKNOWN",)))
    assert view.totals.codes == (("PRICE-UNKNOWN", 2), ("NO-RESULT", 1))


def test_time_left_is_the_mean_of_each_arm_shared_by_the_runs_in_parallel() -> None:
    view = board(
        planned(A, "native__q2__r1", "native__q3__r1"), started(0, A), answered(10, A), started(10, A[:8] + "q2__r1")
    )
    assert view.seconds_left(now=14.0, parallel=1) == pytest.approx((9 - 4) + 9)
    assert view.seconds_left(now=14.0, parallel=2) == pytest.approx(7)
    assert board(planned(A)).seconds_left(now=0, parallel=1) is None


CELLS = st.sampled_from([A, B, C])
LINES = st.one_of(
    st.builds(started, st.floats(1, 99), CELLS, st.integers(1, 3)),
    st.builds(usage, st.floats(1, 99), CELLS, st.integers(1, 3), calls=st.integers(1, 5)),
    st.builds(answered, st.floats(1, 99), CELLS, st.integers(1, 3)),
    st.builds(failed, st.floats(1, 99), CELLS, st.integers(1, 3)),
    st.builds(
        entry,
        st.floats(1, 99),
        st.sampled_from(
            ["rerun", "cancelled", "gave_up", "recovered", "runner_started", "runner_ended", "paused", "?"]
        ),
        CELLS,
    ),
)


@given(st.lists(LINES, max_size=40))
def test_the_totals_are_those_of_the_rows_whatever_came(lines: list[Entry]) -> None:
    view = board(planned(A, B, C), *lines)
    totals = view.totals
    assert totals.cells == 3
    assert totals.done + totals.running + totals.retry + totals.to_go + totals.cancelled + totals.given_up == 3
    assert totals.tokens == sum(r.tokens.total for r in view.rows if r.tokens is not None)
    assert totals.cost_usd == (
        sum((r.cost_usd for r in view.rows if r.cost_usd is not None), Decimal(0))
        if any(r.cost_usd is not None for r in view.rows)
        else None
    )
    assert all((r.tokens is not None and r.outcome is not None) for r in view.rows if r.done)


@given(st.lists(LINES, max_size=30))
def test_a_line_said_twice_says_nothing_new(lines: list[Entry]) -> None:
    twice = [line for line in lines for _ in range(2)]
    once, again = board(planned(A, B, C), *lines), board(planned(A, B, C), *twice)
    assert once.rows == again.rows
    assert once.totals == again.totals


@given(st.lists(LINES, max_size=30), st.integers(0, 30))
def test_one_view_at_the_end_is_the_same_as_many_on_the_way(lines: list[Entry], cut: int) -> None:
    folded = Board()
    folded.fold([planned(A, B, C), *lines[:cut]])
    before = folded.view()
    folded.fold(lines[cut:])
    after = folded.view()
    assert after.rows == board(planned(A, B, C), *lines).rows
    assert {i for i in range(3) if before.rows[i] != after.rows[i]} <= after.changed
