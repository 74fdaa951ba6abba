"""COB: optimising the clustering metric itself."""
