"""A plug-in with a kind of task of its own: which candidate a model takes for most like the last turn of a dialogue."""
