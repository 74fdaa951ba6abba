"""The tables and figures of the paper: what it printed, and how each number is measured here."""

from functools import partial

from traube._reports.papers.spec import Figure, Paper, Table
from traube.papers.qs3m import figures, tables
from traube.papers.qs3m.claims import CLAIMS
from traube.papers.qs3m.pages import TRAINER

NOTHING_TRAINED = (
    "No similarity has been trained yet.\nTo train one: traube train qs3m car_test200_flat --set split_set=fold_1"
)

PAPER = Paper(
    reference="kashyapi2022query",
    tasks=tables.TASKS,
    trainers=(TRAINER,),
    tables=(
        Table(
            "table_1",
            "The pages: pairs of passages, queries, clusters of a query and passages of a cluster.",
            partial(tables.published.grid, "table1", "data"),
            tables.sizes,
            absent="these articles have not been read here",
            same_data=lambda rows: rows["data"] != "test200",  # the public sample
        ),
        Table(
            "table_2",
            "How well each way of comparing tells same from different (AUC) and groups passages (ARI). Without a `recipe`, Traube's: the "
            "paper's learns little from so few pages.",
            tables.published_results,
            tables.results,
            absent="no similarity is trained on this task here",
            shown=tables.format_table,
            same_data=lambda rows: ~rows["task"].str.startswith("car_test200"),
            same_encoder=lambda rows: rows["base"].fillna("") == "",  # ways of words have none
        ),
        Table(
            "query",
            "The rows of table 2 that know a query, tested against those of the same training without one, over folds.",
            tables.published_queries,
            tables.query_gains,
            shown=tables.format_table,
            absent="no similarity is trained here both with and without a query",
            same_data=False,
            same_encoder=False,
        ),
        Table(
            "table_3",
            "arXiv's subjects: subtopics, and mean abstracts a subtopic.",
            partial(tables.published.grid, "table3", "subject"),
            tables.subjects,
            absent="arxiv_subjects has not been read here",
            same_data=False,  # abstracts of other years, drawn as the paper draws them
        ),
        Table(
            "table_4",
            "AUC on arXiv's two folds. Without a `recipe`, Traube's.",
            partial(tables.published, "table4"),
            tables.arxiv,
            absent="no similarity is trained on arxiv_subjects here",
            same_data=False,
            same_encoder=lambda rows: rows["base"].fillna("") == "",
        ),
    ),
    figures=(
        Figure(
            "figure_3",
            "Queries that are helped and hurt: ARI less that of the encoder's Euclidean distances.",
            figures.helps_and_hurts,
            NOTHING_TRAINED,
        ),
        Figure(
            "figure_4",
            "ARI of each of arXiv's subjects, means over folds with their standard error.",
            figures.by_subject,
            NOTHING_TRAINED.replace("car_test200_flat --set split_set=fold_1", "arxiv_subjects"),
        ),
        Figure(
            "changed_pairs",
            "The pairs of each query that the trained similarity judges otherwise than the encoder.",
            figures.changed_pairs,
            NOTHING_TRAINED,
        ),
    ),
    claims=CLAIMS,
)
