"""Candidates of a task compared with each other: is one really better, and should it become the champion?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import pandas as pd

from traube.errors import unknown
from traube.metrics.clustering import metric_of
from traube.metrics.significance import Test, bootstrap_texts, holm, paired_t, shared
from traube.models import CORPUS_BOUND, model_cards
from traube.params import Promotion, Protocol
from traube.standing import of_present_data, of_present_methods
from traube.store import Store
from traube.task import Task, TaskCard

FEWEST_SEEDS = 3  # to know how much a seed matters, where there is one split only
Decision = Literal["first", "promote", "keep", "hold"]


@dataclass(frozen=True)
class Candidate:
    """A model with a method on a task: what can be served, and compared.

    Attributes
    ----------
    cells : ids, one for each seed
    mean : of the metric, over splits, levels and seeds
    """

    task: str
    protocol: str
    metric: str
    model: str
    fingerprint: str
    method: str
    data_version: str
    cells: tuple[str, ...]
    mean: float

    @property
    def corpus_bound(self) -> bool:
        """Whether the fingerprint also hashes the task's corpus."""
        card = model_cards().get(self.model)
        return card is not None and card.kind in CORPUS_BOUND

    @property
    def name(self) -> str:
        return f"{self.model} with {self.method}"

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is, on whichever task."""
        return self.model, self.fingerprint, self.method


@dataclass(frozen=True)
class Comparison:
    """Two candidates of one task; positive differences speak for `a`.

    Attributes
    ----------
    test : None where the two cannot be compared
    reason : why not
    corrected : p-value, Holm-corrected over the comparisons that were made together
    """

    a: Candidate
    b: Candidate
    test: Test | None
    reason: str = ""
    corrected: float = 1.0

    def verdict(self, level: float = 0.05) -> str:
        """In words: who is better, if anybody."""
        if self.test is None:
            return f"undecided: {self.reason}"
        if self.corrected >= level:
            return "tie"
        return f"{(self.a if self.test.difference > 0 else self.b).model} is better"


@dataclass(frozen=True)
class Verdict:
    """What becomes of a task's challenger, and why.

    Attributes
    ----------
    decision : `first` (there was no champion), `promote`, `keep` (the champion stays) or `hold` (cannot be decided yet)
    comparison : challenger (a) against champion (b); None if there was none to compare with
    """

    task: str
    decision: Decision
    reason: str
    challenger: Candidate
    champion: Candidate | None = None
    comparison: Comparison | None = None


def main_metric(card: TaskCard, protocol_metric: str | None) -> str:
    """The protocol's main metric, or the card's."""
    return protocol_metric or card.main_metric


def candidates(store: Store, task: str, name: str, protocol: Protocol, metric: str) -> list[Candidate]:
    """All that is scored of a task's present data under a protocol, of whichever fingerprint, the best first."""
    manifest, cells = store.manifest(task), store.cells(task)
    if manifest is None:
        return []
    cells = of_present_methods(of_present_data(cells, store), {name: protocol})
    cells = cells[(cells["protocol"] == name) & (cells["status"] == "done")]
    means = store.scores(cells, [metric]).groupby("cell_id")["value"].agg(lambda v: v.mean(skipna=False))
    cells = cells.assign(method=cells["reducer"] + "/" + cells["clusterer"], mean=cells["cell_id"].map(means))
    found = [
        Candidate(
            *(task, name, metric, model, fingerprint, method, manifest.data_version),
            cells=tuple(rows["cell_id"]),
            mean=float(rows["mean"].mean()),
        )
        for (model, fingerprint, method), rows in cells.dropna(subset="mean")
        .sort_values("cell_id")
        .groupby(["model", "fingerprint", "method"])
    ]
    return sorted(found, key=lambda c: (-c.mean, c.key))


def compare(store: Store, task: Task, a: Candidate, b: Candidate, split_set: str = "default") -> Comparison:
    """Test the difference of two candidates of one task, on what is stored.

    With several splits: the paired t-test over splits, corrected for the texts that they share, of each split's mean over seeds.
    With one split: the paired bootstrap over its texts, which needs at least three seeds where a method has any.
    """
    if a.cells == b.cells:
        return Comparison(a, b, None, "they are the same")
    splits = list(task.test_splits(split_set))
    if len(splits) > 1 and len({s.split for s in splits}) == 1:
        return Comparison(a, b, None, "one split at several levels: the levels' texts are the same, and pair as one")
    if len(splits) == 1:
        return _compare_one(store, a, b, splits[0].labels)
    # a split at two levels is two clustering problems on the same texts
    values = [_by_split(store, side) for side in (a, b)]
    common = [s for s in splits if all(np.isfinite(v.get((s.split, s.level), np.nan)) for v in values)]
    if len(common) < 2:
        return Comparison(a, b, None, f"they have {len(common)} scored splits in common; two are needed")
    differences = [values[0][s.split, s.level] - values[1][s.split, s.level] for s in common]
    test = paired_t(differences, shared([s.rows for s in common]))
    return Comparison(a, b, test, corrected=test.p)


def _by_split(store: Store, candidate: Candidate) -> dict[tuple[str, str], float]:
    cells = store.cells_by_id(candidate.task, candidate.cells)
    scores = store.scores(cells, [candidate.metric])
    return scores.groupby(["split", "level"])["value"].mean().to_dict()


def _compare_one(store: Store, a: Candidate, b: Candidate, labels: Any) -> Comparison:
    if labels is None:
        return Comparison(a, b, None, "without labels there is nothing to compare by")
    seeded = [c for c in (a, b) if store.cells_by_id(c.task, c.cells)["seed"].notna().any()]
    if any(len(c.cells) < FEWEST_SEEDS for c in seeded):
        needed = f"one split and fewer than {FEWEST_SEEDS} seeds: what a seed does is not known; run more"
        return Comparison(a, b, None, needed)
    of_a, of_b = ([store.assignments(c.task, i)[0]["cluster"].to_numpy() for i in c.cells] for c in (a, b))
    test = bootstrap_texts(pd.factorize(labels)[0], of_a, of_b, metric_of(a.metric))
    return Comparison(a, b, test, corrected=test.p)


def corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The same comparisons with their p-values Holm-corrected over those that have one."""
    tested = [c for c in comparisons if c.test is not None]
    values = iter(holm([c.test.p for c in tested if c.test]))
    return [c if c.test is None else replace(c, corrected=float(next(values))) for c in comparisons]


def judge(
    store: Store,
    tasks: Mapping[str, Task],
    found: Mapping[str, Sequence[Candidate]],
    challengers: Mapping[str, Candidate],
    champions: Mapping[str, Candidate | None],
    rules: Promotion,
    split_set: str = "default",
    newcomers: Mapping[str, int] = MappingProxyType({}),
) -> list[Verdict]:
    """Which challengers become champions.

    A challenger is promoted if it is better than the champion by a paired test, corrected over the tasks, by at least
    `minimum_effect`, and on no other task of the family worse by significantly more than `margin`.

    Parameters
    ----------
    found : all candidates by task
    challengers : the best newcomer by task
    champions : by task; None where the champion has no score on the task's present data
    newcomers : by task, among how many the challenger is the best; its p-value is multiplied by that (Bonferroni)
    """
    verdicts = []
    open_ = {}
    for task, challenger in challengers.items():
        champion = champions.get(task)
        if task not in champions:
            verdicts.append(Verdict(task, "first", "there was no champion", challenger))
        elif champion is None:
            reason = "the champion has no score on the present data: evaluate it, or `traube promote` another one"
            verdicts.append(Verdict(task, "hold", reason, challenger))
        else:
            open_[task] = compare(store, tasks[task], challenger, champion, split_set)
    # the challenger is the best of several newcomers, chosen on the splits it is tested on: its p-value pays for each of them
    for comparison in corrected([_for_choice(c, newcomers.get(task, 1)) for task, c in open_.items()]):
        decision, reason = _decide(store, tasks, found, comparison, rules, split_set)
        a, b = comparison.a, comparison.b
        verdicts.append(Verdict(a.task, decision, reason, a, b, comparison))
    return sorted(verdicts, key=lambda v: v.task)


def _for_choice(comparison: Comparison, among: int) -> Comparison:
    test = comparison.test
    return comparison if test is None else replace(comparison, test=replace(test, p=min(1.0, among * test.p)))


def _decide(
    store: Store,
    tasks: Mapping[str, Task],
    found: Mapping[str, Sequence[Candidate]],
    comparison: Comparison,
    rules: Promotion,
    split_set: str,
) -> tuple[Decision, str]:
    test = comparison.test
    if test is None:
        return "hold", comparison.reason
    said = f"{100 * test.difference:+.2f} points, p = {comparison.corrected:.2g} (Holm; {test.name}, n = {test.n})"
    if test.difference < rules.minimum_effect:
        return "keep", f"{said}: less than {100 * rules.minimum_effect:g} points better"
    if comparison.corrected >= rules.level:
        return "keep", f"{said}: not significant at {rules.level:g}"
    family = tasks[comparison.a.task].card.family
    for other in (t for t in tasks.values() if t.card.family == family and t.name != comparison.a.task):
        new, old = (next((c for c in found[other.name] if _alike(c, s)), None) for s in (comparison.a, comparison.b))
        if old is None:
            continue  # where the champion has no score, there is none to lose
        if new is None:
            return "hold", f"{said}; but it has no score on {other.name} yet"
        loss = compare(store, other, new, old, split_set).test
        if loss is None or not np.isfinite(loss.high):
            if new.mean - old.mean < -rules.margin:
                return (
                    "hold",
                    f"{said}; but on {other.name} it has {100 * (old.mean - new.mean):.2f} points less, untested",
                )
        elif loss.high < -rules.margin:
            return (
                "keep",
                f"{said}; but on {other.name} it loses {-100 * loss.difference:.2f} points (p = {loss.p:.2g})",
            )
    return "promote", said


def _alike(a: Candidate, b: Candidate) -> bool:
    """The same model and method on another task. The fingerprint of a corpus-bound model differs between tasks."""
    same = a.fingerprint == b.fingerprint or (a.corpus_bound and b.corpus_bound)
    return same and (a.model, a.method) == (b.model, b.method)


def find(options: Sequence[Candidate], wanted: str) -> Candidate:
    """The candidate that a person means by `model` (its best method) or `model:reducer/clusterer`.

    Raises
    ------
    TraubeError
        If there is none; the message names near ones.
    """
    model, _, method = wanted.partition(":")
    of_model = [c for c in options if c.model == model]
    if not of_model:
        raise unknown("scored model", model, sorted({c.model for c in options}))
    chosen = [c for c in of_model if method in ("", c.method)]
    if not chosen:
        raise unknown(f"scored method of {model}", method, [c.method for c in of_model])
    return chosen[0]
