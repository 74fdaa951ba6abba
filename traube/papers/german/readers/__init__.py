"""Readers of the paper's data."""
