"""The one query is data, and its hash names all that decides what is found."""

import json

from tokenbench.retrieval import template
from tokenbench.retrieval.analysis import ANALYSER_VERSION


def test_the_template_says_what_the_design_says() -> None:
    assert template.TEMPLATE["fields"] == {"code": 1.0, "name_text": 3.0, "sig": 2.0, "doc": 1.0}
    assert template.TEMPLATE["token"] == {"query": "dis_max", "tie_breaker": 0.0}
    assert template.TEMPLATE["k"] == {"default": 5, "min": 1, "max": 10}
    assert template.TEMPLATE["hit_characters"] == 1600


def test_the_hash_covers_fields_boosts_k_limits_and_the_analyser() -> None:
    canonical = json.dumps(template.TEMPLATE)
    for part in ('"name_text": 3.0', '"max": 10', '"limit": 64', f'"version": {ANALYSER_VERSION}', '"documents": 1'):
        assert part in canonical
    assert len(template.TEMPLATE_SHA256) == 64


def test_k_is_held_to_its_bounds() -> None:
    assert [template.held(k) for k in (-5, 0, 1, 5, 10, 11)] == [1, 1, 1, 5, 10, 10]


def test_each_word_of_a_query_is_asked_for_once() -> None:
    assert template.query_tokens("user_id user ID") == ["user_id", "user", "id"]
