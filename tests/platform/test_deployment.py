"""The files of deploy/, as far as they can be tried where there is neither Docker nor a cluster; the workflows."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.made import copy_project
from traube._core import paths

DEPLOY = paths.PROJECT / "deploy"


def test_workflows_pin_each_action_by_its_commit() -> None:
    lines = [
        line
        for path in (paths.PROJECT / ".github" / "workflows").glob("*.yml")
        for line in path.read_text().splitlines()
    ]
    uses = [line.strip() for line in lines if "uses:" in line]  # a tag can be moved to other code, a commit cannot
    assert (
        uses
        and [line for line in uses if not re.fullmatch(r"- uses: [\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", line)] == []
    )


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8")))


def test_whatever_is_named_is_there(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert set(service.get("depends_on", ())) <= compose["services"].keys(), name
        assert set(service.get("secrets", ())) <= compose["secrets"].keys(), name
        assert set(service.get("networks", ())) <= compose["networks"].keys(), name
        words = " ".join([*service.get("command", ()), *service.get("healthcheck", {}).get("test", ())]).split()
        programs = [word for word in words if word.startswith("deploy/")]
        assert all((paths.PROJECT / program).is_file() for program in programs), name


def test_who_is_waited_for_has_a_check(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for name, wanted in service.get("depends_on", {}).items():
            assert wanted["condition"] != "service_healthy" or "test" in compose["services"][name]["healthcheck"]


@pytest.mark.parametrize("script", ["daemon.sh", "prepare.sh"])
def test_the_scripts_can_be_read(script: str) -> None:
    shell = shutil.which("bash" if script == "daemon.sh" else "sh")
    if shell is None:
        pytest.skip("there is no such shell on this machine")
    assert subprocess.run([shell, "-n", str(DEPLOY / script)], capture_output=True).stderr == b""


@pytest.mark.slow
def test_docker_compose_takes_it_once_the_folders_are_made() -> None:
    program = shutil.which("docker-compose", path=Path(sys.executable).parent)
    if program is None:
        pytest.skip("docker-compose has no wheel for this machine")
    command = [program, "-f", str(DEPLOY / "compose.yaml"), "config", "--quiet"]
    without = {name: value for name, value in os.environ.items() if not name.startswith("TRAUBE_")}
    refused = subprocess.run(command, env=without, capture_output=True, text=True)
    assert refused.returncode and "run deploy/prepare.sh" in refused.stderr
    done = subprocess.run(command, env=without | {"TRAUBE_UID": "1000", "TRAUBE_GID": "1000"}, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_kubernetes_takes_the_manifests() -> None:
    manifests = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "mlflow.yaml").read_text(encoding="utf-8")))
    assert [manifest["kind"] for manifest in manifests] == ["Deployment", "Service"]
    for manifest in manifests:
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
    manifests[0]["spec"]["replica"] = 1
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate(manifests[0], kubernetes_validate.latest_version(), strict=True)


def test_the_charts_values_say_what_the_checkouts_settings_say() -> None:
    values = yaml.safe_load((DEPLOY / "kubernetes" / "dagster.yaml").read_text(encoding="utf-8"))
    own = yaml.safe_load((paths.PROJECT / "dagster.yaml").read_text(encoding="utf-8"))
    runs, pools = values["concurrency"]["runs"], values["concurrency"]["pools"]
    assert runs["maxConcurrentRuns"] == own["concurrency"]["runs"]["max_concurrent_runs"]
    assert pools == {"defaultLimit": own["concurrency"]["pools"]["default_limit"], "granularity": "run"}
    assert values["dagsterDaemon"]["runRetries"]["maxRetries"] == own["run_retries"]["max_retries"]
    assert values["dagsterDaemon"]["runMonitoring"]["maxRuntimeSeconds"] == own["run_monitoring"]["max_runtime_seconds"]


@pytest.mark.slow
def test_the_images_steps_run_in_a_clean_folder() -> None:
    """Each COPY and RUN of the Dockerfile, with the folders of the image below a temporary one; then its command."""
    with TemporaryDirectory() as folder:  # gigabytes: on a disk, where uv links what it has
        build_image(Path(folder))


def build_image(folder: Path) -> None:
    context, image, data = folder / "context", folder / "traube", folder / "data"
    copy_project(context, without=("data/", "release/"))
    image.mkdir()
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
    without = {name: value for name, value in os.environ.items() if not name.startswith("TRAUBE_")}
    for step in re.findall(r"^(?:COPY|RUN) .*", text, re.MULTILINE):
        kind, _, words = step.replace("/data", str(data)).partition(" ")
        if kind == "RUN":
            done = subprocess.run(["sh", "-c", words], cwd=image, env=without, capture_output=True, text=True)
            assert done.returncode == 0, f"{step}\n{done.stdout}\n{done.stderr}"
        elif words == ". .":
            shutil.copytree(context, image, dirs_exist_ok=True)
        else:
            *files, into = words.split()
            (image / into).mkdir(exist_ok=True)
            for file in files:
                shutil.copy(context / file, image / into)
    environment = without | {"TRAUBE_HOME": str(data / "home"), "HOME": str(data / "home")}
    shown = subprocess.run(
        [image / ".venv" / "bin" / "traube", "--help"], env=environment, capture_output=True, text=True
    )
    assert shown.returncode == 0 and "doctor" in shown.stdout, shown.stderr
