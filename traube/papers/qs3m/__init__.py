"""QS3M: Query-specific Subtopic Clustering (Kashyapi and Dietz, JCDL 2022)."""

from pathlib import Path

TASKS = Path(__file__).with_name("tasks.yaml")  # cards
