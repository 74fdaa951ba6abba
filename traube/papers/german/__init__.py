"""The German Text Embedding Clustering Benchmark (Wehrli, Arnrich and Irrgang, KONVENS 2023)."""

from pathlib import Path

TASKS = Path(__file__).with_name("tasks.yaml")  # cards
