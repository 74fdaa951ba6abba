"""Reports of stored scores: leaderboard, comparisons, provenance, figures, MTEB's files. Nothing is clustered here.

Other rooms import all modules but `explorer` and `found`.
"""
