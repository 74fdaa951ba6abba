"""Numbers that papers printed, as data files."""
