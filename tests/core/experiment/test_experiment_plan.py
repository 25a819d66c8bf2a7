"""The order of the cells: interleaved, balanced at every moment, the same on every machine."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbench.experiment.model import Arm, Config, CorpusSource, Experiment, Question
from tokenbench.experiment.plan import plan_cells, plan_warmups


def config(arms: int, repeats: int = 1, seed: int = 0, warmups: int = 1) -> Config:
    return Config(
        experiment=Experiment(name="x", model="m", repeats=repeats, seed=seed, warmups=warmups),
        corpus=CorpusSource(kind="folder", path="c"),
        arms={f"arm{number}": Arm(tools=(), prompt="p.md") for number in range(arms)},
    )


def questions(count: int) -> tuple[Question, ...]:
    return tuple(Question(f"q{number}", "lookup", "?", "!") for number in range(count))


shapes = st.tuples(st.integers(1, 7), st.integers(1, 4), st.integers(1, 12), st.integers(-(2**70), 2**70))


@given(shapes)
def test_every_cell_is_planned_once_repeat_by_repeat_and_question_by_question(shape: tuple[int, int, int, int]) -> None:
    arms, repeats, count, seed = shape
    cells = plan_cells(config(arms, repeats, seed), questions(count))
    assert len(set(cells)) == len(cells) == arms * repeats * count
    blocks = [cells[start : start + arms] for start in range(0, len(cells), arms)]
    assert [(block[0].repeat, block[0].question) for block in blocks] == [
        (repeat, f"q{number}") for repeat in range(1, repeats + 1) for number in range(count)
    ]
    assert all(len({(cell.repeat, cell.question) for cell in block}) == 1 for block in blocks)


@given(shapes)
def test_after_every_question_each_arm_has_stood_in_each_position_equally_often(
    shape: tuple[int, int, int, int],
) -> None:
    arms, repeats, count, seed = shape
    cells = plan_cells(config(arms, repeats, seed), questions(count))
    stood = Counter({(f"arm{arm}", position): 0 for arm in range(arms) for position in range(arms)})
    for place, cell in enumerate(cells):
        stood[cell.arm, place % arms] += 1
        if place % arms == arms - 1:
            assert max(stood.values()) - min(stood.values()) <= 1


@pytest.mark.parametrize(("arms", "blocks"), [(2, 2), (3, 6), (4, 4), (5, 10), (6, 6)])
def test_within_the_questions_of_a_square_each_arm_follows_each_other_equally_often(arms: int, blocks: int) -> None:
    for seed in range(5):
        cells = plan_cells(config(arms, seed=seed), questions(blocks))
        rows = [cells[start : start + arms] for start in range(0, len(cells), arms)]
        follows = Counter((a.arm, b.arm) for row in rows for a, b in pairwise(row))
        assert len(follows) == arms * (arms - 1)
        assert len(set(follows.values())) == 1


def test_the_order_depends_on_the_seed_and_on_nothing_else() -> None:
    asked = questions(6)
    assert plan_cells(config(3, 2, 7), asked) == plan_cells(config(3, 2, 7), asked)
    assert len({plan_cells(config(3, 2, seed), asked) for seed in range(20)}) > 15
    turned = config(3, 2, 7)
    reordered = Config(
        experiment=turned.experiment, corpus=turned.corpus, arms=dict(reversed(list(turned.arms.items())))
    )
    assert plan_cells(reordered, asked) == plan_cells(turned, asked)


def test_the_order_of_a_seed_never_changes_between_versions() -> None:
    cells = plan_cells(config(3, 1, 42), questions(4))
    assert " ".join(cell.arm[-1] for cell in cells) == PINNED


PINNED = "0 1 2 1 2 0 2 0 1 1 0 2"


@given(st.integers(1, 5), st.integers(0, 4))
def test_warmups_give_each_arm_its_number_round_by_round(arms: int, warmups: int) -> None:
    planned = plan_warmups(config(arms, warmups=warmups))
    assert Counter(planned) == Counter({f"arm{arm}": warmups for arm in range(arms) if warmups})
    for start in range(0, len(planned), arms):
        assert len(set(planned[start : start + arms])) == arms
