"""COB: Learn The Big Picture: Representation Learning for Clustering (Kashyapi and Dietz, RepL4NLP 2021)."""

from pathlib import Path

TASKS = Path(__file__).with_name("tasks.yaml")  # cards
