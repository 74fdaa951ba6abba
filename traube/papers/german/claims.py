"""Claims of the paper, and the rules by which they are judged.

Tables 2 and 3 have no test, so that their claims are judged by signs: on each data set, for the mean of models and for
each model for German alone. The data here are three of the paper's six sets, a tenth of their size.
"""

import math
from collections.abc import Iterable
from functools import partial

import pandas as pd

from traube._reports.papers.claims import (
    NO_TEST,
    Claim,
    Evidence,
    Holds,
    MeasuredRows,
    combine,
    count_trainings,
    find_interval,
    format_percent,
    judge_signs,
    judge_size,
    leave_untested,
    select,
    weaken,
)

SETS = 6  # the paper's
ENOUGH = 3  # of these; fewer are weak evidence
SOURCES = ("blurbs", "tenkgnad", "reddit")
SPACES = ("none", "pca", "umap")
CLUSTERERS = {"minibatch_kmeans": "k-means", "agglomerative": "agglomerative"}
BASE = "gbert_base"  # the model that the paper adapts
NOISE = 30  # percent of texts
NOT_MEASURED = "table 3 is measured on none of the data sets"


def read_methods(rows: MeasuredRows) -> dict[str, pd.DataFrame]:
    """Return table 3, task by method, for the mean of models and for each model that has rows of its own."""
    table = rows("table_3")
    if table.empty:
        return {}
    table = table[table["task"] != "average"]
    split = table["method"].str.rpartition(" with ")
    notes = table.get("note", pd.Series("", index=table.index)).fillna("")
    # the note of a mean begins with its models: `mean of lsa, minilm; published: of twelve others`
    names = split[0].where(split[0] != "", notes.str.partition(";")[0])
    table = table.assign(models=names, method=split[2])
    return {
        str(name): group.pivot_table(index="task", columns="method", values="measured")
        for name, group in table.groupby("models", sort=False)
    }


def _describe(grids: dict[str, pd.DataFrame]) -> str:
    tasks = dict.fromkeys(task for grid in grids.values() for task in grid.index)
    return f"{', '.join(tasks)}; {'; '.join(grids)} (paper: six sets, mean of twelve models)"


def _weaken_if_few(holds: Holds, tasks: Iterable[str]) -> Holds:
    return holds if len(set(tasks)) >= ENOUGH else weaken(holds)


def judge_umap(rows: MeasuredRows) -> Evidence:
    """Judge whether UMAP raises both algorithms on every data set."""
    grids, gains, texts, tasks = read_methods(rows), [], [], set()
    for name, grid in grids.items():
        changes = []
        for clusterer, label in CLUSTERERS.items():
            pair = grid.reindex(columns=[f"none/{clusterer}", f"umap/{clusterer}"]).dropna()
            if pair.empty:
                continue
            plain, reduced = pair.mean()
            changes.append(f"{label} {format_percent(reduced / plain - 1)}")
            gains += list(pair.iloc[:, 1] - pair.iloc[:, 0])
            tasks |= set(pair.index)
        if changes:
            texts.append(f"{', '.join(changes)} ({name})")
    if not gains:
        return leave_untested(NOT_MEASURED)
    counted = f"higher in {sum(gain > 0 for gain in gains)} of {len(gains)} cases"
    return Evidence(_weaken_if_few(judge_signs(gains), tasks), [*texts, counted, NO_TEST], _describe(grids))


def judge_pca(rows: MeasuredRows) -> Evidence:
    """Judge whether PCA has the lowest scores of no reduction, PCA and UMAP, on every data set."""
    grids, losses, texts, tasks = read_methods(rows), [], [], set()
    for name, grid in grids.items():
        of_models: list[float] = []
        for clusterer in CLUSTERERS:
            spaces = grid.reindex(columns=[f"{space}/{clusterer}" for space in SPACES]).dropna()
            of_models += list(spaces.drop(columns=f"pca/{clusterer}").min(axis=1) - spaces[f"pca/{clusterer}"])
            tasks |= set(spaces.index)
        if of_models:
            lowest = sum(loss > 0 for loss in of_models)
            texts.append(f"lowest in {lowest} of {len(of_models)} cases ({name})")
        losses += of_models
    if not losses:
        return leave_untested(NOT_MEASURED)
    findings = [*texts, "k-means and agglomerative, against none and UMAP", NO_TEST]
    return Evidence(_weaken_if_few(judge_signs(losses), tasks), findings, _describe(grids))


def judge_hdbscan(rows: MeasuredRows) -> Evidence:
    """Judge whether HDBSCAN is the worst algorithm on UMAP's vectors on all data sets but one, as in the paper."""
    grids, verdicts, texts, tasks = read_methods(rows), [], [], set()
    for name, grid in grids.items():
        algorithms = [f"umap/{algorithm}" for algorithm in (*CLUSTERERS, "dbstream", "hdbscan")]
        scores = grid.reindex(columns=algorithms).dropna()
        if scores.empty:
            continue
        worst = int((scores.idxmin(axis=1) == "umap/hdbscan").sum())
        # of one or two sets "all but one" says little
        holds = Holds.HOLDS if worst >= max(len(scores) - 1, 1) else Holds.PARTLY if worst else Holds.FAILS
        verdicts.append(holds)
        texts.append(f"worst on {worst} of {len(scores)} sets ({name})")
        tasks |= set(scores.index)
    if not verdicts:
        return leave_untested(NOT_MEASURED)
    holds = combine(verdicts)
    # fewer than the paper's sets cannot show that it is so on all but one
    return Evidence(weaken(holds) if len(tasks) < SETS else holds, [*texts, NO_TEST], _describe(grids))


def judge_noise(rows: MeasuredRows) -> Evidence:
    """Judge whether HDBSCAN calls more than 30 % of the texts noise in any case."""
    table = rows("noise")
    cases = table[table["method"].str.endswith("/hdbscan")] if len(table) else table
    if cases.empty:
        return leave_untested("which texts are noise is not counted")
    above = int((cases["measured"] > NOISE).sum())
    text = (
        f"{above} of {len(cases)} cases: {cases['measured'].min():.0f} to {cases['measured'].max():.0f} %, "
        f"median {cases['measured'].median():.0f} %"
    )
    holds = Holds.HOLDS if above else _weaken_if_few(Holds.FAILS, cases["task"])
    on = f"{', '.join(cases['task'].unique())}; {', '.join(cases['model'].unique())} (paper: six sets, twelve models)"
    return Evidence(holds, [text], on)


def judge_whole_texts(rows: MeasuredRows) -> Evidence:
    """Judge whether every model scores higher on whole texts than on titles of the same source."""
    table = rows("table_2")
    if table.empty:
        return leave_untested("table 2 is measured on none of the data sets")
    grid = table.pivot_table(index="model", columns="task", values="measured")
    gains = {
        source: (grid[f"{source}_p2p"] - grid[f"{source}_s2s"]).dropna()
        for source in SOURCES
        if {f"{source}_p2p", f"{source}_s2s"} <= set(grid)
    }
    gains = {source: gain for source, gain in gains.items() if len(gain)}
    if not gains:
        return leave_untested("no source has titles and whole texts here")
    together = pd.concat(gains)
    holds = judge_signs(together)
    findings = [
        f"higher for {(together > 0).sum()} of {len(together)} models and sources, by {together.min():.1f} to "
        f"{together.max():.1f} points",
        f"{len(gains)} of {len(SOURCES)} sources",
        NO_TEST,
    ]
    models = ", ".join(dict.fromkeys(together.index.get_level_values(1)))
    on = f"{', '.join(gains)}; {models} (paper: three sources, twelve models)"
    return Evidence(holds if len(gains) == len(SOURCES) else weaken(holds), findings, on)


def judge_adaptation(method: str, kind: str, epochs: range, reported: float, rows: MeasuredRows) -> Evidence:
    """Judge a gain by further training: its interval over trainings beside the gain that the paper reports.

    The claim is about GBERT-base and the mean of three data sets. Of other models a gain of that size supports it, and
    a smaller one neither supports nor refutes it; fewer data sets are weak evidence.
    """
    table = select(rows("table_5"), method=method)
    if len(table):
        at = table["task"].str.endswith(f"_{kind}") & table["epochs"].isin(epochs) & table["difference"].notna()
        table = table[at]
    if table.empty:
        return leave_untested(f"{method} is not trained here for so many epochs on {kind} texts")
    of_base = select(table, model=BASE)
    table = of_base if len(of_base) else table
    verdicts, texts = [], []
    tasks = table["task"].unique()
    for row in table.itertuples():
        before = row.measured - row.difference
        low, high = (end / before for end in find_interval(row.difference, row.sd, row.seeds))
        verdicts.append(judge_size(low, high, reported))
        interval = "" if math.isnan(low) else f", 95 % CI over them {format_percent(low)} to {format_percent(high)}"
        gain = format_percent(row.difference / before)
        what = f"{row.model} on {row.task}" if len(tasks) > 1 else row.model
        texts.append(
            f"{gain} ({what}, {row.epochs:g} epoch{'' if row.epochs == 1 else 's'}, {count_trainings(row.seeds)}{interval})"
        )
    holds = combine(verdicts)
    on = f"{', '.join(tasks)}; {', '.join(table['model'].unique())} (paper: GBERT-base, mean of three sets)"
    if of_base.empty:
        holds = Holds.PARTLY if holds is Holds.HOLDS else Holds.UNTESTED
        return Evidence(holds, [f"GBERT-base is not trained here: {texts[0]}", *texts[1:]], on)
    return Evidence(holds if len(tasks) == len(SOURCES) else weaken(holds), texts, on)


CLAIMS = (
    Claim("UMAP improves mini-batch k-means and agglomerative clustering by 13 to 15 % on average", "4.2, table 3", judge_umap),
    Claim("PCA-reduced vectors give the worst results by far", "4.2, table 3", judge_pca),
    Claim("On UMAP's vectors HDBSCAN is the worst algorithm on five of six sets", "4.2, table 3", judge_hdbscan),
    Claim("In some cases HDBSCAN calls more than 30 % of the data noise", "4.2", judge_noise),
    Claim("All models score higher on whole texts than on titles", "4.1, table 2", judge_whole_texts),
    Claim(
        "TSDAE improves GBERT-base by 31 % on titles after about one epoch",
        "4.3, figure 2",
        partial(judge_adaptation, "tsdae", "s2s", range(1, 3), 0.31),
    ),
    Claim(
        "Whole-word masking improves GBERT-base by 30 % on titles after about 10 epochs",
        "4.3, figure 2",
        partial(judge_adaptation, "wwm", "s2s", range(10, 11), 0.30),
    ),
    Claim(
        "Whole-word masking improves GBERT-base by 15 % on whole texts after 30 epochs",
        "4.3, figure 2",
        partial(judge_adaptation, "wwm", "p2p", range(30, 31), 0.15),
    ),
)  # fmt: skip
