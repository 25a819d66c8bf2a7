"""Screen 4: tokens per correct answer, or why there are none."""
