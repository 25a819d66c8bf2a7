"""A real tokenizer as a counting rule: the one that the wheel of anthropic 0.34.2 carries, an earlier Claude's own."""

import importlib.util
from pathlib import Path
from typing import Final

from tokenizers import Tokenizer

from tokenbench.rehearsal.counting import Counter

_PACKAGE: Final = "anthropic"
_FILE: Final = "tokenizer.json"


class RealTokenizer(Counter):
    """Counts what byte-pair encoding with a vocabulary of 65,000 makes of a text, after NFKC normalisation.

    Raises:
        FileNotFoundError: The `test` extra is not installed, or holds a release that no longer carries the file.
    """

    def __init__(self) -> None:
        # Found without importing the package, which takes a second and would set up an HTTP client.
        spec = importlib.util.find_spec(_PACKAGE)
        places = spec.submodule_search_locations or () if spec else ()
        found = next((path for place in places if (path := Path(place) / _FILE).is_file()), None)
        if found is None:
            raise FileNotFoundError(f"{_PACKAGE} does not carry {_FILE}")
        self._tokenizer = Tokenizer.from_file(str(found))

    @property
    def rule_name(self) -> str:
        return "anthropic-0.34.2"

    def text(self, text: str) -> int:
        # A lone surrogate in a file that a tool has read is legal JSON, and nothing that the tokenizer takes.
        whole = text.encode("utf-8", "replace").decode()
        return len(self._tokenizer.encode(whole, add_special_tokens=False).ids)
