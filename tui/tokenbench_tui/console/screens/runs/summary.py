"""The lines around the table of runs: what this is, how far it has come, what is wrong, what to do about it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from tokenbench.figures import Refusal
from tokenbench.runner.rows import Phase, Totals, View
from tokenbench.text import one_line
from tokenbench_tui.console import amounts
from tokenbench_tui.console.codes import MONEY, way
from tokenbench_tui.console.widgets.ink import EMPTY, Ink, Line, Span, clip, join, line, spread, width

REHEARSAL = (
    "REHEARSAL: scripted model, nothing here is a measurement",
    "REHEARSAL: scripted model, no measurement",
    "REHEARSAL: no measurement",
    "REHEARSAL",
)


@dataclass(frozen=True, slots=True)
class About:
    """What the header says of an experiment that its journal does not."""

    name: str
    parallel: int = 1
    limit_usd: Decimal | None = None
    limit_tokens: int | None = None


def title(about: About, view: View, cells: int) -> Line:
    """The experiment, and whether it is a rehearsal."""
    left = line((f" {one_line(about.name, 30)}", "strong"), f"   {view.totals.cells} cells")
    if not view.scripted:
        return left
    room = cells - width(left) - 3
    said = next((words for words in REHEARSAL if len(words) <= room), REHEARSAL[-1])
    return join((left, line((said, "loud"))), "   ")


def reading(about: About) -> Line:
    """What is said before the journal was read for the first time: nothing is known yet."""
    return line((f" {one_line(about.name, 30)}", "strong"), ("   reading", "quiet"))


def progress(about: About, view: View, now: float, cells: int) -> Line:
    """How many cells are done, what that took, how long the rest may take; what has no room is left out."""
    totals = view.totals
    counts: list[Span] = [(f" {totals.done} done", "plain"), (f"  {totals.running} running", "plain")]
    if totals.retry:
        counts.append((f"  {totals.retry} retry", "warn"))
    counts.append((f"  {totals.to_go} to go", "plain"))
    if totals.cancelled:
        counts.append((f"  {totals.cancelled} cancelled", "warn"))
    if totals.given_up:
        counts.append((f"  {totals.given_up} given up", "bad"))
    parts = [tuple(counts), spent(about, totals)]
    left = view.seconds_left(now, about.parallel) if view.phase.kind == "running" and _open(totals) else None
    if left is not None:
        parts.append(line((amounts.about(left), "plain")))
    shown = join(parts, " │ ")
    if totals.apart_tokens:
        apart = amounts.tokens(totals.apart_tokens)
        for words in (f"apart, in warm-ups and attempts: {apart} ", f"{apart} apart "):
            if width(shown) + 2 + len(words) <= cells:
                return spread(shown, line((words, "quiet")), cells)
    return clip(shown, cells)


def _open(totals: Totals) -> int:
    return totals.to_go + totals.running + totals.retry


def spent(about: About, totals: Totals) -> Line:
    """Tokens and dollars, each with its limit where there is one."""
    tokens = f"{amounts.tokens(totals.tokens, at_least=totals.lower_bound)}"
    if about.limit_tokens is not None:
        tokens += f" of {amounts.tokens(about.limit_tokens)}"
    parts: list[Span] = [(f"{tokens} tokens", "plain")]
    if totals.spent_usd is not None:
        dollars = f"  ${totals.spent_usd:.2f}"
        if about.limit_usd is not None:
            dollars += f" of ${about.limit_usd:.0f}"
        parts.append((dollars, "plain"))
    return tuple(parts)


def phase_line(phase: Phase, view: View, *, starting: bool = False) -> Line:
    """What the runner is doing; what one has to do about it comes with it.

    Args:
        phase: By the journal.
        view: The rest of it.
        starting: A runner is being started, and has said nothing yet.
    """
    if starting and phase.kind in ("none", "ended", "lost"):
        return line((" starting", "accent"), "  the runner")
    reason = one_line(phase.reason, 160)
    again = "rehearse" if view.scripted else "run"
    words: dict[str, tuple[str, Ink, str]] = {
        "none": ("NOTHING HAS RUN", "warn", "`tokenbench-tui rehearse` costs nothing, `run` costs money"),
        "preparing": ("preparing", "accent", reason),
        "running": ("running", "accent", reason),
        "paused": ("PAUSED", "warn", reason or "runs under way go on; p starts more"),
        "stopping": ("stopping", "warn", reason or "no more runs are started"),
        "ended": ("runner ended", "quiet", reason),
        "lost": ("RUNNER LOST", "loud", f"`tokenbench-tui {again}` goes on; what had ended is kept"),
    }
    word, ink, rest = words[phase.kind]
    warming = [one for one in view.warmups if one.running]
    if phase.kind == "preparing" and warming:
        rest = "warming up " + ", ".join(one_line(one.arm, 20) for one in warming)
    return line((f" {word}", ink), f"  {rest}" if rest else "")


def trouble_line(totals: Totals, cells: int) -> Line:
    """How many of the ended runs carry which refusal."""
    tokens = [(code, count) for code, count in totals.codes if code not in MONEY]
    money = [(code, count) for code, count in totals.codes if code in MONEY]
    if tokens:
        left = line((f" of {totals.done} done: ", "quiet"), (_counted(tokens), "bad"), _also(money))
        return spread(left, line(("f", "key"), " next "), cells)
    return line((f" of {totals.done} done, dollars: ", "quiet"), (_counted(money), "quiet")) if money else EMPTY


def _counted(codes: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{one_line(code, 30)} {count}" for code, count in codes)


def _also(money: Sequence[tuple[str, int]]) -> Span:
    return (f", dollars: {_counted(money)}", "quiet") if money else ("", "plain")


def headline(refusal: Refusal | None, shown: bool, cells: int, *, scripted: bool) -> Line:
    """Whether the headline stands, and if not, why and which key leads there."""
    if refusal is None:
        if not shown:
            return EMPTY
        of: Line = line(("  SCRIPTED-MODEL: it is no measurement", "loud")) if scripted else line("  it stands")
        return spread(line((" HEADLINE", "strong"), *of), line(("4", "key"), " shows it "), cells)
    left = line((" HEADLINE REFUSED ", "loud"), (f" {refusal.code}: ", "bad"), one_line(refusal.reason, 200))
    key, words = way(refusal.code)
    return spread(left, line((key, "key"), f" {words} "), cells)
