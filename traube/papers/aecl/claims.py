"""Claims of the paper, and the rules by which they are judged.

The paper trains the encoder. Here most rows are of a frozen one, which is another method and so weak evidence; a row of
a trained encoder comes before it once it has two trainings.
"""

from collections.abc import Iterable
from functools import partial

import pandas as pd

from traube._reports.papers.claims import (
    FEWEST_TRAININGS,
    NO_TEST,
    Claim,
    Evidence,
    Holds,
    MeasuredRows,
    combine,
    count_trainings,
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
from traube.papers.aecl import figures, tables

WHOLE, FROZEN = "AECL", ", frozen encoder"
STAGE_2 = (
    25  # epochs with the labels of k-means where the encoder is frozen (`aecl_frozen`); the paper's recipe has 1 to 10
)
DEEP = ("SCCL", "RSTC", "STCC", "Self-Train")  # rivals of the paper that are trained
PLAIN = ("BOW", "TF-IDF", tables.KMEANS)
LEFT_OUT = {  # rivals that the paper does not have
    "GSDMM": "GSDMM, which finds the number of clusters,",
    "ECIC": "ECIC",
    "Smoothed k-means": "Smoothed k-means, which finds it too,",
}
ABLATED = 2  # sets of the paper's ablations
MOST_NAMED = 3  # sets
NEAR_ZERO = 0.1  # of a similarity that is 1 in all
NOT_TRAINED = "AECL is not trained here"


def choose_rows(table: pd.DataFrame, method: str) -> pd.DataFrame:
    """Return a row for each set, metric and encoder: of trainings of the encoder, or, where there is one or none, frozen."""
    if table.empty:
        return select(table, method=())
    rows = table[(table["method"] == method) | table["method"].str.startswith(f"{method}, ")]
    rank = 2 * (rows["seeds"] < FEWEST_TRAININGS) + rows["method"].str.endswith(FROZEN)
    keys = [name for name in ("task", "metric", "base") if name in rows]
    return rows.assign(rank=rank).sort_values("rank", kind="stable").drop_duplicates(keys).sort_index()


def _pair(rows: pd.DataFrame, others: pd.DataFrame) -> list[tuple[pd.Series, pd.Series]]:
    """Return each row with the other of its set, metric and encoder."""
    pairs = []
    for _, row in rows.iterrows():
        same = select(others, task=row["task"], metric=row["metric"], base=[row["base"]])
        pairs += [(row, other) for _, other in same.iloc[:1].iterrows()]
    return pairs


def _describe(rows: Iterable[pd.Series], sets: int) -> str:
    """Return how many sets and which encoders rows are of."""
    rows = list(rows)
    bases = dict.fromkeys(str(row["base"]) for row in rows if "base" in row.index and pd.notna(row["base"]))
    frozen = sum(row["method"].endswith(FROZEN) for row in rows)
    as_frozen = f"frozen, {STAGE_2} epochs of stage 2"
    state = as_frozen if frozen == len(rows) else "trained" if not frozen else f"{as_frozen}, or trained"
    tasks = dict.fromkeys(row["task"] for row in rows)
    names = ", ".join(tasks) if len(tasks) <= MOST_NAMED else f"{len(tasks)} sets"
    return f"{names}; {' '.join([*bases, state])} (paper: {sets} sets, DistilBERT trained)"


def _judge_pairs(cases: list[tuple[Holds, pd.Series]], sets: int) -> Holds:
    """Combine cases; they are weak evidence if an encoder is frozen, or if sets of the paper are missing."""
    is_strong = not any(row["method"].endswith(FROZEN) for _, row in cases)
    holds = combine(holds for holds, _ in cases)
    return holds if is_strong and len({row["task"] for _, row in cases}) >= sets else weaken(holds)


def _judge_case(tested: pd.Series, gain: float, expected: str, reported: float, trainings: float) -> Holds:
    """Judge a row by its test, or by the sign of the gain that the claim predicts."""
    if trainings < FEWEST_TRAININGS:
        return Holds.UNTESTED
    if has_test(tested):
        return judge_test(tested, "higher" if expected == "higher" else "lower", reported, trainings)
    return weaken(judge_signs([gain]))


def judge_against_kmeans(rows: MeasuredRows) -> Evidence:
    """Judge whether AECL is above k-means on the same encoder's vectors, by accuracy and NMI, on all sets."""
    table = select(rows("table_2"), metric=tables.PRINTED)
    pairs = _pair(choose_rows(table, WHOLE), select(table, method=tables.KMEANS))
    if not pairs:
        return leave_untested(NOT_TRAINED)
    printed = tables.published_results().set_index(["method", "task", "metric"])["published"]
    cases, counts, texts = [], [], []
    for metric in tables.PRINTED:
        gains: dict[str, float] = {}
        significant = {"higher": 0, "lower": 0}
        for row, other in (pair for pair in pairs if pair[0]["metric"] == metric):
            key = (row["task"], metric)
            gains[row["task"]] = row["measured"] - other["measured"]
            trainings = min(row["seeds"], other["seeds"])
            reported = printed[(WHOLE, *key)] - printed[(tables.KMEANS, *key)]
            cases.append((_judge_case(row, gains[row["task"]], "higher", reported, trainings), row))
            if has_test(row) and row["verdict"] in significant:
                significant[row["verdict"]] += 1
        if not gains:
            continue
        tests = f"{significant['higher']} significantly" if any(has_test(row) for row, _ in pairs) else NO_TEST
        lower = {task: gain for task, gain in gains.items() if gain <= 0}
        counts.append(f"{metric.upper()} higher on {len(gains) - len(lower)} of {len(gains)} sets ({tests})")
        if lower:
            below = ", ".join(f"{task} {format_points(gain)}" for task, gain in lower.items())
            texts.append(f"{metric.upper()} lower on {below} ({significant['lower']} significantly)")
    is_trained = (table["method"].str.partition(",")[0] == WHOLE) & ~table["method"].str.endswith(FROZEN)
    once = select(table[is_trained & (table["seeds"] < FEWEST_TRAININGS)], metric="acc")
    texts += [f"encoder trained once: {row.task} ACC {row.measured:.1f}" for row in once.itertuples()]
    holds = _judge_pairs(cases, len(tables.TASKS))
    findings = [", ".join(counts), *texts]
    return Evidence(holds, findings, _describe((row for row, _ in pairs), len(tables.TASKS)))


def judge_against_rivals(rows: MeasuredRows) -> Evidence:
    """Judge by signs whether AECL has the highest accuracy on sets where a trained rival of the paper is measured."""
    table = select(rows("table_2"), metric="acc")
    if table.empty:
        return leave_untested(NOT_TRAINED)
    names = table["method"].str.partition(",")[0]
    ours, gains, beside = choose_rows(table, WHOLE), [], []
    for _, row in ours.iterrows():
        rivals = table[names.isin([*DEEP, *PLAIN]) & (table["task"] == row["task"])]
        if not names[rivals.index].isin(DEEP).any():
            continue
        best = rivals["measured"].idxmax()
        gain = row["measured"] - rivals["measured"][best]
        gains.append((row, gain))
        trained = "" if names[best] in PLAIN else f", {count_trainings(rivals['seeds'][best])}"
        beside.append(f"{row['task']} {row['measured']:.1f} ({format_points(gain)} beside {names[best]}{trained})")
    if not gains:
        return leave_untested(f"none of {', '.join(DEEP)} is trained here beside AECL")
    texts = [
        f"ACC above all of the paper's rivals on {sum(gain > 0 for _, gain in gains)} of {len(gains)} sets",
        f"beside the best of them: {', '.join(beside)}",
    ]
    for name, described in LEFT_OUT.items():
        others = table[names == name].set_index("task")["measured"]
        higher = [row for _, row in ours.iterrows() if (others[others.index == row["task"]] > row["measured"]).any()]
        if len(others):
            texts.append(f"{described} higher on {len(higher)} of {len(ours)} sets, and not in the paper")
    enough = [gain for row, gain in gains if row["seeds"] >= FEWEST_TRAININGS]
    on = _describe((row for row, _ in gains), len(tables.TASKS))
    return Evidence(weaken(judge_signs(enough)), [*texts, NO_TEST], on)


def judge_ablation(name: str, rows: MeasuredRows, methods: tuple[str, ...]) -> Evidence:
    """Judge whether accuracy and NMI are lower without a part, on all sets."""
    table = select(rows(name), metric=tables.PRINTED)
    printed = tables.published_results(name).groupby(["method", "metric"])["published"].mean()
    cases, texts = [], []
    for method in methods:
        for row in (row for _, row in choose_rows(table, method).iterrows()):
            encoder = FROZEN if row["method"].endswith(FROZEN) else ""
            wholes = select(table, method=WHOLE + encoder, task=row["task"], metric=row["metric"], base=[row["base"]])
            if wholes.empty:
                continue
            loss = wholes["measured"].iloc[0] - row["measured"]
            trainings = min(row["seeds"], wholes["seeds"].iloc[0])
            reported = printed[(WHOLE, row["metric"])] - printed[(method, row["metric"])]
            cases.append((_judge_case(row, loss, "lower", reported, trainings), row))
            if row["metric"] == "acc":
                test = format_test(row, "{:.1f}".format) if has_test(row) else count_trainings(trainings)
                part = f"{method}, " if len(methods) > 1 else ""
                texts.append(f"{part}{row['task']} {format_points(-loss)} ({test})")
    if not cases:
        return leave_untested("AECL is not trained here both with and without this")
    findings = [f"ACC without: {', '.join(texts)}"]
    if not any(has_test(row) for _, row in cases):
        findings.append(NO_TEST)
    return Evidence(_judge_pairs(cases, ABLATED), findings, _describe((row for _, row in cases), ABLATED))


def judge_attention(rows: MeasuredRows) -> Evidence:
    """Judge whether similarity to other classes (NS) is near 0 after the contrast alone, as in the paper.

    In part if it is but lower than without equation 7. After other losses too it is another experiment.
    """
    measured = rows("similarity")
    table = select(measured, metric=figures.NS_OF_CONTRAST)
    ours = choose_rows(table, WHOLE)
    ends = [
        f"{row['task']} {format_score(row['measured'], 2)}"
        for _, row in choose_rows(select(measured, metric="ns"), WHOLE).iterrows()
    ]
    in_the_end = f"after all stages {', '.join(ends)}"
    if ours.empty:
        none = "what AECL's attention finds alike after the contrast alone is not in a table"
        return leave_untested(f"{none}; {in_the_end}" if ends else none)
    cases, texts, alike = [], [], len(set(ours["seeds"])) == 1
    for _, row in ours.iterrows():
        encoder = FROZEN if row["method"].endswith(FROZEN) else ""
        without = select(table, method=f"No IC{encoder}", task=row["task"])
        is_lower = len(without) > 0 and row["measured"] < without["measured"].min()
        holds = Holds.HOLDS if row["measured"] <= NEAR_ZERO else Holds.PARTLY if is_lower else Holds.FAILS
        cases.append((holds if row["seeds"] >= FEWEST_TRAININGS else Holds.UNTESTED, row))
        beside = f", without equation 7 {format_score(without['measured'].min(), 2)}" if len(without) else ""
        trained = "" if alike else f" ({count_trainings(row['seeds'])})"
        texts.append(f"{row['task']} {format_score(row['measured'], 2)}{beside}{trained}")
    on = _describe((row for _, row in cases), len(tables.TASKS))
    each = f" ({count_trainings(ours['seeds'].iloc[0])} each)" if alike else ""
    findings = [f"NS after the contrast alone: {', '.join(texts)}{each}", in_the_end, NO_TEST]
    return Evidence(_judge_pairs(cases, len(tables.TASKS)), findings, on)


CLAIMS = (
    Claim("AECL is above k-means on SBERT in accuracy and NMI on all eight sets", "4.5, table 2", judge_against_kmeans),
    Claim(
        "AECL outperforms the best earlier results on six sets and matches them on two",
        "4.5, table 2",
        judge_against_rivals,
    ),
    Claim(
        "Without similarity-guided contrast (equation 7) accuracy falls by 4.2 and 4.3 points (SearchSnippets, Stack Overflow)",
        "4.8.1, table 3",
        partial(judge_ablation, "table_3", methods=("No IC",)),
    ),
    Claim(
        "Stage 1 is critical: without it accuracy falls by 18 and 4 points (SearchSnippets, Stack Overflow)",
        "4.8.2, table 4",
        partial(judge_ablation, "table_4", methods=("No Stage 1",)),
    ),
    Claim(
        "Stage 2 is critical: without it accuracy falls by 27 and 39 points",
        "4.8.2, table 4",
        partial(judge_ablation, "table_4", methods=("No Stage 2",)),
    ),
    Claim(
        "Pseudo-labels are crucial: without them accuracy falls by 24 and 37 points",
        "4.8.3, table 5",
        partial(judge_ablation, "table_5", methods=("No PG",)),
    ),
    Claim(
        "The entropy constraint makes pseudo-labels more reliable: .9 and .6 points of accuracy",
        "4.8.3, table 5",
        partial(judge_ablation, "table_5", methods=("No RC",)),
    ),
    Claim(
        "After brief training attention gives other classes almost nothing (NS near 0)",
        "4.7, figure 6",
        judge_attention,
    ),
)
