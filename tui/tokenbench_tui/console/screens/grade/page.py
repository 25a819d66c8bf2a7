"""An item to be judged, as lines. What comes in has no field for arm, run, cost or order."""

from collections.abc import Sequence
from dataclasses import dataclass

from tokenbench.grading.items import BlindItem
from tokenbench.text import one_line
from tokenbench_tui.console import amounts
from tokenbench_tui.console.widgets.ink import Ink, Line, Page, Pages, fit, line, paragraph, spread, wrap

LABEL = 10


@dataclass(frozen=True, slots=True)
class Place:
    """Where a judge stands."""

    judge: str
    position: int
    """Of the item in the judge's order, from 1."""
    items: int
    unjudged: int
    skipped: int
    seconds: float | None = None
    """For how long the item has been looked at."""
    mean_seconds: float | None = None
    blind: bool = True
    waiting: int | None = None
    """Answers that no judge at all has judged; None where that is not known yet."""


def title(place: Place, cells: int) -> Line:
    """Who judges, and how far one has come."""
    times = amounts.seconds(place.seconds) if place.seconds is not None else ""
    if place.mean_seconds is not None:
        times += f", mean {amounts.seconds(place.mean_seconds)}"
    where = f"   item {place.position} of {place.items}   {times}" if place.position else f"   {place.items} items"
    left = line((f" judge {one_line(place.judge, 40)}", "strong"), where)
    if not place.blind:
        return spread(left, line(("NOT BLIND: the mapping is open ", "loud")), cells)
    return spread(left, line(("blind: arm and order hidden ", "quiet")), cells)


def subtitle(item: BlindItem | None, place: Place, cells: int) -> Line:
    """The question's id and class, and what is left."""
    left = line((f" {one_line(item.question, 40)}", "accent"), f" · {item.question_class}") if item is not None else ()
    # Runs that gave the same answer are one item here, so this is fewer than the runs that wait elsewhere.
    counts = f"of {place.items} distinct answers {place.unjudged} unjudged by you" if cells >= 76 else ""
    counts = counts or f"{place.unjudged} unjudged by you"
    if place.skipped:
        counts += f", {place.skipped} skipped"
    if place.waiting is not None:
        counts += f"; {place.waiting} by nobody"
    return spread(left, line((f"{counts} ", "quiet")), cells)


def question_page(item: BlindItem, cells: int) -> Page:
    """Question, truth and the note for graders."""
    pages = Pages()
    parts: tuple[tuple[str, str, Ink], ...] = (
        ("Question", item.text, "plain"),
        ("Truth", item.truth, "good"),
        ("Note", item.note, "warn"),
    )
    for label, text, ink in parts:
        if text:
            head: Line = ((f" {fit(label, LABEL - 1)}", "quiet"),)
            pages.add(*paragraph(head, text, cells - 1, indent=LABEL, ink=ink))
    return pages.done()


def answer_page(item: BlindItem, cells: int) -> Page:
    """The answer, whole."""
    pages = Pages()
    if not item.answer.strip():
        pages.add(line((" (the answer is empty)", "quiet")))
        return pages.done()
    pages.add(*(line(f" {text}") for text in wrap(item.answer, cells - 2)))
    return pages.done()


def rule(item: BlindItem, lines: int, cells: int) -> Line:
    """The line between what was asked and what was answered."""
    masked = f" {item.masked} masked " if item.masked else ""
    head = f"── answer ── {lines} line{'' if lines == 1 else 's'} "
    return line((head + "─" * max(2, cells - len(head) - len(masked) - 2) + masked + "──", "quiet"))


def message_page(paragraphs: Sequence[Line | str], cells: int) -> Page:
    """Sentences that stand where an item would."""
    pages = Pages()
    pages.add(())
    for one in paragraphs:
        if isinstance(one, str):
            pages.add(*paragraph(((" ", "plain"),), one, cells - 1, indent=1), ())
        else:
            pages.add(one, ())
    return pages.done()
