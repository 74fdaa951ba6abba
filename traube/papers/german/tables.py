"""The German Text Embedding Clustering Benchmark (Wehrli, Arnrich and Irrgang, KONVENS 2023): its tables, measured beside published.

Every table has one row a cell, with the columns `published` and `measured`; one of them is empty where the paper or this
installation has no such number, and `note` says why. What is printed wrong stays as printed; the note says what is right.
"""

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import pandas as pd

from traube.benchmark.current import current_cells
from traube.benchmark.params import Protocol
from traube.foundation.errors import TraubeError
from traube.foundation.files import digest, read_json
from traube.store import Store

TASKS = ("blurbs_s2s", "blurbs_p2p", "tenkgnad_s2s", "tenkgnad_p2p", "reddit_s2s", "reddit_p2p")
MAPPED, HIGHLIGHTED = "tenkgnad_p2p", "Wissenschaft"  # figure 1
KMEANS = "none/minibatch_kmeans"
AVERAGE = "average"
PROTOCOL = "paper"
METRIC = "v_measure/noise_as_cluster"
METHODS = ("wwm", "tsdae")  # of adaptive pre-training
COUNTS = ("unique", "splits", "rows_low", "rows_high", "classes_low", "classes_high", "characters")


def published(table: str) -> pd.DataFrame:
    """A table as it is printed: `table1`, `table2`, `table3`, `table5` or `errata`."""
    with files("traube.papers.german").joinpath("published", f"{table}.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file, comment="#")


def table_1(store: Store) -> pd.DataFrame:
    """The data sets: number of unique texts, splits, rows and classes of a split, and mean characters of a text in a split.

    Returns
    -------
    DataFrame task, column, published, measured, note
    """
    rows = []
    printed = published("table1").set_index("task")
    for task in TASKS:
        measured = _counts(store, task)
        for column in COUNTS:
            note = "" if measured else f"{task} has not been read here"
            rows.append((task, column, printed.loc[task, column], measured.get(column), note))
    return _with_errata(
        pd.DataFrame(rows, columns=["task", "column", "published", "measured", "note"]), "table_1", "task"
    )


def _counts(store: Store, name: str) -> dict[str, float]:
    card = store.card(name)
    if card is None or store.manifest(name) is None:
        return {}
    task = store.task(card)
    splits = list(task.test_splits())
    lengths = task.corpus["text"].str.len().to_numpy()
    classes = [s.classes or 0 for s in splits]
    return {
        "unique": len({row for s in splits for row in s.rows}),
        "splits": len(splits),
        "rows_low": min(s.size for s in splits),
        "rows_high": max(s.size for s in splits),
        "classes_low": min(classes),
        "classes_high": max(classes),
        # every row of every split counts, as in MTEB's statistics
        "characters": float(sum(lengths[s.rows].sum() for s in splits) / sum(s.size for s in splits)),
    }


def scores(store: Store, protocols: Mapping[str, Protocol]) -> pd.DataFrame:
    """What was measured under the protocol `paper`: the unweighted mean over all splits of the mean over seeds, x100 (A.3).

    Returns
    -------
    DataFrame task, model, method, measured
    """
    cells = current_cells(store, protocols, TASKS)
    cells = cells[(cells["protocol"] == PROTOCOL) & (cells["status"] == "done")]
    cells = cells.assign(method=cells["reducer"] + "/" + cells["clusterer"])
    values = store.scores(cells, [METRIC]).merge(cells[["cell_id", "task", "model", "method"]])
    keys = ["task", "model", "method"]
    by_split = values.groupby([*keys, "split", "level"])["value"].mean()
    return (100 * by_split.groupby(keys).mean()).rename("measured").reset_index()


def table_2(measured: pd.DataFrame, unavailable: Mapping[str, str]) -> pd.DataFrame:
    """Mini-batch k-means on the vectors as they are: model by task.

    Parameters
    ----------
    measured : from `scores`
    unavailable : by model or task, why it cannot be had here

    Returns
    -------
    DataFrame model, task, published, measured, note; an average only where all six tasks have a number
    """
    own = measured[measured["method"] == KMEANS].pivot_table(index="model", columns="task", values="measured")
    own = own.reindex(columns=list(TASKS))
    own[AVERAGE] = own.mean(axis=1, skipna=False)
    printed = published("table2").set_index("model")
    models = [*printed.index, *sorted(set(own.index) - set(printed.index))]
    return _beside(printed.reindex(models), own.reindex(models), "model", unavailable)


def table_3(measured: pd.DataFrame, unavailable: Mapping[str, str]) -> pd.DataFrame:
    """Method by task: the mean of the models that have every method on a task, which are named, beside the paper's twelve.

    Returns
    -------
    DataFrame method, task, published, measured, note
    """
    printed = published("table3").set_index("method")
    own = pd.DataFrame(index=sorted(measured["method"].unique()), columns=list(TASKS), dtype=float)
    models: dict[str, list[str]] = {}
    for task, rows in measured.groupby("task"):
        grid = rows.pivot_table(index="method", columns="model", values="measured").dropna(axis=1)
        models[str(task)] = sorted(grid.columns)
        own[task] = grid.mean(axis=1) if len(grid.columns) else float("nan")
    own[AVERAGE] = own[list(TASKS)].mean(axis=1, skipna=False)
    methods = [*printed.index, *sorted(set(own.index) - set(printed.index))]
    table = _beside(printed.reindex(methods), own.reindex(methods), "method", unavailable)
    there = table["measured"].notna() & (table["task"] != AVERAGE)
    table.loc[there, "note"] = [
        f"mean of {', '.join(models[task])}; published: of twelve others" for task in table.loc[there, "task"]
    ]
    return _with_errata(table.rename(columns={"task": "column"}), "table_3", "method").rename(
        columns={"column": "task"}
    )


def p2p_against_s2s(measured: pd.DataFrame) -> pd.DataFrame:
    """What whole texts give over titles, for each source of texts, model and method.

    Parameters
    ----------
    measured : from `scores`

    Returns
    -------
    DataFrame texts, model, method, s2s, p2p, difference; only where both are measured
    """
    split = measured["task"].str.rsplit("_", n=1, expand=True)
    table = measured.assign(texts=split[0], kind=split[1]) if len(measured) else measured.assign(texts="", kind="")
    wide_table = table.pivot_table(index=["texts", "model", "method"], columns="kind", values="measured")
    wide_table = wide_table.reindex(columns=["s2s", "p2p"]).dropna()
    return wide_table.assign(difference=wide_table["p2p"] - wide_table["s2s"]).reset_index().rename_axis(columns=None)


def adapted(folder: Path) -> pd.DataFrame:
    """What the trainings left in a folder of checkpoints, one row for each evaluation on the way, x100.

    Returns
    -------
    DataFrame model (the base), method, task, recipe (digest of what else it was trained by and on), seed, epochs (of the
    whole training), epoch, v_measure, checkpoint (of the last step)
    """
    rows = []
    for path in sorted(folder.glob("*-last/checkpoint.json")):
        about = read_json(path)
        if about.get("trainer") not in METHODS:
            continue
        recipe = about["config"]
        # what a row of the tables shares, besides what has a column of its own
        rest = digest([{k: v for k, v in recipe.items() if k not in ("seed", "epochs")}, about.get("texts")])[:6]
        for entry in about["curve"]:
            key = (about["base"], about["trainer"], about["task"], rest, recipe["seed"], recipe["epochs"])
            rows.append((*key, entry["epoch"], 100 * entry["v_measure"], path.parent.name))
    return pd.DataFrame(
        rows, columns=["model", "method", "task", "recipe", "seed", "epochs", "epoch", "v_measure", "checkpoint"]
    )


def table_5(trainings: pd.DataFrame) -> pd.DataFrame:
    """Adaptive pre-training: V-measure x100 of mini-batch k-means after the last step, mean of seeds, beside published.

    Parameters
    ----------
    trainings : from `adapted`

    Returns
    -------
    DataFrame model, method, epochs, task, recipe, published, measured, sd (population, over seeds), seeds, difference (to the model as it
    was), note
    """
    keys = ["model", "method", "epochs", "task"]
    rows = []
    for key, group in trainings.groupby([*keys, "recipe"]):
        last = group.sort_values("epoch").groupby("seed")["v_measure"].last()
        before = group.loc[group["epoch"] == 0, "v_measure"].mean()
        rows.append((*key, last.mean(), last.std(ddof=0), len(last), last.mean() - before))
    measured = pd.DataFrame(rows, columns=[*keys, "recipe", "measured", "sd", "seeds", "difference"])
    printed = published("table5").rename(columns={"mean": "published"})[[*keys, "published"]]
    table = printed.astype({"epochs": float}).merge(measured.astype({"epochs": float}), on=keys, how="outer")
    table["note"] = [
        "" if pd.notna(row.measured) else "an average of tasks" if row.task == AVERAGE else "not trained here"
        for row in table.itertuples()
    ]
    wrong = published("errata").set_index("table").loc["table_5"]
    at = (table["method"] == "wwm") & (table["epochs"] == 30) & (table["task"] == AVERAGE)
    table.loc[at, "note"] = (
        f"the difference is printed wrong: +{wrong['right']:g}, not +{wrong['printed']:g} ({wrong['why']})"
    )
    return table


def _beside(printed: pd.DataFrame, own: pd.DataFrame, row: str, unavailable: Mapping[str, str]) -> pd.DataFrame:
    rows = []
    for name in printed.index:
        for task in (*TASKS, AVERAGE):
            value = own.loc[name, task]
            note = "" if pd.notna(value) else unavailable.get(task) or unavailable.get(name) or _absent(task)
            rows.append((name, task, printed.loc[name, task], value, note))
    return pd.DataFrame(rows, columns=[row, "task", "published", "measured", "note"])


def _absent(task: str) -> str:
    return "not all six tasks are measured" if task == AVERAGE else "not evaluated here"


def _with_errata(table: pd.DataFrame, name: str, row: str) -> pd.DataFrame:
    errata = published("errata")
    for wrong in errata[errata["table"] == name].itertuples(index=False):
        at = (table[row] == wrong.row) & (table["column"] == wrong.column)
        said = f"printed wrong: {wrong.right:g} is right ({wrong.why})"
        table.loc[at, "note"] = [f"{note}; {said}" if note else said for note in table.loc[at, "note"]]
    return table


def wide(table: pd.DataFrame) -> pd.DataFrame:
    """A table for people: `published | measured` in each cell, rows as in the long form."""
    row, column = table.columns[:2]
    cells = table.assign(shown=[_shown(p, m) for p, m in zip(table["published"], table["measured"], strict=True)])
    order, columns = table[row].drop_duplicates(), table[column].drop_duplicates()
    return (
        cells.pivot_table(index=row, columns=column, values="shown", aggfunc="first").loc[order, columns].reset_index()
    )


def _shown(printed: float, measured: float) -> str:
    return " | ".join("–" if pd.isna(value) else f"{value:,.2f}".removesuffix(".00") for value in (printed, measured))


# The authors' own results, from which Table 3 can be computed again.

_COLUMNS = dict(
    zip(
        ("BlurbsClusteringS2S", "BlurbsClusteringSP2P", "10kGNADClusteringS2S", "10kGNADClusteringP2P",
         "RedditClusteringS2S", "RedditClusteringP2P"),
        TASKS,
        strict=True,
    )
)  # fmt: skip


def authors_results(path: Path) -> pd.DataFrame:
    """The authors' csv of all models and methods: model (as they write it), method and the six tasks, x100.

    A spreadsheet counted the names of two models up, from `-v2` to `-v15`; they are all the `-v2` model.

    Raises
    ------
    TraubeError
        If the file is not that csv.
    """
    try:
        frame = pd.read_csv(path, encoding="utf-8-sig").rename(columns=lambda c: " ".join(c.split()))
        frame = frame.rename(columns=_COLUMNS)
        names = frame["transformer"].map(lambda n: re.sub(r"^(paraphrase-multilingual-.*-v)\d+$", r"\g<1>2", n))
        reducer = frame["dimensionality reduction"].replace("-", "none")
        frame = frame.assign(model=names, method=reducer + "/" + frame["clustering algorithm"])
        return frame[["model", "method"]].join(100 * frame[list(TASKS)])
    except (KeyError, ValueError, OSError) as error:
        raise TraubeError(f"{path}: not the authors' table of results ({error})") from None
