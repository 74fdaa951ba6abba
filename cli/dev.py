"""`traube init` prepares the home; `traube dev` runs the Dagster UI with its daemon, and the MLflow
UI.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from cli.printing import out
from traube.foundation import paths, stopping
from traube.foundation.errors import TraubeError
from traube.foundation.files import write_text

HOST = "127.0.0.1"
LOCATION = "definitions"  # the module that Dagster loads, by the name that it has in workspace.yaml
SECONDS_TO_STOP = 1.0  # a run that is cut off is ended by the next start, and tried again

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
    """Run the servers until Ctrl-C, or until one of them ends."""
    import dagster as dg

    from cli.launch import align, prepare
    from resources.tracking import connect, default_uri

    prepare()
    connect(default_uri())
    with dg.DagsterInstance.get() as instance:
        align(instance)
    port = free_port(port, "Dagster")
    mlflow_port = free_port(mlflow_port, "MLflow", taken=port)
    os.environ |= {
        "TRAUBE_MLFLOW_PORT": str(mlflow_port),
        "MLFLOW_DISABLE_TELEMETRY": "true",
        # queues of its own, which poll without end and serve nothing here
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "DAGSTER_DISABLE_TELEMETRY": "true",
        "DAGSTER_IS_DEV_CLI": "1",  # as `dagster dev` sets it: errors of definitions are shown without Dagster's own lines
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(paths.PROJECT), os.environ.get("PYTHONPATH")))),
    }
    stopping.heed()  # a shell that starts this in the background has it ignore Ctrl-C
    children: dict[str, subprocess.Popen[bytes]] = {}
    stopping.at_the_end(lambda: _kill(children.values()))
    with TemporaryDirectory(prefix="traube-") as folder:  # its owner's alone, and so is the socket in it
        try:
            _start_all(children, Path(folder), port, mlflow_port)
            out.print(f"Dagster: http://{HOST}:{port}   MLflow: http://{HOST}:{mlflow_port}   Ctrl-C stops both")
            _watch(children)
        finally:
            _kill(children.values())
            for child in children.values():
                child.wait()


def _start_all(children: dict[str, subprocess.Popen[bytes]], folder: Path, port: int, mlflow_port: int) -> None:
    """Start what `dagster dev` starts (a code server for both, the web server and the daemon) and
    MLflow, with the guard in front of both UIs.
    """
    bin_ = Path(sys.executable).parent
    code, workspace = folder / "code", folder / "workspace.yaml"
    served = {"location_name": LOCATION, "socket": str(code)}
    write_text(workspace, json.dumps({"load_from": [{"grpc_server": served}]}))
    ours = [sys.executable, "-P", "-m", "cli.servers"]
    children["Dagster's code server"] = _start(
        str(bin_ / "dagster"), "code-server", "start", "-m", LOCATION, "-s", str(code),
        "--location-name", LOCATION, "--log-level", "warning", "--use-python-environment-entry-point",
    )  # fmt: skip
    children["MLflow"] = _start(*ours, "mlflow", str(mlflow_port))
    _wait_for(children, lambda: _listens(socket.AF_UNIX, str(code)))  # what asks it before shows an error first
    children["Dagster"] = _start(*ours, "dagster", str(port), str(workspace))
    children["Dagster's daemon"] = _start(
        str(bin_ / "dagster-daemon"), "run", "-w", str(workspace), "--log-level", "warning"
    )  # each look of each sensor is a line else
    _wait_for(children, lambda: all(_listens(socket.AF_INET, (HOST, used)) for used in (port, mlflow_port)))


def _start(*command: str) -> subprocess.Popen[bytes]:
    """A child in the home, since dagster lets a .env of the folder it starts in overrule the
    environment: that of the project may name another home. It has a session of its own, so that
    Ctrl-C reaches this process alone, and each child's children are stopped with it.
    """
    return subprocess.Popen(command, cwd=paths.home(), start_new_session=True)  # noqa: S603


def _wait_for(children: dict[str, subprocess.Popen[bytes]], ready: Callable[[], bool]) -> None:
    while not ready():
        _check(children)
        time.sleep(0.1)


def _listens(family: socket.AddressFamily, address: str | tuple[str, int]) -> bool:
    with socket.socket(family) as probe:
        return probe.connect_ex(address) == 0


def _check(children: dict[str, subprocess.Popen[bytes]]) -> None:
    for name, child in children.items():
        if child.poll() is not None:
            raise TraubeError(f"{name} stopped unexpectedly with exit code {child.returncode}; its messages are above")


def _watch(children: dict[str, subprocess.Popen[bytes]]) -> None:
    """Until Ctrl-C; then they are asked to end, each by itself. A run of Dagster's is not asked: it
    is cut off.
    """
    try:
        while True:
            _check(children)
            time.sleep(0.5)
    except KeyboardInterrupt:
        for child in children.values():
            child.terminate()
        deadline = time.monotonic() + SECONDS_TO_STOP
        for child in children.values():
            with suppress(subprocess.TimeoutExpired):
                child.wait(max(0.0, deadline - time.monotonic()))
        raise


def _kill(children: Iterable[subprocess.Popen[bytes]]) -> None:
    for child in children:
        with suppress(ProcessLookupError):  # dagster's code server now and then outlives its parent
            os.killpg(child.pid, signal.SIGKILL)
