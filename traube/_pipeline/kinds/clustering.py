"""Tasks of clustering: every method groups each split, and metrics compare the groups with the labels."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from typing_extensions import override

from traube._core.errors import TraubeError
from traube._core.progress import Progress
from traube._pipeline.cell import Cell
from traube._pipeline.changes import Change, ChangeKind
from traube._pipeline.cluster import CLUSTERING_VERSION, cluster_cells
from traube._pipeline.events import Clustered, Encoded, Failed, Scored
from traube._pipeline.executors import Failure
from traube._pipeline.kinds.kind import Kind, Work
from traube._pipeline.params import Protocol
from traube._pipeline.present import answer_each
from traube._pipeline.request import Request
from traube._pipeline.score import score_cells
from traube._pipeline.stages import check_vectors
from traube._pipeline.workbench import Workbench
from traube.components import Method, get_clusterer, get_reducer
from traube.components.method import name_methods
from traube.metrics import SCORING_VERSION
from traube.models import Model, fingerprint_on, present_version
from traube.models.long_texts import measure_long_texts
from traube.tasks.stored import Manifest
from traube.tasks.task import CLUSTERING, SPLIT_COLUMNS, Stage, Task

LABELS_SHOWN = 50


@dataclass(frozen=True)
class ClusteringCell(Cell[Method]):
    """A task under a model, a method and a seed."""

    code_version: ClassVar[str] = CLUSTERING_VERSION
    scoring_version: ClassVar[str] = SCORING_VERSION

    @property
    @override
    def stage(self) -> Stage:
        return Stage.DEEP_CLUSTERINGS if self.method.trains else Stage.CLUSTERINGS

    @property
    @override
    def identity(self) -> list[Any]:
        return [
            self.task,  # two tasks may hold the same data
            self.data_version,
            self.split_set,
            self.model,  # two names of the same weights are two rows of the leaderboard
            self.fingerprint,
            self.method.params(),
            self.seed,
            self.protocol,
            CLUSTERING_VERSION,
            self.numerics,
            self.clusters,
        ]


class ClusteringKind(Kind[Method]):
    """Tasks of clustering."""

    type = CLUSTERING
    scoring_version = SCORING_VERSION
    replaced_by = ("task", "model", "reducer", "clusterer", "seed", "protocol")
    signed_metrics = ("ami", "ari", "silhouette")
    is_ranked = True
    encodes = "unique texts of the test splits"
    checks_vectors = True
    columns = SPLIT_COLUMNS
    table_holds = "which texts are to be grouped, and their gold labels"
    scores_say = "How well the clusters agree with the gold labels, under every metric."

    @override
    def cells(self, manifest: Manifest, model: Model, request: Request) -> list[Cell[Method]]:
        card, protocol = manifest.card, request.protocol.for_task(manifest.card.name)
        fingerprint = fingerprint_on(model, manifest.corpus_version)
        numerics = tuple(sorted(model.numerics.items()))
        methods, named = request.methods or protocol.methods(), request.protocol.method
        if request.methods:  # the protocol's own have the parameters that they have for the task
            methods = [protocol.method(m.name) if m == named(m.name) else m for m in request.methods]
        made: list[Cell[Method]] = [
            ClusteringCell(
                task=card.name,
                family=card.family,
                model=model.name,
                fingerprint=fingerprint,
                method=method,
                seed=seed,
                protocol=request.protocol_name,
                split_set=protocol.split_set,
                data_version=manifest.data_version,
                model_numerics=numerics,
                precision=model.precision,
                clusters=card.clusters,
            )
            for method in methods
            for seed in ((request.seeds or protocol.seeds) if method.seeded else (None,))
        ]
        return list(dict.fromkeys(made))  # a seed or method may be named twice

    @override
    def list_texts(self, task: Task) -> list[str]:
        return task.texts_at(task.scored)

    @override
    def encode(self, task: Task, model: Model, workbench: Workbench, progress: Progress) -> Encoded:
        model.fetch()
        vectors, encoded = workbench.encoded(task, model, progress)
        scored = vectors.subset(task.scored)
        long = measure_long_texts(model, self.list_texts(task))
        long_texts = long.describe(model.name) if long else ""
        return Encoded(
            task=task.name,
            model=model.name,
            texts=len(scored),
            dimensions=vectors.dimensions,
            encoded=encoded,
            device=workbench.executor.device(model, len(scored)),
            fingerprint=fingerprint_on(model, task.corpus_version),
            checks=check_vectors(scored, len(task.scored), long_texts),
            long_texts=long_texts,
        )

    @override
    def cluster(self, work: Work[Method]) -> Iterator[Clustered | Failed]:
        task, model, workbench = work.task, work.model, work.workbench
        recorder = work.recorder(workbench.executor.device(model, len(task.scored)))
        vectors = workbench.vectors(task, model, work.progress)
        options = workbench.storage, workbench.executor, work.progress, model.similarity, model
        for result in cluster_cells(task, vectors, work.cells, *options):
            if result.assignments is None:
                recorder.save_failure(result.cell, result.status, result.reason)
                yield Failed(result.cell, result.status, result.reason)
            else:
                recorder.save_clusters(result.cell, result.assignments, result.seconds, result.cost, result.histories)
                yield Clustered(result.cell, result.assignments, result.reason)

    @override
    def score(self, work: Work[Method]) -> Iterator[Scored | Failed]:
        task, model, workbench = work.task, work.model, work.workbench
        recorder = work.recorder(workbench.executor.device(model, len(task.scored)))
        vectors = None if task.is_labeled else workbench.vectors(task, model, work.progress)
        scored = score_cells(task, work.cells, workbench.storage, workbench.executor, vectors, work.progress)
        for cell, outcome in scored:
            if isinstance(outcome, Failure):
                recorder.update(cell, outcome.status, outcome.reason)
                yield Failed(cell, outcome.status, outcome.reason)
            else:
                recorder.save_scores(cell, outcome)
                yield Scored(cell, outcome)

    @override
    def is_current(self, cell: Mapping[str, Any]) -> bool:
        """Return whether a cell was computed by the code and libraries that are installed now.

        Cells computed by others are never mixed with it.
        """
        if cell["code_version"] != CLUSTERING_VERSION:
            return False
        return not find_version_changes(cell["numerics"], cell["reducer"], cell["clusterer"])

    @override
    def list_choices(self, cells: pd.DataFrame, protocols: Mapping[str, Protocol]) -> list[bool | None]:
        columns = ["task", "protocol", "reducer", "clusterer", "params", "seed", "code_version", "numerics"]
        special = {(name, task) for name, protocol in protocols.items() for task in protocol.parameters_of}
        named = zip(cells["protocol"], cells["task"], strict=True)
        equal = cells.assign(task=[key[1] if key in special else "" for key in named])  # tasks share an answer
        return answer_each(equal, columns, lambda cell: self._is_own_choice(cell, protocols.get(cell["protocol"])))

    def _is_own_choice(self, cell: Mapping[str, Any], protocol: Protocol | None) -> bool | None:
        """Return whether a cell's method or seed is another than its protocol's; None for a cell that does not count."""
        if not self.is_current(cell):
            return None
        if protocol is None:
            return False
        try:
            method = protocol.for_task(cell["task"]).method(f"{cell['reducer']}/{cell['clusterer']}")
        except TraubeError:  # a parameter that is no longer there
            return None
        if method.params() != cell["params"]:
            return None
        in_grid = method.reducer in protocol.reducers and method.clusterer in protocol.clusterers
        in_seeds = pd.isna(cell["seed"]) or int(cell["seed"]) in protocol.seeds
        return not (in_grid and in_seeds)

    @override
    def name_methods(self, cells: pd.DataFrame) -> "pd.Series[str]":
        return name_methods(cells)

    @override
    def describe_rows(self, rows: pd.DataFrame) -> dict[str, Any]:
        groups = rows.groupby(["split", "level", "part"], sort=False, as_index=False)
        labels = rows["label"].value_counts().head(LABELS_SHOWN)
        return {
            "splits": int(rows["split"].nunique()),
            "redundancy": float(len(rows) / max(1, rows["text_id"].nunique())),
            "sizes": groups.agg(rows=("item", "size"), texts=("text_id", "nunique"), classes=("label", "nunique")),
            "label_histogram": labels.rename_axis("label").reset_index(name="rows"),
        }


def find_version_changes(
    numerics: Mapping[str, Mapping[str, str]], reducer: str, clusterer: str, model: str = ""
) -> list[Change]:
    """Return the components and libraries that computed a cell, by stage, and have changed since."""
    if not numerics:
        words = "a version of Traube that did not note which libraries did the numbers"
        return [Change(ChangeKind.NUMERICS, words)]
    try:
        components = {"reducer": get_reducer(reducer), "clusterer": get_clusterer(clusterer)}
    except TraubeError as error:  # a part that is no longer registered
        return [Change(ChangeKind.NUMERICS, str(error))]
    names = {"model": model, "reducer": reducer, "clusterer": clusterer}
    now = {
        "model": {name: present_version(name) for name in numerics["model"]},
        **{s: component.numerics for s, component in components.items()},
    }
    changes: dict[Change, None] = {}
    for stage, present in now.items():
        then = numerics[stage]
        for name in sorted({*then, *present}):
            if then.get(name) != present.get(name):
                what = f"{stage} {names[stage]}".strip() if name in ("version", "class") else name
                before, after = then.get(name) or "none", present.get(name) or "none"
                changes[Change(ChangeKind.NUMERICS, what, before, after)] = None
    return list(changes)


KIND = CLUSTERINGS = ClusteringKind()
