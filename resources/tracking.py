"""MLflow: a run per task, model and version of everything, a nested run per method.

Scores are in the storage before MLflow is told of them, so tracking can fail, or be repeated, without
losing or doubling anything: runs are found again by a tag that hashes what they are about.
"""

import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd

from resources.databases import EXPERIMENT, make_mlflow, make_shared_mlflow, mlflow_url
from resources.unlogged import add_debt, settle_debt
from traube.core import paths, settings
from traube.core.early_imports import import_whole
from traube.core.errors import TraubeError
from traube.core.hashing import digest
from traube.core.inert import csv_text
from traube.pipeline.cell import Cell
from traube.pipeline.pairs import KINDS
from traube.reports.pages import SERVED
from traube.reports.tables import places
from traube.tasks.task import TaskCard

KEY = "traube.key"
# What identifies a run; the same six are its tag.
IDENTITY = ("task", "model", "protocol", "data_version", "fingerprint", "code_version")
MOST_RUNS = 50_000  # that MLflow gives at once
PAIR_IDENTITY = ("task", "model", "data_version", "fingerprint", "code_version")


class TrackingResource(dg.ConfigurableResource):
    """Logs scores to MLflow.

    Attributes
    ----------
    uri : tracking store; by default `MLFLOW_TRACKING_URI`, or `mlflow.db` below TRAUBE_HOME
    """

    uri: str = ""

    def client(self) -> Any:
        """An MlflowClient whose store is initialised, and the experiment's id:
        (client, experiment id).
        """
        return connect(self.uri or default_uri())

    def add_debt(self, model: str, task: str, protocol: str, own_choice: Sequence[str] = ()) -> list[list[str]]:
        """Note that MLflow lacks scores (see `resources.unlogged.add_debt`).

        To be called before they are stored, so that no killed process loses the note.
        """
        return add_debt(model, task, protocol, own_choice)

    def log_all(
        self, model: str, task: str, protocol: str, logs: Iterable[Callable[[], dict[str, dg.MetadataValue]]]
    ) -> dict[str, dg.MetadataValue]:
        """Log all scores of a model on a task under a protocol: from then on MLflow lacks none."""
        metadata = {name: value for log in logs for name, value in log().items()}
        settle_debt(model, task, protocol)
        return metadata

    def log(
        self,
        card: TaskCard,
        cells: pd.DataFrame,
        scores: pd.DataFrame,
        table: pd.DataFrame,
        run_id: str,
        asset: str,
        partition: str,
        *,
        own_choice: bool = False,
    ) -> dict[str, dg.MetadataValue]:
        """Log the scored cells of one task and model; update the runs that are there already.

        Parameters
        ----------
        cells, scores : as the storage gives them
        table : from `summary`
        run_id, asset, partition : of the Dagster run, for the link back
        own_choice : of methods or seeds that are not the protocol's: they have runs of their own

        Returns
        -------
        Metadata for Dagster: the link to the MLflow run.
        """
        done = cells[cells["status"] == "done"]
        if done.empty:
            return {}
        client, experiment = self.client()
        first = done.iloc[0]
        identity = {name: str(first[name]) for name in IDENTITY}
        key: Any = [identity, "own choice", sorted(done["cell_id"])] if own_choice else identity
        tags = {
            "traube.kind": "task",
            **({"traube.own_choice": "true"} if own_choice else {}),
            **{f"traube.{name}": value for name, value in identity.items()},
            "dagster.run_id": run_id,
            "dagster.asset_key": asset,
            "dagster.partition": partition,
            "traube.page": _page(card.name),
            "mlflow.note.content": f"[All of {card.name}]({_page(card.name)}), while `traube dev` runs.",
        }
        best = table[table["best"].astype(bool)]
        name = f"{card.name} x {first['model']}{', own choice' if own_choice else ''}"
        with _run(client, experiment, digest(key), name, tags) as parent:
            params = {**identity, "family": card.family, "language": card.language, "licence": card.licence}
            metrics = {
                f"best/{row.level}": row.mean
                for row in best[["level", "mean"]].itertuples(index=False)
                if pd.notna(row.mean)
            }
            _log(client, parent, params, metrics)
            _log_dataset(client, parent, card, identity["data_version"])
        values = done.merge(scores, on="cell_id")
        children = _runs(client, experiment, f"tags.mlflow.parentRunId = '{parent.info.run_id}'")
        for (reducer, clusterer), rows in values.groupby(["reducer", "clusterer"], sort=False):
            method = f"{reducer}/{clusterer}"
            child_key = digest([key, method, rows.iloc[0]["params"]])
            child_tags = {**tags, "traube.kind": "method", "mlflow.parentRunId": parent.info.run_id}
            with _run(client, experiment, child_key, method, child_tags, children) as child:
                means = rows.groupby(["level", "metric"])["value"].mean()
                metrics = {
                    f"{level}/{metric}": float(value) for (level, metric), value in means.items() if pd.notna(value)
                }
                seeds = sorted({str(int(s)) for s in rows["seed"].dropna()})
                params = {
                    "reducer": reducer,
                    "clusterer": clusterer,
                    "seeds": " ".join(seeds),
                    **_flat(rows.iloc[0]["params"]),
                }
                _log(client, child, params, metrics)
        return {"mlflow": dg.MetadataValue.url(_url(experiment, parent.info.run_id))}

    def log_ranks(self, leaderboard: pd.DataFrame) -> dict[str, dg.MetadataValue]:
        """Tag each model's run of a task with its rank at each level, and with the verdict on the first
        model against it: the leaderboard's.

        Parameters
        ----------
        leaderboard : DataFrame
            From `traube.reports.tables.leaderboard`.
        """
        from mlflow.entities import RunTag

        client, experiment = self.client()
        names = [name for name in IDENTITY if name in leaderboard]
        ranked = leaderboard[leaderboard["best"].astype(bool) & ~leaderboard["own_choice"].astype(bool)]
        rows = dict(iter(ranked.groupby(names)))
        date = datetime.now(UTC).date().isoformat()
        for run in _runs(client, experiment, "tags.`traube.kind` = 'task'").values():
            known = run.data.tags
            if "traube.own_choice" in known:  # no rank of the leaderboard is theirs
                continue
            own = rows.get(tuple(known.get(f"traube.{name}", "") for name in names))
            tags = _verdict_tags(own) if own is not None else {}
            if any(known.get(name) != value for name, value in tags.items()):
                tags["traube.verdict_date"] = date
                client.log_batch(run.info.run_id, tags=[RunTag(*tag) for tag in tags.items()])
        return {}

    def log_pairs(
        self, card: TaskCard, cell: Cell, table: pd.DataFrame, run_id: str, asset: str, partition: str
    ) -> dict[str, dg.MetadataValue]:
        """Log how well a model follows the gold scores of a pair task, as one run; update it if it
        is there already.

        Parameters
        ----------
        cell : one of its cells
        table : of all, from `read_pair_scores`
        run_id, asset, partition : of the Dagster run, for the link back

        Returns
        -------
        Metadata for Dagster: the link to the MLflow run.
        """
        client, experiment = self.client()
        identity = {name: str(getattr(cell, name)) for name in PAIR_IDENTITY}
        tags = {
            **{f"traube.{name}": value for name, value in identity.items()},
            "dagster.run_id": run_id,
            "dagster.asset_key": asset,
            "dagster.partition": partition,
        }
        name = f"{card.name} x {cell.model}"
        with _run(client, experiment, digest(["pairs", identity]), name, tags) as run:
            about = {"family": card.family, "language": card.language, "licence": card.licence}
            _log(client, run, {**identity, **about}, dict(_pair_metrics(table)))
            _log_dataset(client, run, card, identity["data_version"])
        return {"mlflow": dg.MetadataValue.url(_url(experiment, run.info.run_id))}

    def log_curve(
        self, name: str, curve: Sequence[Mapping[str, float | None]], run_id: str
    ) -> dict[str, dg.MetadataValue]:
        """Log a training's learning curve, once under its name.

        Parameters
        ----------
        curve : entries with `step` and numbers by name

        Returns
        -------
        Metadata for Dagster: the link to the MLflow run.
        """
        from mlflow.entities import Metric

        client, experiment = self.client()
        now, key = int(time.time() * 1000), digest(["curve", name, list(map(dict, curve))])
        with _run(client, experiment, key, name, {"dagster.run_id": run_id}) as run:
            client.log_batch(
                run.info.run_id,
                metrics=[
                    Metric(metric, float(value), now, int(entry["step"] or 0))
                    for entry in curve
                    for metric, value in entry.items()
                    if metric != "step" and value is not None
                ],
            )
        return {"mlflow": dg.MetadataValue.url(_url(experiment, run.info.run_id))}

    def log_study(
        self, name: str, best: Mapping[str, float], trials: pd.DataFrame, pages: Mapping[str, str], run_id: str
    ) -> dict[str, dg.MetadataValue]:
        """Log a study as it stands: its best values, its trials and its plots (html by file name).

        Returns
        -------
        Metadata for Dagster: the link to the MLflow run.
        """
        client, experiment = self.client()
        key = digest(["study", name, len(trials)])
        with _run(client, experiment, key, name, {"dagster.run_id": run_id}) as run:
            _log(
                client,
                run,
                {k: str(v) for k, v in best.items() if k != "value"},
                {"best": best["value"]} if best else {},
            )
            client.log_text(run.info.run_id, csv_text(trials), "trials.csv")
            for file, page in pages.items():
                client.log_text(run.info.run_id, page, file)
        return {"mlflow": dg.MetadataValue.url(_url(experiment, run.info.run_id))}


def _url(experiment: str, run: str) -> str:
    return f"http://127.0.0.1:{os.environ.get('TRAUBE_MLFLOW_PORT', '5000')}/#/experiments/{experiment}/runs/{run}"


def _page(task: str) -> str:
    """Where `traube dev` serves a task's page."""
    return f"http://127.0.0.1:{os.environ.get('TRAUBE_DAGSTER_PORT', '3000')}{SERVED}/{task}.html"


def default_uri() -> str:
    """MLflow's tracking store: what `MLFLOW_TRACKING_URI` says, the shared database, or a file of the
    home.
    """
    given = os.environ.get("MLFLOW_TRACKING_URI")
    if given:
        return given
    return mlflow_url() if settings.database() else f"sqlite:///{paths.home() / 'mlflow.db'}"


def artifacts() -> str:
    """Return where MLflow keeps files: beside the blobs where these are shared, or in the data directory."""
    shared = settings.blobs()
    return f"{shared.rstrip('/')}/mlartifacts" if "://" in shared else _folder_of_artifacts(shared).as_uri()


def _folder_of_artifacts(shared: str) -> Path:
    return Path(shared).expanduser().resolve() / "mlartifacts" if shared else paths.home() / "mlartifacts"


def connect(uri: str) -> tuple[Any, str]:
    """An MlflowClient and the experiment's id; the store is made if need be."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    import_whole("mlflow")
    from mlflow import MlflowClient

    asked = os.environ.get("MLFLOW_LOGGING_LEVEL")
    logging.getLogger("mlflow").setLevel(asked or "WARNING")  # a new store is no news
    # it raises the database's errors, and prints them with a traceback beside that
    logging.getLogger("mlflow.store.db.utils").setLevel(asked or "CRITICAL")
    own = paths.home() / "mlflow.db"
    if uri == f"sqlite:///{own}" and own.parent.is_dir():  # any other database is its owner's
        make_mlflow(own, artifacts())
    elif settings.database() and uri == mlflow_url():
        make_shared_mlflow(artifacts())
    with of_this_version(uri):
        client = MlflowClient(tracking_uri=uri)
        experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is None:
        return client, str(client.create_experiment(EXPERIMENT, artifact_location=artifacts()))
    return client, str(experiment.experiment_id)


@contextmanager
def of_this_version(uri: str) -> Iterator[None]:
    """Say in a line that tables are those of another MLflow."""
    try:
        yield
    except Exception as error:
        if "out-of-date database schema" not in str(error):
            raise
        shown = settings.without_password(uri)
        raise TraubeError(
            f"{shown}: made by another MLflow; back it up, then `mlflow db upgrade` with this URL brings it up to date"
        ) from None


def _runs(client: Any, experiment: str, condition: str) -> dict[str, Any]:
    """Return the runs that meet a condition, by their key."""
    runs = client.search_runs([experiment], condition, max_results=MOST_RUNS)
    return {run.data.tags[KEY]: run for run in runs if KEY in run.data.tags}


@contextmanager
def _run(
    client: Any,
    experiment: str,
    key: str,
    name: str,
    tags: Mapping[str, str],
    known: Mapping[str, Any] | None = None,
) -> Iterator[Any]:
    """Open the run with a key, new or found again; it is finished, or failed, when the block ends.

    Parameters
    ----------
    known : Mapping[str, mlflow.entities.Run], optional
        Runs by key, if they were looked up before.
    """
    found = _runs(client, experiment, f"tags.`{KEY}` = '{key}'") if known is None else known
    run = found.get(key)
    if run is None:
        run = client.create_run(experiment, run_name=name, tags={KEY: key, **tags})
    else:
        client.update_run(run.info.run_id, status="RUNNING")
        for tag, value in tags.items():
            client.set_tag(run.info.run_id, tag, value)
    try:
        yield run
    except BaseException:
        client.set_terminated(run.info.run_id, status="FAILED")
        raise
    client.set_terminated(run.info.run_id, status="FINISHED")


def _log(client: Any, run: Any, params: dict[str, Any], metrics: dict[str, float]) -> None:
    """Log all at once, but for parameters that the run has already (MLflow refuses to change them)."""
    from mlflow.entities import Metric, Param

    now = int(time.time() * 1000)
    client.log_batch(
        run.info.run_id,
        metrics=[Metric(_metric_name(name), float(value), now, 0) for name, value in metrics.items()],
        params=[Param(name, str(value)[:500]) for name, value in params.items() if name not in run.data.params],
    )


def _metric_name(name: str) -> str:
    """The name as MLflow takes it: other characters than its own become underscores."""
    return re.sub(r"[^\w\-. :/]", "_", name)


def _verdict_tags(rows: pd.DataFrame) -> dict[str, str]:
    """A model's rank on a task, and the verdict on the first model against it, by level."""
    tags = {}
    for row in rows.itertuples(index=False):
        tags[f"traube.rank/{row.level}"] = places(row)
        if row.verdict:
            tags[f"traube.p/{row.level}"] = f"{row.p:.3g} ({row.comparisons:.0f} comparisons)"
            tags[f"traube.verdict/{row.level}"] = row.verdict
    return tags


def _pair_metrics(table: pd.DataFrame) -> Iterator[tuple[str, float]]:
    """Such as spearman/cosine, and spearman/cosine/history/domain=find_hotel."""
    for row in table.to_dict("records"):
        compared = f"{row['comparison']}/history" if row["history"] else row["comparison"]
        of = f"/{row['group']}={row['value']}" if row["value"] else ""
        for kind in KINDS:
            if pd.notna(row[kind]):
                yield f"{kind}/{compared}{of}", row[kind]


def _log_dataset(client: Any, run: Any, card: TaskCard, version: str) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    source = card.source or card.name
    dataset = Dataset(name=card.name, digest=version, source_type="traube", source=json.dumps({"uri": source}))
    client.log_inputs(run.info.run_id, [DatasetInput(dataset, [InputTag("mlflow.data.context", "evaluation")])])


def _flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, item in value.items():
        flat |= _flat(item, f"{prefix}{key}.") if isinstance(item, dict) else {f"{prefix}{key}": item}
    return flat
