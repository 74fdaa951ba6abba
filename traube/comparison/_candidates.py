"""Candidates: a model with a method that is scored on a task, and can be compared and served."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np
import pandas as pd

from traube._core.errors import unknown
from traube._pipeline.current import cells_of_any_weights
from traube._pipeline.params import Protocol
from traube._storage import Storage
from traube.comparison._jackknife import Sample
from traube.components._method import is_method, name_methods
from traube.models import CORPUS_BOUND, model_cards
from traube.tasks._stored import get_manifest
from traube.tasks._task import TaskCard

WITHOUT_LABELS = "silhouette"  # the metric of tasks that have no labels
DEFAULT_METRIC = str(TaskCard.model_fields["main_metric"].default)


@dataclass(frozen=True)
class Candidate:
    """A model with a method on a task."""

    task: str
    protocol: str
    metric: str
    model: str
    fingerprint: str
    method: str
    data_version: str
    cells: tuple[str, ...]  # ids, one for each seed
    mean: float  # of the metric, over splits, levels and seeds
    level: str = ""  # of the labels, at which it is scored; empty for all of them

    @property
    def name(self) -> str:
        """Model and method, as people call them."""
        return f"{self.model} with {self.method}"

    @property
    def key(self) -> tuple[str, str, str]:
        """Model, fingerprint and method, which identify the candidate on any task."""
        return self.model, self.fingerprint, self.method

    @property
    def about(self) -> str:
        """Description of what a comparison of candidates of the task covers."""
        return about(self.task, self.level, self.metric, self.protocol)

    def is_same(self, other: "Candidate") -> bool:
        """Return whether a candidate of another task is the same model and method.

        The fingerprint of a model that is bound to a corpus also hashes the corpus: any two of the model are the same.
        """
        card = model_cards().get(self.model)
        is_bound = card is not None and card.kind in CORPUS_BOUND
        same_names = (self.model, self.method) == (other.model, other.method)
        return same_names and (is_bound or self.fingerprint == other.fingerprint)


def about(task: str, level: str, metric: str, protocol: str) -> str:
    """Say what is compared; the level is empty where it is all of them."""
    return ", ".join(filter(None, [task, level, metric, f"protocol {protocol}"]))


def main_metric(card: TaskCard | None, protocol: Protocol | None) -> str:
    """Return the metric by which a task is ranked where it has labels: the protocol's, or the card's."""
    return (protocol and protocol.main_metric) or (card.main_metric if card else DEFAULT_METRIC)


def candidates(
    storage: Storage,
    task: str,
    name: str,
    protocol: Protocol,
    metric: str,
    cells: pd.DataFrame | None = None,
    level: str = "",
) -> list[Candidate]:
    """Return all that is scored of a task's present data under a protocol, the best first.

    Parameters
    ----------
    cells : DataFrame, optional
        From `traube._pipeline.current`; by default the protocol's own, of whichever fingerprint.
    level : str, optional
        Score them at this level of the labels only.
    """
    manifest = get_manifest(storage, task)
    if manifest is None:
        return []
    if cells is None:
        cells = cells_of_any_weights(storage, {name: protocol}, [task])
        cells = cells[~cells["own_choice"]]
    cells = cells[(cells["protocol"] == name) & (cells["status"] == "done")]
    scores = storage.read_scores(cells, [metric])
    return make_candidates(cells, scores, manifest.data_version, level)


def make_candidates(cells: pd.DataFrame, scores: pd.DataFrame, data_version: str, level: str = "") -> list[Candidate]:
    """Return the candidates that cells of one task and protocol belong to, the best first.

    Parameters
    ----------
    cells, scores : DataFrame
        As the storage gives them; the scores are of one metric.
    data_version : str
        Content hash of the task's texts and labels.
    level : str, optional
        Score them at this level of the labels only.
    """
    levels = scores["level"].unique()
    level = str(levels[0]) if len(levels) == 1 else level
    at_level = _at(scores, level)
    rows_of_cell = groupby(zip(at_level["cell_id"], at_level["value"], strict=True), key=itemgetter(0))
    values = {cell: [value for _, value in group] for cell, group in rows_of_cell}
    means = {cell: float(np.mean(cell_values)) for cell, cell_values in values.items()}  # nan if a score is missing
    cells = cells[cells["cell_id"].isin([cell for cell, mean in means.items() if pd.notna(mean)])]
    if cells.empty:
        return []
    head, metric = cells.iloc[0], str(scores["metric"].iloc[0])
    rows = zip(cells["model"], cells["fingerprint"], name_methods(cells), cells["cell_id"], strict=True)
    scored = []
    for (model, fingerprint, method), group in groupby(sorted(rows), key=itemgetter(0, 1, 2)):
        ids = tuple(cell_id for *_, cell_id in group)
        mean = float(np.mean([means[cell_id] for cell_id in ids]))
        about = (head["task"], head["protocol"], metric, model, fingerprint, method, data_version)
        scored.append(Candidate(*about, ids, mean, level))
    return sorted(scored, key=lambda c: (-c.mean, c.key))


def _at(scores: pd.DataFrame, level: str) -> pd.DataFrame:
    return scores[scores["level"] == level] if level else scores


def pick_best_methods(options: Iterable[Candidate]) -> list[Candidate]:
    """Return the first candidate of each model, in the same order: of `candidates`, the best."""
    firsts: dict[str, Candidate] = {}
    for candidate in options:
        firsts.setdefault(candidate.model, candidate)
    return list(firsts.values())


def find(options: Sequence[Candidate], wanted: str) -> Candidate:
    """Return the candidate that a person means by `model` (its best method) or `model:reducer/clusterer`."""
    model, _, method = wanted.partition(":")
    of_model = [c for c in options if c.model == model]
    if not of_model:
        raise unknown("scored model", model, sorted({c.model for c in options}))
    chosen = [c for c in of_model if not method or is_method(c.method, method)]
    if not chosen:
        raise unknown(f"scored method of {model}", method, [c.method for c in of_model])
    return chosen[0]


def sample(storage: Storage, candidate: Candidate) -> Sample:
    """Return a candidate's scores with replicates."""
    cells = storage.read_cells(ids=candidate.cells)
    return sample_of(cells, storage.read_scores(cells, [candidate.metric], replicates=True), candidate)


def sample_of(cells: pd.DataFrame, scores: pd.DataFrame, candidate: Candidate) -> Sample:
    """Return a candidate's scores with replicates, from cells and scores that hold its own."""
    cells = cells[cells["cell_id"].isin(candidate.cells)]
    scores = scores[scores["cell_id"].isin(candidate.cells) & (scores["metric"] == candidate.metric)]
    return Sample.of(_at(scores, candidate.level), seeded=bool(cells["seed"].notna().any()))
