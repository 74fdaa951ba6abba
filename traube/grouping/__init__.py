"""A clustering that takes new texts, and groups of texts that have no labels.

Scores do not belong here; they are the pipeline's.
"""
