"""AECL's tables: the printed numbers, and the same numbers measured here, x100 where they are scores."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from traube._reports.papers import spec
from traube._reports.papers.context import Context
from traube._reports.papers.published import Published, stack_grid
from traube._reports.papers.spec import TESTED, UNTESTED, Tested, count_split_sizes, describe_test, deviation, make_grid
from traube.comparison.jackknife import Sample
from traube.comparison.verdict import compare

TASKS = (
    "agnews", "searchsnippets", "stackoverflow", "biomedical", "googlenews_ts", "googlenews_t", "googlenews_s", "tweet"
)  # fmt: skip
ABLATED = ("searchsnippets", "stackoverflow", "tweet")  # the paper has the first two, none of many classes
PROTOCOL = "aecl"
VARIANTS = {  # protocols of AECL alone, by what they do otherwise
    "aecl_bf16": "bf16",
    "aecl_longer": "longer stage 2",
}
FROZEN = "aecl_frozen"  # the encoder stays as it is
GLOVE = "aecl_glove"  # methods on word vectors have GloVe's, trained on other texts, as the paper's word2vec was
ON_ENCODER = ("AECL", "SCCL", "RSTC")  # methods that differ if the encoder is frozen
WITHOUT = {  # components, by the protocol that leaves them out
    "AECL": PROTOCOL,
    "No IC": "aecl_no_ic",
    "No Stage 1": "aecl_no_stage_1",
    "No Stage 2": "aecl_no_stage_2",
    "No PG": "aecl_no_pg",
    "No RC": "aecl_no_rc",
}
NO_STAGE_3 = "No Stage 3"  # which the paper does not leave out
ABLATIONS = "aecl_ablations"  # the sweep that leaves out the same of AECL on a frozen encoder
WITHOUT_FROZEN = {
    "AECL": FROZEN,
    NO_STAGE_3: f"{ABLATIONS}.epochs=35",
    "No IC": f"{ABLATIONS}.contrast=unguided",
    "No Stage 1": f"{ABLATIONS}.stage_1=0",
    "No Stage 2": f"{ABLATIONS}.stage_2=0",
    "No PG": f"{ABLATIONS}.pseudo_labels=False",
    "No RC": f"{ABLATIONS}.softness_weight=0.0",
}
CODED = "as coded"
PRINTED_WAYS = "aecl_printed"  # the sweep of what its paper prints otherwise than its code has it
AS_PRINTED = {
    CODED: PRINTED_WAYS,
    "attention by equations 1 to 3 alone": f"{PRINTED_WAYS}.attention=printed",
    "contrast by equations 6, 7 and 9": f"{PRINTED_WAYS}.contrast=printed",
    "contrast of clusters by equations 10 and 11": f"{PRINTED_WAYS}.cluster_contrast=printed",
    "signs of the entropies": f"{PRINTED_WAYS}.signs=printed",
    "temperatures": f"{PRINTED_WAYS}.temperatures",
    "all of it": f"{PRINTED_WAYS}.all",
}
PRINTED = ["acc", "nmi"]
# equation 17 prints the geometric mean of both entropies; what was measured is its code's arithmetic one
METRICS = {
    "acc": "acc/noise_as_cluster",
    "nmi": "nmi_arithmetic/noise_as_cluster",
    "nmi_geometric": "nmi_geometric/noise_as_cluster",
}
OF_WORDS = {("bow", "none/kmeans"): "BOW", ("tfidf", "none/kmeans"): "TF-IDF", ("bow", "none/gsdmm"): "GSDMM"}
NAMES = {
    "none/kmeans": "SBERT",
    "none/aecl": "AECL",
    "none/sccl": "SCCL",
    "none/rstc": "RSTC",
    "none/stcc": "STCC, adapted",  # both on other vectors of words than word2vec
    "none/self_train": "Self-Train, adapted",
    "none/ecic": "ECIC",
    "none/stable_kmeans": "Smoothed k-means",
}
KMEANS = "SBERT"  # on the encoder's vectors, with one start
NUMBERS = ["method", "task", "metric", "base", "measured", "sd", "seeds"]

published = Published(__package__)


def published_results(name: str = "table_2") -> pd.DataFrame:
    """Return tables 2 to 5 as they are printed: method, task, metric, published."""
    table = published("main") if name == "table_2" else published("ablations").query("table == @name")
    keys = ["method", "task"]
    return stack_grid(table.set_index(keys)[PRINTED], keys, "metric")


def sizes(context: Context) -> pd.DataFrame:
    """Measure table 1, texts, classes, mean words of a text, largest over smallest class: task, column, measured."""
    rows: list[tuple[str, str, float]] = []
    for task in context.tasks(TASKS):
        tested = task.splits[task.splits["part"] == "test"]
        words = task.corpus.set_index("text_id")["text"].str.split().str.len()
        classes = tested["label"].value_counts()
        values = {
            "texts": count_split_sizes(tested)["rows"].sum(),
            "classes": len(classes),
            "words": tested["text_id"].map(words).mean(),
            "imbalance": classes.max() / classes.min(),
        }
        rows += [(task.name, column, float(value)) for column, value in values.items()]
    return pd.DataFrame(rows, columns=["task", "column", "measured"])


def results(context: Context) -> pd.DataFrame:
    """Measure table 2: accuracy and NMI of each method, means over seeds.

    Methods that take the encoder as it is are the same under both protocols of the field, and stand there once. STCC and
    Self-Train on GloVe are the paper's methods with other vectors of words; on vectors of the texts or the encoder they
    have rows of their own.

    Returns
    -------
    DataFrame
        Columns method, task, metric, base (the encoder), measured, sd (over seeds, each a training of its own), seeds,
        difference, p (against k-means on the same encoder, in a family of all rows of the task by the metric),
        detectable (difference that this test finds four times in five), comparisons (the family's size), verdict.
    """
    varied, frozen = measure_scores(context, TASKS, *VARIANTS), measure_scores(context, TASKS, FROZEN)
    on_glove = measure_scores(context, TASKS, GLOVE)
    tables = [
        measure_scores(context, TASKS, PROTOCOL),
        on_glove.assign(method=on_glove["method"].str.removesuffix(", adapted"), base="glove"),
        varied.assign(method=varied["method"] + ", " + varied["protocol"].map(VARIANTS)),
        frozen.assign(method=[f"{m}, frozen encoder" if m in ON_ENCODER else m for m in frozen["method"]]),
    ]
    table = pd.concat([rows[[*NUMBERS, "sample"]] for rows in tables], ignore_index=True)
    table = table.drop_duplicates(["method", "base", "task", "metric"], ignore_index=True)
    return compare_with(KMEANS, table).drop(columns="sample")


def compare_with(reference: str, table: pd.DataFrame) -> pd.DataFrame:
    """Add `TESTED`: each row against the reference of its task, metric and encoder, or where it has none, of any.

    Rows of one task and metric are a family. The reference itself is `*`.
    """
    tested = [_test(row, table, reference) for row in table.itertuples()]
    return table.assign(**{name: [row[i] for row in tested] for i, name in enumerate(TESTED)})


def _test(row: Any, table: pd.DataFrame, reference: str) -> Tested:
    if row.method == reference:
        return spec.REFERENCE
    family = table[(table["task"] == row.task) & (table["metric"] == row.metric)]
    references = family[family["method"] == reference].sort_values("base", key=lambda base: base != row.base)
    if references.empty:
        return UNTESTED
    tests = len(family) - len(references)
    verdict = compare(str(row.method), row.sample, reference, references["sample"].iloc[0], comparisons=tests)
    return describe_test(verdict, 100)


def ablation(name: str, context: Context) -> pd.DataFrame:
    """Measure tables 3 to 5: AECL whole and without a part, which `method` names; the encoder trained, or frozen.

    Returns the columns of `results`; tested is each against AECL whole. Table 4 has AECL without stage 3 as well.
    """
    tables = []
    variants = [*published("ablations").query("table == @name")["method"].unique()]
    variants += [NO_STAGE_3] if name == "table_4" else []
    for protocols, encoder in ((WITHOUT, ""), (WITHOUT_FROZEN, ", frozen encoder")):
        for variant in (variant for variant in variants if variant in protocols):
            rows = measure_scores(context, ABLATED, protocols[variant])
            # the sweep's point that changes nothing is the same training
            if rows.empty and protocols[variant] == FROZEN:
                rows = measure_scores(context, ABLATED, ABLATIONS)
            tables.append(rows[rows["method"] == "AECL"].assign(method=f"{variant}{encoder}", encoder=encoder))
    table = pd.concat(tables, ignore_index=True)
    whole = table["encoder"].unique()
    tested = [compare_with(f"AECL{encoder}", table[table["encoder"] == encoder]) for encoder in whole]
    return pd.concat([compare_with("AECL", table.iloc[:0]), *tested], ignore_index=True)[[*NUMBERS, *TESTED]]


def as_printed(context: Context) -> pd.DataFrame:
    """Measure AECL on a frozen encoder as its paper prints it, each against its code: the columns of `results`."""
    tables = []
    for variant, protocol in AS_PRINTED.items():
        rows = measure_scores(context, TASKS, protocol)
        tables.append(rows[rows["method"] == "AECL"].assign(method=variant))
    return compare_with(CODED, pd.concat(tables, ignore_index=True))[[*NUMBERS, *TESTED]]


def measure_scores(context: Context, tasks: Sequence[str], *protocols: str) -> pd.DataFrame:
    """Measure accuracy and NMI (of either mean) x100 under some protocols, means over seeds.

    Returns protocol, `NUMBERS`, and the sample that is compared.
    """
    cells = context.cells(tasks, *protocols)
    if cells.empty:
        # typed, so that joining it to others does not change their types
        empty = pd.DataFrame(columns=["protocol", *NUMBERS, "sample"])
        return empty.astype({"measured": float, "sd": float, "seeds": float})
    about = cells[["cell_id", "protocol", "task", "model", "method", "seed"]]
    values = context.storage.read_scores(cells, list(METRICS.values()), replicates=True).merge(about)
    keys = ["protocol", "task", "model", "method", "metric"]
    rows = []
    for key, group in values.groupby(keys):
        by_seed = group.groupby("seed", dropna=False)["value"].mean() * 100
        rows.append((*key, by_seed.mean(), deviation(by_seed), len(by_seed), Sample.of(group, seeded=True)))
    table = pd.DataFrame(rows, columns=[*keys, "measured", "sd", "seeds", "sample"])
    short = {name: metric for metric, name in METRICS.items()}
    names, encoders = [], []
    for model, method in zip(table["model"], table["method"], strict=True):
        of_words = OF_WORDS.get((model, method))  # word-count models have no encoder
        names.append(of_words or NAMES.get(method, method.removeprefix("none/")))
        encoders.append("" if of_words else model)
    table = table.assign(method=names, base=encoders, metric=table["metric"].map(short))
    return table[["protocol", *NUMBERS, "sample"]]


def published_nothing() -> pd.DataFrame:
    """Return what is printed of what the paper does not measure, or draws as a curve: task, method, metric, published."""
    return pd.DataFrame(columns=["task", "method", "metric", "published"]).astype({"published": float})


def format_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each method, encoder and metric, as people are shown it, and a column for each data set."""
    printed = table[table["metric"].isin(PRINTED)]
    # a set that is not measured has no encoder: it stands in the row of the method's first
    base = printed["base"].fillna(printed.groupby("method")["base"].transform("first"))
    named = printed.assign(base=base, metric=printed["metric"].str.upper())
    return make_grid(named, ["method", "base", "metric"], "task", 1)
