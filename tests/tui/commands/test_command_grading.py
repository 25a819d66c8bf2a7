"""`grade`, `results` and `report`: thin, and one sentence for everything that goes wrong."""

import json
import subprocess
import sys
from pathlib import Path

import fabricated
import pytest


@pytest.fixture
def bench(tmp_path: Path):
    bench = fabricated.Fabricated(tmp_path / "bench", questions=4)
    bench.run_all()
    return bench


def run(bench, *arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tokenbench_tui", arguments[0], str(bench.folder), *arguments[1:]],
        capture_output=True,
        text=True,
        input=given,
    )
    assert "Traceback" not in done.stderr
    return done


def test_judged_elsewhere_opened_and_published(bench, tmp_path: Path) -> None:
    out = tmp_path / "queue.jsonl"
    assert run(bench, "grade", "--judge", "ann", "--export", str(out)).returncode == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 4
    early = run(bench, "grade", "--open")
    assert early.returncode == 2
    assert "4 answers wait for a judge" in early.stderr
    back = tmp_path / "back.jsonl"
    lines = [json.dumps(row | {"verdict": "correct"}) for row in rows]
    back.write_text("\n".join([*lines[:3], '{"verdict": "correct"}', lines[3]]) + "\n")
    taken = run(bench, "grade", "--judge", "ann", "--import", str(back))
    assert taken.returncode == 1
    assert "4 verdicts taken" in taken.stdout
    assert "back.jsonl: line 4: `id` names no item" in taken.stderr
    assert run(bench, "grade", "--open").returncode == 0
    status = json.loads(run(bench, "grade", "--status", "--json").stdout)
    assert status == {
        "items": 4,
        "unjudged": 0,
        "opened": True,
        "judges": {"ann": {"judged": 4, "unjudged": 0}},
        "problems": [],
    }
    results = run(bench, "results", "--json")
    assert json.loads(results.stdout)["headline"]["hybrid"]["value"] == 5105.0
    assert bench.runs.results.read_text() == results.stdout
    assert run(bench, "report").returncode == 0
    assert "## Headline" in bench.runs.report.read_text()


def test_results_before_the_opening_say_what_is_missing(bench) -> None:
    done = run(bench, "results")
    assert done.returncode == 0
    assert "UNGRADED" in done.stdout
    assert "8 answers wait for a judge" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--open", "--status"), "--status and --open together"),
        ((), "nobody is named who judges"),
        (("--judge", "../x"), "cannot be a judge's name"),
        (("--judge", "ann"), "needs a terminal"),
        (("--judge", "ann", "--import", "/nowhere/x.jsonl"), "cannot be read: No such file"),
        (("--judge", "ann", "--export", "/nowhere/x.jsonl"), "could not write the file"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(bench, arguments: tuple[str, ...], said: str) -> None:
    done = run(bench, "grade", *arguments, given="")
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().split("\n")) == 1


@pytest.mark.parametrize("command", ["grade", "results", "report", "judge"])
def test_a_folder_that_is_no_experiment(command: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tokenbench_tui", command, str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "tokenbench.toml" in done.stderr


def test_a_damaged_mapping_stops_every_command_and_is_left_as_it_is(bench) -> None:
    bench.desk("ann")
    bench.runs.blind.write_bytes(b"{")
    for arguments in (("results",), ("report",), ("grade", "--status"), ("grade", "--judge", "ann", "--export", "x")):
        done = run(bench, *arguments)
        assert done.returncode == 2
        assert "blind.json" in done.stderr
    assert bench.runs.blind.read_bytes() == b"{"


def test_judging_line_by_line(bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from tokenbench_tui.commands import grade

    said = iter(["w says 128", "u", "s", "x", "c", "c", "a", "d", "q"])
    monkeypatch.setattr("click.prompt", lambda *_, **__: next(said))
    desk = bench.desk("ann")
    assert grade._line_by_line(desk) == 0
    out = capsys.readouterr().out
    assert "undone: wrong" in out
    assert "All are judged" in out
    decisions = sorted(act.verdict for item in desk.items if (act := desk.verdict(item)))
    assert decisions == ["abstained", "correct", "correct", "unknown"]


def test_hostile_text_reaches_no_terminal(bench) -> None:
    bench.edit(
        bench.folder / "tokenbench.toml",
        lambda text: text.replace('name = "fabricated"', 'name = "x \\u001b]52;c;aGk=\\u0007"'),
    )
    bench.journal.write("rerun", cell=bench.cells[0].name, reason="\x1b[2Jbecause")
    (bench.runs.verdicts / "ann.jsonl").write_bytes(b'{"act": "\\u001b[31m", "\x1b[31m')
    for arguments in (("results",), ("report",), ("grade", "--status")):
        done = run(bench, *arguments)
        assert done.returncode == 0
        assert "\x1b" not in done.stdout + done.stderr
    assert "\x1b" not in bench.runs.report.read_text()


def test_figures_are_shown_although_they_cannot_be_written_down(bench) -> None:
    bench.runs.results.mkdir()
    done = run(bench, "results", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["headline"]["hybrid"]["refused"]["code"] == "UNGRADED"
    assert "results.json: could not write the file" in done.stderr
