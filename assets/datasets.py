"""`T/corpus`, the unique texts of a task; and `T/splits`, its clustering problems, or `T/pairs` with gold scores."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import dagster as dg

from assets.common import asset_key, describe_table, final_failures, tag_family
from resources.benchmark import StorageResource
from resources.quality import QualityResource, check_specs
from traube.core.config import read_yaml
from traube.core.errors import TraubeError
from traube.pipeline.executors import Executor
from traube.pipeline.stages import draw, read_corpus
from traube.pipeline.validation.rules import Table
from traube.reports.markdown import markdown
from traube.storage import Storage
from traube.tasks import CLUSTERING, Source
from traube.tasks.scored_pairs import PAIR_COLUMNS
from traube.tasks.stored import complete_task, get_manifest, not_read, read_ingested, read_task
from traube.tasks.task import CORPUS_COLUMNS, SPLIT_COLUMNS


def dvc_hashes(source: Source) -> dict[str, str]:
    """Return the DVC hash of each raw file that DVC tracks.

    `<file>.dvc` lies beside the file, or beside a folder that holds the file.
    """
    hashes = {}
    for file in source.files():
        for path in (place for place in (file, *file.parents[:3]) if place.name):  # the root has no name
            tracked = path.with_name(f"{path.name}.dvc")
            if tracked.is_file():
                with suppress(TraubeError, LookupError, TypeError):  # it is told beside the data, and no more
                    hashes[f"dvc/{path.name}"] = str(read_yaml(tracked)[0]["outs"][0]["md5"])
                break
    return hashes


def _table_asset(source: Source, table: Table, what: str, **about: Any) -> Callable[..., dg.AssetsDefinition]:
    """Decorate a function that makes a table of a task and checks the table."""
    spec = dg.AssetSpec(
        asset_key(source.name, table),
        group_name=source.name,
        tags=tag_family(source),
        kinds={"parquet"},
        code_version=source.version,
        description=f"{source.card.description or source.name}: {what}.",
        **about,
    )
    name, checks = spec.key.to_python_identifier(), check_specs(source.card, table)
    return dg.multi_asset(name=name, specs=[spec], check_specs=checks, can_subset=True)


def corpus_asset(source: Source) -> dg.AssetsDefinition:
    """Make the asset of a task's unique texts, which later reads skip while the raw data is the same."""
    about = {"language": source.card.language, "licence": source.card.licence, "source": source.card.source}

    @_table_asset(source, "corpus", "the unique texts", metadata=about)
    def corpus(
        context: dg.AssetExecutionContext,
        storage: StorageResource,
        quality: QualityResource,
        workers: dg.ResourceParam[Executor],
    ) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
        began, opened = time.perf_counter(), storage.open()
        if not context.selected_asset_keys:
            yield from _check_again(context, source, "corpus", opened, quality, workers)
            return
        with final_failures():
            read = read_corpus(source, opened)
        texts, lengths = read.texts, read.texts["text"].str.len()
        preview = texts.head(5).assign(text=texts["text"].head(5).str.slice(0, 200))
        checked = quality.check(source.card, "corpus", texts, texts, workers, opened, read.version)
        yield dg.MaterializeResult(
            data_version=dg.DataVersion(read.version),
            metadata={
                **describe_table(texts, CORPUS_COLUMNS),
                "records": len(read.records),
                "mean_characters": float(lengths.mean()) if len(texts) else 0.0,
                "raw_version": read.raw_version,
                **dvc_hashes(source),
                "seconds": time.perf_counter() - began,
                "preview": dg.MetadataValue.md(markdown(preview)),
            },
            check_results=_select(context, checked),
        )

    return corpus


def rows_asset(source: Source) -> dg.AssetsDefinition:
    """Return the asset of the table that a task has besides its corpus."""
    table = source.card.type.table
    is_clustering = source.card.type is CLUSTERING
    what = "to be grouped, and their gold labels" if is_clustering else "compared, and their gold scores"
    columns = SPLIT_COLUMNS if is_clustering else PAIR_COLUMNS

    @_table_asset(source, table, f"which texts are {what}", deps=[asset_key(source.name, "corpus")])
    def drawn(
        context: dg.AssetExecutionContext,
        storage: StorageResource,
        quality: QualityResource,
        workers: dg.ResourceParam[Executor],
    ) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
        opened = storage.open()
        if not context.selected_asset_keys:
            yield from _check_again(context, source, table, opened, quality, workers)
            return
        with final_failures():
            rows, manifest = draw(source, opened)
            if not opened.read_rows("check", task=source.name, data_version=manifest.corpus_version):
                raise not_read(source.name)  # its corpus was stored, but the process was killed before it was checked
        corpus = read_ingested(opened, source.name, "corpus")
        checked = quality.check(source.card, table, rows, corpus, workers, opened, manifest.data_version)
        complete_task(opened, source.card)  # only now: a task whose checks were cut short is read again
        metadata: dict[str, Any] = {**describe_table(rows, columns), "task_data_version": manifest.data_version}
        if is_clustering:
            groups = rows.groupby(["split", "level", "part"], sort=False, as_index=False)
            sizes = groups.agg(rows=("item", "size"), texts=("text_id", "nunique"), classes=("label", "nunique"))
            labels = rows["label"].value_counts().head(50).rename_axis("label").reset_index(name="rows")
            metadata |= {
                "splits": int(rows["split"].nunique()),
                "redundancy": float(len(rows) / max(1, rows["text_id"].nunique())),
                "sizes": dg.MetadataValue.md(markdown(sizes)),
                "label_histogram": dg.MetadataValue.md(markdown(labels)),
            }
        else:
            by_part = rows.groupby("part", sort=False)["score"].describe().reset_index()
            metadata["dialogues"] = int(rows["dialogue"].nunique())
            metadata["scores"] = dg.MetadataValue.md(markdown(by_part.round(3)))
        version = dg.DataVersion(manifest.rows_version)
        yield dg.MaterializeResult(data_version=version, metadata=metadata, check_results=_select(context, checked))

    return drawn


def _check_again(
    context: dg.AssetExecutionContext,
    source: Source,
    table: Table,
    storage: Storage,
    quality: QualityResource,
    workers: Executor,
) -> list[dg.AssetCheckResult]:
    """Check a stored table, for a run that selects checks without their asset."""
    with final_failures():
        task, manifest = read_task(storage, source.name), get_manifest(storage, source.name)
    assert manifest is not None
    rows, version = task.rows, manifest.data_version
    if table == "corpus":
        rows, version = task.corpus, manifest.corpus_version
    return _select(context, quality.check(source.card, table, rows, task.corpus, workers, storage, version))


def _select(context: dg.AssetExecutionContext, results: list[dg.AssetCheckResult]) -> list[dg.AssetCheckResult]:
    """Return the results of the selected checks; Dagster takes no others."""
    selected = {(key.asset_key, key.name) for key in context.selected_asset_check_keys}
    return [result for result in results if (result.asset_key, result.check_name) in selected]
