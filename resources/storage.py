"""Where assets read and write: everything below TRAUBE_HOME."""

from pathlib import Path

import dagster as dg

from traube.core import paths
from traube.pipeline.executors import Executor
from traube.pipeline.workbench import Workbench
from traube.storage import Storage, open_storage


class StorageResource(dg.ConfigurableResource):
    """What is computed.

    Attributes
    ----------
    home : folder of everything written at run time; by default `TRAUBE_HOME`
    """

    home: str = ""

    @property
    def root(self) -> Path:
        return Path(self.home) if self.home else paths.home()

    def open(self) -> Storage:
        """Return the storage of the data directory."""
        return open_storage(self.root)

    @property
    def workbench(self) -> Workbench:
        """The stored tasks, and their vectors under any model."""
        return Workbench(self.open())

    def workbench_with(self, executor: Executor) -> Workbench:
        """The same, where an executor does the work."""
        return Workbench(self.open(), executor)
