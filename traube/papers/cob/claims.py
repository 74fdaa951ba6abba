"""Claims of the paper, and the rules by which they are judged.

A test counts trainings (`detectable`); of tables whose p-value is older, differences alone are judged, as untested.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pandas as pd

from traube._reports.papers.claims import (
    FEWEST_TRAININGS,
    Claim,
    Evidence,
    Holds,
    MeasuredRows,
    combine,
    count_trainings,
    describe_data,
    find_interval,
    format_points,
    format_score,
    format_test,
    has_test,
    judge_signs,
    judge_test,
    leave_untested,
    select,
    weaken,
)

TRIPLET = "triplet"
BASELINES = ("untrained", "tfidf")
# differences between COB and Triplet in the tables, which a test should be able to find
NEWSGROUPS = {"ari": 0.010, "nmi": 0.004}
COARSE, FINE = {"ari": 0.016, "nmi": 0.008}, {"ari": 0.005, "nmi": 0.004}
UNTRAINED = {"ari": 0.182}  # Triplet .223, without training .041
SOONER, EPOCH = 5.0, 50.0  # "about 100 times": half of it counts


@dataclass(frozen=True)
class Pair:
    """COB and the Triplet that it is compared with: of the same encoder, as many of whose layers are trained."""

    cob: pd.Series
    triplet: pd.Series
    is_tested: bool  # the table's test is against this Triplet, and counts trainings

    @property
    def is_head_alone(self) -> bool:
        """True where the encoder is frozen; the paper trains all layers."""
        return _read_layers(self.cob) == 0

    @property
    def trainings(self) -> float:
        """Number of trainings of the side that has fewer."""
        return min(self.cob["seeds"], self.triplet["seeds"])

    @property
    def difference(self) -> float:
        """Gain over Triplet."""
        return float(self.cob["measured"] - self.triplet["measured"])

    def judge(self, reported: float) -> Holds:
        """Judge the gain by the test, or by its sign where trainings were not tested."""
        if self.is_tested:
            return judge_test(self.cob, "higher", reported, self.trainings)
        return weaken(judge_signs([self.difference])) if self.trainings >= FEWEST_TRAININGS else Holds.UNTESTED

    def describe(self) -> str:
        """Return both scores, the gain, its test and how many trainings each side has."""
        scores = [
            format_score(row["measured"]) + (f" ± {format_score(row['sd'])}" if row["sd"] > 0 else "")
            for row in (self.cob, self.triplet)
        ]
        test = format_test(self.cob) if self.is_tested else "no test by trainings"
        which = f"{'head alone, ' if self.is_head_alone else ''}{self.cob['metric'].upper()}"
        compared = f"{which} {scores[0]} against {scores[1]}, {format_points(100 * self.difference)} points"
        return f"{compared} ({test}; {count_trainings(self.trainings)} each)"


def _read_layers(row: pd.Series) -> float | None:
    layers = row.get("layers")
    return None if pd.isna(layers) else layers


def find_pairs(table: pd.DataFrame, task: str, metrics: Iterable[str]) -> list[Pair]:
    """Return each training of COB with the Triplet that it was tested against, or the only one that is like it."""
    pairs = []
    for _, cob in select(table, task=task, method="cob", metric=metrics).iterrows():
        rivals = select(table, task=task, method=TRIPLET, metric=[cob["metric"]], base=[cob["base"]])
        rivals = rivals[[_read_layers(rival) == _read_layers(cob) for _, rival in rivals.iterrows()]]
        against = cob.get("against")
        recipe = against.partition(" ")[2] if isinstance(against, str) else None
        named = rivals[rivals["recipe"].astype(object).fillna("") == recipe]
        if len(named):
            pairs.append(Pair(cob, named.iloc[0], has_test(cob)))
        elif len(rivals) == 1:
            pairs.append(Pair(cob, rivals.iloc[0], False))
    return pairs


def judge_against_triplet(
    name: str, tasks: tuple[str, ...], reported: dict[str, float], rows: MeasuredRows
) -> Evidence:
    """Judge whether COB scores higher than Triplet.

    Where the paper's data set is not measured, the public sample is weak evidence, and where the encoder is frozen on
    both sides, so is that.
    """
    table = rows(name)
    here = next((task for task in tasks if len(select(table, task=task, method="cob"))), None)
    if here is None:
        return leave_untested("COB is not trained on this task here")
    pairs = find_pairs(table, here, reported)
    if not pairs:
        return leave_untested("no Triplet of the same encoder is trained here")
    # the paper trains all layers: heads alone count where nothing else is trained
    judged = [pair for pair in pairs if not pair.is_head_alone] or pairs
    holds = combine(pair.judge(reported[pair.cob["metric"]]) for pair in judged)
    texts = [pair.describe() for pair in pairs]
    for metric in dict.fromkeys(pair.cob["metric"] for pair in pairs):
        compared = [pair for pair in pairs if pair.cob["metric"] == metric]
        best = select(table, task=here, method=TRIPLET, metric=[metric])["measured"].max()
        texts += _name_better_recipes(select(table, task=here, metric=[metric]), compared)
        if holds is Holds.HOLDS and best >= max(pair.cob["measured"] for pair in compared):
            holds = weaken(holds)
    bases = {pair.cob["base"] for pair in pairs}
    encoder = select(table, task=here, method="as it is", metric=reported, base=bases)
    if len(encoder):  # untrained, it may be above both
        scores = ", ".join(f"{row.metric.upper()} {format_score(row.measured)}" for row in encoder.itertuples())
        texts.append(f"the encoder as it is: {scores}")
    if here != tasks[0] or judged[0].is_head_alone:
        holds = weaken(holds)
    paper = "DistilBERT" if here == tasks[0] else "DistilBERT, articles of TREC CAR"
    return Evidence(holds, texts, describe_data(pd.DataFrame([pair.cob for pair in pairs]), paper))


def _name_better_recipes(table: pd.DataFrame, pairs: list[Pair]) -> Iterator[str]:
    """Yield the score of either method by a recipe that is in no pair and above those that are."""
    for method, label, rows in (
        ("cob", "COB", [pair.cob for pair in pairs]),
        (TRIPLET, "Triplet", [pair.triplet for pair in pairs]),
    ):
        highest = select(table, method=method)["measured"].max()
        if highest > max(row["measured"] for row in rows):
            yield f"{label} by another recipe: {rows[0]['metric'].upper()} {format_score(highest)}"


def judge_training(rows: MeasuredRows) -> Evidence:
    """Judge whether the untrained network and TF-IDF have a lower ARI than Triplet, as the table of the paper tests it."""
    table = select(rows("table_4"), task="newsgroups", metric="ari")
    baselines, triplets = select(table, method=BASELINES), select(table, method=TRIPLET)
    triplets = triplets[triplets["seeds"] >= FEWEST_TRAININGS] if len(triplets) else triplets
    if baselines.empty or triplets.empty:
        return leave_untested("Triplet, or what is not trained, is not measured here")
    verdicts = []
    for _, row in baselines.iterrows():
        if has_test(row):
            verdicts.append(judge_test(row, "lower", UNTRAINED["ari"], triplets["seeds"].min()))
        else:
            verdicts.append(weaken(judge_signs(triplets["measured"] - row["measured"])))
    # the paper's raw network is the encoder and a random layer; the encoder alone is another baseline
    encoder = select(table, method="as it is", base=triplets["base"].unique())
    compared = pd.concat([select(table, method=("cob", TRIPLET)), baselines, encoder])
    scores = {method: group["measured"] for method, group in compared.groupby("method", sort=False)}
    text = ", ".join(f"{method} {_format_range(values)}" for method, values in scores.items())
    tests = dict.fromkeys(f"{row['method']} {format_test(row)}" for _, row in baselines.iterrows() if has_test(row))
    findings = [f"ARI: {text}", *(tests or ["no test by trainings"])]
    return Evidence(combine(verdicts), findings, describe_data(baselines, "DistilBERT"))


def _format_range(values: pd.Series) -> str:
    """Return the lowest and the highest score, or both as one where they are printed alike."""
    return " to ".join(dict.fromkeys((format_score(values.min()), format_score(values.max()))))


def judge_time(measure: str, tasks: str, at_least: float, rows: MeasuredRows) -> Evidence:
    """Judge how many times as long Triplet takes: it holds at the size that is reported, in part if COB is sooner.

    The interval is that of the ratio's logarithm. Heads alone are weak evidence: the paper trains all layers.
    """
    table = select(rows("convergence"), measure=measure)
    table = table[table["task"].str.contains(tasks)] if len(table) else table
    if table.empty:
        return leave_untested("the times of trainings are not in a table")
    verdicts, texts = [], []
    for row in table.itertuples():
        low, high = (math.exp(end) for end in find_interval(math.log(row.measured), row.sd / row.measured, row.seeds))
        if row.seeds < FEWEST_TRAININGS or low <= 1 <= high:
            verdicts.append(Holds.UNTESTED)
        elif row.measured <= 1:
            verdicts.append(Holds.FAILS)
        else:
            verdicts.append(Holds.HOLDS if row.measured >= at_least else Holds.PARTLY)
        interval = f", 95 % CI {low:.1f} to {high:.1f}" if row.seeds >= FEWEST_TRAININGS else ""
        texts.append(f"{row.measured:.1f} times ({row.task}, {count_trainings(row.seeds)}{interval})")
    notes = dict.fromkeys(note for note in table.get("note", ()) if isinstance(note, str) and note)
    holds = combine(verdicts)
    if len(select(table, layers=[0])):
        texts.append("the head alone is trained")
        holds = weaken(holds)
    on = describe_data(table, "20NG and CAR, DistilBERT, a Titan XP")
    return Evidence(holds, texts, "; ".join([on, *notes]))


CLAIMS = (
    Claim(
        "COB beats Triplet on 20 Newsgroups: ARI .233 against .223, NMI .725 against .721 (significant)",
        "4.4.1, table 4",
        partial(judge_against_triplet, "table_4", ("newsgroups",), NEWSGROUPS),
    ),
    Claim(
        "Without supervision, the raw network (ARI .041) and TF-IDF (.008) find no meaningful clusters",
        "4.4.1, table 4",
        judge_training,
    ),
    Claim(
        "COB beats Triplet on CAR's top sections: ARI .230 against .214 (n = 30)",
        "4.4.2, table 6",
        partial(judge_against_triplet, "table_6", ("trec_car_coarse", "car_test200_coarse"), COARSE),
    ),
    Claim(
        "COB beats Triplet on CAR's sections of all levels: ARI .178 against .173 (n = 30)",
        "4.4.2, table 7",
        partial(judge_against_triplet, "table_7", ("trec_car_fine", "car_test200_fine"), FINE),
    ),
    Claim(
        "COB converges at least five times sooner than Triplet",
        "4.4.3, figure 3",
        partial(judge_time, "times_slower", "", SOONER),
    ),
    Claim(
        "On 20 Newsgroups an epoch of COB is about 100 times faster than Triplet's",
        "4.4.3, figure 5",
        partial(judge_time, "epoch_times_slower", "newsgroups", EPOCH),
    ),
)
