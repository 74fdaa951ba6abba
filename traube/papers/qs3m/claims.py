"""Claims of the paper, and the rules by which they are judged.

Rows of table 2 are tested against SBERT's Euclidean distances, and those that know a query against none. The paper's test
is a t-test over pages; here what is trained is tested over folds, each a training. What is not compared has no test.
"""

import math
from collections.abc import Iterable, Iterator

import pandas as pd

from traube._reports.papers.claims import (
    NO_TEST,
    Claim,
    Evidence,
    Holds,
    MeasuredRows,
    combine,
    describe_data,
    format_percent,
    format_score,
    format_test,
    judge_signs,
    judge_test,
    leave_untested,
    select,
    weaken,
)
from traube.metrics.correlation import correlation

OURS = "QS3M-Title"  # the query that is trained at both levels here
BASELINES = ("TFIDF cosine", "Topic model")
UNTRAINED = ("Query's space", "Page's space", "Query first")  # rivals that the paper does not have
SAMPLE = "car_test200"  # what the names of tasks of the public sample begin with
PAPER = "CAR-A and CAR-B, 162,000 queries to learn from, SBERT trained on 1.6 million"
FOLDS = math.inf  # trainings of a row: each of its folds is one
GAINS = {
    "flat": 0.026,
    "hier": 0.003,
}  # in ARI, of a title on CAR-A; its best query gains 12 % on average, a title 4.5 %
QUERY_GAINS = {"auc_all": 0.004, "ari": 0.005}  # of a title, flat
AUC_GAIN, ARI_GAIN = 0.1, 0.2  # over TF-IDF, the better of both baselines: .738 and .597, .289 and .071
NOT_TRAINED = "QS3M is not trained here"
WHICH = ["task", "trained_on", "recipe"]


def read_results(rows: MeasuredRows) -> pd.DataFrame:
    """Return table 2; where it does not say what the test can find, that is unknown and settles nothing."""
    table = rows("table_2")
    if table.empty:
        return pd.DataFrame(columns=["method", "metric", "measured", *WHICH], dtype=object)
    table = table.assign(**{name: table[name].astype(object).fillna("") for name in ("base", "recipe", "trained_on")})
    return table if "detectable" in table else table.assign(detectable=math.inf)


def _select_trained(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return QS3M's rows by a metric: on each task those trained at its level, if there are any."""
    ours = select(table, method=OURS, metric=metric)
    if ours.empty:
        return ours
    level = ours["task"].str.rpartition("_")[2]
    is_same = ours["trained_on"].str.rpartition("_")[2] == level
    return ours[is_same | ~is_same.groupby(ours["task"]).transform("any")]


def weaken_of_sample(holds: Holds, tasks: Iterable[str]) -> Holds:
    """Weaken a verdict on the public sample alone: the paper's pages are others."""
    return weaken(holds) if all(task.startswith(SAMPLE) for task in tasks) else holds


def _name(metric: str) -> str:
    return metric.partition("_")[0].upper()


def judge_gain(rows: MeasuredRows) -> Evidence:
    """Judge the gain in ARI over Euclidean distances at either level, by a title, which is trained here at both.

    It holds at any significant gain, and does not if a test that would find a title's own finds none.
    """
    table = read_results(rows)
    ours = _select_trained(table, "ari")
    if ours.empty:
        return leave_untested(NOT_TRAINED)
    verdicts, texts = [], []
    for _, row in ours.iterrows():
        before = row["measured"] - row["difference"]
        verdicts.append(judge_test(row, "higher", GAINS.get(row["task"].rpartition("_")[2], GAINS["flat"]), FOLDS))
        scores = f"{format_score(row['measured'])} against {format_score(before)}"
        texts.append(f"{row['task']} {format_percent(row['difference'] / before)} ({scores}, {format_test(row)})")
    untrained = select(table, method=UNTRAINED, metric="ari", task=ours["task"].unique())
    if len(untrained):
        best = untrained.sort_values("measured").groupby("task", sort=False).tail(1)
        rivals = ", ".join(f"{row.method} {format_score(row.measured)} ({row.task})" for row in best.itertuples())
        texts.append(f"untrained, not in the paper: {rivals}")
    holds = weaken_of_sample(combine(verdicts), ours["task"])
    return Evidence(holds, [f"ARI: {texts[0]}", *texts[1:]], describe_data(ours, PAPER))


def judge_query(rows: MeasuredRows) -> Evidence:
    """Judge whether a title helps at the top level, of which the paper says so, beside the same training without a query."""
    table = select(rows("query"), method=OURS, metric=("auc_all", "ari"))
    if table.empty:
        return leave_untested("QS3M is not trained here both with and without a query")
    table = table.assign(trained_on=table["trained_on"].astype(object).fillna(""))
    texts = []
    for (task, trained_on), group in table.groupby(["task", "trained_on"], sort=False):
        scores = [
            f"{_name(row['metric'])} {format_score(row['measured'])} against {format_score(row['without'])} ({format_test(row)})"
            for _, row in group.iterrows()
        ]
        at = f"{task}, trained on {trained_on}" if trained_on != task else task
        texts.append(f"{at}: {', '.join(scores)}")
    judged = table[table["task"].str.endswith("_flat") & (table["trained_on"] == table["task"])]
    holds = combine(judge_test(row, "higher", QUERY_GAINS[row["metric"]], FOLDS) for _, row in judged.iterrows())
    holds = weaken_of_sample(holds, judged["task"])
    return Evidence(holds, [*texts, "tested over folds, a training each"], describe_data(table, PAPER))


def judge_baselines(rows: MeasuredRows) -> Evidence:
    """Judge whether QS3M is above words and topics: significantly above SBERT, and they significantly below it.

    Where tests on neither side find a thing that they would find, signs decide, as weaker evidence.
    """
    table = read_results(rows)
    verdicts, differences, texts, compared = [], list[float](), [], []
    are_blind = True  # no test says that a difference of the paper's size is not there
    for metric, gain in (("auc_all", AUC_GAIN), ("ari", ARI_GAIN)):
        for _, row in _select_trained(table, metric).iterrows():
            others = select(table, method=BASELINES, metric=metric, task=row["task"])
            for _, other in others.iterrows():
                sides = judge_test(row, "higher", gain, FOLDS), judge_test(other, "lower", gain, FOLDS)
                are_blind &= Holds.FAILS not in sides
                differences.append(row["measured"] - other["measured"])
                verdicts.append(_join_sides(differences[-1], *sides))
            if len(others):
                compared.append(row)
                scores = ", ".join(f"{other.method} {format_score(other.measured)}" for other in others.itertuples())
                texts.append(f"{_name(metric)} {format_score(row['measured'])} against {scores} ({row['task']})")
    if not verdicts:
        return leave_untested(NOT_TRAINED)
    decided = sum(holds is Holds.HOLDS for holds in verdicts)
    text = f"tests on either side of SBERT decide {decided} of {len(verdicts)}"
    holds = combine(verdicts)
    if holds is Holds.UNTESTED and are_blind:
        higher = sum(difference > 0 for difference in differences)
        text += f", and QS3M is higher in {higher} of them"
        holds = weaken(judge_signs(differences))
    here = pd.DataFrame(compared)
    return Evidence(weaken_of_sample(holds, here["task"]), [*texts, text], describe_data(here, PAPER))


def _join_sides(difference: float, ours: Holds, theirs: Holds) -> Holds:
    """Join the tests of two sides against a third: both have to be significant, or nothing is decided."""
    if ours is theirs is Holds.HOLDS:
        return Holds.HOLDS
    if ours is theirs is Holds.FAILS and difference < 0:
        return Holds.FAILS
    return Holds.UNTESTED


def judge_arxiv(rows: MeasuredRows) -> Evidence:
    """Judge by signs on both folds, for each recipe that was trained, whether QS3M's AUC is above the cosine's."""
    table = rows("table_4")
    ours, cosines = select(table, method=OURS), select(table, method="SBERT cosine")
    pairs = ours.merge(cosines, on=["fold", "base"], suffixes=("", "_cosine")) if len(ours) and len(cosines) else ours
    if pairs.empty or cosines.empty:
        return leave_untested("QS3M is not trained on abstracts here")
    texts = [
        f"{name}: {' and '.join(map(format_score, group['measured']))} against "
        f"{' and '.join(map(format_score, group['measured_cosine']))}"
        for name, group in _split_recipes(pairs)
    ]
    holds = weaken(judge_signs(pairs["measured"] - pairs["measured_cosine"]))
    on = "arXiv, 7 subjects, folds 1 and 2; " + describe_data(pairs, "seven subjects, SBERT")
    return Evidence(holds, [f"AUC, {', '.join(texts)}", f"one training a fold, {NO_TEST}"], on)


def _split_recipes(pairs: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the rows of each recipe and its name; the paper's is known by its digest."""
    from traube.papers.qs3m.trainers import Qs3m

    names = {"": "Traube's recipe", Qs3m.with_values(**Qs3m.paper).make_digest(): "the paper's recipe"}
    for recipe, group in pairs.groupby(pairs["recipe"].astype(object).fillna(""), sort=False):
        yield names.get(recipe, f"recipe {recipe}"), group


def judge_clustering(rows: MeasuredRows) -> Evidence:
    """Judge by the rank correlation of AUC and ARI over ways of comparing, with its interval by a bootstrap over them."""
    table = read_results(rows)
    verdicts, texts, tasks = [], [], []
    for task, group in select(table, metric=("auc_all", "ari")).groupby("task", sort=False):
        ways = group.pivot_table(index=["method", "base", "recipe", "trained_on"], columns="metric", values="measured")
        ways = ways.reindex(columns=["auc_all", "ari"]).dropna()
        if len(ways) < 3:  # two points are always on a line
            continue
        rho = correlation("spearman", ways["auc_all"], ways["ari"])
        verdicts.append(Holds.HOLDS if rho.low > 0 else Holds.FAILS if rho.high < 0 else Holds.UNTESTED)
        interval = f"95 % CI {format_score(rho.low, 2)} to {format_score(rho.high, 2)}"
        texts.append(f"Spearman's rho {format_score(rho.value, 2)} ({interval}, {len(ways)} ways of comparing, {task})")
        tasks.append(str(task))
    if not verdicts:
        return leave_untested("too few ways of comparing are measured")
    holds = weaken_of_sample(combine(verdicts), tasks)
    return Evidence(holds, texts, describe_data(select(table, task=tasks), PAPER))


CLAIMS = (
    Claim(
        "QS3M improves ARI by 12 % on average over SBERT (its best query; by a title 4.5 %)",
        "4.3.2, table 2",
        judge_gain,
    ),
    Claim(
        "Incorporating the query improves the metric (title .289 ARI, no query .284)",
        "4.3.1, 4.3.2, table 2",
        judge_query,
    ),
    Claim("QS3M beats TF-IDF and topic models", "abstract, table 2", judge_baselines),
    Claim("Better pairwise similarity (AUC) leads to better clusters (ARI)", "4.3.2, table 2", judge_clustering),
    Claim(
        "Trained on arXiv alone, QS3M has AUC .773 and .734, SBERT's cosine .592 and .598", "5, table 4", judge_arxiv
    ),
)
