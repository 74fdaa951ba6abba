"""Runs, Dagster and MLflow where several nodes share a Postgres."""

import dagster as dg

from sensors.lost_runs import HOST, PID, end_lost_runs, tag_process


def test_runs_of_another_machine_are_left_alone() -> None:
    @dg.job
    def nothing() -> None: ...

    gone = {**tag_process(), PID: "999999999"}
    with dg.DagsterInstance.ephemeral() as instance:
        ours, theirs = (
            instance.create_run_for_job(nothing, tags={**gone, HOST: host}, status=dg.DagsterRunStatus.STARTED)
            for host in (gone[HOST], "another machine")
        )
        assert end_lost_runs(instance) == [ours.run_id]
        left = instance.get_run_by_id(theirs.run_id)
        assert left is not None and left.status == dg.DagsterRunStatus.STARTED
