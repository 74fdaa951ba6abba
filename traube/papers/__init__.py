"""The papers' tables and figures: what was measured here beside what was published, never mixed."""
