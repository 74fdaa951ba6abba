"""The installer: uv gets the options that pip got. The ranges of versions: what is resolved of them."""

import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from traube._core import paths


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(paths.PROJECT / "deploy")
    return import_module("install")


@pytest.fixture
def check_versions(install: Any) -> Any:
    return import_module("check_versions")


def test_uv_looks_where_pip_looks(install: Any) -> None:
    listed = """
:env:.find-links='/wheels'
global.cert='/certs/ca.crt'
global.extra-index-url='file:///a/simple file:///b/simple'
global.find-links='/other'
global.index-url='file:///mirror/simple'
install.no-compile='true'
wheel.find-links='/elsewhere'
wheel.index-url='file:///elsewhere'
"""
    assert install.uv_settings(listed) == {
        "UV_FIND_LINKS": "/wheels",
        "SSL_CERT_FILE": "/certs/ca.crt",
        "UV_DEFAULT_INDEX": "file:///mirror/simple",
        "UV_INDEX": "file:///a/simple file:///b/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


def test_without_settings_uv_has_its_own(install: Any) -> None:
    assert install.uv_settings("") == {}


def test_an_index_that_is_named_goes_before_the_usual_one(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "file:///mirror/simple")
    assert "UV_DEFAULT_INDEX" in install.environment(["torch==2.13.0", "--extra-index-url", "file:///more"])
    for named in (["--index-url", "file:///cpu"], ["--index-url=file:///cpu"], ["-i", "file:///cpu"]):
        assert "UV_DEFAULT_INDEX" not in install.environment([*named, "torch==2.13.0"])


def pinned(lock: str) -> set[str]:
    """Name and version of each package."""
    return {line.split()[0] for line in lock.splitlines() if re.match(r"[A-Za-z0-9]", line)}


def test_what_the_demo_installs_holds_no_test_tools_and_no_cluster() -> None:
    platform = (paths.PROJECT / "requirements.lock").read_text()
    everything = (paths.PROJECT / "requirements.all.lock").read_text()
    for name in ("pytest", "ray", "psycopg2-binary", "moto", "mypy"):
        assert f"\n{name}==" not in platform and f"\n{name}==" in everything
    assert pinned(platform) <= pinned(everything)


def test_no_requirement_of_the_wheel_is_pinned_and_each_has_a_lowest_version() -> None:
    """Without one, the lowest versions that are tried would be as old as the index."""
    project = tomllib.loads((paths.PROJECT / "pyproject.toml").read_text())["project"]
    named = [*project["dependencies"], *(line for lines in project["optional-dependencies"].values() for line in lines)]
    others = [line for line in named if not line.startswith("traube[")]
    assert [line for line in others if ">=" not in line or "==" in line.split(";")[0]] == []
    assert len(others) > 50


def test_each_extra_alone_and_all_are_resolved_on_each_python_at_both_ends(check_versions: Any) -> None:
    project = {
        "classifiers": [
            "Programming Language :: Python :: 3",
            *(f"Programming Language :: Python :: 3.{n}" for n in (11, 13)),
        ],
        "optional-dependencies": {"maps": [], "ray": []},
    }
    together, alone = check_versions.list_resolutions(project)
    assert {one.extras for one in together} == {("maps", "ray")} and {one.extras for one in alone} == {
        (),
        ("maps",),
        ("ray",),
    }
    for extras in [("maps", "ray"), (), ("maps",), ("ray",)]:
        assert sorted((one.python, one.end) for one in [*together, *alone] if one.extras == extras) == [
            ("3.11", "highest"),
            ("3.11", "lowest-direct"),
            ("3.13", "highest"),
            ("3.13", "lowest-direct"),
        ]


def test_an_extra_without_a_solution_fails_and_its_neighbor_does_not(check_versions: Any, tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(
        '[project]\nname = "own"\nversion = "1"\n[project.optional-dependencies]\n'
        'sound = []\ntorn = ["own-other>=2", "own-other<1"]\n'
    )
    uv = str(Path(sys.executable).with_name("uv"))
    sound, torn = (check_versions.Resolution("3.12", "highest", (name,)) for name in ("sound", "torn"))
    assert check_versions.resolve(uv, file, sound, "--offline") is None
    assert "own-other" in check_versions.resolve(uv, file, torn, "--offline")
    assert check_versions.resolve(str(tmp_path / "no-uv"), file, sound)  # what could not be tried is no success
