"""What runs tripped over is told by arm, with the runs, the detail and the way out."""

import json
from collections.abc import Callable
from typing import Any

from tokenbench.figures import Code, refuse
from tokenbench.findings.stumbles import stumbles

Fabricate = Callable[..., Any]


def test_good_runs_trip_over_nothing(fabricate: Fabricate) -> None:
    bench = fabricate()
    bench.run_all()
    assert stumbles(bench.loaded) == ()


def test_a_quarantined_arm_is_named_with_its_runs(fabricate: Fabricate) -> None:
    bench = fabricate()
    refusal = refuse(Code.QUARANTINED, "line 1: it lacks tools of the arm: Read")
    bench.run_all(skip=lambda cell: cell.arm == "hybrid")
    for cell in bench.cells:
        if cell.arm == "hybrid":
            bench.run(cell, "256", outcome="quarantined", refusals=(refusal,))
            bench.edit_record(cell, reason="line 1: it lacks tools of the arm: Read")
    (found,) = stumbles(bench.loaded)
    assert found.arm == "hybrid"
    assert set(found.runs) == {cell.name for cell in bench.cells if cell.arm == "hybrid"}
    assert "it lacks tools of the arm: Read" in found.sentence()
    assert "and 1 more" in found.sentence()


def test_an_arm_whose_mcp_server_offers_nothing_is_told_to_look_at_the_server(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    cell = bench.cells[0]
    reason = "line 1: it lacks tools of the arm: mcp__code__search (it was ended at once)"
    bench.run(cell, "257", outcome="quarantined", refusals=(refuse(Code.QUARANTINED, reason),))
    bench.edit_record(cell, reason=reason)
    (found,) = stumbles(bench.loaded)
    assert "`mounts`" in found.remedy


def test_a_denied_tool_is_told_with_the_rule_that_is_missing(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    cell = bench.cells[0]
    bench.run(cell, "257")
    path = bench.runs.transcript(cell)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[2]["message"]["content"][0] |= {
        "is_error": True,
        "content": "Claude requested permissions to use Grep, but you haven't granted it yet.",
    }
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (found,) = stumbles(bench.loaded)
    assert "denied the tool Grep" in found.what
    assert "`allowed`" in found.remedy


def test_a_tool_of_which_each_use_failed_is_told(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    cell = bench.cells[0]
    bench.run(cell, "257")
    path = bench.runs.transcript(cell)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[2]["message"]["content"][0] |= {"is_error": True, "content": "ripgrep is not installed"}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (found,) = stumbles(bench.loaded)
    assert found.what == "each use of the tool Grep failed"


def test_refused_tokens_limits_and_failed_attempts_are_told(fabricate: Fabricate) -> None:
    bench = fabricate(questions=3)
    first, second, third = [cell for cell in bench.cells if cell.arm == "native"]
    bench.run(first, "257", off_by=2)
    bench.run(second, None, outcome="max_turns")
    bench.attempt(third, result=False)
    told = {found.what for found in stumbles(bench.loaded)}
    assert told >= {"its tokens are refused: CALLS-UNRECONCILED", "it reached a limit of its run (max_turns)"}
    assert any("ended without a result" in what for what in told)


def test_a_query_that_failed_is_told_and_one_without_a_hit_is_not(fabricate: Fabricate) -> None:
    bench = fabricate(questions=1)
    native, hybrid = sorted(bench.cells, key=lambda cell: cell.arm != "native")
    bench.run(native, "257")
    bench.run(hybrid, "257")
    bench.runs.query_log(native.name).write_text(json.dumps({"query": "block", "exit": 1}) + "\n")
    bench.runs.query_log(hybrid.name).write_text('torn\n{"query": "a\\u001bb", "exit": 3}\n')
    (found,) = stumbles(bench.loaded)
    assert (found.arm, found.what) == ("hybrid", "`xq` failed (exit code 3)")
    assert "\x1b" not in found.sentence()
