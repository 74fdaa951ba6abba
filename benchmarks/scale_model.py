"""Cost of a benchmark at a distance: core-hours, GPU-hours, bytes and dollars, from constants measured here.

  python benchmarks/scale_model.py measure FOLDER    each unit of work at small sizes, and a whole small run
  python benchmarks/scale_model.py check FOLDER      larger whole runs, beside what the units say of them
  python benchmarks/scale_model.py price FOLDER      what 1,000,000 texts x 300 models x protocol `full` cost

A unit of work is a reduction, a clustering or the scoring of one split. Its seconds are fitted as a sum of terms that its
algorithm says (TERMS), with weights that are not negative, by least squares of relative errors; those of agglomerative
clusterings as a power of n, the same for all. All seconds are of the CPU; run it with OMP_NUM_THREADS=1. What is measured is kept in FOLDER
and not measured again. The data are those of million.py (TRAUBE_RAW). `check` ends with status 1 if a whole run takes more
or less than predicted by a fifth. Prices, and what no machine here can tell, are in scale_prices.yaml.
"""

import argparse
import csv
import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from encoding import work
from million import NAME, measured, write
from scipy.optimize import nnls

from traube import components
from traube._pipeline.params import load_params
from traube._storage import ArtifactRow, CellRow, Storage
from traube.components import Method
from traube.components.fitting import fit_clusterer
from traube.metrics import clustering
from traube.metrics.names import GROUPS
from traube.models import load_model
from traube.models._batching import make_block

SIZES = (1_000, 2_000, 4_000, 6_000, 8_000)
CHECKED = (12_000, 18_000)
ALLOWED = 0.20
SEED = 42
CLASSES = 20
Terms = Mapping[str, Callable[[int], float]]

_ONE: Callable[[int], float] = lambda n: 1.0  # noqa: E731
_N: Callable[[int], float] = lambda n: n  # noqa: E731
_SQUARE: Callable[[int], float] = lambda n: float(n) ** 2  # noqa: E731
_LAYOUT: Callable[[int], float] = lambda n: n * (500 if n <= 10_000 else 200)  # noqa: E731  (UMAP's epochs by default)
_SORTED: Callable[[int], float] = lambda n: n * log(n)  # noqa: E731
# by the beginning of a unit's name, the first that fits
POWER = (
    "cluster agglomerative",
    4_000,
)  # one power of n, fitted from this size on: less lies in the processor's caches
TERMS: dict[str, Terms] = {
    "reduce umap": {"n epochs": _LAYOUT, "n^2": _SQUARE},  # the layout, and exact neighbors
    "reduce pca+umap": {"n epochs": _LAYOUT, "n^2": _SQUARE},
    "cluster hdbscan": {"n log n": _SORTED},
    "": {"1": _ONE, "n": _N},
}


def by_dimension(unit: str, term: str) -> bool:
    """Return whether a term of a unit grows with the dimensions: the unit reads whole vectors there. UMAP's layout does not."""
    return unit.endswith(" on none") or unit == "reduce pca" or (unit, term) == ("reduce umap", "n^2")


def terms_of(unit: str) -> Terms:
    return next(terms for name, terms in TERMS.items() if unit.startswith(name))


def grid() -> list[Method]:
    """The methods of protocol `full`, those that make no sense left out."""
    protocol = load_params().chosen("full")
    every = components.grid(protocol.reducers, protocol.clusterers, protocol.parameters)
    return [method for method in every if method.unsupported() is None]


# measuring


def measure(folder: Path, rounds: int) -> None:
    path = folder / "units.csv"
    if not path.exists():
        with path.open("w", newline="") as file:
            csv.writer(file).writerow(("unit", "n", "seconds"))
    known = Counter((unit, n) for unit, n, _ in read(path))
    for _ in units(write_and_read(folder, 500)):
        pass  # what is compiled is compiled now
    for round_, size in product(range(rounds), SIZES):
        if all(known[unit, size] > round_ for unit in names()):
            continue
        for unit, taken in units(write_and_read(folder, size)):
            if known[unit, size] <= round_:
                with path.open("a", newline="") as file:
                    csv.writer(file).writerow((unit, size, f"{taken:.4f}"))
                print(f"{size:,}: {unit}: {taken:.2f} s", flush=True)
    whole(folder, SIZES[0])


def read(path: Path) -> list[tuple[str, int, float]]:
    with path.open(newline="") as file:
        return [(row["unit"], int(row["n"]), float(row["seconds"])) for row in csv.DictReader(file)]


def write_and_read(folder: Path, size: int) -> tuple[list[str], Any]:
    """Texts and labels of a size."""
    cards = folder / str(size) / "cards"
    if not (cards / f"{NAME}.csv").exists():
        write(cards, size)
    with (cards / f"{NAME}.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [row["text"] for row in rows], np.array([row["topic"] for row in rows], dtype=object)


def names() -> list[str]:
    """The units of a model on one split."""
    reducers = dict.fromkeys(method.reducer for method in grid())
    found = ["encode", "score", *(f"reduce {reducer}" for reducer in reducers if reducer != "none")]
    return [*found, *(clustering_unit(method) for method in grid())]


def clustering_unit(method: Method) -> str:
    return f"cluster {method.clusterer} on {method.reducer}"


def units(data: tuple[list[str], Any]) -> Iterator[tuple[str, float]]:
    """CPU seconds of each unit."""
    texts, gold = data
    vectors, seconds = timed(load_model("hashed").encode, texts)
    yield "encode", seconds
    points = {"none": vectors}
    for m in grid():
        if m.reducer not in points:
            points[m.reducer], seconds = timed(components.reduce, m.reducer, m.reducer_params, vectors, SEED)
            yield f"reduce {m.reducer}", seconds
        view = components.VectorView(points[m.reducer])
        given = CLASSES if components.get_clusterer(m.clusterer).n_clusters == "given" else None
        fitted, seconds = timed(fit_clusterer, m.clusterer, m.clusterer_params, view, given, SEED)
        yield clustering_unit(m), seconds
    groups = np.arange(len(texts)) % GROUPS
    _, seconds = timed(clustering.score, gold, fitted.labels)
    _, more = timed(clustering.replicates, gold, fitted.labels, groups)
    yield "score", seconds + more


def timed(work: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Return the result, and the CPU seconds that it took."""
    began = time.process_time()
    return work(*arguments), time.process_time() - began


def whole(folder: Path, size: int) -> dict[str, float]:
    """A whole `traube run` of a size: what it took; and its files, in bytes."""
    path = folder / str(size) / "run.json"
    if not path.exists():
        write_and_read(folder, size)
        shutil.rmtree(path.parent / "home", ignore_errors=True)
        row = measured(path.parent, ["run", "-t", NAME, "-m", "hashed", "--protocol", "full", "--seed", str(SEED)])
        storage = Storage(path.parent / "home")
        blobs = [cell.blob for cell in storage.read_rows(CellRow)]
        row["results bytes"] = sum(len(storage.blobs.get(blob)) for blob in blobs)
        row["reductions bytes"] = sum(one.bytes for one in storage.read_rows(ArtifactRow, kind="reduction"))
        path.write_text(json.dumps(row))
    found: dict[str, float] = json.loads(path.read_text())
    return found


# the model


class Model:
    """Seconds of each unit by the number of texts.

    Attributes
    ----------
    fitted : of each unit, its terms with their weights
    start : CPU seconds of a run besides its units: processes that start, compile, check and publish
    """

    def __init__(self, folder: Path) -> None:
        self.rows = read(folder / "units.csv")
        self.fitted: dict[str, dict[str, tuple[float, Callable[[int], float]]]] = {}
        self.misses: dict[str, float] = {}
        power = self._power()
        for unit in names():
            sizes, wanted = self._of(unit)
            if unit.startswith(POWER[0]):
                weight = float(np.exp(np.mean(np.log(wanted) - power * np.log(sizes))))
                self.fitted[unit] = {f"n^{power:.2f}": (weight, lambda n: float(n) ** power)}
            else:
                terms = terms_of(unit)
                table = np.array([[term(n) for term in terms.values()] for n in sizes.tolist()])
                weights, _ = nnls(table / wanted[:, None], np.ones(len(wanted)))
                self.fitted[unit] = {name: (float(w), terms[name]) for name, w in zip(terms, weights, strict=True)}
            said = np.array([self.seconds(unit, n) for n in sizes.tolist()])
            self.misses[unit] = float(np.abs(said / wanted - 1).max())
        self.start = 0.0
        small = whole(folder, SIZES[0])["cpu"]
        self.start = small - self.run(SIZES[0])

    def _of(self, unit: str) -> tuple[Any, Any]:
        """Sizes, and the fewest CPU seconds that each took: what is beside it on a machine only adds."""
        least = POWER[1] if unit.startswith(POWER[0]) else 0
        sizes = sorted({n for name, n, _ in self.rows if name == unit and n >= least})
        fewest = [min(s for name, n, s in self.rows if (name, n) == (unit, size)) for size in sizes]
        return np.array(sizes), np.maximum(fewest, 1e-3)

    def _power(self) -> float:
        """The power that agglomerative clusterings have in common: of all together, each about its own mean."""
        x, y = [], []
        for unit in names():
            if unit.startswith(POWER[0]):
                sizes, seconds = (np.log(values) for values in self._of(unit))
                x.append(sizes - sizes.mean())
                y.append(seconds - seconds.mean())
        return float(np.concatenate(x) @ np.concatenate(y) / (np.concatenate(x) @ np.concatenate(x)))

    def seconds(self, unit: str, n: int, wider: float = 1.0) -> float:
        """CPU seconds of a unit.

        Parameters
        ----------
        wider : how many times as many dimensions vectors have as those that were measured
        """
        terms = self.fitted[unit].items()
        return float(sum(w * term(n) * (wider if by_dimension(unit, name) else 1) for name, (w, term) in terms))

    def run(self, n: int) -> float:
        """CPU seconds of a run of one model and one seed."""
        once = [unit for unit in names() if unit not in ("encode", "score")]
        work = sum(self.seconds(unit, n) for unit in once) + len(grid()) * self.seconds("score", n)
        return self.start + self.seconds("encode", n) + work


def check(folder: Path) -> int:
    model, worst = Model(folder), 0.0
    print("| unit | seconds, by n | largest miss |\n|---|---|---:|")
    for unit in names():
        said = " + ".join(f"{weight:.2g} {term}" for term, (weight, _) in model.fitted[unit].items() if weight)
        print(f"| {unit} | {said or '0'} | {model.misses[unit]:.0%} |")
    print(f"\nA run's start: {model.start:.1f} CPU s\n")
    print("| texts | predicted, CPU s | measured, CPU s | off by |\n|---:|---:|---:|---:|")
    for size in CHECKED:
        found, predicted = whole(folder, size)["cpu"], model.run(size)
        worst = max(worst, abs(predicted / found - 1))
        print(f"| {size:,} | {predicted:.0f} | {found:.0f} | {predicted / found - 1:+.0%} |", flush=True)
    return int(worst > ALLOWED)


# the price


@dataclass(frozen=True)
class Request:
    """A request: of `models` models of the assumed shape, protocol `full` with some seeds on one split of `texts`."""

    texts: int
    models: int
    seeds: int
    assumed: Mapping[str, Any]

    @property
    def refused(self) -> list[Method]:
        """Methods whose distances do not fit a worker's memory."""
        too_much = 8 * self.texts**2 > self.assumed["memory_a_core"] * 2**30
        return [
            m for m in grid() if too_much and components.get_clusterer(m.clusterer).holds_distances(m.clusterer_params)
        ]

    @property
    def methods(self) -> list[Method]:
        return [m for m in grid() if m not in self.refused]

    @property
    def cells(self) -> int:
        """Of one model. What draws no random numbers is computed once."""
        return sum(self.seeds if m.seeded else 1 for m in self.methods)

    def core_hours(self, model: Model) -> dict[str, float]:
        """Of one model, by unit, without encoding."""
        wider, hours = self.assumed["encoder"]["dimensions"] / load_model("hashed").card.dimensions, {}
        for m in self.methods:
            if m.reduces:
                times = self.seeds if m.reducer_seeded else 1
                hours[f"reduce {m.reducer}"] = times * model.seconds(f"reduce {m.reducer}", self.texts, wider) / 3600
            times = self.seeds if m.seeded else 1
            hours[clustering_unit(m)] = times * model.seconds(clustering_unit(m), self.texts, wider) / 3600
        return hours | {"score": self.cells * model.seconds("score", self.texts) / 3600}

    def encoding_hours(self, operations_a_second: float) -> float:
        """Of all models."""
        operations = 2 * self.assumed["encoder"]["parameters_of_layers"] * self.assumed["tokens_a_text"] * self.texts
        return float(self.models * operations / operations_a_second / 3600)

    def sizes(self, folder: Path) -> dict[str, float]:
        """GiB of what is kept, from the files of the largest run."""
        size, found = CHECKED[-1], whole(folder, CHECKED[-1])
        reductions = len({m.reducer for m in grid() if m.reduces})
        wanted = sum(
            self.seeds if components.get_reducer(r).seeded else 1
            for r in {m.reducer for m in self.methods if m.reduces}
        )
        a_text = {
            "vectors": 4 * self.assumed["encoder"]["dimensions"] + 20,
            "assignments and scores": self.cells * found["results bytes"] / (size * len(grid())),
            "reductions": wanted * found["reductions bytes"] / (size * reductions),
        }
        return {kind: self.models * self.texts * each / 2**30 for kind, each in a_text.items()}


def price(folder: Path, request: Request) -> None:
    dollars, gpu = request.assumed["dollars"], request.assumed["gpu"]
    hours = request.core_hours(Model(folder))
    print(
        f"{request.texts:,} texts, {request.models} models, {request.seeds} seeds: {request.models * request.cells:,} cells\n"
    )
    print("| unit | core-hours, a model | all |\n|---|---:|---:|")
    for unit, value in sorted(hours.items(), key=lambda item: -item[1]):
        print(f"| {unit} | {value:,.3g} | {request.models * value:,.0f} |")
    for m in request.refused:
        print(f"| {m.name} | refused: {8 * request.texts**2 / 2**40:,.1f} TiB of distances | |")
    total_hours = request.models * sum(hours.values())
    print("\n| what | how much | dollars |\n|---|---:|---:|")
    print(f"| core-hours without encoding | {total_hours:,.0f} | {total_hours * dollars['core_hour']:,.0f} |")
    for precision, speed in encoding(folder).items():
        value = request.encoding_hours(speed)
        print(f"| core-hours, encoded in {precision} on CPUs | {value:,.0f} | {value * dollars['core_hour']:,.0f} |")
    for precision, teraflops in gpu["teraflops"].items():
        value = request.encoding_hours(teraflops * 1e12 * gpu["share_of_peak"])
        print(
            f"| or GPU-hours in {precision}, at the assumed speed | {value:,.1f} | {value * dollars['gpu_hour']:,.0f} |"
        )
    for kind, size in request.sizes(folder).items():
        print(f"| GiB of {kind} | {size:,.0f} | {size * dollars['gib_month']:,.0f} a month |")


def encoding(folder: Path) -> dict[str, float]:
    """Floating-point operations a CPU second that encoding reaches on a core, by precision; MiniLM's, on short texts."""
    path = folder / "encoding.json"
    if not path.exists():
        texts, found = write_and_read(folder, SIZES[0])[0][:300], {}
        for precision in ("fp32", "bf16"):
            model: Any = load_model("minilm", "cpu", precision)
            model.encode(texts[:8])
            seconds = min(timed(model.encode, texts)[1] for _ in range(3))
            lengths = make_block(model.network, texts, np.arange(len(texts)), model.prompt).lengths
            found[precision] = float(work(model) * lengths.sum() / seconds)
        path.write_text(json.dumps(found))
    speeds: dict[str, float] = json.loads(path.read_text())
    return speeds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["measure", "check", "price"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--texts", type=int, default=1_000_000)
    parser.add_argument("--models", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=2, help="in which units are measured; the fewest seconds count")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--prices", type=Path, default=Path(__file__).with_name("scale_prices.yaml"))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.what == "measure":
        measure(arguments.folder, arguments.rounds)
    elif arguments.what == "check":
        return check(arguments.folder)
    else:
        assumed = yaml.safe_load(arguments.prices.read_text())
        price(arguments.folder, Request(arguments.texts, arguments.models, arguments.seeds, assumed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
