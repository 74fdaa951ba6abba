"""Dagster's and MLflow's history, copied from the files of a home into the shared Postgres.

Dagster's goes through its own storage, event by event, as if it happened again; MLflow's, which has
no such way between databases, table by table. What is there already is left.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import dagster as dg

from resources.databases import make_dagster, make_shared_mlflow, mlflow_url
from resources.tracking import artifacts, of_this_version
from traube.foundation.errors import TraubeError

RUNLESS = ""  # Dagster's id for events of no run
AT_ONCE = 1000  # rows


def copy_dagster(home: Path, partitions: Iterable[str]) -> tuple[int, int]:
    """Copy runs, their events, and what sensors and schedules remember.

    Parameters
    ----------
    partitions : names of definitions of dynamic partitions

    Returns
    -------
    how many runs there are in the home, and how many of them were copied now
    """
    folder = home / "dagster"
    files = {"storage": {"sqlite": {"base_dir": str(folder)}}}
    with dg.DagsterInstance.local_temp(str(folder), overrides=files) as source:
        make_dagster(folder)  # from now on its settings name the database
        with _target(folder) as target:
            runs = source.get_run_records()
            new = [record for record in reversed(runs) if not target.has_run(record.dagster_run.run_id)]
            for record in new:
                _copy_run(source, target, record)
            if not target.all_logs(RUNLESS):
                _copy_events(source, target, RUNLESS)
            for name in partitions:
                target.add_dynamic_partitions(name, source.get_dynamic_partitions(name))
            _copy_memory(source, target)
    return len(runs), len(new)


def _target(folder: Path) -> dg.DagsterInstance:
    os.environ["DAGSTER_HOME"] = str(folder)
    return dg.DagsterInstance.get()


def _copy_run(source: dg.DagsterInstance, target: dg.DagsterInstance, record: dg.RunRecord) -> None:
    """Copy a run; itself last: without it, all of it is copied again."""
    import sqlalchemy as sa

    run, theirs, ours = record.dagster_run, target.run_storage, source.run_storage
    if run.job_snapshot_id and not theirs.has_job_snapshot(run.job_snapshot_id):
        theirs.add_job_snapshot(ours.get_job_snapshot(run.job_snapshot_id))
    plan = run.execution_plan_snapshot_id
    if plan and not theirs.has_execution_plan_snapshot(plan):
        theirs.add_execution_plan_snapshot(ours.get_execution_plan_snapshot(plan))
    _copy_events(source, target, run.run_id)
    theirs.add_historical_run(run, record.create_timestamp)
    times = {"start_time": record.start_time, "end_time": record.end_time, "update_timestamp": record.update_timestamp}
    with theirs.connect() as connection:  # type: ignore[attr-defined]
        runs = sa.table("runs", *map(sa.column, ("run_id", *times)))
        connection.execute(runs.update().where(runs.c.run_id == run.run_id).values(**times))


def _copy_events(source: dg.DagsterInstance, target: dg.DagsterInstance, run_id: str) -> None:
    import sqlalchemy as sa

    # of a copy that was cut off
    target.event_log_storage.delete_events(run_id)
    with target.event_log_storage.index_connection() as connection:  # type: ignore[attr-defined]
        checks = sa.table("asset_check_executions", sa.column("run_id"))
        connection.execute(checks.delete().where(checks.c.run_id == run_id))
    for event in source.all_logs(run_id):
        target.event_log_storage.store_event(event)


def _copy_memory(source: dg.DagsterInstance, target: dg.DagsterInstance) -> None:
    """Which sensors and schedules are on, and their cursors."""
    known = {state.instigator_origin_id for state in target.all_instigator_state()}
    for state in source.all_instigator_state():
        if state.instigator_origin_id not in known:
            target.add_instigator_state(state)


def copy_mlflow(home: Path) -> tuple[int, int]:
    """Copy MLflow's tables; where files lie is changed to the share.

    Returns
    -------
    how many rows there are, and how many of them were copied now
    """
    import sqlalchemy as sa
    from mlflow.store.db.base_sql_model import Base
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    file = home / "mlflow.db"
    if not file.exists():
        return 0, 0
    with of_this_version(f"sqlite:///{file}"):
        SqlAlchemyStore(f"sqlite:///{file}", (home / "mlartifacts").as_uri()).engine.dispose()
    make_shared_mlflow(artifacts())
    source, target = sa.create_engine(f"sqlite:///{file}"), sa.create_engine(mlflow_url())
    rows = new = 0
    with source.connect() as before, target.begin() as after:
        _agree(before, after, file)
        for table in Base.metadata.sorted_tables:
            found = [dict(row._mapping) for row in before.execute(sa.select(table))]
            key = [column.name for column in table.primary_key.columns]
            there = {tuple(row) for row in after.execute(sa.select(*(table.c[name] for name in key)))}
            absent = [row for row in found if tuple(row[name] for name in key) not in there]
            for start in range(0, len(absent), AT_ONCE):
                after.execute(sa.insert(table), absent[start : start + AT_ONCE])
            _count_on(after, table)
            rows, new = rows + len(found), new + len(absent)
        _move_places(after, Base.metadata.sorted_tables, (home / "mlartifacts").as_uri(), artifacts())
    source.dispose()
    target.dispose()
    return rows, new


def _agree(before: Any, after: Any, file: Path) -> None:
    """Make sure that no experiment has another number there: runs would be of another one."""
    import sqlalchemy as sa

    ask = sa.text("SELECT name, experiment_id FROM experiments")
    here, there = (dict(map(tuple, connection.execute(ask))) for connection in (before, after))
    for name in here.keys() & there.keys():
        if here[name] != there[name]:
            raise TraubeError(f"{file}: the experiment '{name}' is another one in the database; use an empty database")


def _count_on(connection: Any, table: Any) -> None:
    """Have the numbers that Postgres gives rows go on after those that were copied."""
    import sqlalchemy as sa

    for column in table.primary_key.columns:
        found = connection.execute(
            sa.text("SELECT pg_get_serial_sequence(:t, :c)"), {"t": table.name, "c": column.name}
        )
        sequence = found.scalar() if isinstance(column.type, sa.Integer) else None
        highest = connection.execute(sa.select(sa.func.max(column))).scalar() if sequence else None
        if highest:
            connection.execute(sa.text("SELECT setval(:s, :n)"), {"s": sequence, "n": highest})


def _move_places(connection: Any, tables: Any, before: str, after: str) -> None:
    """Have what says where files lie say it of the share."""
    import sqlalchemy as sa

    places = ("artifact_location", "artifact_uri", "source", "storage_location")
    for column in (table.columns[name] for table in tables for name in places if name in table.columns):
        if isinstance(column.type, sa.String):
            moved = sa.func.replace(column, before, after)
            connection.execute(sa.update(column.table).where(column.startswith(before)).values({column: moved}))
