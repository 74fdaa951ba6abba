"""MLflow's own server serves a champion: it gives the same groups as the command and the artifact."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import mlflow
import pandas as pd
import pytest
import requests

from operations.launch import DagsterLauncher
from resources.experiment import default_uri
from tests.waiting import wait_for

TEXTS = ["apple pear fruit", "owl robin birds", "dividend statement"]
CHAMPION = "models:/traube-words@champion"
pytestmark = pytest.mark.begin_with("published")


def expect(found: pd.DataFrame) -> None:
    fruit, bird, strange = found.itertuples()
    assert fruit.cluster != bird.cluster and "birds" in bird.words
    assert (bool(fruit.fits), bool(bird.fits), bool(strange.fits)) == (True, True, False)
    assert strange.cluster == -1


def test_the_artifact_scores_a_batch(launcher: DagsterLauncher) -> None:
    mlflow.set_tracking_uri(default_uri())
    model = mlflow.pyfunc.load_model(CHAMPION)
    batch = pd.DataFrame({"text": TEXTS}, index=[7, 8, 9])
    found = model.predict(batch)
    assert found.index.tolist() == [7, 8, 9]
    expect(found)
    pd.testing.assert_frame_equal(model.predict(batch.iloc[[1]]), found.iloc[[1]])  # a text's group is its own


@pytest.mark.e2e
def test_the_server_answers_as_the_artifact_does(launcher: DagsterLauncher, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["models", "serve", "-m", CHAMPION, "--env-manager", "local", "--host", "127.0.0.1", "--port", str(port)]
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # uvicorn's, as in an active one
    environment = {**os.environ, "PATH": programs, "MLFLOW_TRACKING_URI": default_uri(), "PYTHONDONTWRITEBYTECODE": "1"}
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "mlflow", *command], env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:

        def is_ready() -> bool:
            assert server.poll() is None, (tmp_path / "log").read_text()
            try:
                return requests.get(f"http://127.0.0.1:{port}/ping", timeout=5).ok
            except requests.ConnectionError:
                return False

        wait_for(is_ready, "the server")
        answer = requests.post(f"http://127.0.0.1:{port}/invocations", json={"inputs": TEXTS}, timeout=60)
        expect(pd.DataFrame(answer.json()["predictions"]))
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()
