"""Cells of pair tasks: one for each comparison of vectors, with the history joined and not."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args

import pandas as pd
from typing_extensions import override

from traube._core.errors import TraubeError
from traube._core.hashing import digest
from traube._core.versions import get_versions
from traube._pipeline.cell import Cell
from traube._pipeline.current import current_cells, keep_present_data
from traube._pipeline.lookup import Lookup
from traube._pipeline.params import Protocol
from traube._storage import Storage
from traube.components import Method
from traube.models import Model, fingerprint_on, present_version
from traube.models._prompts import for_pairs
from traube.tasks._stored import Manifest, get_manifest
from traube.tasks._task import Stage

# Raise when the same vectors and gold scores would be scored otherwise.
PAIRS_VERSION = "1"
Comparison = Literal["cosine", "euclidean", "dot", "own"]
COMPARISONS: tuple[Comparison, ...] = get_args(Comparison)
LIBRARIES = ("numpy", "scipy")
TEST = "test"
KINDS = ("pearson", "spearman")
SCORES = tuple(f"{kind}{end}" for kind in KINDS for end in ("", "_low", "_high"))


class Compared(Method):
    """Comparison of vectors, in place of a reducer and a clusterer: nothing is random, and nothing trains."""

    reduces = reducer_seeded = seeded = trains = False

    def __post_init__(self) -> None:
        """Resolve nothing: a comparison has no components."""

    @property
    def history(self) -> bool:
        """True if the history is joined to both texts."""
        return bool(self.clusterer_params["history"])

    @property
    def name(self) -> str:
        """Name, such as "cosine" and "cosine/history"."""
        return f"{self.clusterer}/history" if self.history else self.clusterer

    @property
    def numerics(self) -> dict[str, dict[str, str]]:
        """Code and libraries that compute the similarities, with versions."""
        return {"comparison": get_versions(LIBRARIES)}


@dataclass(frozen=True)
class PairCell(Cell):
    """A pair task under a model and a comparison; its split set is the subset of the pairs."""

    method: Compared
    code_version: ClassVar[str] = PAIRS_VERSION
    scoring_version: ClassVar[str] = PAIRS_VERSION

    @property
    @override
    def stage(self) -> Stage:
        return Stage.PAIR_SCORES

    @cached_property
    @override
    def cell_id(self) -> str:
        numerics = {**dict(self.model_numerics), **self.method.numerics["comparison"]}
        about: dict[str, Any] = {
            "task": self.task,
            "model": self.model,
            "fingerprint": self.fingerprint,
            "comparison": self.method.clusterer,
            "history": self.method.history,
            "part": self.split_set,
            "data_version": self.data_version,
            "numerics": sorted(numerics.items()),
        }
        return digest([PAIRS_VERSION, about])


def asks_for_query(model: Model) -> bool:
    """Return whether a model compares texts for a query, which pairs do not have."""
    return model.similarity is not None and model.similarity.query == "text"


def choose_comparison(model: Model) -> Comparison:
    """Return the comparison of a model's vectors where nothing else is requested."""
    return "cosine" if model.similarity is None else "own"


def make_pair_cells(
    manifest: Manifest, model: Model, comparisons: Sequence[str] | None = None, subset: str = TEST
) -> list[PairCell]:
    """Return all cells of a pair task and a model, stored or not; by default of all comparisons that go with the model."""
    model = for_pairs(model)
    requested = comparisons or (("own",) if model.similarity is not None else COMPARISONS[:-1])
    fingerprint = fingerprint_on(model, manifest.corpus_version)
    return [
        PairCell(
            task=manifest.card.name,
            family=manifest.card.family,
            model=model.name,
            fingerprint=fingerprint,
            method=Compared("none", comparison, {}, {"history": history}),
            seed=None,
            protocol="",
            split_set=subset,
            data_version=manifest.data_version,
            model_numerics=tuple(sorted(model.numerics.items())),
            precision=model.precision,
        )
        for comparison in requested
        for history in ((False, True) if manifest.has_history else (False,))
    ]


def current_pair_cells(
    storage: Storage,
    protocols: Mapping[str, Protocol],
    lookup: Lookup | None = None,
    stored: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return the finished cells of pair tasks that count today: see `current_cells`, whose arguments these are.

    Where a task was never read, or the weights of a model are not here to tell, cells of any weights count.
    """
    cells, lookup = storage.read_cells() if stored is None else stored, lookup or Lookup()
    cells = keep_present_data(cells[cells["protocol"] == ""], storage)
    precisions = {None, *(protocol.precision for protocol in protocols.values())}
    current = []
    for (task, model), of_model in cells.groupby(["task", "model"]):
        manifest = get_manifest(storage, task)
        try:
            models = [lookup.usable(model, precision) for precision in precisions]
        except TraubeError:  # the weights are not here, so the fingerprint is unknown
            models = []
        fingerprints = (
            {fingerprint_on(for_pairs(each), manifest.corpus_version) for each in models} if manifest else set()
        )
        for cell in of_model.to_dict("records"):
            is_present = not fingerprints or cell["fingerprint"] in fingerprints
            if is_present and is_current_pair(cell):
                current.append(cell["cell_id"])
    return cells[cells["cell_id"].isin(current)]


def is_current_pair(cell: Mapping[str, Any]) -> bool:
    """Return whether a cell of a pair task was computed by the code and libraries that are installed now."""
    numerics = (item for stage in cell["numerics"].values() for item in stage.items())
    return cell["code_version"] == PAIRS_VERSION and all(present_version(name) == then for name, then in numerics)


def count_outdated_pairs(cells: pd.DataFrame) -> int:
    """Return how many cells of pair tasks were computed by earlier code or libraries, and not again since."""
    of_pairs = cells[cells["protocol"] == ""]
    today = [is_current_pair(cell) for cell in of_pairs.to_dict("records")]
    same = [*(of_pairs[name] for name in ("task", "model", "clusterer", "split_set")), of_pairs["params"].map(str)]
    again = pd.Series(today, of_pairs.index, dtype=bool).groupby(same).any()
    return int((~again).sum())


def list_outdated_cells(storage: Storage, protocols: Mapping[str, Protocol]) -> set[str]:
    """Return the ids of the finished cells, of pair tasks too, that do not count today."""
    cells, lookup = storage.read_cells(), Lookup()
    current = current_cells(storage, protocols, own_choice=True, lookup=lookup, stored=cells)
    of_pairs = current_pair_cells(storage, protocols, lookup, cells)
    return {*cells["cell_id"]} - {*current["cell_id"], *of_pairs["cell_id"]}


def read_pair_scores(storage: Storage, cells: Iterable[PairCell]) -> pd.DataFrame:
    """Return the scores of those of some cells that are stored.

    Returns
    -------
    DataFrame
        Task, model, comparison, history, subset, group, value, pairs, dialogues, and `SCORES`.
    """
    tables = []
    for cell in cells:
        scores = storage.read_scores(storage.read_cells(ids=[cell.cell_id]))
        if scores.empty:
            continue
        splits = storage.read_splits(cell.data_version, cell.split_set)
        by_metric = scores.pivot(index=["level", "split"], columns="metric", values="value").reset_index()  # noqa: PD010 (pivot_table leaves NaN out)
        wide = splits.rename(columns={"name": "split"}).merge(by_metric, on=["level", "split"])
        wide = wide.rename(columns={"level": "group", "split": "value", "size": "pairs", "classes": "dialogues"})
        own = {"task": cell.task, "model": cell.model, "comparison": cell.method.clusterer}
        about = {**own, "history": cell.method.history, "subset": cell.split_set}
        tables.append(wide.assign(**about)[[*about, "group", "value", "pairs", "dialogues", *SCORES]])
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
