"""Calibration through the real agent CLI: what it measures is what the scripted API counts, to the token."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tokenbench.clock import SystemClock
from tokenbench.experiment.config import load
from tokenbench.ledger.attribution import calibration as store
from tokenbench.probes import calibration
from tokenbench.rehearsal.counting import PieceCounter
from tokenbench.runner.places import BASE_VARIABLE

CORPUS = Path(__file__).parents[1] / "data/corpus/click"
CONFIG = """
[experiment]
name = "tiny"
model = "claude-opus-5"
baseline = "native"
headline_arm = "native"
[corpus]
kind = "folder"
path = "{corpus}"
[arms.native]
tools = ["Grep"]
prompt = "p.md"
"""
QUESTION = '{"id": "q1", "class": "lookup", "text": "How large?", "truth": "256", "must": [{"number": 256}]}\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An experiment; the working folders have short paths of their own."""
    bench = tmp_path / "bench"
    bench.mkdir()
    (bench / "tokenbench.toml").write_text(CONFIG.format(corpus=CORPUS))
    (bench / "questions.jsonl").write_text(QUESTION)
    (bench / "p.md").write_text("Answer from what you read.\n")
    with TemporaryDirectory(prefix="tb-", dir="/tmp") as work:
        monkeypatch.setenv(BASE_VARIABLE, str(Path(work) / "w"))
        yield bench


async def test_the_points_are_what_the_api_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = calibration.texts
    # Four of code, one of another shape: fewer than three points give no rate.
    monkeypatch.setattr(
        calibration,
        "texts",
        lambda *given: (
            [t for t in whole(*given) if t.shape == "code"][:4] + [t for t in whole(*given) if t.shape == "read"][:1]
        ),
    )
    steps: list[tuple[int, int]] = []
    task = calibration.plan(load(folder), scripted=True, environment={}, progress=lambda _: None)
    found = await calibration.calibrate(task, clock=SystemClock(), progress=lambda *step: steps.append(step))

    measured = found.models["claude-opus-5"]
    counter = PieceCounter()
    frame = counter.text(f"{calibration.HEAD}{calibration.TAIL}")
    assert [point.tokens for point in measured.points] == [
        counter.text(f"{calibration.HEAD}{text.text}{calibration.TAIL}") - frame for text in task.texts
    ]
    assert set(measured.rates) == {"code"}
    assert measured.spent.billed_input <= task.forecast
    assert steps[-1] == (task.prompts, task.prompts) == (7, 7)
    assert store.read(task.runs.calibration) == found
    assert found.scripted
