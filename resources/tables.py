"""Stored tables as inputs of assets that are not Traube's: a DataFrame of `leaderboard`, `T/corpus`, `T/splits` or `T/scores`."""

from collections.abc import Sequence

import dagster as dg
import pandas as pd

from traube._core import paths
from traube._core.errors import Unsupported
from traube._core.files import read_parquet
from traube._pipeline.current import current_cells
from traube._pipeline.kinds import kind_of
from traube._pipeline.params import load_params
from traube._reports.tables import NAME
from traube._storage import Storage, open_storage
from traube.tasks import get_source
from traube.tasks.stored import read_task

TABLES = "tables"  # the name of the resource, and of the IO manager of assets whose table can be read
COLUMNS = ["task", "model", "protocol", "method", "seed", "split", "level", "metric", "value"]


class StoredTables(dg.ConfigurableIOManager):
    """Reads the tables of Traube's assets from the storage; of a partition, the rows of its model."""

    def load_input(self, context: dg.InputContext) -> pd.DataFrame:
        """Return the table of an upstream asset."""
        storage, (*task, name) = open_storage(paths.home()), context.asset_key.path
        if not task:
            return read_parquet(storage.get_table_path(NAME))
        if name in ("scores", "pair_scores"):
            return read_scores(storage, task[0], context.asset_partition_keys)
        stored = read_task(storage, task[0])
        return stored.corpus if name == "corpus" else stored.rows

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        """Refuse to store: Traube's assets do so themselves, and others have IO managers of their own."""
        raise Unsupported(
            f"{context.asset_key.to_user_string()}: '{TABLES}' reads Traube's tables and stores none: name another io_manager_key"
        )


def read_scores(storage: Storage, task: str, models: Sequence[str]) -> pd.DataFrame:
    """Return the scores of models on a task that count today: a row for each split, level, metric, method and seed."""
    kind = kind_of(get_source(task, None).card)
    cells = current_cells(storage, load_params().protocols, [task], kind=kind)
    cells = cells[cells["model"].isin(list(models))]
    return storage.read_scores(cells).merge(cells.assign(method=kind.name_methods(cells)), on="cell_id")[COLUMNS]
