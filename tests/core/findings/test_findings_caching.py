"""What the cache did: shares of first calls, lifetimes, the time line, and costs; before anything is graded."""

import json
from collections.abc import Callable
from decimal import Decimal as D

import msgspec
import pytest
from fabricated import MODEL, Fabricated
from hypothesis import given
from hypothesis import strategies as st
from priced import proved_table

from tokenbench.figures import Code, Figure, Refusal
from tokenbench.findings import caching_plain
from tokenbench.findings.caching import ArmCache, Caching, Start, bands, compute
from tokenbench.ledger.prices import ModelPrices, Rates, Row, write

RATES = Rates(D(10), D("6.5"), D(12), D("0.5"), D("39.5"), D("0.01"))
TABLE = proved_table(
    ModelPrices(model=MODEL, agent="claude", agent_version="2.1.332", rows=(Row(0, "standard", "", RATES),))
)
ANSWER = "One block holds 257 integers."


@pytest.fixture
def bench(fabricate: Callable[..., Fabricated]) -> Fabricated:
    bench = fabricate(questions=2)
    write(bench.runs.prices, TABLE)
    return bench


def run(bench: Fabricated, warm: str = "") -> None:
    """Every cell has a run; those of the arm that is named begin warm."""
    for cell in bench.cells:
        bench.run(cell, ANSWER, first_read=3_000 if cell.arm == warm else 0)
    bench.journal.write("runner_ended")


def codes(one: ArmCache) -> list[str]:
    return [value.code if isinstance(value, Refusal) else "" for value in caching_plain.costs(one)]


def test_arms_that_began_alike_are_not_confounded_and_have_every_cost(bench: Fabricated) -> None:
    run(bench)
    found = compute(bench.loaded)
    assert found.difference == 0
    assert found.confounded is None
    assert "difference 0.0 points ≤ 10: not confounded" in caching_plain.text(found)
    native = found.arms["native"]
    assert isinstance(native.paid, Figure)
    assert native.paid.value == D("0.0125")
    assert codes(native) == ["", "", "", ""]
    assert [start.word for start in native.starts] == ["cold", "cold"]


def test_arms_that_began_unequally_warm_have_no_dollars_paid_and_keep_the_others(bench: Fabricated) -> None:
    run(bench, warm="hybrid")
    found = compute(bench.loaded)
    assert found.confounded is not None
    assert (found.warmest, found.coldest) == ("hybrid", "native")
    assert found.difference == pytest.approx(3_000 / 4_001)
    for arm in found.arms.values():
        assert codes(arm) == [Code.WARMTH_CONFOUNDED, "", "", ""]
    text = caching_plain.text(found)
    assert "WARMTH-CONFOUNDED" in text
    assert "→ Use tokens or the cache-neutral cost." in text


def test_what_it_says_while_runs_are_missing_is_marked_as_so_far(bench: Fabricated) -> None:
    for cell in bench.cells[:2]:
        bench.run(cell, ANSWER)
    third = bench.cells[2]
    bench.journal.write("run_started", cell=third.name, attempt=1, position=2, pid=2)
    found = compute(bench.loaded)
    assert not found.complete
    assert "so far: not confounded" in caching_plain.verdict(found)
    assert codes(found.arms["native"]) == [Code.INCOMPLETE] * 4
    waiting = next(start for start in found.arms[third.arm].starts if start.under_way)
    assert (waiting.cell, waiting.word) == (third.name, None)


def test_before_the_first_run_there_is_nothing_to_compare(bench: Fabricated) -> None:
    found = compute(bench.loaded)
    assert found.difference is None
    assert bands(found, 40) == ()
    assert "nothing to compare yet" in caching_plain.text(found)


def test_a_run_that_began_cold_after_the_lifetime_of_the_last_writes_tells_when_they_ran_out(bench: Fabricated) -> None:
    run(bench)
    first, second = (cell for cell in bench.cells if cell.arm == "native")
    for idle, lapses in ((299.0, False), (301.0, True)):
        bench.edit_record(second, since_last_call=idle)
        starts = compute(bench.loaded).arms["native"].starts
        assert [start.cell for start in starts] == [first.name, second.name]
        assert starts[0].lapsed is None
        assert starts[1].lapsed == (pytest.approx(starts[1].started - 1.0) if lapses else None)


def test_a_changed_experiment_has_no_shares(bench: Fabricated) -> None:
    run(bench)
    bench.edit(bench.folder / "questions.jsonl", lambda text: text.replace("256", "255").replace("257", "255"))
    found = compute(bench.loaded)
    assert {one.share.code for one in found.arms.values() if isinstance(one.share, Refusal)} == {Code.SEAL_BROKEN}
    assert codes(found.arms["native"]) == [Code.SEAL_BROKEN] * 4
    assert found.difference is None
    assert "No difference is given: the share of native and 1 more is refused, SEAL-BROKEN" in caching_plain.text(found)


def test_an_arm_with_a_refused_run_has_no_share_and_nothing_is_compared_with_it(bench: Fabricated) -> None:
    damaged = next(cell for cell in bench.cells if cell.arm == "native")
    for cell in bench.cells:
        bench.run(cell, ANSWER, off_by=7 if cell == damaged else 0)
    found = compute(bench.loaded)
    refused = found.arms["native"].refused
    assert refused is not None
    assert isinstance(found.arms["hybrid"].share, Figure)
    assert (found.difference, found.confounded) == (None, None)
    assert f"No difference is given: the share of native is refused, {refused.code}" in caching_plain.verdict(found)


def test_nothing_in_it_depends_on_what_the_answers_are_worth(bench: Fabricated) -> None:
    run(bench)
    before = caching_plain.to_json(compute(bench.loaded))
    bench.judge("ann")
    bench.open()
    assert caching_plain.to_json(compute(bench.loaded)) == before
    keys = set(json.loads(before)) | set(json.loads(before)["arms"]["native"])
    assert keys.isdisjoint({"correct", "accuracy", "answer", "result"})


def starts_of(times: list[float], lapsed: set[int]) -> tuple[Start, ...]:
    return tuple(
        Start(
            cell=f"a__q{number}__r1", under_way=False, started=at, word="cold", share=0.0, first=None,
            lapsed=at - 1.0 if number in lapsed else None,
        )
        for number, at in enumerate(sorted(times))
    )  # fmt: skip


@given(
    times=st.lists(st.floats(0, 1e5), min_size=1, max_size=60),
    lapsed=st.sets(st.integers(0, 59)),
    cells=st.integers(4, 70),
)
def test_no_run_is_hidden_behind_another_one(times: list[float], lapsed: set[int], cells: int) -> None:
    nothing = Refusal(code=Code.INCOMPLETE, reason="", evidence=(), remedy="")
    arm = ArmCache(
        planned=0, ended=0, share=nothing, typical=None, starts=starts_of(times, lapsed), paid=nothing, cold=nothing,
        warm=nothing, neutral=nothing,
    )  # fmt: skip
    found = Caching(
        experiment="e", scripted=False, complete=False, limit=0.1, difference=None, warmest=None, coldest=None,
        confounded=None, arms={"a": arm},
    )  # fmt: skip
    rows = [stretch.rows["a"] for stretch in bands(found, cells)]
    assert all(len(row) <= cells for row in rows)
    assert sum(row.count("W") for row in rows) == len(times)
    assert sum(row.count("·") for row in rows) == len({one for one in lapsed if one < len(times)})


def test_money_is_text_and_unknown_is_null_in_its_json(bench: Fabricated) -> None:
    run(bench)
    told = json.loads(caching_plain.to_json(compute(bench.loaded)))
    assert told["arms"]["native"]["paid"]["value"] == "0.012500"
    assert told["arms"]["native"]["starts"][0]["lapsed"] is None
    assert msgspec.json.encode(told)
