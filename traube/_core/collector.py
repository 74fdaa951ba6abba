"""Python's cyclic garbage collector, in processes that mostly import and end.

For how much a computation may hold, see `memory` of `traube._pipeline.executors`.
"""

import atexit
import gc


def collect_less() -> None:
    """Have this process collect garbage less often, and not while it ends."""
    # modules are never garbage: going through them takes a quarter of the time of importing Dagster and MLflow, and a
    # second at the end after Great Expectations (benchmarks/README.md)
    gc.set_threshold(50_000, 10, 10)
    atexit.register(gc.freeze)
