"""The German Text Embedding Clustering Benchmark (Wehrli, Arnrich and Irrgang, KONVENS 2023)."""
