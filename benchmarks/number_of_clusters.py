"""Numbers of clusters: what stability and the silhouette choose on sets whose number of classes is known, and what stability
sees in clouds without any.

For each set: the number of classes; the numbers that `choose_stable_k` chooses with several seeds, with its score; the same
of Gaussian clouds with the mean and the covariance of the set's vectors, where the score should be near 0; and what
the silhouette chooses. Raw data: TRAUBE_RAW (see `traube tasks`). Vectors are kept in TRAUBE_HOME.
"""

import argparse
import time

import numpy as np
import pandas as pd
from labeled_sets import OTHERS, TUNED, load

from traube.components import VectorView, choose_stable_k, get_clusterer
from traube.components.stability import TEXTS, draw_cloud, project


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--set", action="append", choices=[*TUNED, *OTHERS], help="repeat for more; default: the tuned ones"
    )
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--clouds", type=int, default=5)
    arguments = parser.parse_args()
    rows = []
    for name in arguments.set or TUNED:
        data = load(name)
        X = data.vectors(arguments.model)
        began = time.process_time()
        found = [choose_stable_k(X, seed) for seed in range(arguments.seeds)]
        seconds = (time.process_time() - began) / arguments.seeds
        ks = [k for k, _ in found]
        random = np.random.default_rng(0)
        sample = project(X, 0)[np.sort(random.choice(X.shape[0], min(X.shape[0], TEXTS), replace=False))]
        clouds = [choose_stable_k(draw_cloud(sample, random), seed) for seed in range(arguments.clouds)]
        row = {
            "set": name,
            "texts": X.shape[0],
            "classes": data.classes,
            "k": ", ".join(map(str, ks)),
            "|log2(k / classes)|": float(np.median(np.abs(np.log2(np.array(ks) / data.classes)))),
            "score": float(np.median([table["excess"].max() for _, table in found])),
            "CPU s": seconds,
            "score of clouds": f"{max(table['excess'].max() for _, table in clouds):.2f} at most" if clouds else "",
            "k by silhouette": VectorView(X).choose_n_clusters(get_clusterer("kmeans"), {}, 0)[0],
        }
        rows.append(row)
        print(row, flush=True)
    table = pd.DataFrame(rows)
    print(table.round(2).to_markdown(index=False))
    print(f"mean |log2(k / classes)| of the medians: {table['|log2(k / classes)|'].mean():.2f}")


if __name__ == "__main__":
    main()
