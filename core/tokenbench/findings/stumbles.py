"""What runs tripped over, arm by arm: what a rehearsal shows and a paid run would pay for."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tokenbench.decoding import UNREADABLE
from tokenbench.experiment.model import Loaded
from tokenbench.figures import RERUN_COMMAND
from tokenbench.grading.counted import LEDGERS, Ledgers, gather, warmups
from tokenbench.ledger.model import Ledger
from tokenbench.text import one_line
from tokenbench.transcripts.evidence import COUNTED, Record, Runs

_SHOWN: Final = 3
"""Runs that a sentence names before it counts the rest."""
_FAILED_QUERY: Final = 2
"""Exit code of `xq` from which on it answered nothing: transport, a stale or partial index, no corpus."""


class Stumble(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of trouble of one arm."""

    arm: str
    what: str
    runs: tuple[str, ...]
    """Runs that it happened in: cells, attempts, warm-ups."""
    detail: str
    """What the first of them says of it; cleaned for a terminal."""
    remedy: str
    grave: bool
    """It is the arm that is wrong; else it may be what the tool was asked."""

    def sentence(self) -> str:
        """All of it on one line."""
        more = f" and {len(self.runs) - _SHOWN} more" if len(self.runs) > _SHOWN else ""
        where = ", ".join(self.runs[:_SHOWN]) + more
        detail = f": {self.detail}" if self.detail else ""
        return f"arm {self.arm}: {self.what}{detail} ({where}). {self.remedy}."


class _Run(NamedTuple):
    name: str
    arm: str
    record: Record | None
    ledger: Ledger


class _Trouble(NamedTuple):
    what: str
    detail: str
    remedy: str
    grave: bool = True


def stumbles(loaded: Loaded, ledgers: Ledgers = LEDGERS) -> tuple[Stumble, ...]:
    """What the runs, attempts and warm-ups of an experiment tripped over.

    Args:
        loaded: The experiment.
        ledgers: What this process has read already.
    """
    runs = Runs(loaded.runs)
    found: dict[tuple[str, _Trouble], list[tuple[str, str]]] = {}
    for run in _runs(loaded, ledgers):
        for trouble in (*_of_run(run), *_of_queries(runs.query_log(run.name))):
            found.setdefault((run.arm, trouble._replace(detail="")), []).append((run.name, trouble.detail))
    order = {arm: place for place, arm in enumerate(loaded.config.arms)}
    return tuple(
        Stumble(
            arm=arm,
            what=trouble.what,
            runs=tuple(name for name, _ in where),
            detail=where[0][1],
            remedy=trouble.remedy,
            grave=trouble.grave,
        )
        for (arm, trouble), where in sorted(found.items(), key=lambda item: (order[item[0][0]], -len(item[1])))
    )


def _runs(loaded: Loaded, ledgers: Ledgers) -> Iterator[_Run]:
    counted = gather(loaded, ledgers)
    for warm in warmups(loaded, ledgers):
        yield _Run(warm.name, warm.arm, warm.record, warm.ledger)
    for cell, run in counted.runs.items():
        yield _Run(cell.name, cell.arm, run.record, run.ledger)
    for attempt in counted.attempts:
        if attempt.record is None or not attempt.record.set_aside:
            yield _Run(attempt.name, attempt.cell.arm, attempt.record, attempt.ledger)


def _of_run(run: _Run) -> Iterator[_Trouble]:
    record, ledger = run.record, run.ledger
    outcome = record.outcome if record is not None else ledger.outcome
    reason = one_line(record.reason, 160) if record is not None else ""
    if outcome == "quarantined":
        yield _Trouble(
            "its runs are quarantined: they are not what the arm says",
            reason,
            # An MCP server that does not start offers nothing, and the first line of the agent says no more than that.
            "See that its MCP server starts: in a sandbox it sees only what `mounts` names. Else mend `tools`"
            if "lacks tools of the arm: mcp__" in reason
            else "Mend `tools`, `allowed` and `disallowed` of the arm, or what it reached",
        )
    elif outcome == "infrastructure":
        yield _Trouble(
            "the API or the network failed",
            reason,
            "Such attempts are tried again; where no script asked for it, look at the address and the key",
        )
    elif outcome == "no_result":
        yield _Trouble("it ended without a result", reason, "Read its standard error in runs/logs/")
    elif outcome in ("time_limit", "max_turns", "max_budget"):
        yield _Trouble(
            f"it reached a limit of its run ({outcome})",
            reason,
            "It counts as not correct; raise the limit in a new experiment if that is not what is meant",
        )
    if outcome in COUNTED and outcome != "quarantined" and ledger.token_reconciled is False:
        refusal = ledger.refusals[0]
        remedy = refusal.remedy.replace(RERUN_COMMAND, f"`--rerun {run.name}`")
        yield _Trouble(f"its tokens are refused: {refusal.code}", one_line(refusal.reason, 160), remedy)
    yield from _of_tools(ledger)


def _of_tools(ledger: Ledger) -> Iterator[_Trouble]:
    for tool in ledger.tools:
        name = one_line(tool.name, 60)
        if tool.denied:
            yield _Trouble(
                f"its agent was denied the tool {name}",
                f"{tool.denied} of {tool.uses} uses",
                f"Put the rule for it into `allowed`, or take {name} out of `tools`",
            )
        elif tool.uses and tool.errors == tool.uses:
            yield _Trouble(
                f"each use of the tool {name} failed",
                f"{tool.uses} uses",
                "Read the results in the transcript; a script that asks for what is not there does that too",
                grave=False,
            )


class _Query(msgspec.Struct):
    query: str = ""
    exit: int = 0
    error: str = ""


def _of_queries(log: Path) -> Iterator[_Trouble]:
    for query in _queries(log):
        if query.exit >= _FAILED_QUERY:
            yield _Trouble(
                f"`xq` failed (exit code {query.exit})",
                one_line(query.error or query.query, 120),
                "Build the index anew with `tokenbench-tui index`, and try `tokenbench-tui xq` by hand",
            )
            return


def _queries(log: Path) -> Iterable[_Query]:
    try:
        lines = log.read_bytes().split(b"\n")
    except OSError:
        return
    for line in lines:
        try:
            yield msgspec.json.decode(line, type=_Query)
        except UNREADABLE:
            continue
