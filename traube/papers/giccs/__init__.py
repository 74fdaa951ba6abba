"""GiCCS: A German in-Context Conversational Similarity Benchmark (Asaadi et al., 2022)."""

from pathlib import Path

TASKS = Path(__file__).with_name("tasks.yaml")  # cards
