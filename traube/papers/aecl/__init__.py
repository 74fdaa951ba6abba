"""AECL: Attention-Enhanced Contrastive Learning for Short Text Clustering (Yao and Li)."""

from pathlib import Path

TASKS = Path(__file__).with_name("tasks.yaml")  # cards
