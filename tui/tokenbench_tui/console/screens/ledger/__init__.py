"""Screen 2: what one run cost, and whether that is reconciled."""
