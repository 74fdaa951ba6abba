"""The base of all other packages: errors, paths, files, configuration, cards. It imports nothing else of Traube.

Here belongs what knows nothing of texts, vectors or clusters.

Other rooms import all modules.
"""
