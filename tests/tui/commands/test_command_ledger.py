"""`ledger` as a command: exit codes, order of printing, and answers that are withheld."""

import getpass
import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tokenbench.clock import ManualClock
from tokenbench.runner.journal import Journal, JournalReader
from tokenbench.transcripts.evidence import Record, Runs, write_record

DATA = Path(__file__).parents[2] / "data"
GOOD = DATA / "streams" / "claude" / "normal3.jsonl"
BAD = DATA / "streams" / "claude" / "cut_text.jsonl"
SESSION = DATA / "sessions" / "delta_grow.jsonl"
ANSWER = "BLOCK_SIZE is 256"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tokenbench_tui", "ledger", *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


def objects(told: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in told.stdout.splitlines()]


def test_each_transcript_is_one_line_of_json_in_the_order_given() -> None:
    told = run(GOOD, SESSION, BAD, "--json")
    assert [row["transcript"] for row in objects(told)] == [str(GOOD), str(SESSION), str(BAD)]
    assert [row["token_reconciled"] for row in objects(told)] == [True, None, False]
    assert (told.returncode, told.stderr) == (1, "")


@pytest.mark.parametrize(("files", "status"), [((GOOD,), 0), ((SESSION,), 0), ((GOOD, BAD), 1)])
def test_the_exit_code_says_whether_all_are_reconciled(files: tuple[Path, ...], status: int) -> None:
    assert run(*files).returncode == status


def test_an_unknown_price_alone_does_not_fail() -> None:
    told = run(GOOD, "--json")
    assert [refusal["code"] for refusal in objects(told)[0]["refusals"]] == ["PRICE-UNKNOWN"]
    assert told.returncode == 0


def test_parts_of_an_uncalibrated_transcript_are_refused_in_both_forms() -> None:
    refused = objects(run(GOOD, "--json"))[0]["parts"]["refused"]
    assert refused["code"] == "UNCALIBRATED"
    assert "shares refused  UNCALIBRATED" in run(GOOD).stdout


@pytest.mark.parametrize("arguments", [(), ("none.jsonl",), (GOOD, "none.jsonl"), (DATA,), (GOOD, "--nonsense")])
def test_what_cannot_be_read_is_named_in_a_sentence_before_anything_is_printed(
    arguments: tuple[str | Path, ...],
) -> None:
    told = run(*arguments)
    assert (told.returncode, told.stdout) == (2, "")
    assert "Traceback" not in told.stderr
    assert told.stderr.strip()
    if "none.jsonl" in arguments:
        assert told.stderr == "tokenbench-tui: none.jsonl: there is no such file. Give the path of a transcript.\n"


@pytest.mark.parametrize("content", [b"\0" * 10_000, b"just\nwords\n", b'{"type":"assistant","mess'])
def test_a_file_that_is_no_transcript_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    told = run(path, GOOD, "--json")
    assert told.returncode == 2
    assert told.stderr == (
        f"tokenbench-tui: {path}: holds no event of an agent. Restore its original bytes, or run the cell again.\n"
    )
    assert [row["token_reconciled"] for row in objects(told)] == [False, True]


def test_a_transcript_of_zeros_says_what_it_is(tmp_path: Path) -> None:
    zeros = tmp_path / "zeros.jsonl"
    zeros.write_bytes(b"\0" * 10_000)
    (found,) = objects(run(zeros, "--json"))
    assert [refusal["code"] for refusal in found["refusals"]] == ["TRANSCRIPT-DAMAGED", "NO-RESULT"]


def test_an_empty_transcript_is_one_without_a_result(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_bytes(b"")
    told = run(tmp_path / "empty.jsonl", "--json")
    assert [refusal["code"] for refusal in objects(told)[0]["refusals"]] == ["NO-RESULT"]
    assert (told.returncode, told.stderr) == (1, "")


def test_the_first_is_printed_before_the_last_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    with subprocess.Popen(
        [sys.executable, "-m", "tokenbench_tui", "ledger", str(GOOD), str(pipe), "--json"],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        pipe.write_bytes(GOOD.read_bytes())
        second = json.loads(process.stdout.readline())
        process.wait(timeout=60)
    assert first["tokens"] == second["tokens"]
    assert process.returncode == 0


def test_a_resumed_transcript_takes_the_one_it_resumed(tmp_path: Path) -> None:
    told = run(GOOD, "--resumed-from", BAD)
    assert told.returncode == 0
    told = run(GOOD, "--resumed-from", DATA / "streams" / "claude" / "sigint_api.jsonl")
    assert (told.returncode, "holds no totals" in told.stderr) == (2, True)


def test_megabytes_in_one_line_are_read(tmp_path: Path) -> None:
    huge = tmp_path / "huge.jsonl"
    huge.write_bytes(gzip.decompress((DATA / "streams" / "claude" / "huge_grep.jsonl.gz").read_bytes()))
    assert run(huge).returncode == 0


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    folder = Runs(tmp_path / "bench" / "runs")
    folder.prepare()
    folder.seal.write_text("{}")
    shutil.copy(GOOD, folder.folder / "native__q01__r1.jsonl")
    return folder


def cell(runs: Runs) -> Path:
    return runs.folder / "native__q01__r1.jsonl"


@pytest.mark.parametrize("form", [("--json",), ()])
def test_the_answer_of_a_counted_cell_is_withheld_until_the_mapping_is_opened(
    runs: Runs, form: tuple[str, ...]
) -> None:
    told = run(cell(runs), *form)
    assert (ANSWER in told.stdout, told.returncode) == (False, 0)
    Journal(runs.journal, ManualClock(5.0)).write("mapping_opened")
    assert ANSWER in run(cell(runs), *form).stdout


def test_withholding_is_said_and_takes_nothing_but_the_answer(runs: Runs) -> None:
    (held,) = objects(run(cell(runs), "--json"))
    (plain,) = objects(run(GOOD, "--json"))
    assert (held["answer"], held["answer_withheld"]) == (None, True)
    assert held["tokens"] == plain["tokens"]
    assert "withheld" in run(cell(runs)).stdout


@pytest.mark.parametrize("place", ["attempts/native__q01__r1__a1.jsonl", "native__q01__r1.jsonl.part"])
def test_attempts_and_runs_under_way_are_withheld_too(runs: Runs, place: str) -> None:
    path = runs.folder / place
    shutil.copy(GOOD, path)
    assert objects(run(path, "--json"))[0]["answer_withheld"] is True


def test_a_link_to_a_counted_cell_shows_no_more_than_the_cell(runs: Runs, tmp_path: Path) -> None:
    link = tmp_path / "link.jsonl"
    link.symlink_to(cell(runs))
    assert ANSWER not in run(link, "--json").stdout


def test_peeking_shows_the_answer_and_is_a_line_of_the_journal(runs: Runs) -> None:
    told = run(cell(runs), "--json", "--peek")
    assert ANSWER in told.stdout
    (entry,) = JournalReader(runs.journal).new()
    assert (entry.event, entry.cell, entry.judge) == ("peeked", "native__q01__r1", getpass.getuser())
    assert run(GOOD, "--json", "--peek").returncode == 0
    assert len(list(JournalReader(runs.journal).new())) == 1


def test_the_record_beside_a_cell_decides_its_outcome(runs: Runs) -> None:
    record = Record(
        cell="native__q01__r1",
        attempt=1,
        position=0,
        outcome="quarantined",
        agent="claude",
        agent_version="2.1.197",
        model="claude-opus-4-8",
        argv=(),
        environment=(),
        folder="/srv",
        pid=1,
        exit_code=0,
        started=0.0,
        ended=1.0,
        scripted=True,
        sandbox=False,
        seal="",
        transcript_sha256="",
        transcript_bytes=0,
    )
    write_record(cell(runs).with_suffix(".json"), record)
    (found,) = objects(run(cell(runs), "--json"))
    assert (found["outcome"], "SCRIPTED-MODEL" in found["notes"]) == ("quarantined", True)
