"""Mechanical rules, the blind queue, verdicts, model judges."""
