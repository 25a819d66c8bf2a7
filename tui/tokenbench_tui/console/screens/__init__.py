"""One package a screen: `screen.py` is Textual, everything else in it is pure functions from data to lines."""
