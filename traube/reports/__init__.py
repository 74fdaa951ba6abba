"""Reports of stored scores: leaderboard, comparisons, explanations, figures, MTEB's files. Nothing is clustered here."""
