"""UMAP's machine code, kept on disk: numba compiles it anew in each process otherwise, for four CPU
seconds.

The code is the same, so are the coordinates, to the last bit. It lies below TRAUBE_HOME by the
versions of umap-learn and numba; numba itself tells processors and signatures apart.
"""

from contextlib import suppress
from functools import lru_cache
from typing import Any

from traube.foundation import paths
from traube.foundation.versions import installed


@lru_cache(maxsize=1)
def keep_machine_code() -> None:
    """From now on, this process reads UMAP's machine code from disk, or writes it there once it is
    compiled.
    """
    import numba
    from umap import layouts, umap_

    slow = (
        (umap_, "smooth_knn_dist"),
        (umap_, "compute_membership_strengths"),
        (layouts, "_nb_optimize_layout_euclidean_single_epoch"),
    )
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(paths.home() / "compiled" / f"umap-{installed('umap-learn')}-numba-{installed('numba')}")
    try:
        for module, name in slow:
            # no folder can be written to, or another umap-learn has no such function: it is
            # compiled in memory
            with suppress(RuntimeError, AttributeError):
                getattr(module, name).enable_caching()
    finally:
        config.CACHE_DIR = before
