"""`calibrate` as a command."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from tokenbench.experiment import config
from tokenbench.probes import calibration
from tokenbench_tui.commands.calibrate import calibrate


@pytest.mark.parametrize("scripted", [True, False])
def test_rates_of_a_scripted_model_are_called_so(
    scripted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = SimpleNamespace(models=("claude-opus-5",), prompts=71, forecast=99_203, scripted=scripted, late=False)
    rates = {"code": SimpleNamespace(characters_per_token=2.665, standard_error=0.103, spread=0.173)}
    measured = SimpleNamespace(spent=SimpleNamespace(total=99_203), rates=rates, points=())

    async def measure(*_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(scripted=scripted, models={"claude-opus-5": measured})

    monkeypatch.setattr(config, "load", lambda _: None)
    monkeypatch.setattr(calibration, "plan", lambda *_, **__: task)
    monkeypatch.setattr(calibration, "calibrate", measure)
    told = CliRunner().invoke(calibrate, ["--yes", str(tmp_path)], catch_exceptions=False).stdout
    assert "2.665" in told
    assert told.startswith("! SCRIPTED-MODEL") is scripted
