"""A clustering that takes new texts, and groups of texts that have no labels; scores are the pipeline's.

Other rooms import all modules but `describe`, `joining`, `layers` and `terms`.
"""
