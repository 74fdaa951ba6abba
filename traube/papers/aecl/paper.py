"""The tables and figures of the paper: what it printed, and how each number is measured here."""

from functools import partial

from traube._reports.papers.spec import Figure, Paper, Table, make_grid
from traube.papers.aecl import figures, tables
from traube.papers.aecl.claims import CLAIMS

ABLATIONS = {
    "table_3": "Without similarity-guided contrast (equation 7).",
    "table_4": "Without the first or the second stage of training, and in a row of ours without the third.",
    "table_5": "Without pseudo-labels, or without the entropy that keeps them soft.",
}
NOT_TRAINED = (
    "not trained here as the paper trains it: AECL, SCCL and RSTC with their encoder, which for AECL in fp32 takes 88 CPU minutes a "
    "seed on Tweet, the smallest set; STCC and Self-Train have word2vec's vectors there, and GloVe's of 50 dimensions here. Rows of "
    "their own have AECL in bf16, methods with the encoder frozen, and STCC and Self-Train on vectors of the texts or the encoder "
    "(adapted)"
)
NOT_LEFT_OUT = "not trained here as the paper trains it, with the encoder: rows of their own leave out the same with the encoder frozen"
NOTHING_TRAINED = "Nothing has been trained yet.\nTo train: traube run --task tweet --protocol aecl"
NOTHING_SWEPT = (
    "No point has been computed yet.\nTo compute them: traube sweep aecl_sensitivity --task tweet --model minilm_32"
)

PAPER = Paper(
    reference="yao2025discriminative",
    tasks=tables.TASKS,
    tables=(
        Table(
            "table_1",
            "The data sets: texts, categories, words of a text, largest over smallest category.",
            partial(tables.published.grid, "table1", "task"),
            tables.sizes,
            absent="not read here",
        ),
        Table(
            "table_2",
            "Accuracy and NMI of each method, means over seeds. GSDMM and smoothed k-means find the number of clusters, all others are "
            "given it. Tables 3 to 5 have AECL as it was trained beside its parts: on another machine a seed has other last digits.",
            tables.published_results,
            tables.results,
            absent=NOT_TRAINED,
            shown=tables.format_table,
            same_encoder=lambda rows: rows["base"].fillna("") == "",  # methods of words have none
        ),
        *(
            Table(
                name,
                description,
                partial(tables.published_results, name),
                partial(tables.ablation, name),
                absent=NOT_LEFT_OUT,
                shown=tables.format_table,
                same_encoder=False,
            )
            for name, description in ABLATIONS.items()
        ),
        Table(
            "as_printed",
            "AECL on a frozen encoder as its paper prints what its code does otherwise, one at a time and all together; tested "
            "against the code's way.",
            tables.published_nothing,
            tables.as_printed,
            shown=tables.format_table,
            same_encoder=False,
        ),
        Table(
            "similarity",
            "How alike texts are in the last epoch of all stages: NS, the share of a text's attention that goes to other classes, and "
            "the cosine of two texts of one class (figure 5); and NS after the contrast alone, as the paper has it (figure 6). The "
            "paper's are curves without numbers.",
            tables.published_nothing,
            figures.similarity,
            shown=partial(make_grid, rows=["task", "method", "base"], column="metric", digits=3),
            same_encoder=False,
        ),
    ),
    figures=(
        Figure(
            "figure_4",
            "What texts became under each method, by t-SNE; pointing at a text shows it.",
            figures.beside_each_other,
            "No training of AECL has kept what texts became in it (older versions did not).\n"
            "To train: traube run --task stackoverflow --protocol aecl_frozen",
        ),
        Figure(
            "figure_5",
            "How alike texts of one class become over the training, a panel a task; means over seeds.",
            partial(figures.curves, "same_class_similarity"),
            NOTHING_TRAINED,
        ),
        Figure(
            "figure_6",
            "How much of a text's similarity goes to texts of other classes (NS), epoch by epoch.",
            partial(figures.curves, "ns"),
            NOTHING_TRAINED,
        ),
        Figure(
            "figure_7",
            "Accuracy by the weights of AECL's losses and by its temperatures, one changed at a time; means over the seeds of the sweep.",
            partial(figures.sensitivity, "figure_7"),
            NOTHING_SWEPT,
        ),
        *(
            Figure(
                name,
                f"Accuracy and NMI by the epochs of AECL's {stage} stage; means over the seeds of the sweep.",
                partial(figures.sensitivity, name),
                NOTHING_SWEPT,
            )
            for name, stage in (("figure_8", "first"), ("figure_9", "second"))
        ),
    ),
    claims=CLAIMS,
)
