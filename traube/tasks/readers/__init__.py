"""Readers of raw data, one module for each raw format or data set, discovered by the package.

A module offers `sources()`, the tasks that it reads from raw data, or `CARDS`: the key by which a card in `cards/` asks
for its reader, and the reader. What readers share is in `traube.tasks.reading` and `traube.tasks.splitting`.
"""
