"""Readers of the paper's pairs and of others in German."""
