"""The paper's two trainers."""
