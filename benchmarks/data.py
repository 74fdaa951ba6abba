"""The splits that the benchmarks run on: the German Text Embedding Clustering Benchmark's 28 of Blurbs, or 28 drawn as it draws them."""

import pandas as pd

from traube._core.errors import Unavailable
from traube.tasks import get_source, load_task
from traube.tasks.splitting import draw_fractions, make_rng, shuffle, split_whole
from traube.tasks.task import Task, TaskCard, index_texts

DRAWN, WITHIN = 10, 8
PYDOCS_TEXTS = 2_000


def load() -> tuple[str, Task]:
    """The benchmark's data in words, and its task: book titles if they are there, else docstrings."""
    try:
        return "GermEval 2019 blurbs, titles", load_task("blurbs_s2s")
    except Unavailable:
        return f"{PYDOCS_TEXTS:,} docstring summaries of Python packages", make_task("docstrings", read_pydocs())


def read_pydocs() -> pd.DataFrame:
    """Some of the records of pydocs_s2s_full."""
    records = get_source("pydocs_s2s_full").read()
    return records.iloc[sorted(shuffle(len(records), make_rng("vs_mteb"))[:PYDOCS_TEXTS])]


def make_task(name: str, records: pd.DataFrame) -> Task:
    """Ten random shares labeled `coarse`, ten labeled `fine`, and the eight largest coarse classes labeled `fine`."""
    corpus, indexed = index_texts(records)
    coarse = draw_fractions(indexed, DRAWN, "coarse", prefix="coarse")
    fine = draw_fractions(indexed, DRAWN, "fine", prefix="fine")
    classes = indexed.groupby("coarse", sort=False)["fine"].agg(["size", "nunique"])
    largest = classes[classes["nunique"] >= 2].sort_values("size", ascending=False, kind="stable").index[:WITHIN]
    within = [split_whole(indexed[indexed["coarse"] == c], f"within_{i}", "fine") for i, c in enumerate(largest)]
    return Task(TaskCard(name=name), corpus, pd.concat([*coarse, *fine, *within], ignore_index=True))
