"""The deep clusterers, one module each, which offers `CLUSTERER`. Each is found by itself."""
