"""Several files at once: the order of the output is that of the files, whatever happens to a process."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tokenbench.errors import TranscriptError
from tokenbench.ledger import read, read_ledgers
from tokenbench.ledger.pool import in_order

HERE = os.getpid()


def twice(number: int) -> int:
    return 2 * number


def fails_at_three(number: int) -> int:
    if number == 3:
        raise TranscriptError("cannot be read", where="three.jsonl", remedy="Mend its disk")
    return number


def is_killed_at_five(number: int) -> int:
    if number == 5 and os.getpid() != HERE:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_the_order_of_the_jobs(processes: int) -> None:
    assert list(in_order(twice, range(40), processes)) == [2 * number for number in range(40)]


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_takes_the_place_of_its_result_and_says_what_it_said(processes: int) -> None:
    results = in_order(fails_at_three, range(40), processes)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(TranscriptError) as raised:
        next(results)
    assert (raised.value.where, raised.value.remedy) == ("three.jsonl", "Mend its disk")


def test_what_a_killed_process_leaves_undone_is_done_here() -> None:
    assert list(in_order(is_killed_at_five, range(40), 2)) == list(range(40))


def test_a_killed_parent_leaves_no_process_behind() -> None:
    code = (
        "import os; from tokenbench.ledger.pool import in_order;"
        "next(in_order(os.getenv, ['A'] * 40, 2)); print('on', flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"on\n"
        parent.kill()
        # Whoever is left holds the other end of the pipe open.
        assert select.select([parent.stdout], [], [], 30)[0]
        assert parent.stdout.read() == b""


def test_jobs_that_nobody_waits_for_are_given_up() -> None:
    results = in_order(twice, range(1_000), 2)
    assert next(results) == 0
    results.close()


@pytest.fixture
def any_size_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "_WORTH_A_PROCESS", 0)


@pytest.mark.usefixtures("any_size_is_worth_it")
def test_ledgers_from_two_processes_are_those_from_one() -> None:
    streams = Path(__file__).parents[2] / "data/streams/claude-2.1.332"
    paths = sorted(path for path in streams.glob("*.jsonl") if ".calls." not in path.name)[:9]
    assert list(read_ledgers(paths)) == [read.read_ledger(path) for path in paths]
