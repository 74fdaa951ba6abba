"""Tasks of pairs: each comparison of vectors is correlated with gold scores, with the history joined and not."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from typing_extensions import override

from traube._core.errors import TraubeError
from traube._core.progress import Progress
from traube._core.versions import get_versions
from traube._pipeline.cell import Cell
from traube._pipeline.events import Encoded, Scored
from traube._pipeline.kinds.kind import Kind, Summary, Work
from traube._pipeline.lookup import Lookup
from traube._pipeline.pair_scores import (
    COMPARISONS,
    CORRELATIONS,
    TEST,
    compare_pairs,
    embed_pairs,
    explain_refusal,
    list_comparisons,
    list_pair_texts,
    score_pairs,
    select_test_forms,
)
from traube._pipeline.params import Protocol
from traube._pipeline.present import keep_present_models
from traube._pipeline.request import Request
from traube._pipeline.workbench import Workbench
from traube._storage import Storage
from traube.models import Model, fingerprint_on, present_version
from traube.models.prompts import for_pairs
from traube.tasks.scored_pairs import ALL, PAIR_COLUMNS, PAIRS, join_histories, select_pairs
from traube.tasks.stored import Manifest, get_manifest
from traube.tasks.task import Stage, Task

# Raise when the same vectors and gold scores would be scored otherwise.
PAIRS_VERSION = "1"
LIBRARIES = ("numpy", "scipy")
ENDS = ("", "_low", "_high")
SCORES = tuple(f"{correlation}{end}" for correlation in CORRELATIONS for end in ENDS)
MAIN_METRIC = "spearman"  # of the leaderboard
ONE_COMPARISON = "intervals are of the comparison alone, from a bootstrap over dialogues or pairs; no test says which model comes first"


@dataclass(frozen=True)
class PairProcedure:
    """A comparison of vectors, in place of a clusterer: nothing is random, and nothing trains."""

    clusterer: str  # one of `COMPARISONS`
    has_history: bool  # whether the history is joined to both texts
    reducer: ClassVar[str] = "none"

    @property
    def name(self) -> str:
        """Name, such as "cosine" and "cosine/history"."""
        return f"{self.clusterer}/history" if self.has_history else self.clusterer

    @property
    def numerics(self) -> dict[str, dict[str, str]]:
        """Code and libraries that compute the similarities, with versions."""
        return {"comparison": get_versions(LIBRARIES)}

    def params(self) -> dict[str, Any]:
        """Return what is stored of it, in the form of a method's parameters."""
        clusterer_fields = {"clusterer": self.clusterer, "clusterer_params": {"history": self.has_history}}
        return {"reducer": self.reducer, "reducer_params": {}, **clusterer_fields}


@dataclass(frozen=True)
class PairCell(Cell[PairProcedure]):
    """A pair task under a model and a comparison; its split set is the subset of the pairs."""

    code_version: ClassVar[str] = PAIRS_VERSION
    scoring_version: ClassVar[str] = PAIRS_VERSION

    @property
    @override
    def stage(self) -> Stage:
        return Stage.PAIR_SCORES

    @property
    @override
    def identity(self) -> list[Any]:
        numerics = {**dict(self.model_numerics), **self.method.numerics["comparison"]}
        about: dict[str, Any] = {
            "task": self.task,
            "model": self.model,
            "fingerprint": self.fingerprint,
            "comparison": self.method.clusterer,
            "history": self.method.has_history,
            "part": self.split_set,
            "data_version": self.data_version,
            "numerics": sorted(numerics.items()),
        }
        return [PAIRS_VERSION, about]


class PairsKind(Kind[PairProcedure]):
    """Tasks of pairs."""

    type = PAIRS
    scoring_version = PAIRS_VERSION
    mark = ""
    replaced_by = ("task", "model", "clusterer", "split_set", "params")
    signed_metrics = CORRELATIONS
    encodes = "texts of the test pairs, and of these with their histories"
    columns = PAIR_COLUMNS
    table_holds = "which texts are compared, and their gold scores"
    scores_say = "How well each comparison of the model's vectors follows the gold scores."

    @override
    def explain_refusal(self, model: Model) -> str | None:
        return explain_refusal(model)

    @override
    def cells(self, manifest: Manifest, model: Model, request: Request) -> list[PairCell]:
        return make_pair_cells(manifest, model)

    @override
    def list_texts(self, task: Task) -> list[str]:
        return list_pair_texts(task)

    @override
    def encode(self, task: Task, model: Model, workbench: Workbench, progress: Progress) -> Encoded:
        model.fetch()
        model = for_pairs(model)
        embeddings = [embed_pairs(form, model, workbench, progress)[0] for form in select_test_forms(task)]
        return Encoded(
            task=task.name,
            model=model.name,
            texts=sum(map(len, embeddings)),
            dimensions=embeddings[0].dimensions,
            encoded=None,
            device=model.device,
            fingerprint=model.fingerprint,
            checks=[],
        )

    @override
    def score(self, work: Work[PairProcedure]) -> Iterator[Scored]:
        recorder = work.recorder(work.model.device)
        for cell in work.cells:
            chosen = select_pairs(join_histories(work.task) if cell.method.has_history else work.task, cell.split_set)
            similarities = compare_pairs(chosen, work.model, work.workbench, cell.method.clusterer, work.progress)
            wide = score_pairs(chosen, similarities).rename(columns={"group": "level", "value": "split"})
            scores = wide.melt(["level", "split"], SCORES, "metric", "value")
            recorder.save_pair_scores(cell, scores)
            yield Scored(cell, scores)

    @override
    def is_current(self, cell: Mapping[str, Any]) -> bool:
        numerics = (item for stage in cell["numerics"].values() for item in stage.items())
        return cell["code_version"] == PAIRS_VERSION and all(present_version(name) == then for name, then in numerics)

    @override
    def keep_weights(
        self, cells: pd.DataFrame, storage: Storage, protocols: Mapping[str, Protocol], lookup: Lookup
    ) -> pd.DataFrame:
        """Return the cells of each model as it is now, in any precision.

        Where a task was never read, or the weights of a model are not here to tell, cells of any weights count.
        """
        precisions = {None, *(protocol.precision for protocol in protocols.values())}
        current = []
        for (task, model), of_model in cells.groupby(["task", "model"]):
            manifest = get_manifest(storage, task)
            try:
                models = [lookup.usable(model, precision) for precision in precisions]
            except TraubeError:  # the weights are not here, so the fingerprint is unknown
                models = []
            present = {fingerprint_on(for_pairs(m), manifest.corpus_version) for m in models} if manifest else set()
            current += of_model.loc[of_model["fingerprint"].isin(present) | (not present), "cell_id"].tolist()
        return cells[cells["cell_id"].isin(current)]

    @override
    def describe_rows(self, rows: pd.DataFrame) -> dict[str, Any]:
        scores = rows.groupby("part", sort=False)["score"].describe().reset_index()
        return {"dialogues": int(rows["dialogue"].nunique()), "scores": scores.round(3)}

    @override
    def name_methods(self, cells: pd.DataFrame) -> "pd.Series[str]":
        return cells["clusterer"] + np.where(cells["params"].map(_has_history), "/history", "")

    @override
    def leaderboard_rows(self, storage: Storage, cells: pd.DataFrame, lookup: Lookup) -> pd.DataFrame:
        """Return a row for each cell, with Spearman's rho of all test pairs."""
        cells = keep_present_models(cells, storage, {}, lookup)
        cells = cells[cells["split_set"] == TEST]
        wanted = [f"{MAIN_METRIC}{end}" for end in ENDS]
        scores = storage.read_scores(cells, wanted)
        of_all = scores[(scores["level"] == ALL) & (scores["split"] == "")]
        wide = of_all.pivot(index="cell_id", columns="metric", values="value")  # noqa: PD010 (pivot_table leaves NaN out)
        wide = wide.reindex(columns=wanted).set_axis(["mean", "low", "high"], axis="columns")
        history = pd.Series(list(map(_has_history, cells["params"])), cells.index, dtype=bool)
        has_own = (cells["clusterer"] == "own").groupby([cells["task"], cells["model"]]).transform("any")
        requested = np.where(has_own, 1, len(COMPARISONS) - 1) * (1 + history.groupby(cells["task"]).transform("any"))
        missing = requested - cells.groupby(["task", "model"])["cell_id"].transform("size")
        about = {"level": ALL, "metric": MAIN_METRIC, "splits": 1, "seeds": 1, "note": ONE_COMPARISON}
        return cells.assign(**about, missing=missing).merge(wide, left_on="cell_id", right_index=True)

    @override
    def summarize(self, storage: Storage, cell_ids: Sequence[str]) -> Summary:
        table = read_pair_scores(storage, cell_ids)
        metrics: dict[str, float] = {}  # such as spearman/cosine, and spearman/cosine/history/domain=find_hotel
        for row in table.to_dict("records"):
            compared = PairProcedure(row["comparison"], row["history"]).name
            of = f"/{row['group']}={row['value']}" if row["value"] else ""
            metrics |= {f"{name}/{compared}{of}": row[name] for name in CORRELATIONS if pd.notna(row[name])}
        whole = table[table["group"] == ALL].iloc[0]
        main: dict[str, float] = {name: float(whole[name]) for name in CORRELATIONS}
        return Summary(table.drop(columns=["task", "model"]), metrics, main)


def make_pair_cells(
    manifest: Manifest, model: Model, comparisons: Sequence[str] | None = None, subset: str = TEST
) -> list[PairCell]:
    """Return all cells of a pair task and a model, stored or not; by default of all comparisons that go with the model."""
    model = for_pairs(model)
    fingerprint = fingerprint_on(model, manifest.corpus_version)
    return [
        PairCell(
            task=manifest.card.name,
            family=manifest.card.family,
            model=model.name,
            fingerprint=fingerprint,
            method=PairProcedure(comparison, has_history),
            seed=None,
            protocol=KIND.mark,
            split_set=subset,
            data_version=manifest.data_version,
            model_numerics=tuple(sorted(model.numerics.items())),
            precision=model.precision,
        )
        for comparison in comparisons or list_comparisons(model)
        for has_history in ((False, True) if manifest.has_history else (False,))
    ]


def read_pair_scores(storage: Storage, cell_ids: Iterable[str]) -> pd.DataFrame:
    """Return the scores of those of some cells that are stored.

    Returns
    -------
    DataFrame
        Task, model, comparison, history, subset, group, value, pairs, dialogues, and `SCORES`.
    """
    tables = []
    for cell_id in cell_ids:
        cells = storage.read_cells(ids=[cell_id])
        scores = storage.read_scores(cells)
        if scores.empty:
            continue
        cell = cells.iloc[0]
        splits = storage.read_splits(cell["data_version"], cell["split_set"])
        by_metric = scores.pivot(index=["level", "split"], columns="metric", values="value").reset_index()  # noqa: PD010 (pivot_table leaves NaN out)
        wide = splits.rename(columns={"name": "split"}).merge(by_metric, on=["level", "split"])
        wide = wide.rename(columns={"level": "group", "split": "value", "size": "pairs", "classes": "dialogues"})
        identity = {"task": cell["task"], "model": cell["model"], "comparison": cell["clusterer"]}
        about = {**identity, "history": _has_history(cell["params"]), "subset": cell["split_set"]}
        tables.append(wide.assign(**about)[[*about, "group", "value", "pairs", "dialogues", *SCORES]])
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _has_history(params: Mapping[str, Any]) -> bool:
    """Return whether stored parameters say that the history is joined."""
    return bool(params["clusterer_params"]["history"])


KIND = PairsKind()
