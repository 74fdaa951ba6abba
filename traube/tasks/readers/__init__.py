"""One module for each raw format or data set. Each is found by itself; none is named anywhere else.

A module offers `sources()`, the tasks that it reads from raw data, or `CARDS`: the key by which a card in `cards/` asks
for its reader, and the reader. What readers share is in `traube.tasks.reading` and `traube.tasks.splitting`.
"""
