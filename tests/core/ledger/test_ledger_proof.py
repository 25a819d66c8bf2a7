"""A price table that was edited by hand is refused: its evidence says other prices."""

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from priced import proved, proved_table

from tokenbench.errors import RunsError
from tokenbench.ledger.prices import ModelPrices, PriceTable, Rates, Row, read, read_if_sound, write
from tokenbench.ledger.proof import fault

D = Decimal
LOW = Rates(D("0.1"), D("0.125"), D("0.2"), D("0.01"), D("0.5"), D("0.01"))
HIGH = Rates(D("0.5"), D("0.625"), D(1), D("0.05"), D("2.5"), D("0.01"))
SOUND = ModelPrices(
    model="claude-haiku-5-5",
    agent="claude",
    agent_version="2.1.332",
    rows=(Row(0, "standard", "", LOW), Row(100_000, "standard", "", HIGH), Row(0, "fast", "us", HIGH)),
    plain_regions=("not_available",),
)
Edit = Callable[[dict[str, Any]], object]


def test_a_table_with_its_evidence_is_sound() -> None:
    assert fault(proved_table(SOUND)) is None


@pytest.mark.parametrize("counter", msgspec.structs.fields(Rates), ids=lambda field: field.name)
@pytest.mark.parametrize("row", range(3))
def test_every_edited_price_is_found(counter: Any, row: int) -> None:
    entry = proved(SOUND)
    edited = msgspec.structs.replace(entry.rows[row].rates, **{counter.name: D("0.011")})
    rows = list(entry.rows)
    rows[row] = msgspec.structs.replace(rows[row], rates=edited)
    assert fault(PriceTable((msgspec.structs.replace(entry, rows=tuple(rows)),)))


@given(st.data())
def test_every_edited_bill_and_every_bill_that_was_taken_out_of_the_only_ones_is_found(data: st.DataObject) -> None:
    entry = proved(SOUND)
    at = data.draw(st.integers(0, len(entry.evidence) - 1))
    bill = entry.evidence[at]
    other = msgspec.structs.replace(bill, cost=bill.cost + data.draw(st.sampled_from([D("0.001"), D("2e-9"), D(1)])))
    evidence = (*entry.evidence[:at], other, *entry.evidence[at + 1 :])
    assert fault(PriceTable((msgspec.structs.replace(entry, evidence=evidence),)))


def first_rates(found: dict[str, Any]) -> dict[str, Any]:
    return found["models"][0]["rows"][0]["rates"]


EDITS: dict[str, tuple[Edit, str]] = {
    "a price": (lambda found: first_rates(found).update(output="5"), "the CLI charged"),
    "below nothing": (lambda found: first_rates(found).update(input="-1"), "is no price"),
    "no number": (lambda found: first_rates(found).update(input="NaN"), "is no price"),
    "without end": (lambda found: first_rates(found).update(input="Infinity"), "is no price"),
    "too large": (lambda found: first_rates(found).update(input="1e400"), "is no price"),
    "too fine": (lambda found: first_rates(found).update(input="1e-999999999"), "is no price"),
    "a price of another type": (lambda found: first_rates(found).update(input=[]), "is no price table"),
    "words": (lambda found: first_rates(found).update(input="five"), "is no price table"),
    "no evidence": (lambda found: found["models"][0].update(evidence=[]), "no bill bears out"),
    "a cost": (lambda found: found["models"][0]["evidence"][0].update(cost="NaN"), "is no cost"),
    "a counter": (lambda found: found["models"][0]["evidence"][0].update(input=-1), "a counter that is none"),
    "a threshold": (lambda found: found["models"][0]["rows"][1].update(above=150_000), "100,001 input"),
    "a longer prompt": (lambda found: found["models"][0].update(largest=9_000_000), "9,000,000"),
    "no limit": (lambda found: found["models"][0].update(largest=0), "no longest prompt"),
    "a region": (lambda found: found["models"][0].update(plain_regions=["eu"]), "no row covers|region eu"),
    "a speed": (lambda found: found["models"][0]["rows"][2].update(speed="warp"), "no row covers"),
    "a day after all": (lambda found: found["models"][0].update(made=999_999_999_999), "is no time"),
    "a row twice": (lambda found: found["models"][0]["rows"].append(found["models"][0]["rows"][0]), "two rows"),
    "a model twice": (lambda found: found["models"].append(found["models"][0]), "twice"),
    "no rows": (lambda found: found["models"][0].update(rows=[], evidence=[]), "it has no row"),
    "no name": (lambda found: found["models"][0].update(model=""), "has no name"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_table_is_one_sentence_and_prices_nothing(edit: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    write(path, proved_table(SOUND))
    found = json.loads(path.read_bytes())
    change, said = EDITS[edit]
    change(found)
    path.write_text(json.dumps(found))

    with pytest.raises(RunsError, match=said) as caught:
        read(path)

    assert "\n" not in str(caught.value)
    assert "`tokenbench-tui prices --probe`" in caught.value.remedy
    assert read_if_sound(path) is None


def test_a_key_that_is_given_twice_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    write(path, proved_table(SOUND))
    text = path.read_text().replace('"input": "0.1"', '"input": "9", "input": "0.1"', 1)
    path.write_text(text)
    with pytest.raises(RunsError, match="`input` is given twice"):
        read(path)
