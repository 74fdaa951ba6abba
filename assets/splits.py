"""`T/splits`: the clustering problems of a task, drawn from its records and frozen. Of a pair task, `T/pairs`: which
texts are compared, and their gold scores.
"""

from typing import Any

import dagster as dg
import pandas as pd

from assets.common import asset_key
from resources.quality import QualityResource, check_specs
from resources.storage import StorageResource
from traube.core.errors import TraubeError
from traube.pipeline.executors import Executor
from traube.pipeline.stages import draw
from traube.reports.markdown import markdown
from traube.tasks import CLUSTERING, PAIRS, Source
from traube.tasks.stored import complete_task, read_ingested


def rows_asset(source: Source) -> dg.AssetsDefinition:
    """Return the asset of the table that a task has besides its corpus."""
    table = source.card.type.table
    key, (what, describe) = asset_key(source.name, table), _OF_TYPE[source.card.type]

    @dg.asset(
        key=key,
        deps=[asset_key(source.name, "corpus")],
        group_name=source.card.family,
        kinds={"parquet"},
        code_version=source.version,
        description=f"{source.card.description or source.name}: {what}",
        check_specs=check_specs(source.card, table),
    )
    def drawn(
        storage: StorageResource, quality: QualityResource, workers: dg.ResourceParam[Executor]
    ) -> dg.MaterializeResult:
        opened = storage.open()
        try:
            rows, manifest = draw(source, opened)
        except TraubeError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        checked = quality.check(source.card, table, rows, read_ingested(opened, source.name, "corpus"), workers)
        complete_task(opened, source.card)  # only now: a task whose checks were cut short is read again
        return dg.MaterializeResult(
            data_version=dg.DataVersion(manifest.rows_version),
            metadata={
                "dagster/row_count": len(rows),
                "task_data_version": manifest.data_version,
                **describe(rows),
            },
            check_results=checked,
        )

    return drawn


def _describe_splits(rows: pd.DataFrame) -> dict[str, Any]:
    sizes = (
        rows.groupby(["split", "level", "part"], sort=False)
        .agg(rows=("item", "size"), texts=("text_id", "nunique"), classes=("label", "nunique"))
        .reset_index()
    )
    labels = rows["label"].value_counts().head(50).rename_axis("label").reset_index(name="rows")
    return {
        "splits": int(rows["split"].nunique()),
        "redundancy": float(len(rows) / max(1, rows["text_id"].nunique())),
        "sizes": dg.MetadataValue.md(markdown(sizes)),
        "label_histogram": dg.MetadataValue.md(markdown(labels)),
    }


def _describe_pairs(rows: pd.DataFrame) -> dict[str, Any]:
    by_part = rows.groupby("part", sort=False)["score"].describe().reset_index()
    return {
        "dialogues": int(rows["dialogue"].nunique()),
        "scores": dg.MetadataValue.md(markdown(by_part.round(3))),
    }


_OF_TYPE = {
    CLUSTERING: ("which texts are to be grouped, and their gold labels.", _describe_splits),
    PAIRS: ("which texts are compared, and their gold scores.", _describe_pairs),
}
