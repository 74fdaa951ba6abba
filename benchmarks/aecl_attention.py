"""Effects of AECL's attention and of stage 3, by the length of the vectors: heads alone.

`python benchmarks/aecl_attention.py tweet --seeds 42 1 --scale 1 --stages 10 25 15 --rate 1e-3`, with TRAUBE_RAW at the
raw data. A scale of 1 is the length of standard normal vectors, 0 that of unit ones. Prints, with dropout off, accuracy after the
stages 2 and 3, the number of clusters, and the similarity to other classes (NS, equation 18) beside chance.
"""

import argparse
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.nn import functional

from traube import load_model
from traube._core import paths
from traube.components._deep.clusterer import make_even_batches
from traube.components._deep.grouping import k_means
from traube.metrics._clustering import acc
from traube.papers.aecl import losses
from traube.papers.aecl.networks import AeclHeads

BATCH, INSTANCE, LABELS, SOFTNESS = 400, 10.0, 5.0, 0.01  # as `AeclRecipe` has them


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", help="a file of TRAUBE_RAW/shorttext/aecl, such as tweet")
    parser.add_argument("--rows", type=int, help="a random sample of the texts, the same for all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 1, 2])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--stages", type=int, nargs=3, default=[10, 25, 15], help="epochs of each")
    parser.add_argument("--rate", type=float, default=5e-4, help="learning rate of the heads")
    parser.add_argument("--contrast", choices=losses.CONTRASTS, default="coded")
    parser.add_argument("--cluster-weight", type=float, default=1.0, help="of L_C")
    parser.add_argument("--spread", type=float, help="lambda 4; by default .09 from 50 classes on, else .18")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    table = pd.read_csv(paths.raw() / "shorttext" / "aecl" / f"{arguments.task}.csv.gz")
    table = table.sample(arguments.rows, random_state=0) if arguments.rows else table
    model = load_model("minilm_32", precision="fp32")
    views = [model.encode(table[column].fillna(".").astype(str).tolist()) for column in ("text0", "text1")]
    unit = functional.normalize(torch.tensor(np.stack(views)), dim=2)
    gold = np.unique(table["label"], return_inverse=True)[1]
    for seed in arguments.seeds:
        print(
            f"seed {seed}  {train(unit * (arguments.scale * unit.shape[2] ** 0.5 or 1.0), gold, arguments, seed)}",
            flush=True,
        )


def train(vectors: torch.Tensor, gold: np.ndarray, arguments: Any, seed: int) -> str:
    n, k = len(gold), len(set(gold.tolist()))
    spread = arguments.spread if arguments.spread is not None else 0.09 if k >= 50 else 0.18
    torch.manual_seed(seed)
    heads = AeclHeads(vectors.shape[2], k)
    optimizer = torch.optim.Adam(heads.parameters(), lr=arguments.rate, fused=True)
    found, _ = k_means(vectors[0], k, seed, starts=1, max_iter=3000, tol=0.01)
    targets, said = torch.from_numpy(found), [f"k-means {100 * acc(gold, found):.1f}"]
    ends = np.cumsum(arguments.stages)
    for epoch in range(ends[-1]):
        for rows in make_even_batches(torch.randperm(n).numpy(), BATCH):
            z, h, logits, similarity = heads(vectors[:, rows])
            contrast = losses.CONTRASTS[arguments.contrast](z, h, similarity, logits[0].argmax(1), 0.5)
            loss = INSTANCE * contrast
            if ends[0] <= epoch < ends[1]:
                loss = loss + LABELS * functional.cross_entropy(logits[1], targets[rows])
            if epoch >= ends[1]:
                log_p = logits.log_softmax(-1)
                loss = loss + arguments.cluster_weight * losses.cluster_contrast_coded(log_p.exp(), 1.0)
                loss = loss + losses.entropies_coded(log_p, SOFTNESS, spread)
                loss = loss + LABELS * losses.sure_cross_entropy(logits[0], logits[1], 0.95)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        if epoch + 1 in ends[1:]:
            said.append(at_rest(heads, vectors[0], gold))
    return "  ->  ".join(said)


def at_rest(heads: AeclHeads, vectors: torch.Tensor, gold: np.ndarray) -> str:
    labels, others, chance = np.empty(len(gold), dtype=np.int64), [], []
    heads.eval()
    with torch.no_grad():
        for rows in make_even_batches(np.random.default_rng(0).permutation(len(gold)), BATCH):
            _, _, logits, similarity = heads(vectors[rows][None])
            labels[rows] = logits[0].argmax(1).numpy()
            differ = torch.from_numpy(gold[rows][:, None] != gold[rows][None, :])
            others.append(float((similarity[0] * differ).sum() / similarity[0].sum()))
            chance.append(float(differ.float().mean()))
    heads.train()
    score, clusters = 100 * acc(gold, labels), len(set(labels.tolist()))
    return f"ACC {score:.1f}, {clusters} clusters, NS {np.mean(others):.3f} ({np.mean(chance):.3f})"


if __name__ == "__main__":
    main()
