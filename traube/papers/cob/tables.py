"""COB's tables: the printed numbers, and the same measured here (average linkage, the true number of clusters).

Measured are checkpoints of `traube train cob`, `triplet` and `untrained` (seeds are one row), and other models.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traube._core.frames import stack
from traube._core.paths import home, raw
from traube._reports.papers import spec
from traube._reports.papers.context import Context
from traube._reports.papers.published import Published, stack_grid
from traube._reports.papers.spec import PRINTED_VERDICT, TESTED, count_split_sizes, describe_test, deviation, make_grid
from traube.comparison.jackknife import Sample
from traube.comparison.verdict import compare
from traube.papers.cob.readers.newsgroups import LEVEL, Newsgroups
from traube.papers.cob.readers.trec_car import SIZES
from traube.tasks import get_source
from traube.tasks.reading import find_file
from traube.tasks.task import Task, get_groups, text_id
from traube.tasks.trec_car import read_qrels

PROTOCOL = "cob"
METHOD = "none/agglomerative_average"
METRICS = {name: f"{full}/noise_as_cluster" for name, full in
           {"ri": "ri", "ari": "ari", "nmi": "nmi_arithmetic", "ami": "ami"}.items()}  # fmt: skip
TASKS = {
    "table_4": ("newsgroups", "newsgroups_paper"),
    "table_6": ("trec_car_coarse", "car_test200_coarse"),
    "table_7": ("trec_car_fine", "car_test200_fine"),
}
REFERENCE = "triplet"
TRAINERS = ("cob", REFERENCE, "untrained")
VARIED = ("metric", "clusterer")  # values of COB's recipe that make a method of its own
# of a checkpoint's name: trainer, task, base model, passages of a training split, digest of a
# recipe that is not the paper's, seed
CHECKPOINT = re.compile(
    r"(?P<trainer>cob|triplet|untrained)__(?P<task>[a-z0-9_]+?)__(?P<base>.+?)(\.n(?P<n>\d+))?(\.x(?P<recipe>[0-9a-f]{6}))?\.s(?P<seed>\d+)-(?P<kind>best|last)"
)
QRELS = "benchmarkY1test_qrels/qrels.car17v2.0.benchmarkY1test.txt"

published = Published(__package__)


def sizes(context: Context) -> pd.DataFrame:
    """Measure table 2, documents, instances, and documents and clusters of an instance: data, column, measured, note.

    The statistics of CAR's test articles need no texts: where the task is not read, they are those of the published
    qrels.
    """
    articles = "articles of train.v2.0 of all sizes are not read; see table 5"
    measured: dict[str, tuple[dict[str, float], str]] = {
        "20NG train": _measure_newsgroups(context, ["train", "validation"]),
        "20NG test": _measure_newsgroups(context, ["test"]),
        "CAR train": ({}, articles),
        "CAR test": _measure_car_test(context),
    }
    rows = [
        (row.data, row.column, measured[row.data][0].get(row.column), measured[row.data][1])
        for row in published.grid("table2", "data").itertuples()
    ]
    return pd.DataFrame(rows, columns=["data", "column", "measured", "note"])


def _measure_newsgroups(context: Context, subsets: list[str]) -> tuple[dict[str, float], str]:
    task = context.task("newsgroups")
    if task is None:
        return {}, context.explain_unread(["newsgroups"])["newsgroups"]
    splits = task.splits[task.splits["part"].isin(subsets)]
    return _average(splits, "k_coarse"), "posts of which nothing is left are dropped from their block"


def _average(splits: pd.DataFrame, classes: str) -> dict[str, float]:
    """Return items N, splits C, mean items of a split n and, under the name given, mean classes of a split."""
    by_split = count_split_sizes(splits)
    rows, mean_classes = by_split["rows"], float(by_split["classes"].mean())
    return {"N": float(rows.sum()), "C": float(len(rows)), "n": float(rows.mean()), classes: mean_classes}


def _measure_car_test(context: Context) -> tuple[dict[str, float], str]:
    means: dict[str, float] = {}
    for level in ("coarse", "fine"):
        task = context.task(f"trec_car_{level}")
        if task is not None:
            means |= _average(task.splits[task.splits["part"] == "test"], f"k_{level}")
    if means:
        return means, ""
    path = find_file(raw() / "trec_car" / QRELS)
    if not path.is_file():
        return {}, f"{context.explain_unread(['trec_car_coarse'])['trec_car_coarse']}; nor are there qrels"
    judged = read_qrels(path).groupby("page")
    counts = judged[["coarse", "fine"]].nunique().mean()
    means = {"N": float(judged.size().sum()), "C": float(judged.ngroups), "n": float(judged.size().mean())}
    means |= {f"k_{level}": float(counts[level]) for level in ("coarse", "fine")}
    return means, f"of {path.name}, which has no texts"


def read_searched(context: Context) -> pd.DataFrame:
    """Return table 3, lambda and r, the best of each task's study that is kept: task, column, measured, note."""
    from traube.training.study import find_best_by_task

    studies = find_best_by_task(home() / "studies", "cob")
    printed = published.grid("table3", "task")["task"].unique()
    unread = context.explain_unread(task for task in printed if task not in studies)
    rows = [(task, column, studies[task][column], "") for task in sorted(studies) for column in ("lam", "r")]
    rows += [(task, column, np.nan, why) for task, why in unread.items() for column in ("lam", "r")]
    return pd.DataFrame(rows, columns=["task", "column", "measured", "note"])


def car_articles(context: Context) -> pd.DataFrame:
    """Measure table 5, CAR's training articles by their number of passages: n, column, measured."""
    rows: dict[tuple[int, str], float] = {}
    for level in ("coarse", "fine"):
        task = context.task(f"trec_car_{level}")
        if task is None:
            continue
        train = task.splits[task.splits["part"] == "train"]
        passages = train.groupby("split")["item"].transform("size")
        for n in SIZES:
            splits = train[passages == n]
            if splits.empty:
                continue
            triples = 0  # pairs of one class times the items of other classes
            for _, labels in splits.groupby("split")["label"]:
                sizes = labels.value_counts().to_numpy()
                triples += int((sizes * (sizes - 1) // 2 * (len(labels) - sizes)).sum())
            measured = _average(splits, f"k_{level}") | {f"t_{level}": float(triples)}
            rows |= {(n, column): value for column, value in measured.items() if column != "n"}
    return pd.DataFrame([(*key, value) for key, value in rows.items()], columns=["n", "column", "measured"])


def published_results(table: str) -> pd.DataFrame:
    """Return tables 4, 6 and 7 as they are printed: task, method, n, metric, published, and what the paper's test says."""
    rows, metrics, keys = published("results"), ["ri", "ari", "nmi"], ["task", "method", "n"]
    rows = rows[rows["table"] == table].set_index(keys)
    tests = rows[[f"{metric}_test" for metric in metrics]].set_axis(metrics, axis=1)
    return stack_grid(rows[metrics], keys, "metric").assign(
        **{PRINTED_VERDICT: stack_grid(tests, keys, "metric", PRINTED_VERDICT)[PRINTED_VERDICT]}
    )


def published_convergence() -> pd.DataFrame:
    """Return how many times longer Triplet takes, as the text says: task, measure, published."""
    rows = [("newsgroups", "times_slower", 5.0), ("newsgroups", "epoch_times_slower", 100.0)]
    return pd.DataFrame(rows, columns=["task", "measure", "published"])


def format_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return tables 4, 6 and 7 as people are shown them: a row for each method and recipe, a column for each metric."""
    return make_grid(table, ["task", "method", "n", "base", "recipe", "seeds"], "metric", 3)


def results(table: str, context: Context) -> pd.DataFrame:
    """Measure tables 4, 6 and 7: RI, ARI, NMI and AMI, means over test splits, and standard deviations over seeds.

    The paper's encoder is another than any here: its rows stand beside each base model that was trained.

    Returns
    -------
    DataFrame
        Columns task, method, n, base, recipe (digest of one that is not the paper's; a row each), metric, measured, sd (over
        seeds), seeds, difference, p (against Triplet of the same base, in a family of all rows of the task by the metric;
        texts and trainings both vary), detectable (difference that this test finds four times in five), comparisons
        (the family's size), verdict, against (the Triplet of that test), layers (of the encoder that learn; missing: all),
        note (the recipe's values).
    """
    rows: list[tuple[Any, ...]] = []
    for task in context.tasks(TASKS[table]):
        if PROTOCOL in context.protocols:
            rows += _measure_rows(context, task)
    measured = pd.DataFrame(rows, columns=["task", *_WHICH, "metric", *_MEASURED])
    recipes, notes = context.read_recipes(*TRAINERS), context.describe_recipes(*TRAINERS)
    trainers = measured["method"].str.split(",").str[0]
    keys = list(zip(trainers, measured["recipe"], strict=True))
    layers = [recipes.get(key, {}).get("layers") for key in keys]
    measured = measured.assign(layers=layers, note=[notes.get(key, "") for key in keys])
    unread = context.list_unread(published_results(table)[["task", "method", "n", "metric"]])
    measured = stack([measured, unread])
    order = measured["metric"].map({metric: i for i, metric in enumerate(METRICS)})
    by = ["task", "base", "method", "n", "recipe", "order"]
    return measured.assign(order=order).sort_values(by, na_position="last").drop(columns="order")


_WHICH = ["method", "n", "base", "recipe"]
_SCORES = [*_WHICH, "cell_id", "split", "level", "metric", "value", "replicates"]
_MEASURED = ["measured", "sd", "seeds", *TESTED, "against"]


def _measure_rows(context: Context, task: Task) -> Iterator[tuple[Any, ...]]:
    cells = trained_cells(context, task.name)
    scores = context.storage.read_scores(cells, list(METRICS.values()), replicates=True)
    scores = scores.merge(cells[["cell_id", *_WHICH]])
    names = {full: short for short, full in METRICS.items()}
    scores = scores.assign(metric=scores["metric"].map(names), n=scores["n"].astype(float))[_SCORES]
    by_split = stack([scores, tfidf(task)])
    groups = list(by_split.groupby([*_WHICH, "metric"], dropna=False))
    # the seeds are those of the trainings, `untrained` among them, which draws a layer: the method draws no random numbers
    trained = {key: str(key[0]).split(",")[0] in TRAINERS for key, _ in groups}
    samples = {key: Sample.of(group, seeded=False, trained=trained[key]) for key, group in groups}
    for key, group in groups:
        seeds = group.groupby("cell_id")["value"].mean()
        yield task.name, *key, seeds.mean(), deviation(seeds), len(seeds), *_compare_with_triplet(samples, key)


def _compare_with_triplet(
    samples: Mapping[tuple[Any, ...], Sample], key: tuple[Any, ...]
) -> tuple[float, float, float, float, str, str]:
    """Return `TESTED` of a row against its triplet model, which is `*` itself, and that model."""
    base, metric = key[2], key[4]
    # the paper's reference is the triplet model of the smallest n; its own recipe comes before others
    same = [k for k in samples if k[4] == metric]
    rivals = [k for k in same if k[0] == REFERENCE]
    rivals = [k for k in rivals if k[2] == base] or rivals
    if not rivals:
        return *spec.UNTESTED, ""
    rival = min(rivals, key=lambda k: (pd.notna(k[1]), k[1] if pd.notna(k[1]) else 0, pd.notna(k[3]), str(k[3])))
    if key is rival:
        return *spec.REFERENCE, ""
    verdict = compare(str(key[0]), samples[key], REFERENCE, samples[rival], comparisons=len(same) - 1)
    return *describe_test(verdict), f"{REFERENCE} {rival[3]}" if pd.notna(rival[3]) else REFERENCE


def trained_cells(context: Context, name: str) -> pd.DataFrame:
    """Return a task's cells of this paper's method, with the columns that are read from models' names.

    These are method, n, base, recipe, training_seed. A training with another metric or clusterer than the paper's is a
    method of its own, such as `cob, metric=ari`.
    """
    cells = context.cells([name], PROTOCOL)
    cells = cells[cells["method"] == METHOD]
    about = [_parse_name(model, name) for model in cells["model"]]
    kept = np.array([a is not None for a in about], dtype=bool)  # typed: an empty list would select columns
    # `method` is the paper's from here on
    cells = cells[kept].assign(**{column: [a[column] for a in about if a] for column in (*_WHICH, "training_seed")})
    variants = _name_variants(context)
    methods = [
        variants.get(model.rpartition("-")[0], method)
        for model, method in zip(cells["model"], cells["method"], strict=True)
    ]
    return cells.assign(method=methods)


def _name_variants(context: Context) -> dict[str, str]:
    """Return the method of COB's trainings by their checkpoints' names, before `-last` and `-best`."""
    from traube.papers.cob.trainers.cob import Cob

    paper = Cob.defaults.model_dump()
    names = {}
    for checkpoint, record in context.trainings(Cob.name):
        changed_settings = [f"{key}={record['config'][key]}" for key in VARIED if record["config"][key] != paper[key]]
        names[checkpoint.rpartition("-")[0]] = ", ".join([Cob.name, *changed_settings])
    return names


def _parse_name(model: str, task: str) -> dict[str, Any] | None:
    """Parse the name of a checkpoint of this paper and task, or of a model of the benchmark; return None for any other."""
    match = CHECKPOINT.fullmatch(model)
    if match is None:
        as_it_is = dict.fromkeys((*_WHICH, "training_seed")) | {"method": "as it is", "base": model}
        return None if "__" in model else as_it_is
    if match["task"] != task or match["kind"] != ("last" if match["trainer"] == "untrained" else "best"):
        return None
    n = float(match["n"]) if match["n"] else None
    which = (match["trainer"], n, match["base"], match["recipe"])
    return dict(zip(_WHICH, which, strict=True)) | {"training_seed": int(match["seed"])}


def tfidf(task: Task) -> pd.DataFrame:
    """Measure TF-IDF fitted on each split by itself.

    It is measured in the reference code's distance (Euclidean) and the paper's (cosine). In the reference code no
    post is dropped from its block for this row: empty ones are at the origin. So the printed row is that of whole
    blocks, and beside it stands that of the posts that the other rows are of.
    """
    whole = _read_whole_blocks(task)
    splits = [
        (split.split, split.level, task.texts_at(split.rows), split.labels)
        for split in task.test_splits()
        if split.labels is not None
    ]
    named = {"": splits} if whole is None else {"": whole, ", no empty posts": splits}
    return stack([_measure_tfidf(problems, name) for name, problems in named.items()])


_Labeled = tuple[str, str, list[str], NDArray[Any]]  # split, level, texts, labels


def _read_whole_blocks(task: Task) -> list[_Labeled] | None:
    """Return the test blocks of 20 Newsgroups with their empty posts; [] if the archive is not here, None for another task."""
    source = get_source(task.name, None)
    if not isinstance(source, Newsgroups):
        return None
    if not all(path.is_file() for path in source.files()):
        return []
    blocks = source.read_posts(["test"]).groupby("split")
    return [(str(name), LEVEL, block["text"].tolist(), block[LEVEL].to_numpy()) for name, block in blocks]


def _measure_tfidf(splits: Iterable[_Labeled], name: str) -> pd.DataFrame:
    """Measure both distances on the same vectors; the name says which posts they are of."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    from traube.components.estimators.clusterers import Agglomerative
    from traube.metrics.clustering import replicates, score

    rows: list[tuple[Any, ...]] = []
    measured = [full.partition("/")[0] for full in METRICS.values()]
    for split, level, texts, labels in splits:
        vectors = TfidfVectorizer(dtype=np.float64).fit_transform(texts)
        groups = get_groups(map(text_id, texts))
        for method, metric in ((f"tfidf{name}", "euclidean"), (f"tfidf, cosine{name}", "cosine")):
            clusters = Agglomerative(len(np.unique(labels)), "average", metric).fit(vectors).labels_
            values = score(labels, clusters)
            without = replicates(labels, clusters, groups, measured)
            rows += [
                (method, np.nan, None, None, method, split, level, short, values[full], without[full])
                for short, full in METRICS.items()
            ]
    return pd.DataFrame(rows, columns=_SCORES)
