"""deploy/compose.yaml, as far as it can be held against itself where there is no Docker."""

import shutil
import subprocess
from typing import Any

import pytest
import yaml

from traube.core import paths

DEPLOY = paths.PROJECT / "deploy"


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
