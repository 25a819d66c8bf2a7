"""Symbols of a corpus, the index engines, and the `xq` command."""
