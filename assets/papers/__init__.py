"""What papers printed, beside what was measured here; a file per paper."""
