"""AECL (short-text clustering): the numbers that it printed. It has no tables or figures yet, so it
offers no `PAPER`.
"""
