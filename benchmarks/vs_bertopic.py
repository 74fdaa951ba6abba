"""Traube's default grouping beside BERTopic's and EVoC's, on labeled texts that are treated as unlabeled.

All get the same vectors. For each set and seed: ARI and V-measure (noise as a cluster of its own), groups found beside
classes, the best ARI of any layer that a person is shown (Traube, EVoC), names (the mean NPMI of pairs of a group's first
five words, over the texts themselves, and the share of different words among all groups' first five), and CPU seconds of
grouping and naming on one thread, without encoding and compiling. BERTopic and EVoC are installed into environments below
TRAUBE_HOME. What each found is kept there, too, and is not computed again.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from labeled_sets import OTHERS, TUNED, LabeledSet, load
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score, v_measure_score

from traube._core import paths

BERTOPIC, EVOC = "0.17.4", "0.3.2"
SAME = ("numpy", "scikit-learn", "umap-learn", "hdbscan", "numba", "pandas")  # versions on both sides
HERE = Path(__file__).parent
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "NUMBA", "OPENBLAS", "MKL")}
TOP = 5  # words of a group's name
OURS, BARE, REASSIGNED = "Traube", "BERTopic", "BERTopic, outliers reassigned"
EVOC_BARE, EVOC_REASSIGNED = "EVoC", "EVoC, outliers reassigned"
COLUMNS = (  # what a row says it was grouped by, the side that wrote it, and the key of its labels
    (OURS, "traube", "labels"),
    (BARE, "bertopic", "labels"),
    (REASSIGNED, "bertopic", "reassigned"),
    (EVOC_BARE, "evoc", "labels"),
    (EVOC_REASSIGNED, "evoc", "reassigned"),
)
_WORD = re.compile(r"\b\w\w+\b")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", action="append", choices=[*TUNED, *OTHERS], help="repeat for more; default: all")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=Path, default=Path("vs_bertopic.csv"), help="the CSV file")
    parser.add_argument("--again", action="store_true", help="group by Traube again, such as after a change of it")
    arguments = parser.parse_args()
    sets = [load(name) for name in arguments.set or [*TUNED, *OTHERS]]
    folders = [write_inputs(data) for data in sets]
    if arguments.again:
        for folder in folders:
            for path in folder.glob("traube-*.json"):
                path.unlink()
    pythons = {
        "traube_grouping_side.py": sys.executable,
        "bertopic_side.py": install(f"bertopic=={BERTOPIC}", "plotly", "tqdm", "pyyaml"),
        "evoc_side.py": install(f"evoc=={EVOC}", "tqdm"),
    }
    for script, python in pythons.items():  # one process a side: EVoC compiles for minutes
        command = [python, HERE / script, *folders, "--seeds", str(arguments.seeds)]
        subprocess.run(command, check=True, env={**os.environ, **ONE_THREAD})
    rows = pd.DataFrame(
        [row for data, folder in zip(sets, folders, strict=True) for row in score(data, folder, arguments.seeds)]
    )
    rows.to_csv(arguments.rows, index=False)
    report(rows)


def write_inputs(data: LabeledSet) -> Path:
    """Write a set's texts and vectors for the sides to read, once; return the folder."""
    folder = paths.home() / "vs_bertopic" / data.name
    if not (folder / "vectors.npy").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "texts.json").write_text(json.dumps(data.texts))
        np.save(folder / "vectors.npy", data.vectors())
    return folder


def install(package: str, *others: str) -> Path:
    """Install a peer, and what it needs, into an environment of its own; return its Python. It needs no encoder."""
    folder = paths.home() / package.replace("==", "-")
    python, ready = folder / "bin" / "python", folder / ".ready"
    if ready.exists():
        return python
    print(f"installing {package} into {folder}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [python, "-m", "pip", "install", "-q"]
    subprocess.run([*pip, *(f"{name}=={version(name)}" for name in SAME), *others], check=True)
    subprocess.run([*pip, "--no-deps", package], check=True)
    ready.touch()
    return python


def score(data: LabeledSet, folder: Path, seeds: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each seed and way of grouping a set."""
    for seed in range(seeds):
        for by, side, key in COLUMNS:
            yield _row(data, seed, by, key, json.loads((folder / f"{side}-{seed}.json").read_text()))


def _row(data: LabeledSet, seed: int, by: str, key: str, found: dict[str, Any]) -> dict[str, Any]:
    labels = np.array(found[key])
    k = len(set(labels[labels >= 0].tolist()))
    names = [_words(" ".join(words))[:TOP] for words in found["words"].values()]
    return {
        "set": data.name,
        "texts": len(data.texts),
        "classes": data.classes,
        "seed": seed,
        "by": by,
        "k": k,
        "|log2|": abs(np.log2(max(k, 1) / data.classes)),
        "ARI": adjusted_rand_score(data.labels, labels),
        "best layer": max(
            (adjusted_rand_score(data.labels, layer) for layer in found.get("layers", ())), default=np.nan
        ),
        "V": v_measure_score(data.labels, labels),
        "noise": float(np.mean(labels < 0)),
        "score": found.get("score"),
        "NPMI": coherence(data.texts, names),
        "diversity": diversity(names),
        "CPU s": found["seconds"],
    }


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(_WORD.findall(text.lower())))


def coherence(texts: Sequence[str], names: Sequence[Sequence[str]]) -> float:
    """The mean over groups of the mean normalized pointwise mutual information of two of a group's words (Bouma 2009),
    by the texts that hold them: ln(p(a, b) / p(a) p(b)) / -ln p(a, b), and -1 where no text holds both.
    """
    held: dict[str, NDArray[np.bool_]] = {}
    wanted = {word for name in names for word in name}
    for i, text in enumerate(texts):
        for word in wanted.intersection(_words(text)):
            held.setdefault(word, np.zeros(len(texts), dtype=bool))[i] = True
    nowhere = np.zeros(len(texts), dtype=bool)
    means = [
        np.mean([_npmi(held.get(a, nowhere), held.get(b, nowhere)) for a, b in combinations(name, 2)])
        for name in names
        if len(name) > 1
    ]
    return float(np.mean(means)) if means else float("nan")


def _npmi(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> float:
    both = float(np.mean(a & b))
    if both in (0.0, 1.0):
        return 2 * both - 1
    return float(np.log(both / (a.mean() * b.mean())) / -np.log(both))


def diversity(names: Sequence[Sequence[str]]) -> float:
    """The share of different words among those of all groups."""
    words = [word for name in names for word in name]
    return len(set(words)) / len(words) if words else float("nan")


def report(rows: pd.DataFrame) -> None:
    """Medians over seeds by set, their means over sets, and in how many sets Traube is ahead."""
    figures = ["k", "|log2|", "ARI", "best layer", "V", "noise", "NPMI", "diversity", "CPU s"]
    for title, names in (("tuned on", TUNED), ("that it was hardly tuned on", OTHERS)):
        part = rows[rows["set"].isin(list(names))]
        if part.empty:
            continue
        medians = part.groupby(["set", "by"], sort=False)[["classes", *figures]].median()
        print(f"\n## Sets {title}, medians of {part['seed'].nunique()} seeds\n")
        print(medians.round(3).to_markdown())
        print(
            f"\nMeans over sets and seeds\n\n{part.groupby('by', sort=False)[figures[1:]].mean().round(3).to_markdown()}\n"
        )
        spread = part.groupby(["set", "by"], sort=False)["k"].agg(["min", "max", "mean", "std"])
        print(f"Number of groups over seeds\n\n{spread.round(1).to_markdown()}\n")
        ari = part.pivot_table(index="set", columns="by", values="ARI", sort=False)
        for rival in (BARE, REASSIGNED, EVOC_BARE, EVOC_REASSIGNED):
            ahead = ari[OURS] - ari[rival]
            print(
                f"{OURS} - {rival}: ARI {ahead.mean():+.3f} in the mean, ahead on {(ahead > 0).sum()} of {len(ahead)}"
            )


if __name__ == "__main__":
    main()
