"""What the papers' assets share: where a table lies, and a table asset."""

from collections.abc import Callable, Iterable
from pathlib import Path

import dagster as dg
import pandas as pd

from assets.common import OF_TASKS
from resources.benchmark import BenchmarkResource
from resources.quality import markdown
from resources.storage import StorageResource
from traube.foundation.files import frame_digest, write_text

Make = Callable[[StorageResource, BenchmarkResource], pd.DataFrame]
Describe = Callable[[pd.DataFrame], dict[str, dg.MetadataValue]]


def folder(storage: StorageResource, paper: str) -> Path:
    """Where a paper's tables and figures lie."""
    return storage.root / "papers" / paper


def write_table(storage: StorageResource, paper: str, name: str, table: pd.DataFrame) -> Path:
    path = folder(storage, paper) / f"{name}.csv"
    write_text(path, table.to_csv(index=False))
    return path


def side_by_side(table: pd.DataFrame) -> dict[str, dg.MetadataValue]:
    """A table as it is."""
    return {"published and measured": dg.MetadataValue.md(markdown(table.round(4)))}


def of_tasks(made: list[dg.AssetsDefinition], tasks: Iterable[str]) -> list[dg.AssetsDefinition]:
    """The same assets, which say that they are made of these tasks alone."""
    return [
        asset.map_asset_specs(lambda spec: spec.merge_attributes(metadata={OF_TASKS: list(tasks)})) for asset in made
    ]


def table_asset(
    paper: str, name: str, description: str, make: Make, describe: Describe = side_by_side
) -> dg.AssetsDefinition:
    """A paper's table, with columns `published` and `measured`.

    Parameters
    ----------
    describe : what people are shown of it
    """

    @dg.asset(
        key=["papers", paper, name],
        deps=["leaderboard"],
        group_name="papers",
        kinds={"csv"},
        description=f"{description} Published and measured side by side; empty where there is no number.",
    )
    def table(storage: StorageResource, benchmark: BenchmarkResource) -> dg.MaterializeResult:
        found = make(storage, benchmark)
        path = write_table(storage, paper, name, found)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(frame_digest(found)),
            metadata={
                **describe(found),
                "measured": int(found["measured"].notna().sum()),
                "of": int(found["published"].notna().sum()),
                "path": dg.MetadataValue.path(path),
            },
        )

    return table
