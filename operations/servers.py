"""The web servers of `traube dev`, with the guard in front.

`dagster dev` and `mlflow server` do not allow for a guard, so `python -m operations.servers dagster PORT WORKSPACE`
and `python -m operations.servers mlflow PORT` take their place.
"""

import asyncio
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from operations.dev import HOST
from operations.guard import Guard
from resources.data_docs import QUALITY
from resources.experiment import MLFLOW_PAGES, get_mlflow_page
from traube._core import paths
from traube._core.files import read_parquet
from traube._reports.pages import FOLDER, INDEX, SERVED
from traube._reports.tables import NAME

POLL_MILLISECONDS = 2000  # interval at which the Dagster UI polls, the default of `dagster dev`
SECONDS_TO_FINISH = 3  # for open requests when the server stops
# MLflow's assistant lets an agent run commands, and MLflow has no setting that switches it off
ASSISTANT = "/mlflow/assistant"
_PAGE = re.compile('<span data-page="([^"]+)">([^<]+)</span>')  # of a task, in the template of the leaderboard
_RUN = re.compile(rf"{MLFLOW_PAGES}/(?P<route>experiments/\d+/runs/[0-9a-f]+)")


def dagster(port: int, workspace: str) -> None:
    """Serve the Dagster UI of a workspace file."""
    import dagster as dg

    # Dagster has no public way to put middleware before its UI: these names may change with the pinned minor version
    from dagster._core.workspace.context import WorkspaceProcessContext
    from dagster._core.workspace.load_target import WorkspaceFileTarget
    from dagster_webserver.app import create_app_from_workspace_process_context
    from dagster_webserver.version import __version__

    with (
        dg.DagsterInstance.get() as instance,
        WorkspaceProcessContext(instance, WorkspaceFileTarget([workspace]), version=__version__) as context,
    ):
        app = create_app_from_workspace_process_context(context, live_data_poll_rate=POLL_MILLISECONDS)
        _serve(with_pages(app, paths.home()), port)


class SandboxedFiles(StaticFiles):
    """Files served in a sandbox: their scripts do not run, and cannot act for this address.

    Data Docs load some scripts from elsewhere.
    """

    def file_response(self, *given: Any, **more: Any) -> Response:
        """Return the response with a sandboxing Content-Security-Policy."""
        response = super().file_response(*given, **more)
        response.headers["Content-Security-Policy"] = "sandbox"
        return response


def with_pages(app: ASGIApp, home: Path) -> ASGIApp:
    """Add a data directory's reports and Data Docs to an app, since browsers follow no link from a web page to a file.

    Links to runs of MLflow lead to wherever its pages are now. A task's page is made when it is requested, if results are
    newer: a command that makes results makes no pages.
    """
    served = {
        f"{SERVED}/{QUALITY}": SandboxedFiles(directory=home / QUALITY, html=True, check_dir=False),
        SERVED: StaticFiles(directory=home / FOLDER, html=True, check_dir=False),
    }

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (run := _RUN.fullmatch(scope["path"])):
            return await RedirectResponse(get_mlflow_page(run["route"]))(scope, receive, send)
        at = next((at for at in served if scope["type"] == "http" and scope["path"].startswith(f"{at}/")), None)
        if at is None:
            return await app(scope, receive, send)
        try:
            is_page = scope["path"].endswith(("/", ".html"))  # not the lock files beside the pages
            if not (is_page and Path(served[at].directory or "").is_dir()):
                raise HTTPException(404)
            if at == SERVED and scope["path"] in (f"{SERVED}/", f"{SERVED}/{INDEX}"):
                return await HTMLResponse(_link_pages(home / FOLDER / INDEX))(scope, receive, send)
            if at == SERVED:
                await _make_page(home, Path(scope["path"]).stem)
            return await served[at]({**scope, "path": scope["path"].removeprefix(at)}, receive, send)
        except HTTPException as error:
            text = "there is no such page; `traube report TASK` makes a task's\n"
            return await PlainTextResponse(text, error.status_code)(scope, receive, send)

    return serve


def _link_pages(index: Path) -> str:
    """Return the page of all tasks with a link to each task's page, which is made when it is opened."""
    if not index.is_file():
        raise HTTPException(404)
    return _PAGE.sub(r'<a href="\1">\2</a>', index.read_text("utf-8"))


async def _make_page(home: Path, task: str) -> None:
    """Make a task's page as `traube report TASK` does, unless it is as new as the results."""
    page, results = home / FOLDER / f"{task}.html", home / "tables" / NAME
    if not results.exists() or (page.exists() and page.stat().st_mtime > results.stat().st_mtime):
        return
    if task not in set(read_parquet(results)["task"]):
        return
    # in a process of its own, whose memory and errors are not the server's
    command = (sys.executable, "-P", "-m", "traube", "report", "--print", "--", task)
    environment = {**os.environ, "TRAUBE_HOME": str(home)}
    made = await asyncio.create_subprocess_exec(*command, env=environment, stdout=asyncio.subprocess.DEVNULL)
    if await made.wait() == 0:
        page.touch()  # it stays as it is where nothing that it shows has changed


def mlflow(port: int) -> None:
    """Serve the MLflow UI of this data directory."""
    from mlflow.server import constants

    from resources.experiment import artifact_root, default_uri

    os.environ |= {  # MLflow's app reads these when it is imported
        constants.BACKEND_STORE_URI_ENV_VAR: default_uri(),
        constants.REGISTRY_STORE_URI_ENV_VAR: default_uri(),
        constants.ARTIFACT_ROOT_ENV_VAR: "mlflow-artifacts:/",
        constants.ARTIFACTS_DESTINATION_ENV_VAR: artifact_root(),
        constants.SERVE_ARTIFACTS_ENV_VAR: "true",
    }
    from mlflow.server.fastapi_app import app

    _serve(with_pages(app, paths.home()), port, closed=ASSISTANT)  # to which runs' descriptions link


def _serve(app: ASGIApp, port: int, closed: str | None = None) -> None:
    uvicorn.run(
        Guard(app, port, closed),
        host=HOST,
        port=port,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=SECONDS_TO_FINISH,
    )


if __name__ == "__main__":
    serve: dict[str, Callable[..., None]] = {"dagster": dagster, "mlflow": mlflow}
    name, number, *more = sys.argv[1:]
    serve[name](int(number), *more)
