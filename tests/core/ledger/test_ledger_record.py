"""A run's record: its outcome and refusals are the run's, whatever the transcript looks like."""

from typing import Any

import pytest
from streams import Script, text

from tokenbench.figures import Code, refuse
from tokenbench.ledger.build import LedgerBuilder
from tokenbench.ledger.model import Ledger, Tokens, withhold
from tokenbench.transcripts.evidence import Record
from tokenbench.transcripts.lines import LineSplitter

OPUS = "claude-opus-4-8"
ONE = (3, 0, 5_000, 0, 20)


def record(outcome: str, **fields: Any) -> Record:
    return Record(
        cell="native__q01__r1",
        attempt=1,
        position=0,
        outcome=outcome,  # pyright: ignore[reportArgumentType]
        agent="claude",
        agent_version="2.1.332",
        model=OPUS,
        argv=(),
        environment=(),
        folder="/srv",
        pid=1,
        exit_code=0,
        started=0.0,
        ended=1.0,
        scripted=fields.pop("scripted", False),
        sandbox=False,
        seal="",
        transcript_sha256="",
        transcript_bytes=0,
        **fields,
    )


def closed(found: Script, closing: Record) -> Ledger:
    builder = LedgerBuilder(transcript="t")
    for line in LineSplitter().feed(found.bytes()):
        builder.feed(line)
    return builder.finish(record=closing)


def script(*, end: bool = True) -> Script:
    made = Script()
    made.call("m1", (3, 0, 5_000, 0, 2), text("256"))
    if end:
        made.end(ONE, {OPUS: ONE}, "256")
    return made


def test_a_quarantined_run_keeps_its_tokens_and_says_why() -> None:
    found = closed(script(), record("quarantined", refusals=(refuse(Code.QUARANTINED, "Bash was announced"),)))
    assert (found.outcome, found.tokens, found.answer) == ("quarantined", Tokens.of(*ONE), None)
    assert found.refused(Code.QUARANTINED)


@pytest.mark.parametrize("outcome", ["time_limit", "max_turns"])
def test_a_run_that_reached_a_limit_without_a_result_is_unsettled(outcome: str) -> None:
    found = closed(script(end=False), record(outcome))
    assert (found.outcome, [refusal.code for refusal in found.refusals]) == (outcome, [Code.LIMIT_UNSETTLED])


def test_a_cancelled_run_without_a_result_has_none() -> None:
    found = closed(script(end=False), record("cancelled"))
    assert (found.outcome, [refusal.code for refusal in found.refusals]) == ("cancelled", [Code.NO_RESULT])


def test_a_scripted_run_says_so() -> None:
    assert "SCRIPTED-MODEL" in closed(script(), record("answered", scripted=True)).notes


def test_a_run_that_was_ended_after_its_result_may_leave_a_task_behind() -> None:
    made = script(end=False)
    made.row("system", subtype="task_started", task_id="b1")
    made.end(ONE, {OPUS: ONE}, "256", num_turns=1)
    assert closed(made, record("answered")).refused(Code.NO_RESULT)
    assert closed(made, record("answered", ended_by="after_result")).token_reconciled is True


def test_a_withheld_answer_is_gone_and_nothing_else() -> None:
    whole = closed(script(), record("answered"))
    held = withhold(whole)
    assert (whole.answer, held.answer, held.answer_withheld) == ("256", None, True)
    assert (held.tokens, held.tools, held.equations) == (whole.tokens, whole.tools, whole.equations)
