"""The tables and figures of the paper: what it printed, and how each number is measured here."""

from functools import partial

from traube._reports.papers.spec import Figure, Paper, Table
from traube.papers.giccs import figures, tables
from traube.papers.giccs.claims import CLAIMS

NO_JUDGMENTS = "there are no judgments in TRAUBE_RAW/giccs (judgments.csv and items.csv)"
NOT_READ = "giccs has not been read: TRAUBE_RAW/giccs holds no data"

PAPER = Paper(
    reference="asaadi2022giccs",
    tasks=tables.TASKS,
    needs=tables.PAIRS,
    tables=(
        Table(
            "table_1",
            "Krippendorff's alpha, and percentages of tuples with strong agreement.",
            partial(tables.published.grid, "table1", "source", "measure"),
            tables.agreement,
            absent=NO_JUDGMENTS,
        ),
        Table(
            "table_2",
            "Lexical statistics of the dialogues, by number of turns and domain.",
            tables.published_words,
            tables.words,
            absent=NOT_READ,
        ),
        Table(
            "table_3",
            "Split-half reliability, mean of three repetitions.",
            partial(tables.published.grid, "table3", "source", "measure"),
            tables.halves,
            absent=NO_JUDGMENTS,
        ),
        Table(
            "table_4",
            "The scores that an expert contradicts.",
            tables.published_contradictions,
            tables.contradictions,
            absent=NOT_READ,
        ),
        Table(
            "table_5",
            "Cosines and gold scores of all pairs: Pearson's r and Spearman's rho.",
            tables.published_correlations,
            partial(tables.correlations, "giccs", ("pearson", "spearman")),
            absent=f"{NOT_READ}; then: traube pairs -t giccs -m MODEL",
            same_encoder=lambda rows: rows["published"].notna(),  # a row is an encoder
        ),
        Table(
            "table_6",
            "Multiple choice by likelihood: accuracy, sum of log probabilities.",
            tables.published_choices,
            tables.choices,
            absent=f"{NOT_READ}; then: traube multiple-choice MODEL -t giccs",
            same_encoder=lambda rows: rows["published"].notna(),  # a row is an encoder
        ),
        Table(
            "stsb_de",
            "The German STS benchmark, test: Spearman's rho of cosines. Published by a model's authors, not by the paper.",
            partial(tables.published.grid, "stsb_de", "model", "metric"),
            partial(tables.correlations, "stsb_de", ("spearman",)),
            absent="not evaluated here: the weights of this model are not on this machine; with them: traube pairs -t stsb_de -m MODEL",
            same_encoder=lambda rows: rows["published"].notna(),  # a row is an encoder
            is_of_paper=False,
        ),
        Table(
            "similarity_and_clustering",
            "Does similarity quality predict clustering quality? Spearman's rho over models, between their scores on a pair "
            "task and on a clustering task, with the 95 % interval of a bootstrap over models. Not of the paper.",
            None,
            tables.similarity_and_clustering,
        ),
    ),
    figures=(
        Figure(
            "figure_1",
            "How the gold scores are distributed.",
            figures.scores,
            "GiCCS has not been read.\nTo see where its table belongs: traube pairs",
        ),
    ),
    claims=CLAIMS,
)
