"""COB (Gupta, Kar & Dietz, RepL4NLP 2022): its tables, measured beside published.

Measured are the checkpoints of `traube train cob`, `triplet` and `untrained` (several seeds are one row) and the models of the benchmark,
clustered by average linkage on Euclidean distances with the true number of clusters: protocol `cob`.
"""

import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from traube.benchmark.current import current_cells
from traube.benchmark.params import Protocol
from traube.engine.workbench import Workbench
from traube.foundation.errors import TraubeError
from traube.foundation.files import read_json
from traube.foundation.paths import raw
from traube.metrics.significance import Sample, difference
from traube.models import Model, Precision
from traube.report.spaces import Space
from traube.store import Store
from traube.tasks.readers.trec_car import SIZES, qrels
from traube.tasks.reading import plain_or_gzipped
from traube.tasks.task import Task, groups_of

PROTOCOL = "cob"
METHOD = "none/agglomerative_average"
METRICS = {name: f"{full}/noise_as_cluster" for name, full in
           {"ri": "ri", "ari": "ari", "nmi": "nmi_arithmetic", "ami": "ami"}.items()}  # fmt: skip
TASKS = {
    "table_4": ("newsgroups",),
    "table_6": ("trec_car_coarse", "car_test200_coarse"),
    "table_7": ("trec_car_fine", "car_test200_fine"),
}
LEVEL = 0.05
CURVE = ("step", "epoch", "seconds", "validation_ari")
REFERENCE = "triplet"
# of a checkpoint's name: trainer, task, base model, passages of a training split, digest of a recipe that is not the paper's, seed
_CHECKPOINT = re.compile(
    r"(?P<trainer>cob|triplet|untrained)__(?P<task>[a-z0-9_]+?)__(?P<base>.+?)(\.n(?P<n>\d+))?(\.x(?P<recipe>[0-9a-f]{6}))?\.s(?P<seed>\d+)-(?P<kind>best|last)"
)
QRELS = "benchmarkY1test_qrels/qrels.car17v2.0.benchmarkY1test.txt"


def published(table: str) -> pd.DataFrame:
    """A table as it is printed: `table2`, `table3`, `table5` or `results` (tables 4, 6 and 7)."""
    with files("traube.papers.cob").joinpath("published", f"{table}.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file, comment="#")


def table_2(store: Store) -> pd.DataFrame:
    """The data sets: documents, instances, and the documents and clusters of an instance.

    The statistics of CAR's test articles need no texts: where the task is not read, they are those of the published qrels.

    Returns
    -------
    DataFrame data, column, published, measured, note
    """
    sources: dict[str, tuple[dict[str, float], str]] = {
        "20NG train": _of_task(store, "newsgroups", ["train", "validation"]),
        "20NG test": _of_task(store, "newsgroups", ["test"]),
        "CAR train": ({}, "articles of train.v2.0 of all sizes are not read; see table 5"),
        "CAR test": _of_car_test(store),
    }
    printed = published("table2").set_index("data")
    rows = [
        (data, column, printed.loc[data, column], measured.get(column), note)
        for data, (measured, note) in sources.items()
        for column in printed.columns
        if pd.notna(printed.loc[data, column]) or column in measured
    ]
    return pd.DataFrame(rows, columns=["data", "column", "published", "measured", "note"])


def _of_task(store: Store, name: str, parts: list[str], column: str = "k_coarse") -> tuple[dict[str, float], str]:
    task = _read(store, name)
    if task is None:
        return {}, f"{name} has not been read here"
    note = "posts of which nothing is left are dropped from their block" if name == "newsgroups" else ""
    return _sizes(task.splits[task.splits["part"].isin(parts)], column), note


def _sizes(splits: pd.DataFrame, column: str) -> dict[str, float]:
    groups = splits.groupby(["part", "split"])["label"]
    return {
        "N": float(len(splits)),
        "C": float(groups.ngroups),
        "n": float(groups.size().mean()),
        column: float(groups.nunique().mean()),
    }


def _of_car_test(store: Store) -> tuple[dict[str, float], str]:
    coarse, note = _of_task(store, "trec_car_coarse", ["test"])
    if coarse:
        return coarse | _of_task(store, "trec_car_fine", ["test"], "k_fine")[0], note
    path = plain_or_gzipped(raw() / "trec_car" / QRELS)
    if not path.is_file():
        return {}, f"{note}, nor are there qrels"
    judged = qrels(path).groupby("page")
    counts = judged[["coarse", "fine"]].nunique().mean()
    sizes = {"N": float(judged.size().sum()), "C": float(judged.ngroups), "n": float(judged.size().mean())}
    return {
        **sizes,
        "k_coarse": float(counts["coarse"]),
        "k_fine": float(counts["fine"]),
    }, f"of {path.name}, which has no texts"


def table_3(studies: Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
    """Lambda and r: the best of each task's study beside the paper's.

    Parameters
    ----------
    studies : by task, the best parameters found here

    Returns
    -------
    DataFrame task, column, published, measured, note
    """
    printed = published("table3").set_index("task")
    tasks = [*printed.index, *sorted(set(studies) - set(printed.index))]
    rows = []
    for task in tasks:
        for column in ("lam", "r"):
            note = "" if task in studies else "no study here: traube tune"
            value = printed[column].get(task, np.nan)
            rows.append((task, column, value, studies.get(task, {}).get(column), note))
    return pd.DataFrame(rows, columns=["task", "column", "published", "measured", "note"])


def table_5(store: Store) -> pd.DataFrame:
    """CAR's training articles by their number of passages.

    Returns
    -------
    DataFrame n, column, published, measured, note
    """
    printed = published("table5").set_index("n")
    rows = []
    for n in SIZES:
        measured: dict[str, float] = {}
        for level in ("coarse", "fine"):
            task = _read(store, f"trec_car_{level}")
            if task is None:
                continue
            train = task.splits[task.splits["part"] == "train"]
            train = train[train.groupby("split")["item"].transform("size") == n]
            if not train.empty:
                measured |= _sizes(train, f"k_{level}") | {f"t_{level}": float(_triples(train))}
        note = "" if measured else "the training articles are not there"
        rows += [(n, column, printed.loc[n, column], measured.get(column), note) for column in printed.columns]
    return pd.DataFrame(rows, columns=["n", "column", "published", "measured", "note"])


def _triples(splits: pd.DataFrame) -> int:
    """Pairs of one class times the items of other classes, summed over splits."""
    total = 0
    for _, labels in splits.groupby("split")["label"]:
        sizes = labels.value_counts().to_numpy()
        total += int((sizes * (sizes - 1) // 2 * (len(labels) - sizes)).sum())
    return total


def results(store: Store, protocols: Mapping[str, Protocol], table: str) -> pd.DataFrame:
    """Tables 4, 6 and 7: RI, ARI, NMI and AMI, means over test splits, and standard deviations over seeds.

    Parameters
    ----------
    table : `table_4`, `table_6` or `table_7`

    Returns
    -------
    DataFrame task, method, n, base, recipe (digest of one that is not the paper's; a row each), metric, published, measured, sd (over
    seeds, population), seeds, p (two-sided, of the mean over seeds against Triplet of the same base; see
    `traube.metrics.significance`; it is about these checkpoints: what other trainings would give is not in it), difference, verdict, note
    """
    frames = [_measured(store, protocols, name) for name in TASKS[table]]
    measured = pd.concat(frames, ignore_index=True)
    printed = published("results")
    printed = printed[printed["table"] == table].melt(
        ["task", "method", "n"], ["ri", "ari", "nmi"], var_name="metric", value_name="published"
    )
    # the paper's encoder is another than any here: its rows stand beside each base model that was trained
    found = printed.merge(measured, on=["task", "method", "n", "metric"], how="outer")
    found["note"] = np.where(found["measured"].isna(), "not measured here", "")
    order = {m: i for i, m in enumerate(METRICS)}
    found = found.assign(order=found["metric"].map(order)).sort_values(
        ["task", "base", "method", "n", "recipe", "order"], na_position="last"
    )
    return found.drop(columns="order").reset_index(drop=True)


_WHICH = ["method", "n", "base", "recipe"]
_SCORES = [*_WHICH, "cell_id", "split", "level", "metric", "value", "replicates"]
_COLUMNS = ["task", *_WHICH, "metric", "measured", "sd", "seeds", "difference", "p", "verdict"]


def _measured(store: Store, protocols: Mapping[str, Protocol], name: str) -> pd.DataFrame:
    task = _read(store, name)
    if task is None or PROTOCOL not in protocols:
        return pd.DataFrame(columns=_COLUMNS)
    by_split = pd.concat([_of_store(store, protocols, name), _tfidf(task)], ignore_index=True)
    groups = list(by_split.groupby([*_WHICH, "metric"], dropna=False))
    # the seeds are those of the trainings: the method itself draws no random numbers
    samples = {key: Sample.of(group, seeded=False) for key, group in groups}
    rows = []
    for key, group in groups:
        seeds = group.groupby("cell_id")["value"].mean()
        test = _against_triplet(samples, key)
        rows.append((name, *key, seeds.mean(), seeds.std(ddof=0), len(seeds), *test))
    return pd.DataFrame(rows, columns=_COLUMNS)


def _against_triplet(samples: Mapping[tuple[Any, ...], Sample], key: tuple[Any, ...]) -> tuple[float, float, str]:
    base, metric = key[2], key[4]
    # the paper's reference is the triplet model of the smallest n; its own recipe comes before others
    rivals = [k for k in samples if (k[0], k[4]) == (REFERENCE, metric)]
    rivals = [k for k in rivals if k[2] == base] or rivals
    if not rivals:
        return np.nan, np.nan, ""
    rival = min(rivals, key=lambda k: (pd.notna(k[1]), k[1] if pd.notna(k[1]) else 0, pd.notna(k[3]), str(k[3])))
    if key is rival:
        return 0.0, np.nan, "*"
    try:
        test = difference(samples[key], samples[rival])
    except TraubeError:  # no split on which both are defined
        return np.nan, np.nan, ""
    verdict = ("higher" if test.difference > 0 else "lower") if test.p < LEVEL else ""
    return test.difference, test.p, verdict


def _of_store(store: Store, protocols: Mapping[str, Protocol], name: str) -> pd.DataFrame:
    """DataFrame method, n, base, recipe, cell_id, split, level, metric, value, replicates of what was evaluated."""
    cells = _scored(store, protocols, name)
    scores = store.scores(cells, list(METRICS.values()), replicates=True)
    found = scores.merge(cells[["cell_id", *_WHICH]])
    names = {full: short for short, full in METRICS.items()}
    return found.assign(metric=found["metric"].map(names), n=found["n"].astype(float))[_SCORES]


def _scored(store: Store, protocols: Mapping[str, Protocol], name: str) -> pd.DataFrame:
    """The cells of this paper's method, with what their models' names say."""
    cells = current_cells(store, protocols, [name])
    cells = cells[(cells["protocol"] == PROTOCOL) & (cells["status"] == "done")]
    cells = cells[cells["reducer"] + "/" + cells["clusterer"] == METHOD]
    about = [_parsed(model, name) for model in cells["model"]]
    kept = [a is not None for a in about]
    columns = {k: [a[k] for a in about if a] for k in (*_WHICH, "training_seed")}
    return cells[kept].assign(**columns)


def _parsed(model: str, task: str) -> dict[str, Any] | None:
    """What a model's name says: a checkpoint of this paper trained on the task (`best`), or a model of the benchmark; else None."""
    match = _CHECKPOINT.fullmatch(model)
    if match is None:
        return (
            None if "__" in model else dict.fromkeys((*_WHICH, "training_seed")) | {"method": "as it is", "base": model}
        )
    if match["task"] != task or match["kind"] != ("last" if match["trainer"] == "untrained" else "best"):
        return None
    n = float(match["n"]) if match["n"] else None
    which = (match["trainer"], n, match["base"], match["recipe"])
    return dict(zip(_WHICH, which, strict=True)) | {"training_seed": int(match["seed"])}


def _tfidf(task: Task) -> pd.DataFrame:
    """TF-IDF fitted on each split by itself, in the distance of the reference code (Euclidean) and in that of the paper (cosine)."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    from traube.methods.estimators.clusterers import Agglomerative
    from traube.metrics.clustering import replicates, score

    texts, rows, group_of_text = task.texts, [], groups_of(task.corpus["text_id"])
    measured = [full.partition("/")[0] for full in METRICS.values()]
    for split in task.test_splits():
        if split.labels is None or split.classes is None:
            continue
        vectors = TfidfVectorizer(dtype=np.float64).fit_transform([texts[r] for r in split.rows])
        for method, metric in (("tfidf", "euclidean"), ("tfidf, cosine", "cosine")):
            found = Agglomerative(split.classes, "average", metric).fit(vectors).labels_
            values = score(split.labels, found)
            without = replicates(split.labels, found, group_of_text[split.rows], measured)
            rows += [
                (method, np.nan, None, None, method, split.split, split.level, short, values[full], without[full])
                for short, full in METRICS.items()
            ]
    return pd.DataFrame(rows, columns=_SCORES)


def trainings(folder: Path) -> pd.DataFrame:
    """Figures 3 and 5: the learning curves of COB and Triplet.

    Returns
    -------
    DataFrame task, base, method, n, recipe, seed, step, epoch, seconds (of training, without evaluations), validation_ari
    """
    rows = []
    for path in sorted(folder.glob("*-last/checkpoint.json")):
        match = _CHECKPOINT.fullmatch(path.parent.name)
        about = read_json(path)
        if match is None or match["trainer"] == "untrained" or "curve" not in about:
            continue
        n = int(match["n"]) if match["n"] else None
        key = (match["task"], match["base"], match["trainer"], n, match["recipe"], int(match["seed"]))
        rows += [(*key, *(entry[column] for column in CURVE)) for entry in about["curve"]]
    return pd.DataFrame(rows, columns=["task", "base", "method", "n", "recipe", "seed", *CURVE])


def convergence(curves: pd.DataFrame) -> pd.DataFrame:
    """Time to convergence and of an epoch, and COB's beside Triplet's.

    A training has converged at the first evaluation at which the mean validation ARI has come 95 % of its way from start to best;
    one that never rose above its start, never.

    Returns
    -------
    DataFrame task, base, n, seed, method, recipe, seconds_to_converge, seconds_an_epoch, best_ari, times_slower (than COB with the
    same seed, the better one where there are several recipes)
    """
    same = ["task", "base", "n", "seed"]
    keys = [*same, "method", "recipe"]
    rows = []
    for key, curve in curves.groupby(keys, dropna=False):
        curve = curve.sort_values("step")
        ari, seconds = curve["validation_ari"].to_numpy(), curve["seconds"].to_numpy()
        near = ari >= ari[0] + 0.95 * (ari.max() - ari[0])
        epoch = seconds[-1] / curve["epoch"].iloc[-1] if curve["epoch"].iloc[-1] else np.nan
        reached = seconds[int(near.argmax())] if ari.max() > ari[0] else np.nan
        rows.append((*key, reached, epoch, ari.max()))
    found = pd.DataFrame(rows, columns=[*keys, "seconds_to_converge", "seconds_an_epoch", "best_ari"])
    cob = found[found["method"] == "cob"].sort_values("best_ari").drop_duplicates(same, keep="last")
    base = found.merge(cob[[*same, "seconds_to_converge"]], how="left", on=same, suffixes=("", "_cob"))
    return found.assign(times_slower=found["seconds_to_converge"] / base["seconds_to_converge_cob"])


def spaces(
    workbench: Workbench,
    protocols: Mapping[str, Protocol],
    name: str,
    model_of: Callable[[str, Precision | None], Model],
    count: int,
) -> list[Space]:
    """Figure 4: the largest test splits as the trained models of the lowest seed place them, from vectors that are kept.

    Parameters
    ----------
    model_of : name and precision to model
    """
    store = workbench.store
    task = _read(store, name)
    if task is None or PROTOCOL not in protocols:
        return []
    cells = _scored(store, protocols, name)
    cells = cells[cells["method"].isin(("cob", REFERENCE))]
    cells = cells.sort_values(["method", "training_seed"]).drop_duplicates(["method", "base"])
    scores = store.scores(cells, [METRICS["ari"]]).set_index(["cell_id", "split"])["value"]
    splits = sorted(task.test_splits(), key=lambda s: -s.size)[:count]
    found = []
    for cell in cells.itertuples(index=False):
        model = model_of(cell.model, protocols[PROTOCOL].precision)
        vectors = workbench.vectors(task, model)
        for split in splits:
            labels = [] if split.labels is None else list(split.labels)
            texts = [task.texts[r] for r in split.rows]
            ari = float(scores[cell.cell_id, split.split])
            found.append(Space(cell.model, split.split, vectors.subset(split.rows).load(), labels, texts, ari))
    return found


def _read(store: Store, name: str) -> Task | None:
    card = store.card(name)
    return store.task(card) if card is not None and store.manifest(name) is not None else None
