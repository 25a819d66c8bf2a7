"""Numbers as a narrow column can hold them. Unknown is a dash, never a zero."""

from decimal import Decimal

UNKNOWN = "–"


def tokens(count: int | None, *, at_least: bool = False) -> str:
    """Tokens in at most 7 cells: 812, 98.1k, 1.84M; a lower bound has its sign."""
    if count is None:
        return UNKNOWN
    sign = "≥" if at_least else ""
    if count < 1_000:
        return f"{sign}{count}"
    if count < 999_950:
        return f"{sign}{count / 1e3:.1f}k"
    if count < 999_950_000:
        return f"{sign}{count / 1e6:.2f}M"
    return f"{sign}{count / 1e9:.2f}G"


def usd(amount: Decimal | None) -> str:
    """Dollars without their sign: three places below ten dollars, two above."""
    if amount is None:
        return UNKNOWN
    return f"{amount:.3f}" if abs(amount) < 10 else f"{amount:.2f}"


def seconds(duration: float | None) -> str:
    """A duration in at most 6 cells: 9 s, 4:05, 2 h 05."""
    if duration is None:
        return UNKNOWN
    whole = max(0, round(duration))
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60}:{whole % 60:02}"
    return f"{whole // 3_600} h {whole % 3_600 // 60:02}"


def about(duration: float) -> str:
    """An estimate of a duration: ~40 s, ~18 min, ~3.5 h."""
    if duration < 90:
        return f"~{max(1, round(duration))} s"
    if duration < 90 * 60:
        return f"~{round(duration / 60)} min"
    return f"~{duration / 3600:.1f} h"


def percent(share: float) -> str:
    """A share as a whole per cent."""
    return f"{share * 100:.0f} %"
