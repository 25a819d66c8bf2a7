"""Bytes to lines to neutral events, and where evidence lies on disk."""
