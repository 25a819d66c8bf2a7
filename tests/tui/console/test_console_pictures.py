"""Pictures of the screens, pinned: a change in one of them has to be looked at."""

from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot

from tokenbench.ledger.model import Tokens

Looks = Callable[..., bool]
SEEN = Tokens.of(input=3, cache_write_5m=2_000, cache_read=49_200)


@pytest.fixture
def under_way(make_lab: Callable) -> object:
    """Two repeats: some are done, one of them refused, three are under way, one waits for a retry."""
    questions = [
        {
            "id": "q01_block_size",
            "class": "prior_hostile",
            "text": "How many integers does a block hold?",
            "truth": "256",
        },
        {"id": "q02_exit_codes", "class": "lookup", "text": "Which exit code?", "truth": "2"},
        {"id": "q03_index_order", "class": "index_hostile", "text": "In which order?", "truth": "by path"},
    ]
    lab = make_lab(questions, repeats=2, name="lucene")
    lab.begin()
    return lab


def fill(lab: object, transcript: Callable[..., bytes]) -> None:
    """Write the journal of an experiment in its middle."""
    for number, cell in enumerate(lab.cells[:6]):
        lab.start(cell)
        lab.close(cell, transcript("256, a.py:1", calls=2 + number % 3, off_by=7 if number == 2 else 0), seconds=11.0)
    for number, cell in enumerate(lab.cells[6:9]):
        lab.start(cell)
        doing = ("Read", "xq", "thinking")[number]
        lab.journal.write(
            "usage", cell=cell.name, attempt=1, calls=2, turns=2, doing=doing, tokens=SEEN, prompt=27_400,
            first_read_share=0.96,
        )  # fmt: skip
    lab.start(lab.cells[9])
    lab.journal.write(
        "attempt_failed", cell=lab.cells[9].name, attempt=1, outcome="infrastructure", reason="API 529", retry_in=600.0,
        tokens=SEEN,
    )  # fmt: skip


@pytest.fixture
def settled(until: Callable, shown: Callable) -> Callable[..., Callable[[Pilot], Awaitable[None]]]:
    """Waits until some words stand on the screen, then puts the clock where the picture wants it."""

    def make(lab: object, words: str) -> Callable[[Pilot], Awaitable[None]]:
        async def wait(pilot: Pilot) -> None:
            await until(pilot, lambda: pilot.app.findings.results is not None and words in shown(pilot))
            lab.clock.advance(1_800_000_042.0 - lab.clock.now())
            pilot.app.screen_stack[0].project()
            await pilot.pause()

        return wait

    return make


@pytest.mark.parametrize("size", [(80, 24), (160, 48), (60, 16)], ids=["80x24", "160x48", "60x16"])
def test_runs(
    under_way: object, transcript: Callable, settled: Callable, snap_compare: Looks, size: tuple[int, int]
) -> None:
    fill(under_way, transcript)
    wait = settled(under_way, "HEADLINE REFUSED")
    assert snap_compare(under_way.app(), terminal_size=size, run_before=wait)


def test_runs_in_ascii(under_way: object, transcript: Callable, settled: Callable, snap_compare: Looks) -> None:
    fill(under_way, transcript)
    wait = settled(under_way, "HEADLINE REFUSED")
    assert snap_compare(under_way.app(ascii_only=True), terminal_size=(80, 24), run_before=wait)


def test_a_refused_ledger(under_way: object, transcript: Callable, settled: Callable, snap_compare: Looks) -> None:
    fill(under_way, transcript)

    async def wait(pilot: Pilot) -> None:
        await settled(under_way, "6 done")(pilot)
        await pilot.press("2")
        await settled(under_way, "TOKENS REFUSED")(pilot)

    assert snap_compare(under_way.app(), terminal_size=(80, 24), run_before=wait)


@pytest.mark.parametrize("size", [(80, 24), (160, 48), (60, 16)], ids=["80x24", "160x48", "60x16"])
def test_a_reconciled_ledger(lab: object, settled: Callable, snap_compare: Looks, size: tuple[int, int]) -> None:
    lab.begin()
    lab.price()
    lab.calibrate()
    lab.finish()

    async def wait(pilot: Pilot) -> None:
        await pilot.press("2")
        await settled(lab, "COST ok")(pilot)

    assert snap_compare(lab.app(), terminal_size=size, run_before=wait)


def test_a_ledger_of_a_run_that_its_limit_ended(
    lab: object, transcript: Callable, settled: Callable, snap_compare: Looks
) -> None:
    lab.begin()
    lab.start(lab.cells[0])
    lab.close(lab.cells[0], transcript("256, a.py:1", ended=False), outcome="time_limit")

    async def wait(pilot: Pilot) -> None:
        await pilot.press("2")
        await settled(lab, "LIMIT-UNSETTLED")(pilot)

    assert snap_compare(lab.app(), terminal_size=(80, 24), run_before=wait)


def test_a_ledger_whose_cost_is_not_that_of_the_price_table(
    lab: object, transcript: Callable, settled: Callable, snap_compare: Looks
) -> None:
    lab.begin()
    lab.price()
    lab.calibrate()
    lab.start(lab.cells[0])
    lab.close(lab.cells[0], transcript("256, a.py:1", calls=2))

    async def wait(pilot: Pilot) -> None:
        await pilot.press("2")
        await settled(lab, "COST REFUSED")(pilot)

    assert snap_compare(lab.app(), terminal_size=(80, 24), run_before=wait)


@pytest.mark.parametrize("size", [(80, 24), (160, 48), (60, 16)], ids=["80x24", "160x48", "60x16"])
def test_a_cache_that_confounds(lab: object, settled: Callable, snap_compare: Looks, size: tuple[int, int]) -> None:
    lab.begin()
    lab.price()
    lab.finish(warm="hybrid")

    async def wait(pilot: Pilot) -> None:
        await pilot.press("5")
        await settled(lab, "WARMTH-CONFOUNDED")(pilot)

    assert snap_compare(lab.app(), terminal_size=size, run_before=wait)


def test_an_answer_to_be_judged(make_lab: Callable, settled: Callable, snap_compare: Looks) -> None:
    text = (
        "A writer created with nothing but defaults in this tree packs postings into fixed-size blocks. How many "
        "integers does one full block hold?"
    )
    truth = "256. The default codec is Lucene104; 128 survives in old formats only."
    note = "Wrong if it reports a backward-compatibility format."
    question = {"id": "l07", "class": "prior_hostile", "text": text, "truth": truth, "judge_note": note}
    lab = make_lab([question], name="lucene")
    lab.begin()
    lab.finish(
        lambda cell: (
            "The default codec is Lucene104Codec (Codec.java:59), whose postings format is Lucene104PostingsFormat. "
            "Its BLOCK_SIZE is 256 (ForUtil.java:34). I found this with grep.\n\nint[] block = new int[BLOCK_SIZE];"
        )
    )

    async def wait(pilot: Pilot) -> None:
        await pilot.press("3")
        await settled(lab, "Who judges?")(pilot)
        await pilot.press(*"ann", "enter")
        await settled(lab, "item 1 of 1")(pilot)
        pilot.app.screen._shown_at = 1_800_000_018.0
        pilot.app.screen.project()

    assert snap_compare(lab.app(), terminal_size=(80, 24), run_before=wait)


def test_a_matrix_of_refusals(lab: object, settled: Callable, snap_compare: Looks) -> None:
    lab.begin()
    lab.finish()

    async def wait(pilot: Pilot) -> None:
        await pilot.press("4")
        await settled(lab, "REFUSED UNGRADED")(pilot)

    assert snap_compare(lab.app(), terminal_size=(80, 24), run_before=wait)


def test_help(lab: object, settled: Callable, snap_compare: Looks) -> None:
    async def wait(pilot: Pilot) -> None:
        await settled(lab, "NOTHING HAS RUN")(pilot)
        await pilot.press("question_mark")
        await settled(lab, "words on 1 Runs")(pilot)

    assert snap_compare(lab.app(), terminal_size=(80, 24), run_before=wait)
