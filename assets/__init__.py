"""Dagster assets, thin: a file per stage of the graph. The work is done by the library, `traube`."""
