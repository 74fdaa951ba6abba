"""Reports of stored scores: leaderboard, comparisons, provenance, figures, MTEB's files. Nothing is clustered here."""
