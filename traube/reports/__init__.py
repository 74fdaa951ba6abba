"""What is made of stored scores: leaderboard, comparisons, explanations, figures, MTEB's files. Nothing is clustered here."""
