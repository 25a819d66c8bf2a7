"""A number is a Figure, or a Refusal stands in its place."""

from decimal import Decimal

import msgspec
import pytest

from tokenbench.figures import MEANINGS, Code, Figure, Refusal, refuse


def test_every_code_has_one_sentence_and_one_remedy() -> None:
    assert set(MEANINGS) == set(Code)
    for meaning in MEANINGS.values():
        assert meaning.sentence
        assert not meaning.sentence.endswith(".")
        assert meaning.remedy
        assert not meaning.remedy.endswith(".")


def test_a_refusal_speaks_in_the_words_of_its_code_unless_it_knows_better() -> None:
    plain = refuse(Code.NO_RESULT, "native__q01__r1.jsonl:12")
    exact = refuse(Code.NO_RESULT, reason="The stream ends in the middle of line 12")
    assert plain.reason == MEANINGS[Code.NO_RESULT].sentence
    assert plain.evidence == ("native__q01__r1.jsonl:12",)
    assert exact.reason == "The stream ends in the middle of line 12"
    assert exact.remedy == MEANINGS[Code.NO_RESULT].remedy


def test_neither_can_be_changed_once_it_is_made() -> None:
    figure = Figure(value=1, unit="tokens", basis="exact")
    refusal = refuse(Code.UNGRADED)
    with pytest.raises(AttributeError):
        figure.value = 2  # pyright: ignore[reportAttributeAccessIssue] - the assignment is what is refused
    with pytest.raises(AttributeError):
        refusal.code = Code.RERUN  # pyright: ignore[reportAttributeAccessIssue] - the assignment is what is refused


def test_a_refusal_survives_its_json() -> None:
    refusal = refuse(Code.CALLS_UNRECONCILED, "calls 6", "result 7")
    assert msgspec.json.decode(msgspec.json.encode(refusal), type=Refusal) == refusal


def test_money_is_written_as_a_decimal_string() -> None:
    figure = Figure(value=Decimal("0.10"), unit="USD", basis="exact")
    assert msgspec.json.decode(msgspec.json.encode(figure))["value"] == "0.10"
