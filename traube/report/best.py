"""Which model, by which method, groups a task's texts best: by how much, how sure that is, and what
would make it surer.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from traube.benchmark.current import current_cells
from traube.benchmark.params import Protocol
from traube.foundation.errors import TraubeError
from traube.comparison.jackknife import CONFIDENCE, Sample, Test, difference, intervals
from traube.comparison.candidates import Candidate, candidates, main_metric, sample
from traube.report.costs import costs
from traube.report.tables import best_method, corrected_p_values
from traube.store import Store
from traube.tasks import get_source

# A difference of its size is found by four of five tests at the level .05: z of .975 and of .8 added.
POWER = 1.96 + 0.84
CHEAPER = 2.0  # times, that are worth a word
LEAST = 1e-4  # seconds that a clock tells from none
CLOSE = 0.01  # a lead up to which what costs less may be called as good
NOTHING = 0.005  # a difference that makes none in practice
SHORT = ("ami", "ari")  # metrics that are known by their initials


class Unlabelled(TraubeError):
    """A task without labels, of which nothing is best."""


@dataclass(frozen=True)
class Rival:
    """The best of another model.

    Attributes
    ----------
    test : of the winner's lead over it; None where nothing says how much scores vary
    p : two-sided, Holm-corrected over all pairs of models, as the leaderboard's places
    """

    candidate: Candidate
    test: Test | None
    p: float

    @property
    def told_apart(self) -> bool:
        """Whether the winner is significantly better."""
        return self.p < 1 - CONFIDENCE


@dataclass(frozen=True)
class Best:
    """What groups a task's texts best.

    Attributes
    ----------
    winner : the model and method with the highest mean
    low, high : 95 % interval of its score, the choice of the method included
    rivals : the best of each other model, the nearest first
    texts : distinct texts that were scored
    unsure : what the intervals leave out; empty if nothing
    seconds : by candidate's name, for 1,000 texts, encoding and clustering; of those that were measured
    """

    winner: Candidate
    low: float
    high: float
    rivals: tuple[Rival, ...]
    texts: int
    unsure: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def ties(self) -> list[Rival]:
        """Those that cannot be told from the winner."""
        return [rival for rival in self.rivals if not rival.told_apart]

    @property
    def answer(self) -> str:
        """Who is best, by how much, and how sure that is; a sentence."""
        winner = self.winner
        sure = (
            f"{100 * self.low:.1f} to {100 * self.high:.1f}" if np.isfinite(self.low) else "no interval: too few texts"
        )
        score = f"{_in_words(winner.metric)} {100 * winner.mean:.1f} ({sure})"
        if not self.rivals:
            return f"{winner.name} does best on {winner.task}, {score}; no other model is scored on it."
        nearest, ties = self.rivals[0], self.ties
        if not ties:
            return f"{winner.name} groups {winner.task} best: {score}, {_lead(nearest)}."
        if self.unsure:
            return f"{winner.name} comes first on {winner.task}, {score}, {_lead(nearest, ' by the texts alone')}; {self.unsure}."
        names = _listed([rival.candidate.model for rival in ties])
        return (
            f"{winner.name} comes first on {winner.task}, {score}, but cannot be told from {names}: {_lead(ties[0])}."
        )

    @property
    def advice(self) -> str:
        """What would make the answer surer; empty where it is sure."""
        if not self.rivals:
            return "Score others beside it: `traube models` lists them."
        if self.unsure:
            return f"Three seeds would decide: `traube run -t {self.winner.task} -p own`, then `traube best {self.winner.task} -p own`."
        leads = {rival.candidate.model: rival.test for rival in self.ties if rival.test is not None}
        alike = [name for name, test in leads.items() if abs(test.difference) < NOTHING]
        said = []
        if alike:
            said.append(
                f"As far as can be told, {_listed([self.winner.model, *alike])} do equally well: take the one that costs least."
            )
        if ahead := [name for name in leads if name not in alike]:
            lead = leads[ahead[0]]
            needed = math.ceil(self.texts * (POWER * lead.error / lead.difference) ** 2 / 100) * 100
            said.append(
                f"If the lead over {ahead[0]} is as large as it looks, some {needed:,} labelled texts would show it "
                f"(here: {self.texts:,})."
            )
        return " ".join(said)

    @property
    def said(self) -> str:
        """All of it: answer, bargain, advice."""
        return " ".join(filter(None, (self.answer, self.bargain, self.advice)))

    @property
    def bargain(self) -> str:
        """The cheapest of those that cannot be told from the winner and are hardly behind it, if it is
        clearly cheaper; a sentence, empty where there is none or costs are not known.
        """
        near = [rival.candidate.name for rival in self.ties if rival.test and rival.test.difference < CLOSE]
        ties = [name for name in near if name in self.seconds]
        cheapest = min(ties, key=lambda name: self.seconds[name], default="")
        if self.unsure or not cheapest or self.winner.name not in self.seconds:
            return ""
        least, most = self.seconds[cheapest], self.seconds[self.winner.name]
        if most < CHEAPER * least:
            return ""
        times = f"{float(f'{most / max(least, LEAST):.2g}'):,g}"
        cost = f"{_seconds(least)} for 1,000 texts, not {_seconds(most)}"
        return f"{cheapest} is as good, as far as can be told, and {times} times cheaper: {cost}."

    @property
    def command(self) -> str:
        """What groups new texts in the same way."""
        return f"traube cluster FILE --model {self.winner.model} --method {self.winner.method}"


def best_on(store: Store, task_name: str, name: str, protocol: Protocol) -> Best:
    """What groups a task's texts best under a protocol, over its splits and levels.

    Parameters
    ----------
    name : the protocol's

    Raises
    ------
    TraubeError
        If there is no such task, or nothing is scored of its present data.
    Unlabelled
        If it has no labels to score by.
    """
    card = store.card(task_name)
    if card is None or store.manifest(task_name) is None:
        get_source(task_name)  # which names near ones, if there is no such task
        if not store.cells(task_name).empty:
            raise TraubeError(
                f"{task_name}: its data cannot be used as it is now: `traube run -t {task_name}` says why; what is "
                "scored of its earlier data is in the leaderboard"
            )
        raise TraubeError(f"{task_name}: nothing is scored yet: `traube run -t {task_name}`")
    task = store.task(card)
    if not task.labelled:
        raise Unlabelled(
            f"{task_name} has no labels, so nothing says which model is best; `traube cluster` groups its texts"
        )
    cells = current_cells(store, {name: protocol}, [task_name])
    options = candidates(store, task_name, name, protocol, main_metric(card, protocol.main_metric), cells)
    if not options:
        raise TraubeError(
            f"{task_name}: nothing is scored under protocol '{name}' yet: `traube run -t {task_name} -p {name}`"
        )
    of_model: dict[str, list[Candidate]] = {}
    for candidate in options:
        of_model.setdefault(candidate.model, []).append(candidate)
    firsts = [own[0] for own in of_model.values()]
    samples = [best_method([sample(store, candidate) for candidate in own]) for own in of_model.values()]
    low, high = intervals(samples[:1])[0]
    tested = task.splits[task.splits["part"] == "test"]
    unsure = next((test.note for test in _tests(samples) if test and test.note), "")
    rivals = _rivals(firsts, samples)
    texts = int(tested["text_id"].nunique())
    return Best(firsts[0], float(low), float(high), rivals, texts, unsure, _costs(store, name, protocol, cells))


def _costs(store: Store, name: str, protocol: Protocol, cells: pd.DataFrame) -> dict[str, float]:
    """Seconds for 1,000 texts by candidate's name, where they were measured."""
    known = costs(store, {name: protocol}, cells).dropna(subset="seconds")
    return {f"{row.model} with {row.method}": row.seconds for row in known.itertuples(index=False)}


def _in_words(metric: str) -> str:
    name = metric.split("/")[0]
    return name.upper() if name in SHORT else name.replace("_", "-")


def _seconds(value: float) -> str:
    return f"{value:.2g} s" if value < 100 else f"{value:,.0f} s"


def _tests(samples: Sequence[Sample]) -> list[Test | None]:
    """The first sample against each other."""
    found: list[Test | None] = []
    for other in samples[1:]:
        try:
            found.append(difference(samples[0], other))
        except TraubeError:  # nothing says how much they vary
            found.append(None)
    return found


def _rivals(firsts: Sequence[Candidate], samples: Sequence[Sample]) -> tuple[Rival, ...]:
    """Each other model beside the first; undecided where scores or splits do not compare."""
    tests = _tests(samples)
    p = np.ones(len(samples))
    if len(samples) > 1 and len({one.splits for one in samples}) == 1:
        p = np.nan_to_num(corrected_p_values(samples)[0], nan=1.0)
    return tuple(
        Rival(candidate, test, float(p[i]))
        for i, (candidate, test) in enumerate(zip(firsts[1:], tests, strict=True), 1)
    )


def _lead(rival: Rival, sure: str = "") -> str:
    """By how much the winner is ahead of a rival.

    Parameters
    ----------
    sure : how sure that is, in words; by default the p-value
    """
    test = rival.test
    if test is None:
        return f"nothing says by how much it is ahead of {rival.candidate.name}"
    lead = f"{100 * test.difference:.1f} above {rival.candidate.name}"
    return f"{lead} (95 % interval {100 * test.low:.1f} to {100 * test.high:.1f}{sure or f', p = {rival.p:.2g}'})"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
