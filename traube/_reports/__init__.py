"""Reports of stored scores: leaderboard, comparisons, trace_provenance, figures, MTEB's files. Nothing is clustered here."""
