"""The second meter: growth of the billed prompt between two calls, less what the model said in between."""

from collections.abc import Sequence

from tokenbench.ledger.attribution.model import GrowthRow
from tokenbench.ledger.attribution.threads import Piece
from tokenbench.ledger.shell import Use


class GrowthTable:
    """Growth by tool and use. A prompt that shrank (a compaction, edited context) adds nothing."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, Use], tuple[int, int, bool]] = {}

    def add(self, results: Sequence[Piece], grown: int, times: int, *, again: bool = False) -> None:
        """What one step's results can have added at most.

        Args:
            results: Of the step; several are split by their characters, to the token.
            grown: Tokens.
            times: Calls that billed it.
            again: It was counted before, for calls before a compaction.
        """
        shown = [piece for piece in results if not piece.denied]
        grown = max(0, grown)
        weights = [piece.characters + piece.images * 3 + 1 for piece in shown]
        before, passed = 0, 0
        for piece, weight in zip(shown, weights, strict=True):
            passed += weight
            upto = grown * passed // sum(weights)
            mine, before = upto - before, upto
            unique, billed, split = self._rows.get((piece.tool, piece.use), (0, 0, False))
            self._rows[piece.tool, piece.use] = (
                unique + (0 if again else mine),
                billed + mine * times,
                split or len(results) > 1,
            )

    def rows(self) -> tuple[GrowthRow, ...]:
        """By tool and use."""
        return tuple(
            GrowthRow(tool=tool, use=use, unique=unique, billed=billed, split=split)
            for (tool, use), (unique, billed, split) in sorted(self._rows.items())
        )
