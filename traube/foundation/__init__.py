"""What every room stands on: errors, paths, files, configuration, cards. Imports nothing else of
Traube.

Here belongs what knows nothing of texts, vectors or clusters.
"""
