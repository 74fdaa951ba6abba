"""`traube init` prepares the home; `traube dev` runs the Dagster UI with its daemon, and the MLflow
UI.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from cli.printing import out
from traube.foundation import paths
from traube.foundation.errors import TraubeError

HOST = "127.0.0.1"
SECONDS_TO_STOP = 20

app = typer.Typer()


@app.command()
def init() -> None:
    """Prepare TRAUBE_HOME and checkpoints/.

    `make setup` calls it; calling it again does no harm.
    """
    import dagster as dg

    from cli.launch import align, prepare
    from resources.tracking import connect, default_uri
    from traube.methods.registered.umap import compile_umap

    prepare()
    connect(default_uri())
    with dg.DagsterInstance.get() as instance:
        align(instance)
    compile_umap()


@app.command()
def dev(
    port: Annotated[int, typer.Option(help="The port of the Dagster UI.")] = 3000,
    mlflow_port: Annotated[int, typer.Option(help="The port of the MLflow UI.")] = 5000,
) -> None:
    """Start Dagster and MLflow on 127.0.0.1; Ctrl-C stops both.

    Dagster runs with its daemon, so that sensors and schedules work.
    """
    serve(port, mlflow_port)


def free_port(wanted: int, name: str, taken: int = 0) -> int:
    """The port, or the next free one that is not `taken`; says so."""
    for port in range(wanted, wanted + 20):
        if port == taken:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        if port != wanted:
            out.print(f"port {wanted} is in use; {name} uses {port} instead")
        return port
    raise TraubeError(
        f"no port from {wanted} to {wanted + 19} is free for {name}; choose another one (`traube dev --help`)"
    )


def serve(port: int, mlflow_port: int) -> None:
    """Run both servers until Ctrl-C, or until one of them ends."""
    import dagster as dg

    from cli.launch import align, prepare
    from resources.tracking import connect, default_uri

    prepare()
    connect(default_uri())
    with dg.DagsterInstance.get() as instance:
        align(instance)
    port = free_port(port, "Dagster")
    mlflow_port = free_port(mlflow_port, "MLflow", taken=port)
    bin_ = Path(sys.executable).parent
    dagster = [str(bin_ / "dagster"), "dev", "-w", str(paths.PROJECT / "workspace.yaml"), "-h", HOST, "-p", str(port)]
    mlflow = [
        str(bin_ / "mlflow"), "server", "--backend-store-uri", default_uri(), "--host", HOST, "--port", str(mlflow_port),
        "--workers", "1", "--serve-artifacts", "--artifacts-destination", (paths.home() / "mlartifacts").as_uri(),
    ]  # fmt: skip
    environment = {
        **os.environ,
        "TRAUBE_MLFLOW_PORT": str(mlflow_port),
        "MLFLOW_DISABLE_TELEMETRY": "true",
        # queues of its own, which poll without end and serve nothing here
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "DAGSTER_DISABLE_TELEMETRY": "true",
        "PYTHONWARNINGS": "ignore",
    }
    # all mean: stop (a closed terminal hangs up; a shell that starts this in the background has
    # told it to ignore Ctrl-C)
    for stopping in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(stopping, signal.default_int_handler)
    # in the home, since dagster lets a .env of the folder it starts in overrule the environment:
    # that of the project may name another home. A session of their own, so that Ctrl-C reaches this
    # process alone, and each child's children are stopped with it
    names = ("Dagster", "MLflow")
    children = [
        subprocess.Popen(c, env=environment, cwd=paths.home(), start_new_session=True)  # noqa: S603
        for c in (dagster, mlflow)
    ]
    out.print(f"Dagster: http://{HOST}:{port}   MLflow: http://{HOST}:{mlflow_port}   Ctrl-C stops both")
    try:
        while all(child.poll() is None for child in children):
            time.sleep(0.5)
        name, code = next((n, c.returncode) for n, c in zip(names, children, strict=True) if c.poll() is not None)
        raise TraubeError(f"{name} stopped unexpectedly with exit code {code}; its messages are above")
    except KeyboardInterrupt:
        out.print("stopping")
    finally:
        _stop(children)


def _stop(children: list[subprocess.Popen[bytes]]) -> None:
    for child in children:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGINT)
    deadline = time.monotonic() + SECONDS_TO_STOP
    for child in children:
        with suppress(subprocess.TimeoutExpired):
            child.wait(max(0.1, deadline - time.monotonic()))
        with suppress(ProcessLookupError):  # dagster's code server now and then outlives its parent
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
