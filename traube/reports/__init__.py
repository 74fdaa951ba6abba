"""What is made of stored scores: leaderboard, comparisons, explanations, regressions,
figures, MTEB's files.

It reads the storage and computes statistics. No text is encoded or clustered here; that is
`traube.pipeline`.
"""
