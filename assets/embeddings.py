"""`T/embeddings`: a model's vectors of a task's texts.

The value lies in the cache; what was encoded before is not encoded again.
"""

import time
from typing import Any

import dagster as dg
import numpy as np
from scipy import sparse

from assets.common import FILL, MODELS, asset_key, claimed, refuse_failed_checks
from resources.benchmark import BenchmarkResource
from resources.encoder import EncoderResource
from resources.quality import QualityResource, check_specs
from resources.storage import StorageResource
from traube.engine import workers
from traube.engine.progress import Progress
from traube.foundation.errors import TraubeError
from traube.models import Vectors, fingerprint_on
from traube.store import Store
from traube.tasks.source import Source

ROWS_LOOKED_AT = 4096
# Mean cosine between texts at which vectors say nothing any more.
COLLAPSED = 0.9999
CHECKS = {
    "shape": "One vector per scored text.",
    "finite": "No NaN and no infinity.",
    "not_collapsed": "Different texts have different vectors.",
}


def embeddings_asset(source: Source) -> dg.AssetsDefinition:
    key = asset_key(source.name, "embeddings")
    upstream = _data_checks(source)

    @dg.asset(
        key=key,
        deps=[asset_key(source.name, "corpus"), asset_key(source.name, "splits")],
        partitions_def=MODELS,
        automation_condition=FILL,
        group_name=source.card.family,
        kinds={"numpy"},
        description="A model's vectors of the unique texts of the test splits.",
        check_specs=_check_specs(key),
    )
    @claimed(source.name)
    def embeddings(
        context: dg.AssetExecutionContext,
        storage: StorageResource,
        quality: QualityResource,
        encoder: EncoderResource,
        benchmark: BenchmarkResource,
        progress: dg.ResourceParam[Progress],
    ) -> dg.MaterializeResult:
        refuse_failed_checks(context, upstream, lambda: _check_data(source, storage.store, quality))
        began = time.perf_counter()
        workbench = storage.workbench
        try:
            model = encoder.model(context.partition_key, benchmark.request().protocol.precision)
            model.fetch()
            task = workbench.task(source.name)
            fingerprint = fingerprint_on(model, task.corpus_version)
            vectors, encoded = workbench.encoded(task, model, progress)
        except TraubeError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        rows = task.scored
        scored = vectors.subset(rows)
        seconds = time.perf_counter() - began
        return dg.MaterializeResult(
            data_version=dg.DataVersion(fingerprint),
            metadata={
                "texts": len(scored),
                "dimensions": vectors.dimensions,
                "encoded_now": encoded,
                "from_cache": len(scored) - encoded,
                "texts_per_second": encoded / seconds if encoded else 0.0,
                "device": workers.device(model, len(scored)),
                "fingerprint": fingerprint,
                "seconds": seconds,
            },
            check_results=_checks(key, scored, len(rows)),
        )

    return embeddings


def _data_checks(source: Source) -> list[dg.AssetCheckSpec]:
    """The checks of the tables that the texts come from."""
    return [
        spec
        for stage in ("corpus", "splits")
        for spec in check_specs(asset_key(source.name, stage), source.card, stage)
    ]


def _check_data(source: Source, store: Store, quality: QualityResource) -> list[dg.AssetCheckResult]:
    """Make those checks."""
    task = store.task(source.card)
    corpus, splits = (asset_key(source.name, stage) for stage in ("corpus", "splits"))
    return [
        *quality.check_corpus(source.card, corpus, task.corpus),
        *quality.check_splits(source.card, splits, task.splits, task.corpus),
    ]


def _check_specs(key: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    """The checks of the vectors. Collapsed ones are a warning: they can be clustered, if badly."""
    return [
        dg.AssetCheckSpec(name, asset=key, description=text, blocking=name != "not_collapsed", partitions_def=MODELS)
        for name, text in CHECKS.items()
    ]


def _checks(key: dg.AssetKey, vectors: Vectors, texts: int) -> list[dg.AssetCheckResult]:
    finite, rows, norms = True, 0, []
    for start in range(0, len(vectors), ROWS_LOOKED_AT):
        block: Any = vectors.subset(np.arange(start, min(start + ROWS_LOOKED_AT, len(vectors)))).load()
        rows += block.shape[0] if block.shape[1] == vectors.dimensions else 0
        values = block.data if sparse.issparse(block) else block
        finite = finite and bool(np.isfinite(values).all())
        norms.append(
            np.sqrt(block.multiply(block).sum(axis=1)).A1 if sparse.issparse(block) else np.linalg.norm(block, axis=1)
        )
    norm = np.concatenate(norms)
    similarity = _mean_cosine(vectors)
    return [
        dg.AssetCheckResult(
            asset_key=key,
            check_name="shape",
            passed=rows == texts,
            metadata={"vectors": rows, "texts": texts},
        ),
        dg.AssetCheckResult(
            asset_key=key,
            check_name="finite",
            passed=finite,
            metadata={"mean_norm": float(norm.mean()), "zero_vectors": int((norm == 0).sum())},
        ),
        dg.AssetCheckResult(
            asset_key=key,
            check_name="not_collapsed",
            passed=similarity < COLLAPSED,
            severity=dg.AssetCheckSeverity.WARN,
            metadata={"mean_cosine": similarity},
        ),
    ]


def _mean_cosine(vectors: Vectors) -> float:
    """Mean cosine between different texts of an even sample."""
    from sklearn.preprocessing import normalize

    sample = np.unique(np.linspace(0, len(vectors) - 1, min(ROWS_LOOKED_AT, len(vectors))).astype(np.int64))
    block = vectors.subset(sample).load()
    unit = normalize(block if sparse.issparse(block) else np.nan_to_num(block))
    n = unit.shape[0]
    total = np.asarray(unit.sum(axis=0)).ravel()
    return float((total @ total - n) / (n * (n - 1))) if n > 1 else 0.0
