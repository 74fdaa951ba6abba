"""What the paper claims, and whether it holds here.

A test counts trainings (`detectable`); of tables whose p-value is older, differences alone are judged, as untested.
"""

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


def find_triplet(table: pd.DataFrame, row: pd.Series) -> pd.Series | None:
    """Return the Triplet that a row stands against: the one that it names, or the only one of its encoder."""
    rivals = select(table, method=TRIPLET, task=row["task"], metric=row["metric"])
    if isinstance(row["base"], str):
        rivals = select(rivals, base=row["base"])
    against = row.get("against")
    if isinstance(against, str) and against:
        recipe = against.partition(" ")[2]
        rivals = rivals[rivals["recipe"].astype(object).fillna("") == recipe]
    return rivals.iloc[0] if len(rivals) == 1 else None


def _judge_pair(row: pd.Series, rival: pd.Series, reported: float) -> Holds:
    """Judge COB against Triplet by the test, or by the sign where trainings were not tested."""
    trainings = min(row["seeds"], rival["seeds"])
    if has_test(row):
        return judge_test(row, "higher", reported, trainings)
    if trainings < FEWEST_TRAININGS:
        return Holds.UNTESTED
    return weaken(judge_signs([row["measured"] - rival["measured"]]))


def _describe_pair(row: pd.Series, rival: pd.Series) -> str:
    scores = [
        format_score(r["measured"]) + (f" ± {format_score(r['sd'])}" if r["seeds"] > 1 else "") for r in (row, rival)
    ]
    difference = format_points(100 * (row["measured"] - rival["measured"]))
    test = format_test(row) if has_test(row) else "not tested by trainings"
    return f"{row['metric'].upper()} {scores[0]} against {scores[1]}, {difference} points ({test})"


def judge_against_triplet(
    name: str, tasks: tuple[str, ...], reported: dict[str, float], rows: MeasuredRows
) -> Evidence:
    """Judge whether COB scores higher than Triplet; where the paper's data set is not measured, on the public sample."""
    table = rows(name)
    here = next((task for task in tasks if len(select(table, task=task, method="cob"))), None)
    if here is None:
        return leave_untested("COB is not trained on this task here")
    cobs = select(table, task=here, method="cob", metric=list(reported))
    pairs = [(row, rival) for _, row in cobs.iterrows() if (rival := find_triplet(table, row)) is not None]
    if not pairs:
        return leave_untested("no Triplet of the same encoder is trained here")
    holds = combine(_judge_pair(row, rival, reported[row["metric"]]) for row, rival in pairs)
    text = "; ".join(_describe_pair(row, rival) for row, rival in pairs)
    trainings = min(min(row["seeds"], rival["seeds"]) for row, rival in pairs)
    text = f"{text}; {count_trainings(trainings)} each"
    untrained = select(table, task=here, method="as it is", metric=list(reported), base=cobs["base"].unique())
    if len(untrained):  # the encoder without any head may be above both
        scores = ", ".join(f"{row.metric.upper()} {format_score(row.measured)}" for row in untrained.itertuples())
        text = f"{text}; the encoder as it is: {scores}"
    for metric, rivals in select(table, task=here, method=TRIPLET, metric=list(reported)).groupby("metric", sort=False):
        compared = max(rival["measured"] for row, rival in pairs if row["metric"] == metric)
        if rivals["measured"].max() > compared:  # the reader should know of a better Triplet than the one compared
            text = f"{text}; Triplet by another recipe: {metric.upper()} {format_score(rivals['measured'].max())}"
            if rivals["measured"].max() >= select(cobs, metric=metric)["measured"].max():
                holds = weaken(holds)
    if here != tasks[0]:
        holds = weaken(holds)
    paper = "DistilBERT" if here == tasks[0] else "DistilBERT, articles of TREC CAR"
    return Evidence(holds, text, describe_data(cobs, paper))


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
    text = "; ".join(f"{method} {', '.join(map(format_score, sorted(values)))}" for method, values in scores.items())
    tests = [format_test(row) for _, row in baselines.iterrows() if has_test(row)]
    test = "; ".join(dict.fromkeys(tests)) or "not tested by trainings"
    return Evidence(combine(verdicts), f"ARI: {text}; {test}", describe_data(baselines, "DistilBERT"))


def judge_time(measure: str, tasks: str, at_least: float, rows: MeasuredRows) -> Evidence:
    """Judge how many times as long Triplet takes: it holds at the size that is reported, in part if COB is sooner."""
    table = select(rows("convergence"), measure=measure)
    table = table[table["task"].str.contains(tasks)] if len(table) else table
    if table.empty:
        return leave_untested("the times of trainings are not in a table")
    verdicts, texts = [], []
    for row in table.itertuples():
        low, high = find_interval(row.measured, row.sd, row.seeds)
        if row.seeds < FEWEST_TRAININGS or low <= 1 <= high:
            verdicts.append(Holds.UNTESTED)
        elif row.measured <= 1:
            verdicts.append(Holds.FAILS)
        else:
            verdicts.append(Holds.HOLDS if row.measured >= at_least else Holds.PARTLY)
        interval = f", 95 % CI {low:.1f} to {high:.1f}" if row.seeds >= FEWEST_TRAININGS else ""
        texts.append(f"{row.measured:.1f} times ({row.task}, {count_trainings(row.seeds)}{interval})")
    notes = dict.fromkeys(note for note in table.get("note", ()) if isinstance(note, str) and note)
    on = describe_data(table, "20NG and CAR, DistilBERT, a Titan XP")
    return Evidence(combine(verdicts), "; ".join(texts), "; ".join([on, *notes]))


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
