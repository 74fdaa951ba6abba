"""`T/corpus`, the unique texts of a task; and `T/splits`, its clustering problems, or `T/pairs` with gold scores."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import dagster as dg
import pandas as pd

from assets.common import RAW, asset_key, describe_table, final_failures, tag_family
from resources.benchmark import StorageResource
from resources.quality import QualityResource, make_check_specs
from resources.tables import TABLES
from traube._core.config import read_yaml
from traube._core.errors import TraubeError
from traube._pipeline.executors import Executor
from traube._pipeline.kinds import kind_of
from traube._pipeline.stages import draw, read_corpus
from traube._pipeline.validation.rules import Table
from traube._reports.markdown import markdown
from traube._storage import CheckRow, Storage
from traube.tasks import Source
from traube.tasks.stored import complete_task, get_manifest, not_read, read_ingested, read_task
from traube.tasks.task import CORPUS_COLUMNS


def find_dvc_hashes(source: Source) -> dict[str, str]:
    """Return the DVC hash of each raw file that DVC tracks.

    `<file>.dvc` lies beside the file, or beside a folder that holds the file.
    """
    hashes = {}
    for file in source.files():
        for path in (place for place in (file, *file.parents[:3]) if place.name):  # the root has no name
            tracked = path.with_name(f"{path.name}.dvc")
            if tracked.is_file():
                with suppress(TraubeError, LookupError, TypeError):  # the hash is shown, and used for nothing else
                    hashes[f"dvc/{path.name}"] = str(read_yaml(tracked)[0]["outs"][0]["md5"])
                break
    return hashes


@dataclass(frozen=True)
class Made:
    """A table of a task, as it was read, drawn or found in the storage."""

    rows: pd.DataFrame
    corpus: pd.DataFrame
    version: str  # of the rows
    checked_version: str  # under which the findings of the checks are kept
    metadata: dict[str, Any]


def _table_asset(
    source: Source, table: Table, columns: Mapping[str, str], what: str, **about: Any
) -> Callable[[Callable[[Storage], Made]], dg.AssetsDefinition]:
    """Decorate a function that makes a table of a task. A run that selects checks alone checks the stored table."""
    address = re.match(r"https?://\S+", source.card.source)
    link = f" [Source]({address[0].rstrip('.,;')})" if address else ""
    spec = dg.AssetSpec(
        asset_key(source.name, table),
        group_name=source.name,
        tags=tag_family(source),
        kinds={"parquet"},
        code_version=source.version,
        description=f"{source.card.description.rstrip('.') or source.name}: {what}.{link}",
        **about,
    ).with_io_manager_key(TABLES)
    name, checks = spec.key.to_python_identifier(), make_check_specs(source.card, table)

    def decorate(make: Callable[[Storage], Made]) -> dg.AssetsDefinition:
        @dg.multi_asset(name=name, specs=[spec], check_specs=checks, can_subset=True)
        def checked(
            context: dg.AssetExecutionContext,
            storage: StorageResource,
            quality: QualityResource,
            workers: dg.ResourceParam[Executor],
        ) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
            began, opened = time.perf_counter(), storage.open()
            with final_failures():
                made = make(opened) if context.selected_asset_keys else _find_stored(source.name, table, opened)
            card, version = source.card, made.checked_version
            results = quality.check(card, table, made.rows, made.corpus, workers, opened, version)
            selected = {(key.asset_key, key.name) for key in context.selected_asset_check_keys}
            results = [result for result in results if (result.asset_key, result.check_name) in selected]
            if not context.selected_asset_keys:
                yield from results
                return
            if table != "corpus":
                complete_task(opened, card)  # only now: a task whose checks were cut short is read again
            seconds = {"seconds": time.perf_counter() - began}
            yield dg.MaterializeResult(
                data_version=dg.DataVersion(made.version),
                metadata=describe_table(made.rows, columns) | made.metadata | seconds,
                check_results=results,
            )

        return checked

    return decorate


def _find_stored(name: str, table: Table, storage: Storage) -> Made:
    """Return a stored table, for a run that selects checks without their asset."""
    task, manifest = read_task(storage, name), get_manifest(storage, name)
    assert manifest is not None
    if table == "corpus":
        return Made(task.corpus, task.corpus, manifest.corpus_version, manifest.corpus_version, {})
    return Made(task.rows, task.corpus, manifest.rows_version, manifest.data_version, {})


def corpus_asset(source: Source) -> dg.AssetsDefinition:
    """Make the asset of a task's unique texts, which later reads skip while the raw data is the same."""
    about = {"language": source.card.language, "license": source.card.license, "source": source.card.source}

    @_table_asset(
        source, "corpus", CORPUS_COLUMNS, "the unique texts", metadata=about, deps=[asset_key(source.name, RAW)]
    )
    def corpus(storage: Storage) -> Made:
        read = read_corpus(source, storage)
        texts, lengths = read.texts, read.texts["text"].str.len()
        preview = texts.head(5).assign(text=texts["text"].head(5).str.slice(0, 200))
        metadata = {
            "records": len(read.records),
            "mean_characters": float(lengths.mean()) if len(texts) else 0.0,
            "raw_version": read.raw_version,
            **find_dvc_hashes(source),
            "preview": dg.MetadataValue.md(markdown(preview)),
        }
        return Made(texts, texts, read.version, read.version, metadata)

    return corpus


def rows_asset(source: Source) -> dg.AssetsDefinition:
    """Return the asset of the table that a task has besides its corpus."""
    table, kind = source.card.type.table, kind_of(source.card)

    @_table_asset(source, table, kind.columns, kind.table_holds, deps=[asset_key(source.name, "corpus")])
    def drawn(storage: Storage) -> Made:
        rows, manifest = draw(source, storage)
        if not storage.read_rows(CheckRow, task=source.name, data_version=manifest.corpus_version):
            raise not_read(source.name)  # its corpus was stored, but the process was killed before it was checked
        described = {
            name: dg.MetadataValue.md(markdown(value)) if isinstance(value, pd.DataFrame) else value
            for name, value in kind.describe_rows(rows).items()
        }
        metadata: dict[str, Any] = {"task_data_version": manifest.data_version, **described}
        corpus = read_ingested(storage, source.name, "corpus")
        return Made(rows, corpus, manifest.rows_version, manifest.data_version, metadata)

    return drawn
