"""What every room stands on: errors, paths, files, configuration, cards. Imports nothing else of
Traube.

Here belongs the entry point of the command `traube` (`console`), and what knows nothing of texts,
vectors or clusters.
"""
