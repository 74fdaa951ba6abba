"""The folder that MLflow stores of a served clustering: code, numbers and requirements; no path of this machine, no text.

MLflow writes it and loads it. What it notes of the machine that made the folder is taken out before the folder is stored.

Requirements have exact versions, and hashes where MLflow's formats have a place for them. `mlflow models serve` installs
what `python_env.yaml` names, in two steps: first pip, setuptools and torch, by version; then `requirements.hashed.txt`,
of which pip takes only the files whose SHA-256 stands in requirements.lock. Torch has none there: which of its builds is
right, and from which index, depends on the machine. `requirements.txt`, which MLflow compares with what is installed, and
`conda.yaml`, whose format knows no hashes, have versions alone.
"""

import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import traube
from traube._core import paths
from traube._core.disk import read_json

CODE = Path(__file__).with_name("served_model.py")
LOCK = paths.PROJECT / "requirements.lock"
HASHED, ENVIRONMENT = "requirements.hashed.txt", "python_env.yaml"
UNHASHED = "torch=="
WHEEL = "wheel==0.45.1"  # where none is installed
UNSERVED = ("datamapplot",)  # draws reports, which a server has none of; what it requires rules out pandas 3
_LOCKED = re.compile(
    r"^(?P<pin>[\w.-]+==[^\s;]+)[^\n]*?(?P<hashes>(?: \\\n +--hash=sha256:[0-9a-f]{64})+)", re.MULTILINE
)


@cache
def pin_requirements(*names: str) -> Sequence[str]:
    """Return the packages' requirements at the installed versions, `name==version`, but for Traube and `UNSERVED`.

    What is installed is read once in a process: that takes longer than all else that is written of a small model.
    """
    pins: dict[str, str] = {}
    pending = [Requirement(name) for name in names]
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        if name in pins or name in UNSERVED or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        with suppress(PackageNotFoundError):  # an option that is not installed
            installed = distribution(name)
            pins[name] = Version(installed.version).public  # not which build it is, as of torch for a CPU
            pending += [Requirement(line) for line in installed.requires or ()]
    return tuple(f"{name}=={version}" for name, version in sorted(pins.items()) if name != "traube")


def hash_requirements(pins: Sequence[str], lock: str) -> str | None:
    """Return requirements with the hashes of a lock file, but torch; None if the lock lacks one of these versions.

    Pip takes hashes of all packages or of none.
    """
    hashes = {match["pin"]: match["hashes"] for match in _LOCKED.finditer(lock)}
    hashed = [pin for pin in pins if not pin.startswith(UNHASHED)]
    if not hashes.keys() >= {*hashed}:
        return None
    return "".join(f"{pin}{hashes[pin]}\n" for pin in hashed)


def _find_package(served: Path) -> list[str]:
    """Return the package that carries the model of a clustering, where Traube itself does not need it."""
    from traube._grouping.served import ENTRY
    from traube.models.card import catalogue

    card = read_json(served / ENTRY).get("card")
    name = card.get("package") if isinstance(card, dict) else None
    return [str(known.package) for known in catalogue().values() if known.extra and known.package == name]


def write_artifact(folder: Path, served: Path, weights: Path | None, **about: Any) -> None:
    """Write what MLflow stores.

    Parameters
    ----------
    folder : Path
        The folder to make.
    served : Path
        A clustering, as `served.save` wrote it.
    weights : Path or None
        The weights of its model, where they have to come along.
    **about : Any
        Ids that MLflow notes in the folder, such as `run_id`.
    """
    import mlflow
    from mlflow.models import Model, ModelSignature
    from mlflow.types import ColSpec, Schema

    pins = pin_requirements("traube", "mlflow", *_find_package(served))
    logging.getLogger("mlflow.pyfunc").setLevel("ERROR")  # it warns that it infers no signature, which is written below
    mlflow.pyfunc.save_model(
        path=str(folder),
        python_model=str(CODE),
        artifacts={"served": str(served), **({"weights": str(weights)} if weights else {})},
        code_paths=[str(Path(traube.__file__).parent)],  # no package index has to be trusted for it
        pip_requirements=list(pins),
        mlflow_model=Model(**about),
    )
    model = Model.load(str(folder))
    flavor = model.flavors["python_function"]
    for name, artifact in flavor["artifacts"].items():  # not where it was copied from
        (folder / artifact["path"]).rename(folder / "artifacts" / name)
        artifact["uri"] = artifact["path"] = f"artifacts/{name}"
    flavor["model_code_path"] = CODE.name
    # of what comes out MLflow would take the types from an example, by running the model
    kinds = {"cluster": "long", "distance": "double", "words": "string", "fits": "boolean"}
    columns = [ColSpec(kind, name) for name, kind in kinds.items()]
    model.signature = ModelSignature(Schema([ColSpec("string")]), Schema(columns))
    model.save(str(folder / "MLmodel"))
    hashed = hash_requirements(pins, LOCK.read_text(encoding="utf-8")) if LOCK.is_file() else None
    if hashed is not None:
        (folder / HASHED).write_text(hashed, encoding="utf-8")
    environment = yaml.safe_load((folder / ENVIRONMENT).read_text(encoding="utf-8"))
    # MLflow leaves out the version of what is not installed here, like wheel
    exact = [
        pin if "==" in pin else WHEEL for pin in environment["build_dependencies"] if "==" in pin or pin == "wheel"
    ]
    environment["build_dependencies"] = [*exact, *(pin for pin in pins if pin.startswith(UNHASHED))]
    environment["dependencies"] = [f"-r {'requirements.txt' if hashed is None else HASHED}"]
    (folder / ENVIRONMENT).write_text(yaml.safe_dump(environment, sort_keys=False), encoding="utf-8")
