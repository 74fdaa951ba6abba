"""The best model and method on a task: its lead, how sure the lead is, and what would make it surer."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from traube._core.errors import join_words
from traube._core.spending import in_dollars
from traube._pipeline.current import current_cells
from traube._pipeline.default_model import languages_of
from traube._pipeline.params import Protocol
from traube._reports.costs import costs
from traube._reports.languages import LanguageFit, fit_languages
from traube._reports.tables import INTERVAL, interval_in_words
from traube._storage import Storage
from traube.comparison._candidates import Candidate
from traube.comparison._standings import Standing, read_options, read_standing
from traube.comparison._verdict import Undecided, Verdict
from traube.tasks._task import Task

CLOSE = 0.01  # a lead up to which what costs less may be called as good
NOTHING = 0.005  # a difference that makes none in practice
SHORT = ("ami", "ari")  # metrics that are known by their initials


@dataclass(frozen=True)
class Rival:
    """The best of another model, and the verdict on the winner (a) against it (b)."""

    candidate: Candidate
    verdict: Verdict


@dataclass(frozen=True)
class Recommendation:
    """The best model and method on a task's texts, with its rivals."""

    winner: Candidate  # the model and method with the highest mean
    low: float  # to high: the 95 % interval of its score, the choice of the method included
    high: float
    rivals: tuple[Rival, ...]  # the best of each other model, the nearest first
    texts: int  # distinct texts that were scored
    # by candidate's name, for 1,000 texts, encoding and clustering; of those that were measured
    seconds: Mapping[str, float] = field(default_factory=dict)
    # by candidate's name, dollars for 1,000 texts; of those behind an endpoint with a price
    money: Mapping[str, float] = field(default_factory=dict)
    fit: LanguageFit | None = None  # which models are made for the texts' languages; None if not looked up

    @property
    def ties(self) -> list[Rival]:
        """Those that do not differ significantly from the winner."""
        return [rival for rival in self.rivals if not rival.verdict.better]

    @property
    def unsure(self) -> bool:
        """Return whether one seed leaves the winner's lead over others undecided."""
        return any(rival.verdict.undecided is Undecided.ONE_SEED for rival in self.rivals)

    @property
    def answer(self) -> str:
        """Return a sentence that names the winner, its lead, and how sure that lead is."""
        winner = self.winner
        has_interval = np.isfinite(self.low)
        interval = f"{INTERVAL} {interval_in_words(self.low, self.high, winner.metric, 1)}"
        sure = interval if has_interval else "no interval: too few texts"
        metric = winner.metric.split("/")[0]
        metric = metric.upper() if metric in SHORT else metric.replace("_", "-")
        score = f"{metric} {100 * winner.mean:.1f} ({sure})"
        if not self.rivals:
            return f"{winner.name} does best on {winner.task}, {score}; no other model is scored on it."
        nearest, ties = self.rivals[0], self.ties
        if not ties:
            lead, sure = _lead(nearest), nearest.verdict.significance
            return f"{winner.name} clusters {winner.task} best: {score}, {lead}, {sure}."
        if self.unsure:
            return f"{winner.name} comes first on {winner.task}, {score}, {_lead(nearest)}; {Undecided.ONE_SEED.value}."
        names = join_words([rival.candidate.model for rival in ties])
        lead = f"{winner.name} comes first on {winner.task}, {score}, but is not significantly different from {names}"
        if not all(np.isfinite(tie.verdict.error) for tie in ties):
            return f"{lead}: {_lead(ties[0])}."
        least, *others = sorted((tie.verdict for tie in ties), key=lambda verdict: verdict.p)
        is_bound = any(other.significance != least.significance for other in others)
        return f"{lead} ({least.significance.replace('=', '≥') if is_bound else least.significance})."

    @property
    def details(self) -> list[str]:
        """A line for each rival: the lead over it, and the test."""
        return [f"{_lead(rival)}, {rival.verdict.significance}: {rival.verdict.details}" for rival in self.rivals]

    @property
    def advice(self) -> str:
        """Return a sentence on what would make the answer surer; empty if the answer is sure."""
        if not self.rivals:
            return "Score others beside it: `traube models` lists them."
        if self.unsure:
            task = self.winner.task
            return f"Three seeds would decide: `traube run -t {task} -p own`, then `traube recommend {task} -p own`."
        leads = {rival.candidate.model: rival.verdict for rival in self.ties if np.isfinite(rival.verdict.error)}
        tied = [name for name, verdict in leads.items() if abs(verdict.difference) < NOTHING]
        advice = []
        if tied:
            advice.append(f"{join_words([self.winner.model, *tied])} are tied: take the one that costs least.")
        if ahead := [name for name in leads if name not in tied]:
            lead = leads[ahead[0]]
            needed = math.ceil(self.texts * lead.times_to_decide / 100) * 100
            advice.append(
                f"If the lead over {ahead[0]} is as large as it looks, some {needed:,} labeled texts would show it "
                f"(here: {self.texts:,})."
            )
        return " ".join(advice)

    @property
    def text(self) -> str:
        """Return answer, bargain and advice as one text."""
        return " ".join(filter(None, (self.answer, self.price or self.bargain, self.advice)))

    @property
    def bargain(self) -> str:
        """Return a sentence on the cheapest model that is about as good as the winner and clearly cheaper.

        About as good is a model that is not significantly different from the winner and hardly behind it. Empty if there is none,
        or costs are not known.
        """
        near = [rival.candidate.name for rival in self.ties if rival.verdict.difference < CLOSE]
        ties = [name for name in near if name in self.seconds]
        cheapest = min(ties, key=lambda name: (self.money.get(name, 0.0), self.seconds[name]), default="")
        if self.unsure or not cheapest or self.winner.name not in self.seconds:
            return ""
        little, much = self.money.get(cheapest, 0.0), self.money.get(self.winner.name, 0.0)
        if much > 0 and little < much / 2:
            cost = f"costs {in_dollars(little)}" if little else "costs no money"
            return f"{cheapest} is tied with it and {cost} for 1,000 texts, not {in_dollars(much)}."
        least, most = self.seconds[cheapest], self.seconds[self.winner.name]
        if little or most < 2 * least:  # not worth a word
            return ""
        times = f"{float(f'{most / max(least, 1e-4):.2g}'):,g}"  # a clock tells no less from nothing
        cost = f"{_seconds(least)} for 1,000 texts, not {_seconds(most)}"
        return f"{cheapest} is tied with it and {times} times cheaper: {cost}."

    @property
    def price(self) -> str:
        """Return the bargain, or else a sentence on what the winner's endpoint is paid; empty if it is paid nothing."""
        paid = self.money.get(self.winner.name)
        return self.bargain or (f"{self.winner.model} costs {in_dollars(paid)} for 1,000 texts." if paid else "")

    @property
    def command(self) -> str:
        """The command that clusters new texts in the same way."""
        return f"traube cluster FILE --model {self.winner.model} --method {self.winner.method}"


def recommend(storage: Storage, task_name: str, name: str, protocol: Protocol) -> Recommendation:
    """Return the best model and method on a task under a named protocol, over all splits and levels.

    Raises
    ------
    TraubeError
        If there is no such task, or nothing is scored of its present data.
    Unlabeled
        If it has no labels to score by.
    """
    task, options = read_options(storage, task_name, name, protocol)
    known = costs(storage, {name: protocol}, current_cells(storage, {name: protocol}, [task_name]))
    recommendation = recommend_among(read_standing(storage, options), task, known)
    tried = (recommendation.winner.model, *(rival.candidate.model for rival in recommendation.rivals))
    return replace(recommendation, fit=fit_languages(languages_of(task), tried))


def recommend_among(standing: Standing, task: Task, known: pd.DataFrame) -> Recommendation:
    """Return the best of the models that are ranked on a task; `known` is the table of its `costs`."""
    winner, *others = standing.models
    rivals = tuple(Rival(other, standing.ranking.verdict(winner.model, other.model)) for other in others)
    texts = int(task.splits.loc[task.splits["part"] == "test", "text_id"].nunique())
    low, high = standing.intervals[0]
    protocol_costs = known[known["protocol"] == winner.protocol].dropna(subset="seconds")
    seconds = {f"{row.model} with {row.method}": row.seconds for row in protocol_costs.itertuples(index=False)}
    priced = protocol_costs.dropna(subset="money")
    money = {f"{row.model} with {row.method}": row.money for row in priced.itertuples(index=False)}
    return Recommendation(winner, float(low), float(high), rivals, texts, seconds, money)


def _seconds(value: float) -> str:
    return f"{value:.2g} s" if value < 100 else f"{value:,.0f} s"


def _lead(rival: Rival) -> str:
    """Describe by how much the winner is ahead of a rival, and how sure that is."""
    verdict = rival.verdict
    if not np.isfinite(verdict.error):
        return f"nothing says by how much it is ahead of {rival.candidate.name}"
    return f"ahead of {rival.candidate.name} by {verdict.evidence}"
