"""The ports of `traube dev`; its servers are started in `tests/e2e/test_dev.py`."""

import socket

import pytest

from operations.dev import HOST, find_free_port
from tests.errors import refused
from traube._core.errors import Busy


def test_a_port_in_use_is_passed_over_and_the_other_one_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server((HOST, 0)) as other:
        used = other.getsockname()[1]
        ours = find_free_port(used, "Dagster")
        assert used < ours < used + 20
        assert f"port {used} is in use; Dagster uses {ours} instead" in " ".join(capsys.readouterr().out.split())
        assert find_free_port(used, "MLflow", taken=ours) not in (used, ours)
    capsys.readouterr()
    assert find_free_port(used, "Dagster") == used
    assert capsys.readouterr().out == ""


def test_where_no_port_is_free_it_says_of_which(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> socket.socket:
        raise OSError

    monkeypatch.setattr(socket, "create_server", fail)
    with refused(Busy, 3000, 3019, "Dagster"):
        find_free_port(3000, "Dagster")
