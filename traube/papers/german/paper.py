"""The tables and figures of the paper: what it printed, and how each number is measured here."""

from collections.abc import Callable, Mapping
from functools import partial

import pandas as pd

from traube._reports.papers.context import Context
from traube._reports.papers.spec import Figure, Paper, Table
from traube.papers.german import figures, tables
from traube.papers.german.claims import CLAIMS


def _select_kmeans(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of k-means: those of all methods are too many to show."""
    return table[table["method"] == tables.KMEANS].round(3)


def _measure_stored(table: Callable[[pd.DataFrame, Mapping[str, str]], pd.DataFrame], context: Context) -> pd.DataFrame:
    models = list(tables.published("table2")["model"])
    return table(tables.scores(context), context.unavailable(tables.TASKS, models))


PAPER = Paper(
    reference="wehrli2023german",
    tasks=tables.TASKS,
    trainers=tables.METHODS,
    tables=(
        Table(
            "table_1",
            "The data sets: samples, splits, sizes, classes and characters.",
            partial(tables.published.grid, "table1", "task"),
            partial(tables.mark_whole, tables.sizes),
            same_data=False,  # but where the whole data are at hand
        ),
        Table(
            "table_2",
            "Mini-batch k-means: model by task, of models that are here. How small the data measured here are: table 1.",
            tables.published_kmeans,
            partial(tables.mark_whole, partial(_measure_stored, tables.kmeans)),
            same_data=False,
            same_encoder=lambda rows: rows["model"].isin(tables.published("table2")["model"]),
        ),
        Table(
            "table_3",
            "Method by task: the mean of models, and single models for German; also the mean in the authors' own results. The "
            "data measured here: table 1. DBSTREAM's radius of 1 holds two principal components of unit vectors in one cluster.",
            tables.published_methods,
            partial(tables.mark_whole, partial(_measure_stored, tables.methods)),
            same_data=False,
            same_encoder=False,  # means of other models
        ),
        Table(
            "table_5",
            "Adaptive pre-training: V-measure after the last step, mean of trainings. A mark, where there is one, is of a test "
            "against the model as it was, at the same length, over trainings alone: the texts' luck is not in it.",
            tables.published_adaptation,
            partial(tables.mark_whole, tables.adaptation),
            absent="the base model is not trained here: its weights are not there (table 2)",
            same_data=False,
            same_encoder=lambda rows: rows["model"].isin(tables.published("table2")["model"]),
        ),
        Table(
            "noise",
            "Percent of the texts that HDBSCAN calls noise, mean over splits (section 4.2: in some cases more than 30 %).",
            tables.published_noise,
            partial(tables.mark_whole, tables.noise),
            same_data=False,
            same_encoder=False,
        ),
        Table(
            "wins",
            "For each pair of models the splits on which each wins, by level, their size and classes.",
            None,
            lambda context: tables.wins(tables.split_scores(context)),
            shown=_select_kmeans,
        ),
        Table(
            "p2p_against_s2s",
            "What whole texts give over titles, for each source of texts, model and method.",
            None,
            lambda context: tables.p2p_against_s2s(tables.scores(context)),
            shown=_select_kmeans,
        ),
        Table(
            "spread",
            "How evenly each encoder's vectors are spread (isotropy, norm, effective rank), next to its k-means scores, "
            "S2S and P2P.",
            None,
            tables.spreads,
        ),
    ),
    figures=(
        Figure(
            "figure_1",
            "Maps: the vectors of a task's largest split by UMAP, a panel a model, one category highlighted; hover shows "
            "the text.",
            figures.maps,
            f"No model has a UMAP map of {figures.MAPPED} yet.\nTo make maps: "
            f"traube run --task {figures.MAPPED} --protocol {tables.PROTOCOL}",
        ),
        Figure(
            "figure_2",
            "Adaptive pre-training: V-measure against epochs (also the paper's figure 4: a panel for each base model).",
            figures.learning_curves,
            "No encoder has been trained by wwm or tsdae yet.\nTo train one: traube train wwm blurbs_s2s",
        ),
        Figure(
            "figure_3",
            "How many texts each subreddit has.",
            figures.reddit_sizes,
            "Reddit's texts are not there.\nWith REDDIT_CLIENT_ID and REDDIT_CLIENT_SECRET in the environment: "
            "traube run --task reddit_s2s",
        ),
    ),
    claims=CLAIMS,
)
