"""Screen 3: answers, judged blind."""
