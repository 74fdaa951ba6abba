"""CPU time of a Ray cluster beside local processes: the demo's cells by both, in turn, in one run.

The cluster has two nodes of one core each, on this machine, and there are two local processes. Both are started, and have imported
what the methods need, before anything is measured; that is given apart. CPU time is that of this process and of all that it started:
the cluster's own processes count. Clusters and scores must be equal to the last digit.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import psutil

from traube._pipeline.evaluate import evaluate_cells
from traube._pipeline.executors import Executor, Job, ProcessExecutor
from traube._pipeline.executors.ray import RayExecutor
from traube._pipeline.params import load_params
from traube._pipeline.plan import cells
from traube.components import Component, get_reducer
from traube.models import load_model
from traube.tasks import load_task

MEMORY = 512 * 2**20  # of a node's object store


@dataclass
class Used:
    seconds: float
    cpu: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--task", action="append", help="may be repeated; by default those of params.yaml")
    parser.add_argument("--model", action="append", help="may be repeated; by default those of params.yaml")
    arguments = parser.parse_args()
    os.environ["TRAUBE_WORKERS"] = "2"
    params = load_params()
    began = used()
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": MEMORY})
    cluster.add_node(num_cpus=1, object_store_memory=MEMORY)
    os.environ["RAY_ADDRESS"] = cluster.address
    executors = {"local": ProcessExecutor(), "ray": RayExecutor()}
    rows = [
        {"": "start of the cluster", "ray, s": used().seconds - began.seconds, "ray, CPU s": used().cpu - began.cpu}
    ]
    reducers = [get_reducer(name) for name in params.chosen().reducers]
    rows.append({"": "start of the workers"} | both(executors, lambda executor: start(executor, reducers)))
    equal = True
    for round_ in range(arguments.rounds):
        for name in arguments.task or params.tasks:
            task = load_task(name)
            for model_name in arguments.model or params.models:
                model = load_model(model_name, precision=params.chosen().precision)
                requested = [cell for cell in cells(task, model, params.chosen()) if cell.method.unsupported() is None]
                if not model.corpus_bound:
                    model.encode(task.texts[:2])  # loading is the same for both
                found: list[pd.DataFrame] = []
                work = lambda executor: found.extend(evaluate_cells(task, model, requested, executor=executor))  # noqa: B023, E731
                rows.append(
                    {"": f"{name} {model_name}", "round": round_} | both(executors, work, turned=round_ % 2 == 1)
                )
                equal &= same(found[0], found[2]) and same(found[1], found[3])
                print(rows[-1], file=sys.stderr, flush=True)
    table = pd.DataFrame(rows)
    print(table.round(2).to_markdown(index=False))
    work_rows = table.dropna(subset="round")
    by_round = work_rows.groupby("round")[["local, s", "ray, s", "local, CPU s", "ray, CPU s"]].sum()
    for unit in ("s", "CPU s"):
        ratios = by_round[f"ray, {unit}"] / by_round[f"local, {unit}"]
        print(f"\nray / local, {unit}: median {ratios.median():.3f} [{ratios.min():.3f} to {ratios.max():.3f}]")
    print(f"\nclusters and scores equal: {equal}")
    for executor in executors.values():
        executor.close()
    cluster.shutdown()
    return int(not equal)


def start(executor: Executor, reducers: Sequence[Component]) -> None:
    """Have each worker start and import what the reducers need; wait for them."""
    executor.warm_up(reducers)
    list(executor.run([Job(pause, ()) for _ in range(4)]))


def pause(memory: int) -> None:
    time.sleep(1.0)


def both(executors: Mapping[str, Executor], work: Callable[[Executor], None], turned: bool = False) -> dict[str, float]:
    """Measure some work under each engine."""
    taken = {}
    for engine in list(executors)[::-1] if turned else executors:
        before = used()
        work(executors[engine])
        after = used()
        taken |= {f"{engine}, s": after.seconds - before.seconds, f"{engine}, CPU s": after.cpu - before.cpu}
    return taken


def same(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Return whether two tables have the same rows, in whatever order, to the last digit."""
    keys = [column for column in one if column not in ("value", "replicates", "cluster")]
    first, second = (table.sort_values(keys).reset_index(drop=True) for table in (one, other))
    try:
        pd.testing.assert_frame_equal(first, second, check_exact=True)
    except AssertionError as error:
        print(error, file=sys.stderr)
        return False
    return True


def used() -> Used:
    """Time until now: by the clock, and of the CPU by this process and all that it has started."""
    cpu = 0.0
    for process in (this := psutil.Process(), *this.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue  # it has ended: its parent has its time
        cpu += times.user + times.system + times.children_user + times.children_system
    return Used(time.perf_counter(), cpu)


if __name__ == "__main__":
    sys.exit(main())
