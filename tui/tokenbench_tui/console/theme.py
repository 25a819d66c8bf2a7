"""How inks look: two truecolor themes, so that NO_COLOR has luminance to work with, and the shared styles.

Okabe and Ito's palette (https://jfly.uni-koeln.de/color/) is told apart with any colour vision; words and signs say the
same without colour.
"""

from typing import Final

from textual.theme import Theme

DARK: Final = Theme(
    name="tokenbench-dark",
    primary="#56B4E9",
    secondary="#8FA9BF",
    accent="#CC9AC0",
    warning="#E8A33D",
    error="#F08A5D",
    success="#3FC39A",
    foreground="#E4E7EA",
    background="#101418",
    surface="#101418",
    panel="#1B2229",
    dark=True,
    variables={"quiet": "#95A1AC", "cursor": "#1D3548"},
)
LIGHT: Final = Theme(
    name="tokenbench-light",
    primary="#00639B",
    secondary="#44586B",
    accent="#8A3F78",
    warning="#8A5300",
    error="#A63A00",
    success="#00694A",
    foreground="#161B20",
    background="#FAFAF7",
    surface="#FAFAF7",
    panel="#ECECE6",
    dark=False,
    variables={"quiet": "#56616B", "cursor": "#CBE2F3"},
)
CSS: Final = """
Screen { background: $background; color: $foreground; layout: vertical; overflow: hidden; }
ModalScreen { background: $background 0%; align: center middle; overflow: hidden; }
.ink--plain { color: $foreground; }
.ink--quiet { color: $quiet; }
.ink--strong { color: $foreground; text-style: bold; }
.ink--good { color: $success; }
.ink--warn { color: $warning; }
.ink--bad { color: $error; }
.ink--loud { color: $error; text-style: bold; }
.ink--accent { color: $accent; }
.ink--key { color: $primary; text-style: bold; }
.ink--bar { color: $secondary; }
App:nocolor .ink--loud, App:nocolor .ink--key { color: $foreground; text-style: bold; }
.ink--cursor { background: $cursor; }
Sheet, BoardTable { height: 1fr; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; overflow-x: hidden;
  overflow-y: scroll; background: $background; scrollbar-color: $secondary; scrollbar-background: $panel;
  scrollbar-color-hover: $secondary; scrollbar-color-active: $secondary; }
#question { height: auto; max-height: 45%; }
Lines { height: 1; background: $background; }
Lines.title { background: $panel; }
KeyLine { height: 1; background: $panel; }
TooSmall { display: none; height: 1fr; background: $background; }
.-tiny > * { display: none; }
.-tiny > TooSmall { display: block; }
Input { border: none; height: 1; padding: 0 1; background: $panel; color: $foreground; }
Input:focus { border: none; }
.box { background: $panel; width: 76; max-width: 100%; height: auto; max-height: 100%; padding: 0 1;
  border: solid $secondary; }
.wide { width: 100%; max-width: 120; }
.box Sheet { background: $panel; height: auto; max-height: 18; }
.box Lines { background: $panel; }
"""
