"""Screen 5."""
