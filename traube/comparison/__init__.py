"""Verdicts: intervals, tests, ranks with ties, promotions and regressions, and nothing else."""
