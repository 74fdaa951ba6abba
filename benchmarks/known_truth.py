"""Known truth: k-means on eight short-text data sets, beside numbers known from elsewhere.

Two tables, k-means on the vectors as they are, mean of five seeds (protocol `short-text` of params.yaml): MiniLM (cut at 32
tokens; the best of ten starts) beside what it must reach on three sets; and bag of words and TF-IDF (the 2,000 most
frequent terms; one start), one setting for all sets, beside the baselines that the AECL paper printed.

Raw data: TRAUBE_RAW (see `traube tasks`). Vectors are kept in TRAUBE_HOME, so a second run is quick.
"""

import argparse
import sys
from importlib.resources import files

import pandas as pd

from traube._core import paths
from traube._core.errors import Unavailable
from traube._core.progress import Progress
from traube._pipeline.evaluate import evaluate_cells
from traube._pipeline.params import load_params
from traube._pipeline.plan import cells
from traube.components import parse_method
from traube.models import load_model
from traube.tasks import load_task

ACC, NMI = "acc/noise_as_cluster", "nmi_arithmetic/noise_as_cluster"
BAND = 7.0  # points within which a lexical baseline counts as reproduced
MINILM = {"agnews": (81, 58), "searchsnippets": (75, 59), "stackoverflow": (72, 70)}
LEXICAL = {"bow": "BOW", "tfidf": "TF-IDF"}


def measured(task_name: str, model_name: str, starts: int) -> tuple[float, float]:
    """Accuracy and NMI in percent, mean over the protocol's seeds."""
    protocol = load_params().chosen("short-text")
    task, model = load_task(task_name), load_model(model_name, precision=protocol.precision)
    methods = [parse_method("none/kmeans", {"kmeans": {"n_init": starts}})]
    scores, _ = evaluate_cells(
        task, model, cells(task, model, protocol, methods=methods), paths.home(), progress=PROGRESS
    )
    mean = scores.groupby("metric")["value"].mean() * 100
    return float(mean[ACC]), float(mean[NMI])


def _say(stage: str, amount: int) -> None:
    print(f"  {stage}: {amount}", file=sys.stderr, flush=True)


PROGRESS = Progress(total=_say)


def minilm_table() -> pd.DataFrame:
    rows = []
    for task, (acc, nmi) in MINILM.items():
        found = measured(task, "minilm_32", starts=10)
        rows.append({"task": task, "ACC": found[0], "about": acc, "NMI": found[1], "about ": nmi})
    return pd.DataFrame(rows)


def lexical_table() -> pd.DataFrame:
    with files("traube.papers.aecl").joinpath("published", "main.csv").open() as file:
        printed = pd.read_csv(file, comment="#").set_index(["task", "method"])
    rows = []
    for model, method in LEXICAL.items():
        for task in printed.index.get_level_values("task").unique():
            acc, nmi = measured(task, model, starts=1)
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
    parser.add_argument("--only", choices=("minilm", "lexical"), help="one of the two tables")
    arguments = parser.parse_args()
    try:
        if arguments.only != "lexical":
            print(minilm_table().round(2).to_markdown(index=False), end="\n\n", flush=True)
        if arguments.only == "minilm":
            return
        table = lexical_table()
    except Unavailable as error:
        sys.exit(str(error))
    print(table.round(2).to_markdown(index=False))
    print(f"\n{(table['within'] == 'yes').sum()} of {len(table)} within {BAND:g} points in both")


if __name__ == "__main__":
    main()
