"""The German benchmark's tables: the printed numbers, and the same numbers measured here, x100 where they are scores."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from traube._core.errors import TraubeError
from traube._core.hashing import digest
from traube._pipeline.current import current_cells
from traube._reports.papers.context import Context, describe_recipe
from traube._reports.papers.published import Published, stack_grid
from traube._reports.papers.spec import TESTED, UNTESTED, count_split_sizes, describe_test, deviation
from traube._reports.tables import metric_of
from traube.comparison.verdict import compare_paired
from traube.components.method import name_methods
from traube.models import model_cards
from traube.papers.german.spread import MEASURES, spread
from traube.tasks.stored import get_card, read_task

TASKS = ("blurbs_s2s", "blurbs_p2p", "tenkgnad_s2s", "tenkgnad_p2p", "reddit_s2s", "reddit_p2p")
KMEANS = "none/minibatch_kmeans"
AVERAGE = "average"
PROTOCOL = "paper"
METRIC = "v_measure/noise_as_cluster"
METHODS = ("wwm", "tsdae")  # of adaptive pre-training
SIZES = ("unique", "splits", "rows_low", "rows_high", "classes_low", "classes_high", "characters")

MOST_MODELS = 30  # whose wins are compared
WINS = (
    *("task", "protocol", "method", "a", "b", "level", "splits", "a_wins", "b_wins", "mean_difference"),
    *("size_where_a_wins", "size_where_b_wins", "classes_where_a_wins", "classes_where_b_wins"),
)
SPREAD = ["sd", "seeds"]  # of means over splits, by seed

published = Published(__package__)


def sizes(context: Context) -> pd.DataFrame:
    """Measure table 1, unique texts, splits, rows and classes of a split, characters of a text.

    The columns are task, column, measured, note.
    """
    grid = pd.DataFrame({task: _measure_sizes(context, task) for task in TASKS}, index=list(SIZES)).T
    table = stack_grid(grid, "task", "column", "measured")
    return table.assign(note=table["task"].map(context.explain_unread(TASKS)).fillna(""))


def _measure_sizes(context: Context, name: str) -> pd.Series:
    task = context.task(name)
    if task is None:
        return pd.Series(dtype=float)
    tested = task.splits[(task.splits["part"] == "test") & (task.splits["split_set"] == "default")]
    by_split = count_split_sizes(tested)
    lengths = task.corpus.set_index("text_id")["text"].str.len()
    return pd.Series(
        {
            "unique": tested["text_id"].nunique(),
            "splits": len(by_split),
            "rows_low": by_split["rows"].min(),
            "rows_high": by_split["rows"].max(),
            "classes_low": by_split["classes"].min(),
            "classes_high": by_split["classes"].max(),
            # every row of every split counts, as in MTEB's statistics
            "characters": float(tested["text_id"].map(lengths).sum() / len(tested)),
        }
    )


def mark_whole(measure: Callable[[Context], pd.DataFrame], context: Context) -> pd.DataFrame:
    """Measure a table, and mark the tasks of which as many texts are at hand as table 1 prints: the paper's data."""
    printed = published("table1").set_index("task")["unique"]
    whole = {task: "yes" for task in TASKS if _measure_sizes(context, task).get("unique") == printed[task]}
    if len(whole) == len(TASKS):
        whole[AVERAGE] = "yes"
    rows = measure(context)
    return rows.assign(same_data=rows["task"].map(whole))


def scores(context: Context) -> pd.DataFrame:
    """Return the unweighted mean over splits of the mean over seeds, x100, by `paper`: task, model, method, measured.

    Beside it stand sd and seeds, of the mean over splits by each seed, where a method has any. Models that were adapted to a
    task stand in table 5 alone.
    """
    cells = context.cells(TASKS, PROTOCOL)
    adapted = [name.removesuffix("last") + step for name, _ in context.trainings(*METHODS) for step in ("last", "best")]
    cells = cells[~cells["model"].isin(adapted)]
    values = context.storage.read_scores(cells, [METRIC]).merge(cells[["cell_id", "task", "model", "method", "seed"]])
    keys = ["task", "model", "method"]
    by_split = values.groupby([*keys, "split", "level"])["value"].mean()
    by_seed = 100 * values.groupby([*keys, "seed"])["value"].mean()
    spread = by_seed.groupby(keys).agg(sd=deviation, seeds="size")
    return (100 * by_split.groupby(keys).mean()).rename("measured").to_frame().join(spread).reset_index()


def published_noise() -> pd.DataFrame:
    """Return the printed shares of noise, of which the text names none by model or task: model, method, task, published."""
    return pd.DataFrame(columns=["model", "method", "task", "published"]).astype({"published": float})


def noise(context: Context) -> pd.DataFrame:
    """Measure the percent of texts that HDBSCAN calls noise, mean over splits and seeds: model, method, task, measured."""
    cells = context.cells(TASKS, PROTOCOL)
    cells = cells[cells["method"].str.endswith("/hdbscan")]
    values = context.storage.read_scores(cells, ["noise_share"]).merge(cells[["cell_id", "task", "model", "method"]])
    keys = ["model", "method", "task"]
    return (100 * values.groupby(keys)["value"].mean()).rename("measured").reset_index()


def published_kmeans() -> pd.DataFrame:
    """Return table 2 as it is printed, with the same cells in the authors' files and in MTEB's stored results.

    The columns are model, task, published, authors, mteb, note.
    """
    results = published("authors").query("method == @KMEANS").set_index("model")
    stored = published("mteb").rename(columns={"v_measure": "mteb"})[["model", "task", "mteb"]]
    table = _join_authors(published.grid("table2", "model", "task"), results[list(TASKS)], "model")
    return table.merge(stored, how="left", on=["model", "task"])


def published_methods() -> pd.DataFrame:
    """Return table 3 as printed, with the mean of twelve models in the authors' files.

    The columns are method, task, published, authors, note.
    """
    means = published("authors").groupby("method")[list(TASKS)].mean()
    return _join_authors(published.grid("table3", "method", "task"), means, "method")


def _join_authors(printed: pd.DataFrame, results: pd.DataFrame, row: str) -> pd.DataFrame:
    """Return a printed table with the column `authors`: their results, row by task, and the average of a row."""
    results = results.assign(**{AVERAGE: results.mean(axis=1)})
    return printed.merge(stack_grid(results, row, "task", "authors"), how="left", on=[row, "task"])


def kmeans(measured: pd.DataFrame, unavailable: Mapping[str, str]) -> pd.DataFrame:
    """Return table 2, mini-batch k-means on the vectors as they are.

    The columns are model (the paper's and others), task, measured, note, sd, seeds. An average stands only where all six tasks
    have a number. `measured` is from `scores`; `unavailable` says by model or task why it cannot be had here.
    """
    grid = measured[measured["method"] == KMEANS].pivot_table(index="model", columns="task", values="measured")
    table = _explain_gaps(grid, list(published("table2")["model"]), "model", unavailable)
    weight_notes, there = table["model"].map(_describe_weights()), table["measured"].notna()
    table = table.assign(note=weight_notes.where(weight_notes.notna() & there, table["note"]))
    return table.merge(measured.loc[measured["method"] == KMEANS, ["model", "task", *SPREAD]], how="left")


def _describe_weights() -> dict[str, str]:
    """Return what cards say of models whose weights are others than the published ones, by name."""
    return {name: card.description for name, card in model_cards().items() if card.kind == "packaged"}


def methods(measured: pd.DataFrame, unavailable: Mapping[str, str]) -> pd.DataFrame:
    """Return table 3, means of the models that have every method on a task: method, task, measured, note, sd, seeds.

    The note names these models. Models for German that are not the paper's have rows of their own instead. Parameters
    are those of `kmeans`.
    """
    alone = {
        str(name): rows.pivot_table(index="method", columns="task", values="measured").rename(
            f"{name} with {{}}".format
        )
        for name, rows in measured.groupby("model")
        if _is_another_for_german(str(name))
    }
    together = measured[~measured["model"].isin(list(alone))]
    grid = pd.DataFrame(index=sorted(together["method"].unique()), columns=list(TASKS), dtype=float)
    models: dict[str, str] = {}
    for task, rows in together.groupby("task"):
        complete = rows.pivot_table(index="method", columns="model", values="measured").dropna(axis=1)
        models[str(task)] = ", ".join(sorted(complete.columns))
        grid[task] = complete.mean(axis=1) if len(complete.columns) else float("nan")
    table = _explain_gaps(
        pd.concat([grid, *alone.values()]), list(published("table3")["method"]), "method", unavailable
    )
    there, weights = table["measured"].notna() & (table["task"] != AVERAGE), _describe_weights()
    of_one = {row: weights.get(name, "one model alone") for name, rows in alone.items() for row in rows.index}
    table.loc[there, "note"] = [
        of_one.get(method) or f"mean of {models[task]}; published: of twelve others"
        for method, task in table.loc[there, ["method", "task"]].itertuples(index=False)
    ]
    names = measured["model"] + " with " + measured["method"]
    return table.merge(measured.assign(method=names)[["method", "task", *SPREAD]], how="left")


def _is_another_for_german(name: str) -> bool:
    """Return whether a model was made for German, and is not one of the paper's."""
    card = model_cards().get(name)
    if card is None or name in set(published("table2")["model"]):
        return False
    return bool(card.languages) and card.is_made_for(("de",))


def _explain_gaps(grid: pd.DataFrame, first: Sequence[str], row: str, unavailable: Mapping[str, str]) -> pd.DataFrame:
    """Return a grid of the six tasks and their average, one number a row, with a note where a number is not there."""
    grid = grid.reindex(index=[*first, *sorted(set(grid.index) - set(first))], columns=list(TASKS))
    grid[AVERAGE] = grid.mean(axis=1, skipna=False)
    table = stack_grid(grid, row, "task", "measured")
    others = {AVERAGE: "not all six tasks are measured"}
    notes = [
        ""
        if pd.notna(value)
        else unavailable.get(task) or unavailable.get(name) or others.get(task, "not evaluated here")
        for name, task, value in table.itertuples(index=False)
    ]
    return table.assign(note=notes)


def p2p_against_s2s(measured: pd.DataFrame) -> pd.DataFrame:
    """Return the gain of whole texts over titles where `scores` has both: texts, model, method, s2s, p2p, difference."""
    split = measured["task"].str.rsplit("_", n=1, expand=True)
    table = measured.assign(texts=split[0], kind=split[1]) if len(measured) else measured.assign(texts="", kind="")
    grid = table.pivot_table(index=["texts", "model", "method"], columns="kind", values="measured")
    grid = grid.reindex(columns=["s2s", "p2p"]).dropna()
    return grid.assign(difference=grid["p2p"] - grid["s2s"]).reset_index().rename_axis(columns=None)


def split_scores(context: Context) -> pd.DataFrame:
    """Return the main metric of every split, with the properties of the split.

    The columns are task, protocol, method, model, split, level, value (mean over seeds), size, classes.
    """
    storage, protocols = context.storage, context.protocols
    cells = current_cells(storage, protocols, TASKS)
    cells = cells[cells["status"] == "done"]
    cells = cells.assign(method=name_methods(cells))
    columns = ["task", "protocol", "method", "model", "split", "level", "value", "size", "classes"]
    tables = []
    for (task, name), rows in cells.groupby(["task", "protocol"]):
        card, protocol = get_card(storage, str(task)), protocols.get(str(name))
        scores = storage.read_scores(rows).merge(rows[["cell_id", *columns[:4]]])
        scores = scores[scores["metric"] == metric_of(card, protocol, scores["metric"])]
        values = scores.groupby(columns[:6])["value"].mean().reset_index()
        if card is not None:
            splits = read_task(storage, card.name).test_splits(protocol.split_set if protocol else "default")
            shape = pd.DataFrame([(s.split, s.level, s.size, s.classes) for s in splits])
            values = values.merge(shape.set_axis(["split", "level", "size", "classes"], axis=1), on=["split", "level"])
        tables.append(values)
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)


def wins(scores: pd.DataFrame) -> pd.DataFrame:
    """Compare each pair of models by task, method and level, from `split_scores`.

    The columns are WINS: how many splits each wins, and how large these are; sizes and numbers of classes are
    medians, empty where a model wins no split. A split that both score alike counts for neither. Of more than
    MOST_MODELS models, the best on average are compared: pairs grow with the square.
    """
    keys = ["task", "protocol", "method", "level"]
    tables = [_compare_pairs(rows).assign(**dict(zip(keys, key, strict=True))) for key, rows in scores.groupby(keys)]
    return pd.concat(tables, ignore_index=True)[list(WINS)] if tables else pd.DataFrame(columns=list(WINS))


def _compare_pairs(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs of models on the splits of one task, method and level."""
    best = scores.groupby("model")["value"].mean().nlargest(MOST_MODELS).index
    grid = scores[scores["model"].isin(best)].pivot_table(index="split", columns="model", values="value")
    shape = scores.drop_duplicates("split").set_index("split").loc[grid.index]
    first, second = np.triu_indices(len(grid.columns), 1)
    values = grid.to_numpy()
    difference = values[:, first] - values[:, second]  # a row for each split, a column for each pair
    a_wins, b_wins = difference > 0, difference < 0
    table = pd.DataFrame(
        {
            "a": grid.columns[first],
            "b": grid.columns[second],
            "splits": (~np.isnan(difference)).sum(axis=0),
            "a_wins": a_wins.sum(axis=0),
            "b_wins": b_wins.sum(axis=0),
            "mean_difference": pd.DataFrame(difference).mean().to_numpy(),
        }
    )
    for what in ("size", "classes"):
        for side, won in (("a", a_wins), ("b", b_wins)):
            of_won = np.where(won, shape[what].to_numpy(dtype=float)[:, None], np.nan)
            table[f"{what}_where_{side}_wins"] = pd.DataFrame(of_won).median().to_numpy()
    return table


def spreads(context: Context) -> pd.DataFrame:
    """Measure how evenly each encoder's vectors are spread on the tasks that it was evaluated on.

    The vectors are those that are kept. The columns are model, task, v_measure (of k-means, x100), and the measures
    of `traube.papers.german.spread`.
    """
    measured = scores(context)
    rows = []
    for row in measured[measured["method"] == KMEANS].itertuples(index=False):
        task = context.task(row.task)
        try:
            model = context.model(row.model, "fp32")
            if task is None or model.corpus_bound:
                continue
            vectors = context.vectors(task, model).subset(task.scored).load()
        except TraubeError as error:  # the model is gone; its scores are not
            context.warn(f"{row.model}: {error}")
            continue
        rows.append({"model": row.model, "task": row.task, "v_measure": row.measured, **spread(vectors)})
    return pd.DataFrame(rows, columns=["model", "task", "v_measure", *MEASURES])


def read_adaptations(context: Context) -> pd.DataFrame:
    """Return the evaluations of adaptive pre-training, a row for each evaluation on the way.

    The columns are model (the base), method, task, recipe (digest of what else it was trained by and on), seed,
    epochs (of the whole training), epoch, v_measure (x100), checkpoint (of the last step), values (of the recipe, as
    far as they are not the trainer's defaults).
    """
    rows = []
    for checkpoint, record in context.trainings(*METHODS):
        recipe = record["config"]
        # what a row of the tables shares, besides what has a column of its own
        rest = digest([{k: v for k, v in recipe.items() if k not in ("seed", "epochs")}, record.get("texts")])[:6]
        key = (record["base"], record["trainer"], record["task"], rest, recipe["seed"], recipe["epochs"])
        values = describe_recipe(checkpoint, record)
        rows += [(*key, entry["epoch"], 100 * entry["v_measure"], checkpoint, values) for entry in record["curve"]]
    columns = ["model", "method", "task", "recipe", "seed", "epochs", "epoch", "v_measure", "checkpoint", "values"]
    return pd.DataFrame(rows, columns=columns)


def published_adaptation() -> pd.DataFrame:
    """Return table 5 as it is printed: model, method, epochs, task, published, note, erratum."""
    table = published("table5").rename(columns={"mean": "published"}).astype({"epochs": float})
    table = table[["model", "method", "epochs", "task", "published"]]
    average = table["task"] == AVERAGE
    table["note"] = average.map({True: "an average of tasks", False: ""})
    wrong = published("errata").set_index("table").loc["table_5"]
    at = average & (table["method"] == "wwm") & (table["epochs"] == 30)
    table["erratum"] = ""
    table.loc[at, "note"] = ""
    table.loc[at, "erratum"] = (
        f"the difference is printed wrong: +{wrong['right']:g}, not +{wrong['printed']:g} ({wrong['why']})"
    )
    return table


def adaptation(context: Context) -> pd.DataFrame:
    """Return table 5, V-measure x100 of mini-batch k-means after the last step, mean of seeds.

    The columns are model, method, epochs, task, recipe, measured, sd (over seeds), seeds, `TESTED` (against the model as it was,
    over trainings, of one task in a family of all its rows; the texts' luck is not in it), note (the recipe's values).
    """
    keys = ["model", "method", "epochs", "task", "recipe"]
    groups = list(read_adaptations(context).groupby(keys))
    families = Counter((key[0], key[3]) for key, _ in groups)
    rows = []
    for key, group in groups:
        ordered = group.sort_values("epoch").groupby("seed")["v_measure"]
        last, before = ordered.last(), ordered.first()
        verdict = compare_paired(key[1], last, key[0], before, comparisons=families[key[0], key[3]])
        test = describe_test(verdict) if len(last) > 1 else (verdict.difference, *UNTESTED[1:])
        values = f"recipe {key[-1]}: {group['values'].iloc[0]}" if group["values"].iloc[0] else ""
        rows.append((*key, last.mean(), deviation(last), len(last), *test, values))
    return pd.DataFrame(rows, columns=[*keys, "measured", "sd", "seeds", *TESTED, "note"])
