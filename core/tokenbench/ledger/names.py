"""Which names mean the same model: `claude-opus-4-8[1m]` in one place is `claude-opus-4-8` in another."""

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final

_CONTEXT: Final = re.compile(r"\[\d+[km]\]$", re.IGNORECASE)
_DATE: Final = re.compile(r"[-@]20\d{6}$")


@lru_cache(maxsize=256)
def plain(name: str) -> str:
    """The name without the suffix of its context window."""
    return _CONTEXT.sub("", name)


def undated(name: str) -> str:
    """The name without context suffix and date."""
    return _DATE.sub("", plain(name))


def find(name: str, among: Collection[str]) -> str | None:
    """The entry that means this model: the same name, or the same but for a date on one side; nothing looser.

    `claude-opus-5` is a prefix of `claude-opus-5-5` and another model.
    """
    wanted = plain(name)
    if wanted in among:
        return wanted
    same = [other for other in among if wanted in {undated(other), other} or other == undated(wanted)]
    return same[0] if len(same) == 1 else None
