"""The engine: texts, vectors, reductions, clusters, scores.

It computes cells; it does not choose them.
"""
