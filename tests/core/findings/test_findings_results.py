"""The public JSON: its shapes, and that the same files give the same bytes everywhere."""

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from fabricated import Fabricated, right

from tokenbench.experiment import config
from tokenbench.figures import Code, Figure, refuse
from tokenbench.findings.matrix import compute
from tokenbench.findings.results import plain, to_json

Fabricate = Callable[..., Fabricated]


@pytest.fixture
def bench(fabricate: Fabricate) -> Fabricated:
    bench = fabricate(questions=4)
    bench.run_all()
    bench.judge("ann")
    bench.open()
    return bench


def test_the_keys_that_are_public(bench: Fabricated) -> None:
    document = json.loads(to_json(compute(bench.loaded)))
    assert set(document) >= {
        "experiment",
        "seal",
        "banners",
        "headline",
        "ratios",
        "accuracy",
        "by_class",
        "by_question",
        "shares",
        "cost",
        "abstention",
        "agreement",
        "hypotheses",
        "runs",
    }
    assert set(document["headline"]["native"]) == {"value", "unit", "basis", "interval", "runs"}
    assert set(document["shares"]["native"]) == {"refused"}
    assert set(document["banners"][0]["refused"]) == {"code", "reason", "evidence", "remedy"}
    assert {"cell", "outcome", "token_reconciled"} <= set(document["runs"][0])


def test_a_figure_and_a_refusal() -> None:
    figure = Figure(value=Decimal("1E-7"), unit="USD", basis="exact", interval=(0.5, math.inf), runs=("a__q__r1",))
    assert plain(figure) == {
        "value": "0.0000001",
        "unit": "USD",
        "basis": "exact",
        "interval": [0.5, "inf"],
        "runs": ["a__q__r1"],
    }
    refused = plain(refuse(Code.NO_CORRECT, "native: 0 of 4 runs"))
    assert refused["refused"]["code"] == "NO-CORRECT"
    assert refused["refused"]["evidence"] == ["native: 0 of 4 runs"]
    assert plain(Figure(value=1, unit="answers", basis="exact"))["interval"] is None


def test_no_number_that_json_does_not_know_is_ever_written(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    bench.run_all(lambda cell: right(1) if cell.question == "q01" or cell.arm == "native" else "It holds 4711.")
    bench.judge("ann")
    bench.open(force=True)
    data = to_json(compute(bench.loaded))
    for word in (b"NaN", b"Infinity"):
        assert word not in data
    json.loads(data, parse_constant=pytest.fail)


def test_a_copy_in_another_folder_gives_the_same_bytes_in_a_fresh_process(bench: Fabricated, tmp_path: Path) -> None:
    here = to_json(compute(bench.loaded))
    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(bench.folder, copy)
    assert to_json(compute(config.load(copy))) == here
    script = (
        "import sys; from pathlib import Path; from tokenbench.experiment import config;"
        "from tokenbench.findings.matrix import compute; from tokenbench.findings.results import to_json;"
        "sys.stdout.buffer.write(to_json(compute(config.load(Path(sys.argv[1])))))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(copy)], capture_output=True, check=True)
    assert done.stdout == here
    assert str(tmp_path).encode() not in here


def test_a_single_changed_digit_changes_the_results(bench: Fabricated) -> None:
    here = to_json(compute(bench.loaded))
    bench.edit(bench.runs.transcript(bench.cells[0]), lambda text: text.replace("4000", "4001"))
    assert to_json(compute(bench.loaded)) != here


def test_computing_writes_nothing(bench: Fabricated) -> None:
    def state() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in bench.folder.rglob("*")}

    before = state()
    compute(bench.loaded)
    assert state() == before


def test_the_findings_are_computed_without_a_terminals_toolkit() -> None:
    script = (
        "import sys, tokenbench.findings.matrix, tokenbench.findings.report;"
        "sys.exit(bool({'numpy', 'textual', 'rich', 'aiohttp', 'tantivy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
