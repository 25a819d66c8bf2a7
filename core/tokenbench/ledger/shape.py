"""The public JSON of a ledger: one object a transcript, money as decimal strings, what is unknown as null."""

import json
import re
from typing import Any, Final

import msgspec

from tokenbench.figures import Refusal
from tokenbench.ledger.attribution.model import Attributed
from tokenbench.ledger.model import Ledger, Tokens
from tokenbench.text import visible, without_keys

_PLAIN: Final = re.compile("[^\x00-\x7e]")
"""What may need an escape: everything beyond ASCII, and DEL. JSON itself escapes the other controls."""


def document(ledger: Ledger, parts: Attributed | None = None) -> dict[str, Any]:
    """The ledger as JSON data, its keys in the order of the design.

    `parts` is the attribution, `{"refused": …}` where it is refused, null where nobody asked for it.

    The output in `lower_bound` is null where no call's end was seen: a placeholder is no bound.
    """
    result: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(ledger, threads=()))
    del result["threads"]
    found = msgspec.to_builtins(parts)
    result["parts"] = {"refused": found} if isinstance(parts, Refusal) else found
    if ledger.answer is not None:
        result["answer"] = without_keys(ledger.answer)
    if ledger.tokens is None and ledger.calls and not ledger.lower_bound.output:
        result["lower_bound"]["output"] = None
    return result


def line(ledger: Ledger, parts: Attributed | None = None) -> bytes:
    """One JSON line, which may be printed on a terminal: what could act there is escaped, and reads back the same."""
    return safe(msgspec.json.encode(document(ledger, parts)))


def safe(encoded: bytes) -> bytes:
    """JSON with every character escaped that a terminal would not show as it is."""
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    return _PLAIN.sub(_escaped, encoded.decode()).encode()


def _escaped(match: re.Match[str]) -> str:
    sign = match.group()
    return sign if visible(sign, keep_keys=True) == sign else json.dumps(sign)[1:-1] if sign > "\x7f" else "\\u007f"


def words(tokens: Tokens) -> str:
    """Counters in a line of text."""
    write = f"{tokens.cache_write_5m:,} (5m) + {tokens.cache_write_1h:,} (1h)"
    return f"input {tokens.input:,}  write {write}  read {tokens.cache_read:,}  output {tokens.output:,}"
