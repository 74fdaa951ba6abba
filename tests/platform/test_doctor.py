"""The findings of `traube doctor` about the engine."""

import sys
from importlib.util import find_spec

import pytest

from operations import doctor


@pytest.mark.parametrize("address", [None, "127.0.0.1:6379"])
def test_an_engine_that_is_not_installed_is_wrong(monkeypatch: pytest.MonkeyPatch, address: str | None) -> None:
    monkeypatch.setenv("TRAUBE_ENGINE", "ray")
    monkeypatch.setenv("RAY_ADDRESS", address) if address else monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    (found,) = doctor._check_engine()
    assert found.status == "wrong" and "make setup-scale" in found.finding


@pytest.mark.skipif(not find_spec("ray"), reason="Ray is not installed: make setup-scale")
def test_an_engine_that_is_installed_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAUBE_ENGINE", "ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    (found,) = doctor._check_engine()
    assert found.status == "ok" and "started here" in found.finding


def test_work_of_this_machine_needs_no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAUBE_ENGINE", "local")
    monkeypatch.setitem(sys.modules, "ray", None)
    (found,) = doctor._check_engine()
    assert found.status == "ok"
