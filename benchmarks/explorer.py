"""The size of a task's page, how long it takes to make, and how long a browser takes to open it:

    python benchmarks/explorer.py [TEXTS ...]

Made-up texts of 20 words and 40 classes, three lexical models, clusters that follow the classes but for
every fifth text. Needs chromium and chromedriver.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from traube._pipeline.params import Protocol
from traube._pipeline.plan import cells
from traube._pipeline.record import Recorder
from traube._pipeline.workbench import Workbench
from traube._reports.explorer.page import task_page
from traube._reports.tables import leaderboard
from traube.metrics import GROUPS
from traube.models import load_model
from traube.tasks._stored import complete_task, save_corpus, save_rows
from traube.tasks._task import Task, TaskCard, index_texts, make_split

OWN = Protocol(reducers=("none",), clusterers=("kmeans",), seeds=(1, 2, 3))
CLASSES, WORDS = 40, 20


def home_of(texts: int, folder: Path) -> Workbench:
    """A home in which a task of so many texts is scored with three models."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, CLASSES, texts)
    words = np.where(
        rng.random((texts, WORDS)) < 0.4, classes[:, None], CLASSES + rng.integers(0, 3000, (texts, WORDS))
    )
    lines = [" ".join(f"w{word}" for word in row) + f" n{i}" for i, row in enumerate(words)]
    corpus, records = index_texts(pd.DataFrame({"text": lines, "label": [f"class {c}" for c in classes]}))
    task = Task(TaskCard(name="large"), corpus, make_split(records, "all", "label", label="label"))
    bench = Workbench.at(folder)
    save_corpus(bench.storage, "large", task.corpus, task.corpus[["text_id"]], "raw")
    save_rows(bench.storage, task.card, task.splits)
    complete_task(bench.storage, task.card)
    found = task.splits[["split", "level", "item"]].assign(cluster=np.where(np.arange(texts) % 5 == 4, 0, classes))
    for model in map(load_model, ("bow", "tfidf", "lsa")):
        for cell in cells(task, model, OWN, protocol_name="own"):
            value = rng.normal(0.6, 0.02)
            score = {"split": ["all"], "level": "label", "metric": "v_measure/noise_as_cluster", "value": value}
            replicates = pd.Series([rng.normal(value, 0.01, GROUPS)], dtype=object)
            Recorder(bench.storage).save_clusters(cell, found, 1.0)
            Recorder(bench.storage).save_scores(cell, pd.DataFrame(score).assign(replicates=replicates))
        bench.vectors(task, model)
    return bench


def opened(page: Path) -> float:
    """Seconds until a page is ready: all tables and figures are filled. The median of three."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1300,900"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options, webdriver.ChromeService(executable_path=str(shutil.which("chromedriver"))))
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        driver.get(page.as_uri())
        while not driver.execute_script("return document.body.dataset.ready"):
            time.sleep(0.01)
        taken.append(time.perf_counter() - began)
    driver.quit()
    return float(np.median(taken))


def main(sizes: list[int]) -> None:
    for texts in sizes:
        with tempfile.TemporaryDirectory() as folder:
            bench = home_of(texts, Path(folder))
            table = leaderboard(bench.storage, protocols={"own": OWN})
            began = time.process_time()
            page = Path(folder) / "large.html"
            page.write_text(task_page(bench, {"own": OWN}, "large", table), encoding="utf-8")
            made = time.process_time() - began
            print(
                f"{texts:7,} texts: {page.stat().st_size / 1e6:.1f} MB, made in {made:.1f} CPU seconds, "
                f"opened in {opened(page):.1f} s"
            )


if __name__ == "__main__":
    main([int(size.replace(",", "")) for size in sys.argv[1:]] or [1_000, 10_000, 50_000])
