"""Both themes can be read: every ink stands out from every background it is drawn on."""

import pytest
from textual.color import Color
from textual.theme import Theme

from tokenbench_tui.console.theme import DARK, LIGHT


def luminance(color: Color) -> float:
    """Relative luminance, WCAG 2.1."""
    parts = [value / 255 for value in color.rgb]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio, WCAG 2.1."""
    high, low = sorted((luminance(Color.parse(one)), luminance(Color.parse(other))), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_every_ink_has_a_contrast_of_four_and_a_half(theme: Theme) -> None:
    inks = {
        "foreground": theme.foreground,
        "good": theme.success,
        "warn": theme.warning,
        "bad": theme.error,
        "accent": theme.accent,
        "key": theme.primary,
        "bar": theme.secondary,
        "quiet": theme.variables["quiet"],
    }
    backgrounds = {"screen": theme.background, "panel": theme.panel, "cursor": theme.variables["cursor"]}
    weak = {
        (ink, background): round(contrast(color, behind), 2)
        for ink, color in inks.items()
        for background, behind in backgrounds.items()
        if contrast(color, behind) < 4.5
    }
    assert weak == {}
