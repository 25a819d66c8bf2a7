"""The one query, as data: what an index was made for, and what every engine must ask.

It knows no question and no corpus. Its hash names everything that decides which documents are found and in which
order, so that an index made for another template is known to be stale.
"""

import hashlib
import json
from typing import Final

from tokenbench.retrieval.analysis import ANALYSER_VERSION, MAX_TOKEN, SENTINEL, tokens

DOCUMENTS_VERSION: Final = 1
"""How a corpus is cut into documents; changed whenever the same corpus would give other documents."""
FIELDS: Final[tuple[tuple[str, float], ...]] = (("code", 1.0), ("name_text", 3.0), ("sig", 2.0), ("doc", 1.0))
"""The fields that are searched, each with its boost."""
K_DEFAULT: Final = 5
K_MIN: Final = 1
K_MAX: Final = 10
HIT_CHARACTERS: Final = 1600
"""Characters of code shown of a hit; also what a document holds at most, so that whatever was found is shown."""
QUERY_TOKENS: Final = 64
"""Distinct tokens of a query that are asked for; those behind them are left out, and the reader is told."""
SCORE_DECIMALS: Final = 3
"""Scores that are equal after rounding are ties; ties stand by path, then line."""

TEMPLATE: Final[dict[str, object]] = {
    "template": 1,
    "documents": DOCUMENTS_VERSION,
    "analyser": {"version": ANALYSER_VERSION, "token_characters": MAX_TOKEN, "empty_field": SENTINEL},
    "scoring": {"kind": "bm25", "k1": 1.2, "b": 0.75},
    "fields": dict(FIELDS),
    "token": {"query": "dis_max", "tie_breaker": 0.0},
    "tokens": {"query": "should", "minimum_should_match": 1, "distinct": True, "limit": QUERY_TOKENS},
    "order": ["score", "path", "line"],
    "score_decimals": SCORE_DECIMALS,
    "k": {"default": K_DEFAULT, "min": K_MIN, "max": K_MAX},
    "hit_characters": HIT_CHARACTERS,
}
"""For each distinct token of the query one `dis_max` over the fields; a document must match at least one token."""
TEMPLATE_SHA256: Final = hashlib.sha256(
    json.dumps(TEMPLATE, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
).hexdigest()
"""Of the template's canonical JSON: sorted keys, no spaces, ASCII."""


def held(k: int) -> int:
    """The number of hits that are given when `k` are asked for."""
    return max(K_MIN, min(K_MAX, k))


def query_tokens(query: str) -> list[str]:
    """The distinct tokens of a query in their order, all of them; only the first QUERY_TOKENS are asked for."""
    return list(dict.fromkeys(tokens(query)))
