"""An experiment's runs are confined all or none; what decides it stands in seal, records and journal."""

import shutil

import pytest

from tokenbench.errors import RunnerError, RunsError
from tokenbench.experiment import seal


async def test_a_required_sandbox_that_is_not_there_refuses_before_the_first_run(lab: object) -> None:
    lab.environment["PATH"] = "/nowhere"
    lab.write(sandbox="required", warmups=1)
    with pytest.raises(RunnerError, match="bwrap is not on PATH"):
        await lab.run()
    assert lab.names() == lab.names("warmups") == lab.names("attempts") == set()
    assert not lab.runs.seal.exists()
    assert not lab.journal("run_started", "warmup_started", "sealed")


async def test_without_bwrap_seal_records_and_journal_say_why(lab: object) -> None:
    lab.environment["PATH"] = "/nowhere"
    assert await lab.write(sandbox="auto", warmups=1).run() == 0
    sealed = seal.read(lab.runs.seal).sandbox
    assert sealed == seal.Confined(confined=False, reason="bwrap is not on PATH")
    for record in (lab.record("native__q1__r1"), lab.record("native__w1", "warmups")):
        assert (record.sandbox, record.sandbox_told, record.sandbox_argv) == (False, "bwrap is not on PATH", ())
    (told,) = lab.journal("sandbox")
    assert (told.outcome, told.reason) == ("none", "bwrap is not on PATH")
    assert any("NO-SANDBOX: bwrap is not on PATH" in (entry.reason or "") for entry in lab.journal("preparing"))


async def test_an_experiment_that_began_without_a_sandbox_does_not_go_on_with_one(lab: object) -> None:
    if shutil.which("bwrap") is None:
        pytest.fail("bubblewrap is missing, so the sandbox cannot be tested: apt-get install bubblewrap")
    lab.environment["PATH"] = "/nowhere"
    assert await lab.write(["PLAIN", "PLAIN"], sandbox="auto").run(only=["question=q1"]) == 0
    del lab.environment["PATH"]
    with pytest.raises(RunsError, match=r"SEAL-BROKEN: the agents were not confined .* and are now confined by bubble"):
        await lab.run()
    assert lab.names() == {"native__q1__r1.json", "native__q1__r1.jsonl"}


async def test_the_setting_is_sealed(lab: object) -> None:
    await lab.write(["PLAIN", "PLAIN"], sandbox="off").run(only=["question=q1"])
    path = lab.folder / "tokenbench.toml"
    path.write_text(path.read_text().replace('sandbox = "off"', 'sandbox = "auto"'))
    with pytest.raises(RunsError, match=r"SEAL-BROKEN: tokenbench.toml: `experiment.sandbox` was"):
        await lab.run()
