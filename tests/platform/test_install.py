"""The installer: uv gets the options that pip got."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import pytest

from traube._core import paths


@pytest.fixture
def install() -> Any:
    spec = spec_from_file_location("install", paths.PROJECT / "deploy" / "install.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
    return {line.split()[0] for line in lock.splitlines() if re.match(r"[A-Za-z0-9]", line) and "'never'" not in line}


def test_what_the_demo_installs_holds_no_test_tools_and_no_cluster() -> None:
    platform = (paths.PROJECT / "requirements.lock").read_text()
    everything = (paths.PROJECT / "requirements.all.lock").read_text()
    for name in ("pytest", "ray", "psycopg2-binary", "moto", "mypy"):
        assert f"\n{name}==" not in platform and f"\n{name}==" in everything
    assert pinned(platform) <= pinned(everything)
