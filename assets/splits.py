"""`T/splits`: the clustering problems of a task, drawn from its records and frozen."""

import dagster as dg

from assets.common import asset_key
from resources.quality import QualityResource, check_specs
from resources.storage import StorageResource
from traube.engine.executors import Executor
from traube.engine.stages import draw_splits
from traube.foundation.errors import TraubeError
from traube.report.markdown import markdown
from traube.tasks.source import Source


def splits_asset(source: Source) -> dg.AssetsDefinition:
    key = asset_key(source.name, "splits")

    @dg.asset(
        key=key,
        deps=[asset_key(source.name, "corpus")],
        group_name=source.card.family,
        kinds={"parquet"},
        code_version=source.version,
        description=f"{source.card.description or source.name}: which texts are to be grouped, and their gold labels.",
        check_specs=check_specs(key, source.card, "splits"),
    )
    def splits(
        storage: StorageResource, quality: QualityResource, workers: dg.ResourceParam[Executor]
    ) -> dg.MaterializeResult:
        store = storage.store
        try:
            frame, manifest = draw_splits(source, store)
        except TraubeError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        sizes = (
            frame.groupby(["split", "level", "part"], sort=False)
            .agg(rows=("item", "size"), texts=("text_id", "nunique"), classes=("label", "nunique"))
            .reset_index()
        )
        labels = frame["label"].value_counts().head(50).rename_axis("label").reset_index(name="rows")
        checked = quality.check_splits(source.card, key, frame, store.corpus(source.name), workers)
        # only now: a task whose checks were cut short is read again
        store.complete(source.card, manifest)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(manifest.splits_version),
            metadata={
                "dagster/row_count": len(frame),
                "splits": int(frame["split"].nunique()),
                "redundancy": float(len(frame) / max(1, frame["text_id"].nunique())),
                "task_data_version": manifest.data_version,
                "sizes": dg.MetadataValue.md(markdown(sizes)),
                "label_histogram": dg.MetadataValue.md(markdown(labels)),
            },
            check_results=checked,
        )

    return splits
