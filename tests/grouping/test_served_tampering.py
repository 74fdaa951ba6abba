"""A served clustering that somebody has changed is one line, or is read as what it says: never a traceback, never code."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from tests.grouping.test_serving import served
from traube._core.errors import TraubeError
from traube._grouping import served as serving
from traube.tasks.task import Task

NEW = ["goal keeper penalty match", "nova galaxy telescope"]
Change = Callable[[Path], None]


@pytest.fixture(scope="session")
def stored() -> dict[str, Path]:
    """Folders of served clusterings by model, made at first use."""
    return {}


@pytest.fixture(params=["tfidf", "lsa"])
def folder(request: pytest.FixtureRequest, tiny_task: Task, tmp_path: Path, stored: dict[str, Path]) -> Path:
    """A folder as `save` writes it: sparse and not reduced, or dense and reduced."""
    model = request.param
    if model not in stored:
        stored[model] = tmp_path.parent / f"served-{model}"
        serving.save(served(tiny_task, model, "none/kmeans" if model == "tfidf" else "pca/kmeans"), stored[model])
    return Path(shutil.copytree(stored[model], tmp_path / "served"))


def use(folder: Path) -> pd.DataFrame:
    return serving.load(folder).predict(NEW)


def set_value(*keys: str, to: Any) -> Change:
    """Change one value of `served.json`; `...` removes it."""

    def change(folder: Path) -> None:
        entry = json.loads((folder / serving.ENTRY).read_text())
        inner = entry
        for key in keys[:-1]:
            inner = inner[key]
        if to is ...:
            del inner[keys[-1]]
        else:
            inner[keys[-1]] = to
        (folder / serving.ENTRY).write_text(json.dumps(entry))

    return change


def set_array(name: str, make: Callable[[np.ndarray], np.ndarray]) -> Change:
    def change(folder: Path) -> None:
        np.save(folder / name, make(np.load(folder / name)), allow_pickle=True)

    return change


def set_vectors(make: Callable[[Any], Any]) -> Change:
    """Change the vectors, sparse or dense."""

    def change(folder: Path) -> None:
        if (folder / "vectors.npz").exists():
            sparse.save_npz(folder / "vectors.npz", make(sparse.load_npz(folder / "vectors.npz")))
        else:
            np.save(folder / "vectors.npy", make(np.load(folder / "vectors.npy")))

    return change


def text(content: str | bytes) -> Change:
    def change(folder: Path) -> None:
        (folder / serving.ENTRY).write_bytes(content if isinstance(content, bytes) else content.encode())

    return change


def remove(name: str) -> Change:
    return lambda folder: [path.unlink() for path in folder.glob(name)] and None


def values() -> Iterator[tuple[str, Change]]:
    """Each key of `served.json` with values that it cannot have."""
    wrong: dict[tuple[str, ...], list[Any]] = {
        ("card",): [None, [], "lsa", {}],
        ("card", "kind"): ["pickle", 3],
        ("card", "name"): ["../lsa", 5],
        ("card", "more"): [1],
        ("fingerprint",): [None, 7, "../../x", ""],
        ("method",): [None, [], {}, {"reducer": "none"}, {"reducer": "none", "clusterer": "kmeans", "code": "x"}],
        ("method", "reducer"): ["nothing", None, "../none", []],
        ("method", "clusterer"): ["os.system", 4],
        ("method", "reducer_params"): [None, {"n_components": 10**9}, {"n_components": "x"}],
        ("method", "clusterer_params"): [[], {"n_jobs": 7}, {"algorithm": "x", "code": 1}],
        ("seed",): [-1, 2**32, 1.5, "many", None, []],
        ("vocabulary",): [[], "words", [1, 2], ["one"], ["same", "same"], {"a": 1}],
        ("words",): [None, {"x": ["a"]}, {"0": "word"}, {"0": [1]}, []],
        ("more",): [1],
    }
    for keys, cases in wrong.items():
        for number, value in enumerate(cases):
            yield f"{'.'.join(keys)}-{number}", set_value(*keys, to=value)
    for key in ("card", "fingerprint", "method", "seed", "vocabulary", "words"):
        yield f"no {key}", set_value(key, to=...)


CHANGES: dict[str, Change] = {
    **dict(values()),
    "empty": text(""),
    "list": text("[]"),
    "deep": text("[" * 100_000),
    "bytes": text(b"\xff\xfe\x00"),
    "number": text("9" * 5_000),
    "no json": remove("served.json"),
    "no vectors": remove("vectors.*"),
    "no clusters": remove("clusters.npy"),
    "no idf": remove("idf.npy"),
    "fewer vectors": set_vectors(lambda values: values[:-1]),
    "narrow vectors": set_vectors(lambda values: values[:, :-1]),
    "no vector": set_vectors(lambda values: values[:0]),
    "fewer clusters": set_array("clusters.npy", lambda values: values[1:]),
    "negative clusters": set_array("clusters.npy", lambda values: values - 5),
    "halves of clusters": set_array("clusters.npy", lambda values: values + 0.5),
    "table of clusters": set_array("clusters.npy", lambda values: values[:, None]),
    "pickled clusters": set_array("clusters.npy", lambda values: np.array([print] * len(values))),
    "short idf": set_array("idf.npy", lambda values: values[:-1]),
    "idf of words": set_array("idf.npy", lambda values: values.astype(str)),
    "idf that is no number": set_array("idf.npy", lambda values: values * np.nan),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_is_one_line(folder: Path, name: str) -> None:
    CHANGES[name](folder)
    with pytest.raises(TraubeError) as error:
        use(folder)
    assert len(str(error.value).splitlines()) == 1 and "Traceback" not in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        set_value("words", to={"0": ["a", "b"]}),
        set_value("seed", to=7),
        set_value("card", "description", to="of another hand"),
        set_array("clusters.npy", lambda values: values.astype(np.int32)),
        set_array("idf.npy", lambda values: values * 2),
    ],
)
def test_what_it_could_say_is_read(folder: Path, change: Change) -> None:
    """The twin: values that a clustering can have are taken, since nobody but its maker knows better."""
    change(folder)
    assert use(folder)["cluster"].isin(range(-1, 3)).all()


def test_any_byte_may_be_damaged(folder: Path) -> None:
    files = {path: path.read_bytes() for path in folder.iterdir()}
    draw = random.Random(60)
    refused = 0
    for _ in range(150):
        path = draw.choice(sorted(files))
        data = bytearray(files[path])
        for _ in range(draw.choice([1, 3])):
            data[draw.randrange(len(data))] = draw.randrange(256)
        path.write_bytes(data[: draw.choice([len(data), len(data), draw.randrange(len(data))])])
        try:
            use(folder)
        except TraubeError as error:
            refused += len(str(error).splitlines()) == 1
        path.write_bytes(files[path])
    assert refused > 50
    assert use(folder)["cluster"].tolist() == use(folder)["cluster"].tolist()


def test_neither_a_text_nor_a_path_is_stored(folder: Path, tiny_task: Task) -> None:
    stored = b"".join(path.read_bytes() for path in folder.iterdir())
    assert not [text for text in tiny_task.texts if text.encode() in stored]
    assert str(Path.home()).encode() not in stored and str(folder.parent).encode() not in stored
    assert b"telescope" in stored  # but words are: the model's, and the key words
