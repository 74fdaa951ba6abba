"""Known truth: k-means on eight short-text data sets, beside numbers known from elsewhere.

Two tables: MiniLM (cut at 32 tokens) beside what it must reach on three sets, and bag of words and TF-IDF beside the
baselines that the AECL paper printed. One setting for all: protocol `short-text` of params.yaml (k-means, one start,
mean of five seeds), vocabularies of the 2,000 most frequent terms.

Raw data: TRAUBE_RAW (see `traube tasks`). Vectors are kept in TRAUBE_HOME, so a second run is quick.
"""

import argparse
import sys
from importlib.resources import files

import pandas as pd

from traube import paths
from traube.errors import Unavailable
from traube.evaluate import Progress, evaluate
from traube.models import load_model
from traube.params import load_params
from traube.plan import cells
from traube.tasks import load_task

ACC, NMI = "acc/noise_as_cluster", "nmi_arithmetic/noise_as_cluster"
BAND = 7.0  # points within which a lexical baseline counts as reproduced
MINILM = {"agnews": (81, 58), "searchsnippets": (75, 59), "stackoverflow": (72, 70)}
LEXICAL = {"bow": "BOW", "tfidf": "TF-IDF"}


def measured(task_name: str, model_name: str) -> tuple[float, float]:
    """Accuracy and NMI in percent, mean over the protocol's seeds."""
    protocol = load_params().chosen("short-text")
    task, model = load_task(task_name), load_model(model_name, precision=protocol.precision)
    scores, _ = evaluate(task, model, cells(task, model, protocol), paths.home(), PROGRESS)
    mean = scores.groupby("metric")["value"].mean() * 100
    return float(mean[ACC]), float(mean[NMI])


def _say(stage: str, amount: int) -> None:
    print(f"  {stage}: {amount}", file=sys.stderr, flush=True)


PROGRESS = Progress(total=_say)


def minilm_table() -> pd.DataFrame:
    rows = []
    for task, (acc, nmi) in MINILM.items():
        found = measured(task, "minilm_32")
        rows.append({"task": task, "ACC": found[0], "about": acc, "NMI": found[1], "about ": nmi})
    return pd.DataFrame(rows)


def lexical_table() -> pd.DataFrame:
    with files("traube.published").joinpath("aecl_main.csv").open() as file:
        printed = pd.read_csv(file, comment="#").set_index(["task", "method"])
    rows = []
    for model, method in LEXICAL.items():
        for task in printed.index.get_level_values("task").unique():
            acc, nmi = measured(task, model)
            paper = printed.loc[(task, method)]
            d_acc, d_nmi = acc - paper["acc"], nmi - paper["nmi"]
            within = abs(d_acc) <= BAND and abs(d_nmi) <= BAND
            rows.append(
                {"task": task, "model": model, "ACC": acc, "paper": paper["acc"], "dACC": d_acc, "NMI": nmi}
                | {"paper ": paper["nmi"], "dNMI": d_nmi, "within": "yes" if within else "no"}
            )
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lexical-only", action="store_true", help="leave MiniLM out (minutes of encoding)")
    arguments = parser.parse_args()
    try:
        if not arguments.lexical_only:
            print(minilm_table().round(2).to_markdown(index=False), end="\n\n")
        table = lexical_table()
    except Unavailable as error:
        sys.exit(str(error))
    print(table.round(2).to_markdown(index=False))
    print(f"\n{(table['within'] == 'yes').sum()} of {len(table)} within {BAND:g} points in both")


if __name__ == "__main__":
    main()
