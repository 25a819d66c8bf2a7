"""Who could know the arm."""

from pathlib import Path

from tokenbench.clock import ManualClock
from tokenbench.grading.blindness import ANYBODY, is_open, peekers, sight
from tokenbench.runner.journal import Journal
from tokenbench.transcripts.evidence import Runs


def a_journal(folder: Path) -> tuple[Runs, Journal, ManualClock]:
    clock = ManualClock(1000.0)
    runs = Runs(folder)
    return runs, Journal(runs.journal, clock), clock


def test_without_a_journal_nothing_is_open(tmp_path: Path) -> None:
    assert not is_open(Runs(tmp_path / "nowhere"))


def test_the_mapping_is_open_from_its_journal_line_on(tmp_path: Path) -> None:
    runs, journal, clock = a_journal(tmp_path)
    journal.write("queue_locked")
    assert not is_open(runs)
    clock.advance(10)
    journal.write("mapping_opened")
    assert is_open(runs)
    assert sight(runs).blind("ann", 1009.0, model=False)
    assert not sight(runs).blind("ann", 1010.0, model=False)
    assert not sight(runs).blind("robot", 1010.0, model=True)


def test_who_peeked_is_not_blind_afterwards_and_was_before(tmp_path: Path) -> None:
    runs, journal, _ = a_journal(tmp_path)
    journal.write("peeked", judge="ann", cell="native__q01__r1")
    assert peekers(runs) == {"ann"}
    seen = sight(runs)
    assert seen.blind("ann", 999.0, model=False)
    assert not seen.blind("ann", 1000.0, model=False)
    assert seen.blind("bob", 2000.0, model=False, others={"ann"})


def test_a_look_under_an_account_that_is_no_judges_name_may_have_been_anybodys(tmp_path: Path) -> None:
    runs, journal, _ = a_journal(tmp_path)
    journal.write("peeked", judge="root", cell="native__q01__r1")
    assert not sight(runs).blind("ann", 2000.0, model=False, others={"bob"})
    assert sight(runs).blind("ann", 999.0, model=False, others={"bob"})


def test_a_look_without_a_name_may_have_been_anybodys_but_no_models(tmp_path: Path) -> None:
    runs, journal, _ = a_journal(tmp_path)
    journal.write("peeked", cell="native__q01__r1")
    assert peekers(runs) == {ANYBODY}
    assert not sight(runs).blind("bob", 2000.0, model=False)
    assert sight(runs).blind("robot", 2000.0, model=True)
