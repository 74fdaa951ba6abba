"""Data quality: the checks of a task's tables. Making data right is not done here: a failed check only says so."""
