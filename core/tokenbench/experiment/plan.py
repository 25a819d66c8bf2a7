"""The order of the cells: repeat by repeat, question by question, the arms counterbalanced and shuffled under the seed.

Position matters: an arm that always ran last would always find the warmest cache, and the busiest hour. So the arms of
one question are a row of a Latin square, and as many questions as there are arms use up the square: each arm has then
stood in each position once. At every moment of the experiment the counts differ by at most one, so an experiment that
stops early is balanced too. The squares are Williams designs (E. J. Williams, "Experimental designs balanced for the
estimation of residual effects of treatments", 1949): within the rows, each arm also follows each other arm equally
often (over one square for an even number of arms, over two for an odd one).
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import TypeVar

from tokenbench.experiment.model import Cell, Config, Question

T = TypeVar("T")


def plan_cells(config: Config, questions: Sequence[Question]) -> tuple[Cell, ...]:
    """All cells in the order in which they are to run. The same seed gives the same order on every machine."""
    rows = _rows(tuple(sorted(config.arms)), Random(config.experiment.seed))
    return tuple(
        Cell(arm, question.id, repeat)
        for repeat in range(1, config.experiment.repeats + 1)
        for question in questions
        for arm in next(rows)
    )


def plan_warmups(config: Config) -> tuple[str, ...]:
    """The arms of the warm-up runs, in their order: each arm `warmups` times, round by round."""
    rows = _rows(tuple(sorted(config.arms)), Random(config.experiment.seed + 1))
    return tuple(arm for _ in range(config.experiment.warmups) for arm in next(rows))


def _rows(arms: tuple[str, ...], random: Random) -> Iterator[tuple[str, ...]]:
    """Orders of the arms without end: row after row of Williams squares, each with arms and rows shuffled anew."""
    count = len(arms)
    zigzag = [(step + 1) // 2 if step % 2 else (count - step // 2) % count for step in range(count)]
    while True:
        names = _shuffled(arms, random)
        square = [tuple(names[(start + step) % count] for step in zigzag) for start in range(count)]
        yield from _shuffled(square, random)
        if count % 2:
            yield from _shuffled([row[::-1] for row in square], random)


def _shuffled(items: Sequence[T], random: Random) -> list[T]:
    """Fisher and Yates, from `Random.random()` alone: the only method whose numbers Python promises to keep."""
    shuffled = list(items)
    for last in range(len(shuffled) - 1, 0, -1):
        other = int(random.random() * (last + 1))
        shuffled[last], shuffled[other] = shuffled[other], shuffled[last]
    return shuffled
