"""`T/corpus`: raw data read into the unique texts of a task."""

import time
from contextlib import suppress

import dagster as dg

from assets.common import asset_key
from resources.quality import QualityResource, check_specs
from resources.storage import StorageResource
from traube.core.config import read_yaml
from traube.core.errors import TraubeError
from traube.pipeline.executors import Executor
from traube.pipeline.stages import read_corpus
from traube.reports.markdown import markdown
from traube.tasks import Source


def dvc_hashes(source: Source) -> dict[str, str]:
    """The DVC hash of each raw file that DVC tracks: `<file>.dvc` lies beside it, or beside a
    folder that holds it.
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


def corpus_asset(source: Source) -> dg.AssetsDefinition:
    key = asset_key(source.name, "corpus")

    @dg.asset(
        key=key,
        group_name=source.card.family,
        kinds={"parquet"},
        code_version=source.version,
        description=f"{source.card.description or source.name}: the unique texts.",
        metadata={"language": source.card.language, "licence": source.card.licence, "source": source.card.source},
        check_specs=check_specs(source.card, "corpus"),
    )
    def corpus(
        storage: StorageResource, quality: QualityResource, workers: dg.ResourceParam[Executor]
    ) -> dg.MaterializeResult:
        began = time.perf_counter()
        try:
            read = read_corpus(source, storage.open())
        except TraubeError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        texts = read.texts
        lengths = texts["text"].str.len()
        return dg.MaterializeResult(
            data_version=dg.DataVersion(read.version),
            metadata={
                "dagster/row_count": len(texts),
                "records": len(read.records),
                "mean_characters": float(lengths.mean()) if len(texts) else 0.0,
                "raw_version": read.raw_version,
                **dvc_hashes(source),
                "seconds": time.perf_counter() - began,
                "preview": dg.MetadataValue.md(
                    markdown(texts.head(5).assign(text=texts["text"].head(5).str.slice(0, 200)))
                ),
            },
            check_results=quality.check(source.card, "corpus", texts, texts, workers),
        )

    return corpus
