"""Artifacts of MLflow's run of a task and model: charts of its methods, and their assignments."""

from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import dagster as dg
import pandas as pd

from resources.charts import draw_map
from resources.experiment import IDENTITY
from resources.tracking import TrackingResource
from traube._core.hashing import digest
from traube._reports.charts import draw_bars, draw_heatmaps
from traube._storage import Storage
from traube.components.method import name_methods

VERSION = "traube.artifacts"  # the tag that says of which scores they are


def log_artifacts(
    tracking: TrackingResource, leaderboard: pd.DataFrame, storage: Storage
) -> dict[str, dg.MetadataValue]:
    """Log charts of a leaderboard's rows and their assignments to the runs whose scores are others than before."""
    experiment = tracking.connect()
    client = experiment.client
    official = leaderboard[(leaderboard["status"] == "done") & ~leaderboard["own_choice"].astype(bool)]
    names = [name for name in IDENTITY if name in leaderboard]
    read = lru_cache(maxsize=1)(storage.read_cells)  # runs come by task
    for best, runs in experiment.find_official_runs(leaderboard):
        about = best.iloc[:1][names]
        rows = official.merge(about).dropna(subset="mean")
        version = digest(rows[["level", "method", "mean"]].to_numpy().tolist())
        if not runs or rows.empty or runs[0].data.tags.get(VERSION) == version:
            continue
        cells = read(str(about["task"].iloc[0])).merge(about)
        is_shown = name_methods(cells).isin(rows["method"])
        cells = cells[is_shown & (cells["status"] == "done")]
        run_id = runs[0].info.run_id
        client.log_figure(run_id, draw_bars(rows.assign(model=rows["method"])), "methods.png")
        client.log_figure(run_id, draw_heatmaps(rows), "heatmap.png")
        if (drawn := draw_map(storage, cells)) is not None:
            client.log_figure(run_id, drawn, "map.png")
        assigned = [
            storage.read_assignments(cell.cell_id).assign(method=f"{cell.reducer}/{cell.clusterer}", seed=cell.seed)
            for cell in cells.itertuples()
        ]
        with TemporaryDirectory(prefix="traube-") as folder:
            path = Path(folder) / "assignments.parquet"
            pd.concat(assigned).to_parquet(path, index=False)
            client.log_artifact(run_id, str(path))
        client.set_tag(run_id, VERSION, version)
    return {}
