"""Where assets read and write: everything below TRAUBE_HOME."""

from pathlib import Path

import dagster as dg

from traube.engine.executors import Executor
from traube.engine.workbench import Workbench
from traube.foundation import paths
from traube.models import EmbeddingCache
from traube.store import Store


class StorageResource(dg.ConfigurableResource):
    """The result store and the embedding cache.

    Attributes
    ----------
    home : folder of everything written at run time; by default `TRAUBE_HOME`
    """

    home: str = ""

    @property
    def root(self) -> Path:
        return Path(self.home) if self.home else paths.home()

    @property
    def store(self) -> Store:
        return Store(self.root / "store")

    @property
    def cache(self) -> EmbeddingCache:
        return EmbeddingCache(self.root / "embeddings")

    @property
    def workbench(self) -> Workbench:
        """The stored tasks, and their vectors under any model."""
        return Workbench(self.store, self.cache)

    def workbench_with(self, executor: Executor) -> Workbench:
        """The same, where an executor does the work."""
        return Workbench(self.store, self.cache, executor)
