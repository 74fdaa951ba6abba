"""Errors of verdicts of both kinds, by simulation, where the truth is known.

Real vectors (MiniLM's of StackOverflow's 20,000 questions) take the place of a population of texts. A trial draws texts from it,
makes models of it by adding noise, clusters their splits by mini-batch k-means, and asks the test. A model is better because its
noise is smaller. The noise is a text's own in each model (`strong` effects of texts), or nearly the same in all models (`weak`:
what differs is mostly the clusterer's luck). Scores are kept in `--folder`, so that a run that was stopped goes on; seeds are the
trials' numbers.

    TRAUBE_RAW=... python benchmarks/verdicts.py --trials 400     # 70 minutes on one core
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.progress import track
from scipy import stats

from traube._core import paths
from traube._pipeline.params import Promotion
from traube.comparison.jackknife import Sample, choose_best
from traube.comparison.ranking import rank
from traube.comparison.verdict import compare

Values = NDArray[np.float64]
Split = tuple[NDArray[np.int64], NDArray[np.int64]]

LEVEL = 0.05
SEEDS = 5
METRIC = "v_measure/noise_as_cluster"
# the noise of the model that others are compared with, then of an equal one and of better ones: about 1, 2 and 5 points
NOISE = {"strong": (0.50, 0.50, 0.478, 0.458, 0.395), "weak": (0.50, 0.50, 0.478, 0.458, 0.395)}
OWN = 0.1  # of the noise's norm where effects are weak: what is a text's own in each model
# another setting, in which the test before was found never to decide: all dimensions, one seed, 1,200 texts; 0, 2 and 4 points
FIRST = (1.00, 1.00, 0.91, 0.78)


def main() -> None:
    """Simulate what is not there yet, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=paths.home() / "verdicts")
    arguments = parser.parse_args()
    pool = draw_from(arguments.folder)
    for kind in ("first", "trial"):
        simulate(kind, arguments.trials, pool, arguments.workers)
    numbers = range(arguments.trials)
    tables = (first_table, table, choice_table, families, gate)
    for rows in (made(numbers, pool) for made in tables):
        print(pd.DataFrame(rows).to_markdown(index=False, floatfmt=".3f"), "\n")


# texts, models, splits


def draw_from(folder: Path) -> Path:
    """The population, encoded once."""
    from traube.models import load_model
    from traube.tasks import load_task

    path = folder / "population.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        task = load_task("stackoverflow")
        (split,) = task.test_splits()
        vectors = np.asarray(load_model("minilm_32").encode(task.texts))[split.rows]
        np.savez(path, X=vectors, y=np.unique(split.labels, return_inverse=True)[1])  # type: ignore[arg-type]
    return path


@cache
def population(pool: Path, dimensions: int) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Vectors, classes and jackknife groups of all texts."""
    from sklearn.decomposition import PCA

    with np.load(pool) as stored:
        vectors, classes = stored["X"], stored["y"]
    if dimensions < vectors.shape[1]:
        vectors = PCA(dimensions, random_state=0).fit_transform(vectors).astype(np.float32)
    return vectors, classes, np.random.default_rng(0).integers(0, 20, len(vectors))


def one(rng: np.random.Generator, classes: NDArray[np.int64]) -> list[Split]:
    return [(np.arange(len(classes)), classes)]


def disjoint(rng: np.random.Generator, classes: NDArray[np.int64]) -> list[Split]:
    parts = np.array_split(rng.permutation(len(classes)), 10)
    return [(rows, classes[rows]) for rows in parts]


def overlapping(rng: np.random.Generator, classes: NDArray[np.int64], count: int = 28) -> list[Split]:
    """As the German benchmark's: 10 to 100 % of the texts, of 10 or of all 20 classes."""
    found = []
    for share in np.linspace(0.1, 1, count):
        rows = np.arange(len(classes))
        if rng.random() < 0.5:
            rows = np.flatnonzero(np.isin(classes, rng.choice(20, 10, replace=False)))
        rows = rng.permutation(rows)[: max(40, int(share * len(rows)))]
        found.append((rows, classes[rows]))
    return found


def pydocs(rng: np.random.Generator, classes: NDArray[np.int64]) -> list[Split]:
    """As pydocs': three by package (coarse classes), three by subpackage, six within a package."""
    coarse = rng.permutation(20) % 6
    n = len(classes)
    drawn = [rng.permutation(n)[: int(share * n)] for share in (0.6, 0.8, 1.0) * 2]
    found = [(rows, coarse[classes[rows]] if i < 3 else classes[rows]) for i, rows in enumerate(drawn)]
    within = [np.flatnonzero(coarse[classes] == package) for package in range(6)]
    return found + [(rows, classes[rows]) for rows in within]


LAYOUTS = {"1": one, "10 disjoint": disjoint, "28 overlapping": overlapping, "12 as pydocs": pydocs}


Scores = Callable[[np.random.Generator, NDArray[np.float32], list[Split], NDArray[np.int64], int], Values]


def trial(number: int, pool: Path, score: "Scores | None" = None) -> dict[str, Values]:
    """Scores of every layout and kind of effects: [models, seeds, splits, 21], the metric and its replicates."""
    vectors, classes, groups = population(pool, 32)
    rng = np.random.default_rng([1, number])
    found = {}
    for name, layout in LAYOUTS.items():
        rows = rng.choice(len(vectors), 800, replace=False)
        splits = layout(rng, classes[rows])
        shared = rng.normal(size=(800, 32))
        for effects, levels in NOISE.items():
            scores = []
            for level in levels:
                own = rng.normal(size=(800, 32))
                noise = own if effects == "strong" else shared + OWN * own
                model = (vectors[rows] + level * noise / np.sqrt(32)).astype(np.float32)
                scores.append((score or scored)(rng, model, splits, groups[rows], SEEDS))
            found[f"{name}|{effects}"] = np.array(scores)
    return found


def first_look(number: int, pool: Path, score: "Scores | None" = None) -> dict[str, Values]:
    """The same of the first look's setting."""
    vectors, classes, groups = population(pool, 384)
    rng = np.random.default_rng([2, number])
    rows = rng.choice(len(vectors), 1200, replace=False)
    splits = overlapping(rng, classes[rows], 20)
    models = [(vectors[rows] + s * rng.normal(size=(1200, 384)) / np.sqrt(384)).astype(np.float32) for s in FIRST]
    return {"first": np.array([(score or scored)(rng, model, splits, groups[rows], 1) for model in models])}


def scored(
    rng: np.random.Generator, model: NDArray[np.float32], splits: list[Split], groups: NDArray[np.int64], seeds: int
) -> Values:
    """[seeds, splits, 21]: the metric, and its replicates."""
    from sklearn import config_context

    from traube.components import VectorView
    from traube.components.fitting import fit_clusterer
    from traube.metrics._contingency import Contingency
    from traube.metrics._measures import compute_measures

    found = np.empty((seeds, len(splits), 21))
    for j, (rows, labels) in enumerate(splits):
        k, vectors, of_group = len(np.unique(labels)), model[rows], groups[rows] + 1  # group 0 is empty
        for s in range(seeds):
            with config_context(assume_finite=True, skip_parameter_validation=True):
                clusters = fit_clusterer(
                    "minibatch_kmeans", None, VectorView(vectors), k, int(rng.integers(2**31))
                ).labels
            found[s, j] = compute_measures(Contingency.without_each(labels, clusters, of_group, 21), ["v_measure"])[
                "v_measure"
            ]
    return found


def overlaps(
    rng: np.random.Generator, model: NDArray[np.float32], splits: list[Split], groups: NDArray[np.int64], seeds: int
) -> Values:
    """In place of scores, what the splits share, |i n j| / (|i| |j|); it draws the same random numbers."""
    for _ in range(len(splits) * seeds):
        rng.integers(2**31)
    holds = np.zeros((len(splits), len(model)))
    for j, (rows, _) in enumerate(splits):
        holds[j, rows] = 1 / len(rows)
    return holds @ holds.T


KINDS = {"trial": trial, "first": first_look}


def simulate(kind: str, trials: int, pool: Path, workers: int) -> None:
    todo = [n for n in range(trials) if not _file(kind, n, pool).exists()]
    with ProcessPoolExecutor(workers) as executor:
        work = executor.map(_keep, [kind] * len(todo), todo, [pool] * len(todo))
        for _ in track(work, f"simulating, {kind}", total=len(todo), transient=True):
            pass


def _file(kind: str, number: int, pool: Path) -> Path:
    return pool.with_name(f"{kind}-{number}.npz")


def _keep(kind: str, number: int, pool: Path) -> None:
    path = _file(kind, number, pool)
    found = {name: values.astype(np.float32) for name, values in KINDS[kind](number, pool).items()}
    np.savez(path.with_name(f".{path.name}"), **found)  # type: ignore[arg-type]
    path.with_name(f".{path.name}").rename(path)


def load(kind: str, numbers: range, pool: Path) -> dict[str, Values]:
    """By setting, [trials, models, seeds, splits, 21]."""
    files = [np.load(_file(kind, n, pool)) for n in numbers]
    return {name: np.array([f[name] for f in files], dtype=np.float64) for name in files[0].files}


# the tests: what stands, and what it was chosen from


def sample(scores: Values) -> Sample:
    """Of [seeds, splits, 21]."""
    seeds, n, _ = scores.shape
    noise = float(scores[:, 0, 0].var(ddof=1) / seeds) if seeds > 1 else np.nan
    names = tuple(f"s{j}" for j in range(n))
    return Sample(names, scores.mean(axis=0), noise if n == 1 else 0.0, max(seeds - 1.0, 1.0))


def verdict(a: Values, b: Values) -> float:
    """p of the test that stands; 1 where it says that it cannot decide."""
    found = compare("a", sample(a), "b", sample(b))
    return 1.0 if found.undecided else found.p


def plain(a: Values, b: Values) -> float:
    """The paired t-test, as if splits were independent."""
    d = (a - b).mean(axis=0)[:, 0]
    return float(stats.ttest_1samp(d, 0).pvalue) if len(d) > 1 else np.nan


def texts_alone(a: Values, b: Values) -> float:
    """The jackknife over texts, clusters fixed, nothing else."""
    d = (a - b).mean(axis=0)
    return _t(d[:, 0].mean(), _jackknife(d), 19.0)


def texts_and_spread(a: Values, b: Values) -> float:
    """The jackknife's variance of the mean, and the splits' spread over their number on top."""
    d = (a - b).mean(axis=0)
    if len(d) == 1:
        return np.nan
    texts, spread = _jackknife(d), float(d[:, 0].var(ddof=1) / len(d))
    return _t(d[:, 0].mean(), texts + spread, (texts + spread) ** 2 / (texts**2 / 19 + spread**2 / (len(d) - 1)))


def shared_texts(a: Values, b: Values, shape: Values) -> float:
    """The t-test that stood before: widened as if all that splits differ by came from their texts (Nadeau and Bengio 2003)."""
    return _t(*before(a, b, shape))


def before(a: Values, b: Values, shape: Values) -> tuple[float, float, float]:
    """Its difference, variance and degrees of freedom."""
    d = (a - b).mean(axis=0)[:, 0]
    n = len(d)
    r = (shape.sum() - np.trace(shape)) / (n * (n - 1)) / (np.trace(shape) / n)
    centered = shape - shape.mean(axis=0) - shape.mean(axis=1)[:, None] + shape.mean()
    return d.mean(), d.var(ddof=1) * (1 / n + r / (1 - r)), np.trace(centered) ** 2 / (centered**2).sum()


def _jackknife(d: Values) -> float:
    without = d[:, 1:].mean(axis=0)
    return float(19 / 20 * ((without - without.mean()) ** 2).sum())


def _t(mean: float, variance: float, df: float) -> float:
    return float(2 * stats.t.sf(abs(mean) / np.sqrt(variance), df))


TESTS = {"this": verdict, "plain t": plain, "texts alone": texts_alone, "texts + spread": texts_and_spread}


def first_table(numbers: range, pool: Path) -> Iterator[dict[str, object]]:
    """Share called significant where the test before never decided."""
    values = load("first", numbers, pool)["first"]
    shapes = [first_look(n, pool, overlaps)["first"][0] for n in track(numbers, "overlaps", transient=True)]
    for model in range(1, len(FIRST)):
        pairs = [(v[model], v[0]) for v in values]
        yield {
            "points": 100 * float(np.mean([(a - b)[..., 0].mean() for a, b in pairs])),
            "before": share([shared_texts(a, b, shape) for (a, b), shape in zip(pairs, shapes, strict=True)]),
            **{name: share([test(a, b) for a, b in pairs]) for name, test in TESTS.items()},
        }


def share(p: list[float]) -> float:
    """Of p-values, how many are significant; nan where the test cannot be had."""
    return float(np.mean(np.array(p) < LEVEL)) if not np.isnan(p).any() else np.nan


def table(numbers: range, pool: Path) -> Iterator[dict[str, object]]:
    """Level and power by setting. `level, pooled` also takes the better models, shifted to no difference on average."""
    for name, values in track(load("trial", numbers, pool).items(), "tests", transient=True):
        layout, _, effects = name.partition("|")
        for seeds in (1, 3, 5):
            scores = values[:, :, :seeds]
            points = 100 * (scores[..., 0] - scores[:, :1, ..., 0]).mean(axis=(0, 2, 3))
            shifted = scores.copy()
            shifted[:, 2:] -= points[2:, None, None, None] / 100
            rows: dict[str, object] = {"splits": layout, "effects": effects, "seeds": seeds}
            pooled = [verdict(v[m], v[0]) for v in shifted for m in range(1, 5)]
            rows |= {"level": share([verdict(v[1], v[0]) for v in scores]), "level, pooled": share(pooled)}
            for model in (2, 3, 4):
                p = share([verdict(v[model], v[0]) for v in scores])
                rows[f"about {(1, 2, 5)[model - 2]}"] = f"{p:.2f} ({points[model]:+.1f})"
            others = {k: test for k, test in TESTS.items() if k != "this"}
            rows |= {f"level: {k}": share([test(v[1], v[0]) for v in scores]) for k, test in others.items()}
            yield rows


def choice_table(numbers: range, pool: Path) -> Iterator[dict[str, object]]:
    """The same where each model comes with the best of five methods, as on the leaderboard (here: five seeds)."""
    for name, values in load("trial", numbers, pool).items():
        layout, _, effects = name.partition("|")
        if layout == "1":  # one split and one seed each: not decided
            continue
        p: tuple[list[float], list[float]] = [], []
        for scores in values:
            champion, equal, better = (choose_best([sample(scores[m][[s]]) for s in range(SEEDS)]) for m in (0, 1, 4))
            p[0].append(compare("a", equal, "b", champion).p)
            p[1].append(compare("a", better, "b", champion).p)
        yield {"splits": layout, "effects": effects, "level": share(p[0]), "power at about 5": share(p[1])}


def holm(p: Values) -> Values:
    """p-values corrected step by step (Holm 1979), the rule that stood before: it has no intervals to go with it."""
    order = np.argsort(p)
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def families(numbers: range, pool: Path, seeds: int = 3) -> Iterator[dict[str, object]]:
    """A table of five models, whose ten pairs are one family: in how many tables is any pair of five equal models called
    different; and in how many is the model that is about 5 points better distinguished from both that are equal?
    """
    best, equal = 4, (0, 1)
    for name, values in track(load("trial", numbers, pool).items(), "families", transient=True):
        layout, _, effects = name.partition("|")
        scores = values[:, :, :seeds]
        points = (scores[..., 0] - scores[:, :1, ..., 0]).mean(axis=(0, 2, 3))
        shifted = scores - points[None, :, None, None, None]
        false, found = Counter[str](), Counter[str]()
        for models in shifted:
            false.update(rule for rule, p in by_rule(models).items() if min(p.values()) < LEVEL)
        for models in scores:
            leads = [(i, best) for i in equal]
            found.update(rule for rule, p in by_rule(models).items() if max(p[pair] for pair in leads) < LEVEL)
        row: dict[str, object] = {"splits": layout, "effects": effects}
        row |= {f"level: {rule}": false[rule] / len(numbers) for rule in ("this", "holm", "none")}
        yield row | {f"power: {rule}": found[rule] / len(numbers) for rule in ("this", "holm")}


def by_rule(models: Values) -> dict[str, dict[tuple[int, int], float]]:
    """p of every pair of models by the rule that stands, by Holm's, and without any."""
    names = [str(m) for m in range(len(models))]
    ranking = rank(names, [sample(model) for model in models])
    verdicts = {(i, j): ranking.verdict(names[i], names[j]) for i, j in combinations(range(len(models)), 2)}
    alone = {pair: replace(verdict, comparisons=1).p for pair, verdict in verdicts.items()}
    stepped = dict(zip(alone, holm(np.array(list(alone.values()))).tolist(), strict=True))
    return {"this": {pair: verdict.p for pair, verdict in verdicts.items()}, "holm": stepped, "none": alone}


# the gate: a family of two tasks of 28 overlapping splits

# (of the task, on the family's other task): challenger and champion by their numbers in NOISE
TRUTHS = {
    "equal; equal": ((1, 0), (1, 0)),
    "+2; equal": ((3, 0), (1, 0)),
    "+5; equal": ((4, 0), (1, 0)),
    "+5; +5": ((4, 0), (4, 0)),
    "+5; -2": ((4, 0), (0, 3)),
}
RIGHT = ("+2; equal", "+5; equal", "+5; +5")


def gate(numbers: range, pool: Path, name: str = "28 overlapping") -> Iterator[dict[str, object]]:
    """Return what becomes of a challenger, by the registry's own judgment, and by the one before."""
    rules, values = Promotion(), load("trial", numbers, pool)
    shapes = [trial(n, pool, overlaps) for n in track(numbers, "overlaps", transient=True)]
    for effects in NOISE:
        key = f"{name}|{effects}"
        for seeds in (1, 5):
            for truth, sides in TRUTHS.items():
                now: Counter[str] = Counter()
                earlier = 0
                for n in track(numbers, f"gate, {truth}", transient=True):
                    trials = (n, (n + 1) % len(numbers))  # two tasks share no texts
                    scores = [
                        tuple(values[key][t][m][:seeds] for m in side) for t, side in zip(trials, sides, strict=True)
                    ]
                    now[decide(scores, rules)] += 1
                    earlier += promoted_before(scores, [shapes[t][key][0] for t in trials], rules)
                row = {"effects": effects, "seeds": seeds, "truth: here; elsewhere": truth}
                row |= {"right": "promote" if truth in RIGHT else "not", "promoted before": earlier / len(numbers)}
                yield row | {f"{word} now": now[word] / len(numbers) for word in ("promote", "hold", "keep")}


def decide(scores: list[tuple[Values, ...]], rules: Promotion) -> str:
    """The registry's decision, from a storage."""
    from traube._pipeline.kinds.clustering import ClusteringCell
    from traube._pipeline.record import make_scores, record
    from traube._storage import open_storage
    from traube.comparison.candidates import Candidate
    from traube.comparison.promotion import judge
    from traube.components import parse_method

    tasks = dict.fromkeys(("here", "elsewhere"), "f")
    found: dict[str, list[Candidate]] = {name: [] for name in tasks}
    with TemporaryDirectory(prefix="verdicts-") as folder:
        storage = open_storage(Path(folder))
        for task, sides in zip(tasks, scores, strict=True):
            for model, values in zip(("challenger", "champion"), sides, strict=True):
                method = parse_method("none/kmeans")
                cells = [
                    ClusteringCell(task, "f", model, model, method, s, "p", "default", "d") for s in range(len(values))
                ]
                for cell, of_seed in zip(cells, values, strict=True):
                    frame = pd.DataFrame(
                        {"split": [f"s{j}" for j in range(len(of_seed))], "level": "l", "metric": METRIC}
                    )
                    frame = frame.assign(value=of_seed[:, 0], replicates=list(of_seed[:, 1:]))
                    splits = (
                        frame[["split", "level"]].drop_duplicates().assign(split_set="default", part="test", label="a")
                    )
                    storage.save_splits_of("d", splits)
                    made = make_scores(frame, storage.read_splits("d"))
                    storage.save_cell(record(cell, "done"), scores=made)
                ids = tuple(cell.cell_id for cell in cells)
                mean = float(values[..., 0].mean())
                found[task].append(Candidate(task, "p", METRIC, model, model, "none/kmeans", "d", ids, mean))
        challenger, champion = found["here"]
        (decision,) = judge(storage, tasks, found, {"here": challenger}, {"here": champion}, rules)
    return decision.outcome


def promoted_before(scores: list[tuple[Values, ...]], shapes: list[Values], rules: Promotion) -> bool:
    """The gate that stood before: only a loss that was proven elsewhere stopped a promotion."""
    (mean, variance, df), (loss, of_loss, loss_df) = (
        before(*s, shape) for s, shape in zip(scores, shapes, strict=True)
    )
    if mean < rules.minimum_effect or _t(mean, variance, df) >= rules.level:
        return False
    return bool(loss + stats.t.ppf(0.975, loss_df) * np.sqrt(of_loss) >= -rules.margin)


if __name__ == "__main__":
    main()
