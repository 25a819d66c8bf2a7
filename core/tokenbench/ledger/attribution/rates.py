"""Characters per token, by the shape of a text, as a calibration measured them."""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

Shape = Literal["code", "read", "search", "list", "envelope", "call", "prompt"]
"""`code`: corpus text as it stands; `read`: with line numbers before it; `search`: `path:line:text`; `list`: paths;
`envelope`: heads of retrieval hits; `call`: a tool call's name and arguments; `prompt`: prompts and
questions of the experiment."""

SHAPES: Final[tuple[Shape, ...]] = ("code", "read", "search", "list", "envelope", "call", "prompt")
Z: Final = 3.0
"""Standard deviations that a bound reaches to either side: it is meant to hold, not to hold 19 times in 20."""
UNMEASURED: Final = 0.30
"""Relative bound that is added where a text has no shape that was measured. A common guess of 4 characters per token is
off by as much on code that was measured at 2.785."""


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """One shape's measurement."""

    characters_per_token: float
    standard_error: float = 0.0
    """Of `characters_per_token`."""
    spread: float = 0.0
    """Standard deviation, relative, of single pieces about the rate."""

    @property
    def relative_error(self) -> float:
        """Of the tokens of all pieces alike: Z × standard error / rate."""
        return Z * self.standard_error / self.characters_per_token


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """The rates of one corpus and model. `code` is always there and stands in for shapes that were not measured."""

    by_shape: Mapping[Shape, Rate]

    def tokens(self, shape: Shape, characters: int) -> int:
        """Estimated tokens, rounded to the nearest integer, halves to the even one."""
        return round(characters / self._rate(shape).characters_per_token)

    def bound(self, shape: Shape | None, tokens: int) -> float:
        """How far all such estimates may be off together, in tokens; None is a text whose shape nobody measures."""
        measured = shape in self.by_shape
        rate = self._rate(shape or "code")
        return tokens * (rate.relative_error + (0.0 if measured else UNMEASURED))

    def scatter(self, shape: Shape | None, tokens: int) -> float:
        """How far this estimate may be off for itself, in tokens: Z × spread."""
        return tokens * Z * self._rate(shape or "code").spread

    def _rate(self, shape: Shape) -> Rate:
        return self.by_shape.get(shape) or self.by_shape["code"]
