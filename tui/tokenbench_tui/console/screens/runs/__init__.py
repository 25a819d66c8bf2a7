"""Screen 1: every cell, live."""
