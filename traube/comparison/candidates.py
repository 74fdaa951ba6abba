"""Candidates of a task compared with each other: is one really better, and should it
become the champion?
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import Literal

import numpy as np
import pandas as pd

from traube.benchmark.current import cells_of_any_weights, current_cells
from traube.benchmark.params import Promotion, Protocol
from traube.foundation.errors import TraubeError, unknown
from traube.comparison.jackknife import Sample, Test, difference, holm
from traube.models import CORPUS_BOUND, model_cards
from traube.store import Store
from traube.tasks import get_source
from traube.tasks.task import Task, TaskCard

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
    reason : why not, or why the test does not decide
    corrected : p-value, Holm-corrected over the comparisons that were made together
    """

    a: Candidate
    b: Candidate
    test: Test | None
    reason: str = ""
    corrected: float = 1.0

    def verdict(self, level: float = 0.05) -> str:
        """In words: who is better, if anybody."""
        if self.test is None or self.reason:
            return f"undecided: {self.reason}"
        if self.corrected >= level:
            return "tie"
        better = self.a if self.test.difference > 0 else self.b
        return f"{better.method if self.a.model == self.b.model else better.model} is better"


@dataclass(frozen=True)
class Verdict:
    """What becomes of a task's challenger, and why.

    Attributes
    ----------
    decision : `first` (there was no champion), `promote`, `keep` (the champion stays) or `hold`
        (cannot be decided yet)
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


def candidates(
    store: Store, task: str, name: str, protocol: Protocol, metric: str, cells: pd.DataFrame | None = None
) -> list[Candidate]:
    """All that is scored of a task's present data under a protocol, the best first.

    Parameters
    ----------
    cells : of `traube.benchmark.current`; by default the protocol's own, of whichever fingerprint
    """
    manifest = store.manifest(task)
    if manifest is None:
        return []
    if cells is None:
        cells = cells_of_any_weights(store, {name: protocol}, [task])
        cells = cells[~cells["own_choice"]]
    cells = cells[(cells["protocol"] == name) & (cells["status"] == "done")]
    means = _means(store.scores(cells, [metric]))
    cells = cells[cells["cell_id"].isin([cell for cell, mean in means.items() if pd.notna(mean)])]
    rows = zip(
        cells["model"], cells["fingerprint"], cells["reducer"] + "/" + cells["clusterer"], cells["cell_id"], strict=True
    )
    scored = []
    for (model, fingerprint, method), group in groupby(sorted(rows), key=itemgetter(0, 1, 2)):
        ids = tuple(cell_id for *_, cell_id in group)
        mean = float(np.mean([means[cell_id] for cell_id in ids]))
        scored.append(
            Candidate(task, name, metric, model, fingerprint, method, manifest.data_version, cells=ids, mean=mean)
        )
    return sorted(scored, key=lambda c: (-c.mean, c.key))


def first_of_each(options: Iterable[Candidate]) -> list[Candidate]:
    """The first candidate of each model, in the same order: of `candidates`, the best."""
    firsts: dict[str, Candidate] = {}
    for candidate in options:
        firsts.setdefault(candidate.model, candidate)
    return list(firsts.values())


def _means(scores: pd.DataFrame) -> dict[str, float]:
    """The mean over splits and levels of each cell; nan where one of them has no score."""
    rows = zip(scores["cell_id"], scores["value"], strict=True)
    return {cell: float(np.mean([value for _, value in group])) for cell, group in groupby(rows, key=itemgetter(0))}


def compare_on(
    store: Store,
    tasks: Sequence[str],
    name: str,
    protocol: Protocol,
    a: str,
    b: str,
    metric: str | None = None,
    own_choice: bool = False,
) -> tuple[list[Comparison], dict[str, str]]:
    """Compare two models on several tasks, as a person names them.

    Parameters
    ----------
    name : the protocol's
    a, b : `model` (its best method on each task) or `model:reducer/clusterer`
    metric : instead of each task's main one
    own_choice : also use methods and seeds that were asked for beside the protocol's own

    Returns
    -------
    The comparisons, Holm-corrected over the tasks; and the tasks that cannot be
    compared on, with the reason

    Raises
    ------
    TraubeError
        If no task can be compared on; the message says why.
    """
    _check_models(store, a, b)
    comparisons, left_out = [], {}
    for task_name in dict.fromkeys(tasks):  # a name may be given twice
        try:
            cells = current_cells(store, {name: protocol}, [task_name], own_choice=own_choice)
            task, options = _task_with_candidates(store, task_name, name, protocol, metric, cells)
            comparisons.append(compare(store, task, find(options, a), find(options, b)))
        except TraubeError as error:
            left_out[task_name] = str(error)
    if not comparisons:
        raise TraubeError(
            "nothing to compare: " + "; ".join(f"{task_name}: {reason}" for task_name, reason in left_out.items())
        )
    return corrected(comparisons), left_out


def _check_models(store: Store, *sides: str) -> None:
    """Refuse a model that neither exists nor has ever been scored: it is misspelt."""
    known = {*model_cards(), *store.cells()["model"]}
    for side in sides:
        name = side.partition(":")[0]
        if name not in known:
            raise unknown("model", name, known)


def _task_with_candidates(
    store: Store, task_name: str, name: str, protocol: Protocol, metric: str | None, cells: pd.DataFrame
) -> tuple[Task, list[Candidate]]:
    """A stored task, and its candidates among some cells."""
    card = store.card(task_name)
    if card is None or store.manifest(task_name) is None:
        get_source(task_name)  # which names near ones, if there is no such task
        raise TraubeError("nothing is scored yet")
    task = store.task(card)
    if not task.labelled:
        raise TraubeError("it has no labels, so there is nothing to compare by")
    options = candidates(store, task_name, name, protocol, metric or main_metric(card, protocol.main_metric), cells)
    if not options:
        raise TraubeError("nothing is scored yet")
    return task, options


def compare(store: Store, task: Task, a: Candidate, b: Candidate) -> Comparison:
    """Test the difference of two candidates of one task, on what is stored
    (`traube.comparison.jackknife`).

    With one split and one seed of a method that draws random numbers, the interval holds what the
    texts explain only: the comparison says so, and does not decide.
    """
    if a.cells == b.cells:
        return Comparison(a, b, None, "they are the same")
    if not task.labelled:
        return Comparison(a, b, None, "without labels there is nothing to compare by")
    try:
        test = difference(sample(store, a), sample(store, b))
    except TraubeError as error:
        return Comparison(a, b, None, str(error))
    advice = f"give protocol '{a.protocol}' more seeds in params.yaml, such as [42, 1, 2], and run again"
    reason = f"{test.note}; {advice}" if test.note else ""
    return Comparison(a, b, test, reason, corrected=test.p)


def sample(store: Store, candidate: Candidate) -> Sample:
    """A candidate's scores, with replicates."""
    cells = store.cells_by_id(candidate.task, candidate.cells)
    scores = store.scores(cells, [candidate.metric], replicates=True)
    return Sample.of(scores, seeded=bool(cells["seed"].notna().any()))


def corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The same comparisons with their p-values Holm-corrected over those that a test decides."""
    values = iter(holm([c.test.p for c in comparisons if c.test and not c.reason]))
    return [replace(c, corrected=float(next(values))) if c.test and not c.reason else c for c in comparisons]


def judge(
    store: Store,
    tasks: Mapping[str, Task],
    options: Mapping[str, Sequence[Candidate]],
    challengers: Mapping[str, Candidate],
    champions: Mapping[str, Candidate | None],
    rules: Promotion,
    newcomers: Mapping[str, int] = MappingProxyType({}),
) -> list[Verdict]:
    """Which challengers become champions.

    A challenger is promoted if it is better than the champion by a paired test, corrected over
    the tasks, by at least `minimum_effect`, and is shown not to be worse by more than `margin` on
    every other task of the family: there, the one-sided lower bound of the difference (at
    `level`) must stand above minus the margin. Where it does not, because the data say too
    little, the challenger is held.

    Parameters
    ----------
    options : all candidates by task
    challengers : the best newcomer by task
    champions : by task; None where the champion has no score on the task's present data
    newcomers : by task, among how many the challenger is the best; its p-value is multiplied
        by that (Bonferroni)
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
            open_[task] = compare(store, tasks[task], challenger, champion)
    # the challenger is the best of several newcomers, chosen on the splits it is tested on: its
    # p-value pays for each of them
    for comparison in corrected([_for_choice(c, newcomers.get(task, 1)) for task, c in open_.items()]):
        decision, reason = _decide(store, tasks, options, comparison, rules)
        a, b = comparison.a, comparison.b
        verdicts.append(Verdict(a.task, decision, reason, a, b, comparison))
    return sorted(verdicts, key=lambda v: v.task)


def _for_choice(comparison: Comparison, among: int) -> Comparison:
    test = comparison.test
    return comparison if test is None else replace(comparison, test=replace(test, p=min(1.0, among * test.p)))


def _decide(
    store: Store,
    tasks: Mapping[str, Task],
    options: Mapping[str, Sequence[Candidate]],
    comparison: Comparison,
    rules: Promotion,
) -> tuple[Decision, str]:
    test = comparison.test
    if test is None or comparison.reason:
        return "hold", comparison.reason
    said = f"{100 * test.difference:+.2f} points, p = {comparison.corrected:.2g} (Holm; {test.name}, n = {test.n})"
    if test.difference < rules.minimum_effect:
        return "keep", f"{said}: less than {100 * rules.minimum_effect:g} points better"
    if comparison.corrected >= rules.level:
        return "keep", f"{said}: not significant at {rules.level:g}"
    family = tasks[comparison.a.task].card.family
    others = [t for t in tasks.values() if t.card.family == family and t.name != comparison.a.task]
    objections = [o for other in others if (o := _objection(store, other, options[other.name], comparison, rules))]
    for decision in ("keep", "hold"):  # a proven loss weighs more than one that cannot be ruled out
        for kind, reason in objections:
            if kind == decision:
                return kind, f"{said}; but {reason}"
    return "promote", said


def _objection(
    store: Store, other: Task, options: Sequence[Candidate], comparison: Comparison, rules: Promotion
) -> tuple[Decision, str] | None:
    """Why another task of the family speaks against a promotion: non-inferiority is not shown
    there.
    """
    new, old = (next((c for c in options if _alike(c, side)), None) for side in (comparison.a, comparison.b))
    if old is None:
        return None  # where the champion has no score, there is none to lose
    if new is None:
        return "hold", f"it has no score on {other.name} yet"
    loss = compare(store, other, new, old)
    points = f"{100 * rules.margin:g} point{'' if rules.margin == 0.01 else 's'}"
    if loss.test is None or loss.reason:
        return "hold", f"on {other.name} a loss of more than {points} cannot be ruled out: {loss.reason}"
    bound = loss.test.at_least(rules.level)
    if bound > -rules.margin:
        return None
    if loss.test.high < -rules.margin:
        return "keep", f"on {other.name} it loses {-100 * loss.test.difference:.2f} points (p = {loss.test.p:.2g})"
    return "hold", (
        f"on {other.name} a loss of more than {points} cannot be ruled out: {100 * loss.test.difference:+.2f} points, "
        f"at least {100 * bound:+.2f}; more seeds or splits would tell"
    )


def _alike(a: Candidate, b: Candidate) -> bool:
    """The same model and method on another task. The fingerprint of a corpus-bound model
    differs between tasks.
    """
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
