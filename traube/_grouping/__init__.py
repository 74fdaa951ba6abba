"""A clustering that takes new texts, and groups of texts that have no labels; scores are the pipeline's."""
