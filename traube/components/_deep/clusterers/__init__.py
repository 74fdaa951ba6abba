"""The deep clusterers, one module each, which offers `CLUSTERER` and is discovered by the package."""
