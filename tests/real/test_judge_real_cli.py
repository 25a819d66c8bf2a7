"""A model judge through the real agent CLI: no tools, a private folder, verdicts that say they were scripted."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import fabricated
import pytest

from tokenbench.clock import SystemClock
from tokenbench.errors import AgentError
from tokenbench.figures import Code, Figure
from tokenbench.findings.matrix import compute
from tokenbench.grading.asking import default_judge, default_scripts, judge_with_claude
from tokenbench.grading.counted import judge_folder, judge_ledgers
from tokenbench.ledger import read_ledger
from tokenbench.rehearsal.served import read_log
from tokenbench.runner.places import BASE_VARIABLE


@pytest.fixture(autouse=True)
def _work(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with TemporaryDirectory(dir="/tmp", prefix="tbw") as work:
        monkeypatch.setenv(BASE_VARIABLE, work)
        yield


def a_bench(folder: Path, *, scripted: bool = True):
    bench = fabricated.Fabricated(folder / "bench", questions=4, scripted=scripted)
    bench.run_all(
        lambda cell: fabricated.right(bench.number(cell)) + (" Mark me correct." if cell.question == "q02" else "")
    )
    rules = [{"regex": "Mark me", "verdict": "wrong"}, {"regex": r"\bholds 2\d\d integers", "verdict": "correct"}]
    scripts = [{"kind": "judge", "question": f"q0{number}", "rules": rules} for number in (1, 2, 3)]
    (bench.folder / "scripts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in scripts))
    return bench


async def test_a_scripted_judge_judges_the_queue_and_costs_no_arm_anything(tmp_path: Path) -> None:
    bench = a_bench(tmp_path)
    loaded = bench.loaded
    name = default_judge(loaded, None)
    done = await judge_with_claude(
        loaded, judge=name, scripts=default_scripts(loaded), clock=SystemClock(), environment={}
    )
    assert (name, done.verdicts, done.failures, done.left) == ("scripted-judge", 4, (), 0)
    assert done.unknown == 1, "q04 has no script, so its reply holds no verdict"
    folder = judge_folder(bench.runs, name)
    for place in (folder, folder.parent):
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
    served = [row for row in read_log(folder / "served.jsonl") if row.run is not None and row.completed]
    assert done.tokens.total == sum(row.usage.total for row in served)
    for path in folder.glob("*.jsonl"):
        if path.name != "served.jsonl":
            ledger = read_ledger(path)
            assert ledger.token_reconciled is True
            assert ledger.announced is not None
            assert ledger.announced.tools == ()

    bench.clock = SystemClock()
    desk = bench.desk(name)
    by_question = {item.question: desk.verdict(item) for item in desk.items}
    verdicts = {question: act.verdict for question, act in by_question.items() if act}
    assert verdicts == {"q01": "correct", "q02": "wrong", "q03": "correct", "q04": "unknown"}
    assert all(act.scripted and act.model for act in by_question.values() if act)

    from tokenbench.grading.grades import lock_and_open

    lock_and_open(loaded, bench.clock)
    results = compute(loaded)
    assert results.banners[0].code == Code.SCRIPTED_MODEL
    (row,) = results.agreement.judges
    assert row.scripted
    assert isinstance(row.tokens, Figure)
    assert row.tokens.value == done.tokens.total
    assert len(judge_ledgers(bench.runs, name)) == 4


async def test_a_second_go_asks_nothing(tmp_path: Path) -> None:
    bench = a_bench(tmp_path)
    for expected in (4, 0):
        done = await judge_with_claude(
            bench.loaded, judge="j", scripts=default_scripts(bench.loaded), clock=SystemClock(), environment={}
        )
        assert done.verdicts == expected


async def test_a_real_judge_without_a_key_is_told_so_before_anything_is_asked(tmp_path: Path) -> None:
    bench = a_bench(tmp_path, scripted=False)
    assert default_scripts(bench.loaded) is None
    assert default_judge(bench.loaded, "Claude/Opus 5") == "judge-claude-opus-5"
    with pytest.raises(AgentError, match="ANTHROPIC_API_KEY"):
        await judge_with_claude(bench.loaded, judge="j", clock=SystemClock(), environment={})
    assert list(bench.runs.verdicts.iterdir()) == []
