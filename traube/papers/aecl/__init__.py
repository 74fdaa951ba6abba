"""AECL (short-text clustering): the numbers that it printed."""
