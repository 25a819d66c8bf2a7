"""Where an arm's billed input went: medians over runs, estimates with a bound, or the reason why not."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from calibrated import proved_rates
from fabricated import MODEL, Fabricated

from tokenbench.clock import ManualClock
from tokenbench.errors import RunsError
from tokenbench.experiment import seal as seals
from tokenbench.figures import Code, Figure, Published, Refusal
from tokenbench.findings.matrix import compute
from tokenbench.findings.shares import GROUPS, attribute_transcript
from tokenbench.ledger import read_ledger
from tokenbench.ledger.attribution import calibration as store
from tokenbench.ledger.attribution.calibration import Calibration
from tokenbench.ledger.attribution.model import Attribution
from tokenbench.probes import calibration as probe
from tokenbench.transcripts.evidence import Runs

Fabricate = Callable[..., Fabricated]


def refusal(published: Published) -> Refusal:
    assert isinstance(published, Refusal), published
    return published


def calibrated(bench: Fabricated, **changes: object) -> Runs:
    """Put a calibration into `runs/` that fits, but for the changes."""
    runs = Runs(bench.loaded.runs)
    sealed = seals.read(runs.seal)
    rates = proved_rates(2.785)
    fitting = Calibration(
        corpus_sha256=sealed.corpus_sha256,
        agent="claude",
        agent_version="2.1.332",
        scripted=sealed.scripted,
        made=1.0,
        models={MODEL: rates},
    )
    store.write(runs.calibration, msgspec.structs.replace(fitting, **changes))
    return runs


@pytest.fixture
def bench(fabricate: Fabricate) -> Fabricated:
    made = fabricate(questions=2)
    made.run_all()
    return made


def test_a_calibration_gives_estimates_within_a_bound(bench: Fabricated) -> None:
    calibrated(bench)
    share = compute(bench.loaded).shares["native"]
    assert isinstance(share, Figure)
    assert (share.unit, share.basis) == ("share", "estimate")
    assert share.interval is not None
    assert share.interval[0] <= share.value <= share.interval[1]
    assert share.runs


def test_the_groups_of_one_run_are_its_whole_billed_input(bench: Fabricated) -> None:
    runs = calibrated(bench)
    path = next(iter(sorted(bench.loaded.runs.glob("native__*.jsonl"))))
    found = attribute_transcript(runs, path.stem, read_ledger(path))
    assert isinstance(found, Attribution)
    assert found.prompt_known
    assert sum(part.billed for part in found.parts) == found.billed_input
    assert set(compute(bench.loaded).parts["native"]) == set(GROUPS)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"corpus_sha256": "f" * 64}, "another corpus"),
        ({"scripted": True}, "a scripted model"),
        ({"models": {}}, "does not hold the model"),
    ],
)
def test_a_calibration_of_something_else_is_none(bench: Fabricated, changes: dict[str, object], reason: str) -> None:
    calibrated(bench, **changes)
    found = refusal(compute(bench.loaded).shares["native"])
    assert found.code == Code.UNCALIBRATED
    assert reason in found.reason


def test_a_damaged_calibration_refuses_the_shares_alone(bench: Fabricated) -> None:
    Runs(bench.loaded.runs).calibration.write_bytes(b"{")
    results = compute(bench.loaded)
    found = refusal(results.shares["native"])
    assert found.code == Code.UNCALIBRATED
    assert "is no calibration" in found.reason


def test_a_transcript_of_no_experiment_is_uncalibrated(bench: Fabricated) -> None:
    path = next(bench.loaded.runs.glob("native__*.jsonl"))
    found = attribute_transcript(None, path.stem, read_ledger(path))
    assert isinstance(found, Refusal)
    assert found.code == Code.UNCALIBRATED


class TestSeal:
    def sealed(self, bench: Fabricated, digest: str | None) -> Runs:
        runs = Runs(bench.loaded.runs)
        seals.write(runs.seal, msgspec.structs.replace(seals.read(runs.seal), calibration_sha256=digest), replace=True)
        return runs

    def breaks(self, bench: Fabricated) -> list[str]:
        return [refused.reason for refused in compute(bench.loaded).banners if refused.code == Code.SEAL_BROKEN]

    def test_a_calibration_made_after_the_seal_does_not_touch_it(self, bench: Fabricated) -> None:
        calibrated(bench)
        assert not self.breaks(bench)

    def test_a_sealed_calibration_that_changed_or_went_breaks_the_seal(self, bench: Fabricated) -> None:
        runs = calibrated(bench)
        self.sealed(bench, seals.digest(runs.calibration))
        assert not any("calibration" in reason for reason in self.breaks(bench))
        runs.calibration.write_bytes(runs.calibration.read_bytes().replace(b"27850", b"27851"))
        assert any("calibration.json has changed" in reason for reason in self.breaks(bench))
        runs.calibration.unlink()
        assert any("calibration.json was sealed and is gone" in reason for reason in self.breaks(bench))

    @pytest.mark.parametrize("sealed", [True, False])
    def test_nobody_measures_again_until_he_likes_it(self, bench: Fabricated, sealed: bool, tmp_path: Path) -> None:
        runs = calibrated(bench)
        if sealed:
            self.sealed(bench, seals.digest(runs.calibration))
        before = runs.calibration.read_bytes()
        with pytest.raises(RunsError, match="not measured again"):
            probe.plan(bench.loaded, scripted=None, environment={}, progress=lambda _: None)
        assert runs.calibration.read_bytes() == before


def test_a_file_reads_back_as_it_was_written(bench: Fabricated) -> None:
    runs = calibrated(bench, made=ManualClock().now())
    found = store.read(runs.calibration)
    assert found is not None
    assert found.models[MODEL].rates["code"].characters_per_token == 2.785


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("characters_per_token", "0.0"),
        ("characters_per_token", "-1.0"),
        ("characters_per_token", "1e308"),
        ("standard_error", "1e308"),
        ("spread", "1e308"),
    ],
)
def test_an_impossible_rate_is_refused(bench: Fabricated, field: str, value: str) -> None:
    path = calibrated(bench).calibration
    path.write_text(re.sub(rf'"{field}": [\d.e-]+', f'"{field}": {value}', path.read_text()))
    with pytest.raises(RunsError, match="impossible rate"):
        store.read(path)


def test_an_arm_that_is_not_complete_has_no_shares(fabricate: Fabricate) -> None:
    bench = fabricate(questions=2)
    calibrated(bench)
    assert refusal(compute(bench.loaded).shares["native"]).code == Code.INCOMPLETE


@pytest.mark.parametrize(
    ("old", "new"),
    [("characters_per_token", 4.0), ("standard_error", 0.0), ("spread", 0.0), ("characters_per_token", 2.7851)],
)
def test_a_rate_that_its_own_points_do_not_give_is_believed_by_nobody(bench: Fabricated, old: str, new: float) -> None:
    """Nobody may choose what a token is, nor how sure that is."""
    runs = calibrated(bench)
    document = json.loads(runs.calibration.read_bytes())
    document["models"][MODEL]["rates"]["code"][old] = new
    runs.calibration.write_text(json.dumps(document))
    with pytest.raises(RunsError, match="not that of its own points"):
        store.read(runs.calibration)
