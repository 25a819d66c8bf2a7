"""The Textual console: keyboard only, a projection of files that core reads."""
