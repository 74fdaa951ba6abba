"""`traube init` prepares the data directory; `traube dev` runs the Dagster UI with its daemon, and the MLflow UI."""

import json
import os
import socket
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from operations import LOCATION
from operations.children import Children, ensure_alone
from operations.reloading import Reloading
from traube._cli.printing import out
from traube._core import paths, stopping
from traube._core.errors import Busy
from traube._core.files import write_text

HOST = "127.0.0.1"

app = typer.Typer()


@app.command(rich_help_panel="Platform")
def init() -> None:
    """Prepare TRAUBE_HOME and checkpoints/.

    Examples
    --------
    traube init
    traube init && traube dev

    `make setup` calls it; calling it again does no harm.
    """
    from traube._pipeline.executors import ProcessExecutor
    from traube.components.registered.reducers import compile_umap

    with ProcessExecutor() as executor:
        compiled = executor.call_apart(compile_umap)  # takes longer than all the rest, the imports below as well
        import dagster as dg

        from operations.launch import align, prepare
        from resources.experiment import connect, default_uri

        prepare()
        connect(default_uri())
        with dg.DagsterInstance.get() as instance:
            align(instance)
        compiled.result()


@app.command(rich_help_panel="Platform")
def dev(
    port: Annotated[int, typer.Option(help="Port of the Dagster UI.")] = 3000,
    mlflow_port: Annotated[int, typer.Option(help="Port of the MLflow UI.")] = 5000,
) -> None:
    """Start Dagster and MLflow on 127.0.0.1; Ctrl-C stops both.

    Examples
    --------
    traube dev
    traube dev --port 3010 --mlflow-port 5010

    Dagster runs with its daemon, so that sensors and schedules work.
    """
    from operations.launch import prepare

    prepare()
    with ensure_alone():
        _serve(port, mlflow_port)


def find_free_port(wanted: int, name: str, taken: int = 0) -> int:
    """Return the port, or the next free one that is not `taken`, and print which."""
    for port in range(wanted, wanted + 20):
        if port == taken:
            continue
        try:
            socket.create_server((HOST, port)).close()
        except OSError:
            continue
        if port != wanted:
            out.print(f"port {wanted} is in use; {name} uses {port} instead")
        return port
    raise Busy(f"no port from {wanted} to {wanted + 19} is free for {name}; choose another one (`traube dev --help`)")


def _serve(port: int, mlflow_port: int) -> None:
    """Run the servers until Ctrl-C, or until one of them ends."""
    import dagster as dg

    from operations.launch import align
    from resources.experiment import connect, default_uri, get_mlflow_page, get_ui
    from sensors.lost_runs import cancel_cut_off_runs, end_unstarted_runs, stop_note_path

    experiment = connect(default_uri())
    port = find_free_port(port, "Dagster")
    mlflow_port = find_free_port(mlflow_port, "MLflow", taken=port)
    os.environ |= {
        "TRAUBE_MLFLOW_PORT": str(mlflow_port),
        "TRAUBE_DAGSTER_PORT": str(port),
        "MLFLOW_DISABLE_TELEMETRY": "true",
        # queues of its own, which poll without end and serve nothing here
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_ENABLE_AI_GATEWAY": "false",  # to language models, which nothing here uses
        "DAGSTER_DISABLE_TELEMETRY": "true",
        "DAGSTER_IS_DEV_CLI": "1",  # as `dagster dev` sets it: errors of definitions are shown without Dagster's own lines
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(paths.PROJECT), os.environ.get("PYTHONPATH")))),
    }
    with dg.DagsterInstance.get() as instance:  # now that the port says whose runs a daemon's are
        align(instance)
        end_unstarted_runs(instance)
    stopping.handle_signals()  # a shell that starts this in the background has it ignore Ctrl-C
    children = Children()

    def end() -> None:
        """End the servers and their processes; cancel the runs that are cut off if somebody stopped `traube dev`."""
        if stopping.get_signal():
            stop_note_path().touch()
        children.kill()
        if stopping.get_signal():
            with dg.DagsterInstance.get() as instance:
                cancel_cut_off_runs(instance)

    stopping.add_last_words(end)
    with TemporaryDirectory(prefix="traube-") as folder:  # its owner's alone, and so is the socket in it
        try:
            _start_all(children, Path(folder), port, mlflow_port)
            # of methods there are many more runs, and MLflow shows the newest
            ranked = f"experiments/{experiment.id}/runs", "tags.`traube.kind` = 'task'"
            out.print(
                f"Dagster: {get_ui('DAGSTER', port)}   MLflow: {get_mlflow_page(*ranked)}",
                soft_wrap=True,
            )
            out.print("Ctrl-C stops both")
            children.watch(Reloading(port).look)
        finally:
            end()


def _start_all(children: Children, folder: Path, port: int, mlflow_port: int) -> None:
    """Start MLflow and what `dagster dev` starts: a code server for both, the web server and the daemon."""
    bin_, code, workspace = Path(sys.executable).parent, folder / "code", folder / "workspace.yaml"
    served = {"location_name": LOCATION, "socket": str(code)}
    write_text(workspace, json.dumps({"load_from": [{"grpc_server": served}]}))
    ours = [sys.executable, "-P", "-m", "operations.servers"]
    children.start(
        "Dagster's code server", str(bin_ / "dagster"), "code-server", "start", "-m", LOCATION, "-s", str(code),
        "--location-name", LOCATION, "--log-level", "warning", "--use-python-environment-entry-point",
    )  # fmt: skip
    children.start("MLflow", *ours, "mlflow", str(mlflow_port))
    # a client that connects earlier shows an error
    children.wait_for(lambda: _is_listening(socket.AF_UNIX, str(code)))
    children.start("Dagster", *ours, "dagster", str(port), str(workspace))
    daemon = str(bin_ / "dagster-daemon")
    # each look of each sensor is a line of level info
    children.start("Dagster's daemon", daemon, "run", "-w", str(workspace), "--log-level", "warning")
    children.wait_for(lambda: all(_is_listening(socket.AF_INET, (HOST, used)) for used in (port, mlflow_port)))


def _is_listening(family: socket.AddressFamily, address: str | tuple[str, int]) -> bool:
    with socket.socket(family) as probe:
        return probe.connect_ex(address) == 0
