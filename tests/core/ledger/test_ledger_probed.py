"""Captures of the CLI against prices as a probe of that CLI found them (tests/data/prices): every cost, to 1e-9 USD.

Of claude 2.1.197 there is no probed table, so its captures are held against one another: their costs determine the
prices of the models they used, and all of them follow from those.
"""

from decimal import Decimal
from typing import NamedTuple

import pytest
from streams import DATA, ledger, read

from tokenbench.figures import Code
from tokenbench.ledger.derive import COUNTERS, derive, differences
from tokenbench.ledger.model import Ledger
from tokenbench.ledger.prices import PriceTable
from tokenbench.ledger.prices import read as read_table

D = Decimal
TOLERANCE = D("1e-9")
_FOUND = read_table(DATA / "prices" / "claude-2.1.332.json")
assert _FOUND is not None
PROBED: PriceTable = _FOUND


class Why(NamedTuple):
    """Why a capture has no reconciled cost."""

    code: Code
    said: str = ""


RECONCILED = {
    "bash_denied",
    "compact_cmd",
    "e400",
    "empty",
    "f529_max2",
    "huge_bash",
    "json_schema",
    "max_budget",
    "normal3",
    "parallel",
    "refusal",
    "resume",
    "sub_bg",
    "subagent",
    "ttl_mix",
    "unicode",
    "websearch",
}
NOT = {
    "cut_text": Why(Code.CALLS_UNRECONCILED),
    "model_nosuch-model": Why(Code.PRICE_UNKNOWN, "nosuch-model"),
    "no_verbose": Why(Code.NO_RESULT),
    "sigterm_tool": Why(Code.NO_RESULT),
}


def capture(version: str, name: str) -> Ledger:
    return ledger(read(DATA / "streams" / version / f"{name}.jsonl"), prices=PROBED)


def names(version: str) -> list[str]:
    files = (DATA / "streams" / version).glob("*.jsonl*")
    return sorted(path.name.split(".")[0] for path in files if ".calls." not in path.name)


def test_every_capture_of_the_probed_version_stands_in_one_of_the_two_tables() -> None:
    assert sorted({*RECONCILED, *NOT}) == names("claude-2.1.332")


@pytest.mark.parametrize("name", sorted(RECONCILED))
def test_the_recomputed_cost_is_the_clis(name: str) -> None:
    found = capture("claude-2.1.332", name)
    equation = next(row for row in found.equations if row.name == "price")
    assert found.cost_reconciled is True
    assert isinstance(equation.left, Decimal)
    assert isinstance(equation.right, Decimal)
    assert abs(equation.left - equation.right) <= TOLERANCE


@pytest.mark.parametrize("name", sorted(NOT))
def test_a_capture_whose_cost_cannot_be_checked_is_refused_and_has_no_recomputed_cost(name: str) -> None:
    found = capture("claude-2.1.332", name)
    assert found.cost_reconciled is not True
    assert found.cost_usd.recomputed is None
    refusal = next(refusal for refusal in found.refusals if refusal.code == NOT[name].code)
    assert NOT[name].said in refusal.reason


def test_a_model_that_the_cli_does_not_know_has_a_note_and_no_cost_of_its_own() -> None:
    found = capture("claude-2.1.332", "model_nosuch-model")
    assert "COST-GUESSED-BY-CLI" in found.notes
    assert found.cost_usd.own is None


def test_what_the_captures_cost_determines_no_other_price_than_the_probed_one() -> None:
    derivation = derive((capture("claude-2.1.332", name) for name in names("claude-2.1.332")), PROBED)
    determined = {one.model: set(one.prices) for one in derivation.found}
    assert determined["claude-opus-5-5"] == set(COUNTERS)
    assert differences(derivation.found, PROBED) == ()


def test_captures_of_another_version_have_no_price_by_this_table() -> None:
    billed = [found for name in names("claude") if (found := capture("claude", name)).models]
    assert billed
    assert all(found.cost_usd.recomputed is None for found in billed)
    assert all(found.refused(Code.PRICE_UNKNOWN) for found in billed if found.token_reconciled)


def test_captures_of_the_older_version_agree_with_one_another_about_every_price() -> None:
    derivation = derive(capture("claude", name) for name in names("claude"))
    assert all(not one.problem for one in derivation.found)
    (opus,) = (one for one in derivation.found if one.model == "claude-opus-4-8" and one.region == "not_available")
    assert set(opus.prices) == set(COUNTERS)
    # Its multipliers, as the captures' README has them.
    assert opus.prices["output"] == 5 * opus.prices["input"]
    assert opus.prices["cache_write_1h"] == 2 * opus.prices["input"]
