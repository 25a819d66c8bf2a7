"""Nobody fools himself: what was changed after the fact shows."""

import re
from collections.abc import Callable

import pytest
from fabricated import Fabricated, right

from tokenbench.experiment import seal
from tokenbench.experiment.model import Cell
from tokenbench.figures import Code, Refusal
from tokenbench.findings.matrix import compute
from tokenbench.findings.results import Results
from tokenbench.grading.counted import Ledgers

Fabricate = Callable[..., Fabricated]


@pytest.fixture
def bench(fabricate: Fabricate) -> Fabricated:
    """A finished, judged and opened experiment in which everything is in order."""
    bench = fabricate(questions=4)
    bench.run_all()
    bench.judge("ann")
    bench.open()
    assert compute(bench.loaded).banner(Code.SEAL_BROKEN) is None
    return bench


def broken(results: Results) -> str:
    """The evidence of SEAL-BROKEN, which refuses every headline."""
    for published in results.headline.values():
        assert isinstance(published, Refusal)
        assert published.code == Code.SEAL_BROKEN
    banner = results.banner(Code.SEAL_BROKEN)
    assert banner is not None
    return "\n".join(banner.evidence)


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("questions.jsonl", "How many integers", "How many ints", "the question q01 has changed"),
        ("questions.jsonl", '"number": 257', '"number": 258', "the question q01 has changed"),
        ("questions.jsonl", '"class": "lookup"', '"class": "index_hostile"', "the question q01 has changed"),
        ("tokenbench.toml", "seed = 7", "seed = 8", "`experiment.seed` was 7 and is now 8"),
        ("tokenbench.toml", "audit_share = 0.0", "audit_share = 0.5", "`grading.audit_share`"),
        ("prompts/hybrid.md", "Answer", "Please answer", "the prompt of arm hybrid has changed"),
    ],
)
def test_what_was_sealed_and_changed_is_named(bench: Fabricated, file: str, old: str, new: str, said: str) -> None:
    bench.edit(bench.folder / file, lambda text: text.replace(old, new))
    assert said in broken(compute(bench.loaded))


def test_a_question_taken_away_breaks_the_seal_and_its_runs_are_strangers(bench: Fabricated) -> None:
    """The expensive question is dropped after the fact."""
    bench.edit(bench.folder / "questions.jsonl", lambda text: "\n".join(text.splitlines()[:3]) + "\n")
    evidence = broken(compute(bench.loaded))
    assert "q04 was taken away" in evidence
    assert "native__q04__r1.jsonl is a run of no cell of the plan" in evidence


def test_a_comment_in_the_configuration_changes_nothing(bench: Fabricated) -> None:
    bench.edit(bench.folder / "tokenbench.toml", lambda text: f"# a remark\n{text}")
    assert compute(bench.loaded).banner(Code.SEAL_BROKEN) is None


def test_an_edited_transcript_is_found_by_its_record(bench: Fabricated) -> None:
    path = bench.runs.transcript(bench.cells[0])
    bench.edit(path, lambda text: text.replace("4000", "1000"))
    assert f"{bench.cells[0].name}.jsonl is not what the run wrote" in broken(compute(bench.loaded))


def test_an_edited_transcript_with_an_edited_record_is_found_by_the_journal(bench: Fabricated) -> None:
    cell = bench.cells[0]
    path = bench.runs.transcript(cell)
    bench.edit(path, lambda text: text.replace("4000", "1000"))
    bench.edit_record(cell, transcript_sha256=seal.digest(path))
    assert f"{cell.name} cost 5,105 tokens when it ended, and its transcript now says 2,105" in broken(
        compute(bench.loaded)
    )


def edit_answer(bench: Fabricated, cell: Cell) -> None:
    """An answer is rewritten, and its record's sha256 with it: calls, tokens and outcome stay as they were."""
    path = bench.runs.transcript(cell)
    bench.edit(path, lambda text: text.replace("One block", "Every block"))
    bench.edit_record(cell, transcript_sha256=seal.digest(path))


def test_an_answer_edited_before_anything_was_judged_is_found_by_the_journal(fabricate: Fabricate) -> None:
    """Nobody has a verdict on the old words that could be stale; the journal has the sha256 of what the run wrote."""
    bench = fabricate(questions=4)
    bench.run_all()
    edit_answer(bench, bench.cells[0])
    bench.judge("ann")
    bench.open()
    evidence = broken(compute(bench.loaded))
    assert f"{bench.cells[0].name}.jsonl is not what the run wrote by the journal: sha256 " in evidence


def test_a_journal_that_does_not_know_the_sha256_is_read_all_the_same(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    bench.run_all()
    bench.edit(bench.runs.journal, lambda text: re.sub(r',"transcript_sha256":"[0-9a-f]{64}"', "", text))
    assert "transcript_sha256" not in bench.runs.journal.read_text()
    bench.judge("ann")
    bench.open()
    assert compute(bench.loaded).banner(Code.SEAL_BROKEN) is None


def test_there_an_edited_answer_leaves_a_stale_verdict_at_least(bench: Fabricated) -> None:
    cell = bench.cells[0]
    bench.edit(bench.runs.journal, lambda text: re.sub(r',"transcript_sha256":"[0-9a-f]{64}"', "", text))
    edit_answer(bench, cell)
    results = compute(bench.loaded)
    refused = results.headline[cell.arm]
    assert isinstance(refused, Refusal)
    assert refused.code == Code.UNGRADED
    assert cell.name in refused.evidence


def test_another_outcome_in_the_record_is_found_by_the_journal(bench: Fabricated) -> None:
    bench.edit_record(bench.cells[0], outcome="max_turns")
    assert "ended as answered by the journal and as max_turns by its record" in broken(compute(bench.loaded))


def test_a_run_whose_files_were_deleted_is_missing_and_remembered(bench: Fabricated) -> None:
    """The expensive run disappears."""
    cell = bench.cells[0]
    bench.runs.transcript(cell).unlink()
    bench.runs.record(cell).unlink()
    results = compute(bench.loaded)
    assert f"{cell.name} ended (answered, 5,105 tokens) by the journal: its files are gone" in broken(results)
    incomplete = results.banner(Code.INCOMPLETE)
    assert incomplete is not None
    assert incomplete.evidence == (cell.name,)


def test_a_transcript_without_its_record_and_the_other_way_round(bench: Fabricated) -> None:
    one, other = bench.cells[0], bench.cells[1]
    bench.runs.transcript(one).unlink()
    bench.runs.record(other).unlink()
    results = compute(bench.loaded)
    incomplete = results.banner(Code.INCOMPLETE)
    assert incomplete is not None
    assert f"{one.name}: {one.name}.json is there, its transcript is not" in incomplete.evidence
    assert f"{other.name}: {other.name}.jsonl has no record beside it" in incomplete.evidence
    broken(results)


def test_a_deleted_run_that_was_made_again_shows_as_a_rerun(bench: Fabricated) -> None:
    cell = bench.cells[0]
    bench.runs.transcript(cell).unlink()
    bench.runs.record(cell).unlink()
    bench.run(cell, right(bench.number(cell)))
    banner = compute(bench.loaded).banner(Code.RERUN)
    assert banner is not None


def test_a_rewritten_seal_is_not_the_one_the_runs_were_made_under(bench: Fabricated) -> None:
    bench.edit(bench.folder / "prompts" / "hybrid.md", lambda text: f"Please. {text}")
    sealed = seal.read(bench.runs.seal)
    bench.runs.seal.unlink()
    seal.write(bench.runs.seal, seal.as_it_lies(sealed, bench.loaded))
    assert f"{bench.cells[0].name}.json was recorded under another seal" in broken(compute(bench.loaded))


def test_a_seal_that_is_gone_or_damaged(bench: Fabricated) -> None:
    whole = bench.runs.seal.read_bytes()
    bench.runs.seal.unlink()
    assert "seal.json is gone" in broken(compute(bench.loaded))
    bench.runs.seal.write_bytes(whole[:40])
    assert "is not a seal" in broken(compute(bench.loaded))


def test_a_journal_that_is_gone(bench: Fabricated) -> None:
    bench.runs.journal.unlink()
    assert "journal.jsonl is gone" in broken(compute(bench.loaded))


def test_a_run_that_the_journal_does_not_know(bench: Fabricated) -> None:
    """Somebody puts a cheap run into the place of a missing one."""
    cell = bench.cells[-1]
    lines = bench.runs.journal.read_text().splitlines(keepends=True)
    bench.runs.journal.write_text("".join(line for line in lines if not (cell.name in line and '"run_ended"' in line)))
    assert f"{cell.name} has a record, and the journal does not know that the run ended" in broken(
        compute(bench.loaded)
    )


def test_a_composition_of_another_corpus(bench: Fabricated) -> None:
    bench.edit(bench.runs.composition, lambda text: text.replace("c" * 64, "d" * 64))
    assert "composition.json is of another corpus" in broken(compute(bench.loaded))


def test_a_damaged_record_spoils_its_own_cell_only(bench: Fabricated) -> None:
    bench.runs.record(bench.cells[0]).write_text("{")
    results = compute(bench.loaded)
    assert results.experiment.counted == 7
    broken(results)


def test_a_transcript_of_zeros_is_refused_and_nothing_breaks(fabricate: Fabricate) -> None:
    bench = fabricate(questions=4)
    bench.run_all()
    bench.runs.transcript(bench.cells[0]).write_bytes(bytes(1 << 16))
    results = compute(bench.loaded)
    broken(results)
    assert len(results.runs) == 8


def test_a_ledger_is_read_again_when_its_file_has_changed(bench: Fabricated) -> None:
    reads: list[str] = []

    def counting(path, **named):  # a spy
        from tokenbench.ledger import read_ledger

        reads.append(path.name)
        return read_ledger(path, **named)

    ledgers = Ledgers(counting)
    compute(bench.loaded, ledgers)
    compute(bench.loaded, ledgers)
    assert len(reads) == 8
    bench.edit(bench.runs.transcript(bench.cells[0]), lambda text: text.replace("4000", "1000"))
    compute(bench.loaded, ledgers)
    assert len(reads) == 9


def test_the_log_of_the_scripted_api_alone_says_that_the_model_was_scripted(bench: Fabricated) -> None:
    assert compute(bench.loaded).banner(Code.SCRIPTED_MODEL) is None
    bench.runs.wire.write_bytes(b"")
    banner = compute(bench.loaded).banner(Code.SCRIPTED_MODEL)
    assert banner is not None
    assert banner.evidence == ("rehearsal.jsonl holds what the scripted API served",)
