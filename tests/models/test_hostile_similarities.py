"""Trained similarities that somebody else made: each is refused in a line, or gives distances as its weights say."""

import json
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.made import save_similarity
from tests.models.test_hostile_folders import outcome
from traube._core import paths
from traube.models import checkpoints, load_model
from traube.models.similarity import CONFIG, FOLDER, WEIGHTS, TrainedSimilarity

NETWORKS = {"qss": "text", "qs3m": "none", "attention": "text"}
Attack = Callable[[Path], object]  # spoils `similarity/`


def config(**values: Any) -> Attack:
    def spoil(folder: Path) -> None:
        held = json.loads((folder / CONFIG).read_text())
        (folder / CONFIG).write_text(json.dumps({**held, **values}))

    return spoil


def text(content: str | bytes) -> Attack:
    return lambda folder: (folder / CONFIG).write_bytes(content if isinstance(content, bytes) else content.encode())


def tensors(edit: Callable[[torch.Tensor], torch.Tensor]) -> Attack:
    """Change a matrix of the weights."""

    def spoil(folder: Path) -> None:
        held = load_file(folder / WEIGHTS)
        name = max(held, key=lambda name: held[name].ndim)
        content = {key: value.clone() for key, value in {**held, name: edit(held[name])}.items()}
        (folder / WEIGHTS).unlink()
        save_file(content, folder / WEIGHTS)

    return spoil


def header(edit: Callable[[dict[str, Any]], object]) -> Attack:
    """Have the header of the weights lie about the first tensor."""

    def spoil(folder: Path) -> None:
        content = (folder / WEIGHTS).read_bytes()
        size = struct.unpack("<Q", content[:8])[0]
        held = json.loads(content[8 : 8 + size])
        edit(held[min(held)])
        lie = json.dumps(held).encode()
        (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(lie)) + lie + content[8 + size :])

    return spoil


def weights(change: Callable[[bytes], bytes]) -> Attack:
    return lambda folder: (folder / WEIGHTS).write_bytes(change((folder / WEIGHTS).read_bytes()))


LONG = "x" * 200_000
VALUES: dict[str, tuple[Any, ...]] = {
    "network": ("qs4m", "os.system", None, 1, [], {}, "qss\n", LONG),
    "query": ("x", None, 0),
    "dimensions": (0, -1, 31, 33, 10**5, 2**31, 2**63, 10**400, 1e308, float("nan"), float("inf"), "32x", None, [32]),
    "projection": ("x", None, 1),
    "output": ("x", "\x1b[31m", None),
    "symmetric": ("x", None, 7),
    "masked": ("x", None),
    "prompt": (1, ["x"], {"x": "y"}),
    "max_length": (0, -1, 2**40, 10**400, "x", 1.5),
    "pooling": ("x", "../x", 1),
    "precision": ("fp4", None, 1),
    "auto_map": ({"AutoModel": "code.Model"},),
    "model_file": ("../other/model.safetensors",),
    "x" * 500: (1,),
    "\x1b[31mred\n": (1,),
}
DTYPES = (torch.int64, torch.int8, torch.bool, torch.complex64, torch.float8_e4m3fn, torch.float64, torch.bfloat16)
DEEP = "[" * 100_000 + "]" * 100_000


def attacks() -> Iterator[tuple[str, Attack]]:
    for key, values in VALUES.items():
        for value in values:
            yield f"{key[:20]!r}: {str(value)[:20]!r}", config(**{key: value})
    for content in ("", "{", "[]", "null", "1", DEEP, '{"a":' + DEEP + "}", LONG, b"\xff\xfe", b"\0" * 100):
        yield f"config of {content[:10]!r}", text(content)
    yield "a key twice", lambda folder: text((folder / CONFIG).read_text().rstrip("}") + ', "dimensions": 7}')(folder)
    for dtype in DTYPES:
        yield f"weights of {dtype}", tensors(lambda value, dtype=dtype: value.to(dtype))
    for value in ("nan", "inf", "-inf", "1e38"):
        yield f"weights of {value}", tensors(lambda held, value=value: torch.full_like(held, float(value)))
    yield "no numbers", tensors(lambda value: value[:0])
    yield "one axis more", tensors(lambda value: value[None])
    yield "one axis less", tensors(lambda value: value.reshape(-1))
    for shape in ([2**31, 2**31], [2**63, 2], [-1, 4], [0, 0], [1] * 1000, []):
        yield f"a shape of {str(shape)[:20]}", header(lambda held, shape=shape: held.update(shape=shape))
    for place in ([0, 2**62], [-1, 3], [4, 0], [0, 0], [1]):
        yield f"bytes {place}", header(lambda held, place=place: held.update(data_offsets=place))
    for dtype in ("F8_E4M3", "I64", "BOOL", "X", "pickle"):
        yield f"a header of {dtype}", header(lambda held, dtype=dtype: held.update(dtype=dtype))
    for size in (0, 2**31, 2**63):
        yield f"a header of {size} bytes", weights(lambda content, size=size: struct.pack("<Q", size) + content[8:])
    yield "a deep header", weights(lambda _: struct.pack("<Q", len(DEEP)) + DEEP.encode())
    yield "cut off", weights(lambda content: content[:-10])
    yield "more at the end", weights(lambda content: content + bytes(1000))
    yield "a pickle", lambda folder: torch.save({"x": 1}, folder / WEIGHTS)
    yield "no weights", lambda folder: (folder / WEIGHTS).unlink()
    yield "a folder", both(lambda folder: (folder / WEIGHTS).unlink(), lambda folder: (folder / WEIGHTS).mkdir())
    yield "more files", lambda folder: (folder / "code.py").write_text("raise SystemExit")


def both(first: Attack, second: Attack) -> Attack:
    return lambda folder: (first(folder), second(folder))


# What changes nothing, or numbers alone; weights that are large may give an infinite similarity.
SOUND = {"more files", "weights of torch.float64", "weights of torch.bfloat16"}
LARGE = "weights of 1e38"


def check_one_line(error: str) -> None:
    assert error.isprintable() and len(error) < 1000


@pytest.mark.parametrize("network", NETWORKS)
def test_no_similarity_does_more_than_compare(tiny_bert: Path, tmp_path: Path, network: str) -> None:
    sound = save_similarity(
        Path(shutil.copytree(tiny_bert, tmp_path / "sound")), network=network, query=NETWORKS[network]
    )
    config = TrainedSimilarity.at(sound).config
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 32 * (11 if network == "attention" else 1))).astype(np.float32)
    query = None if config.query == "none" else rng.normal(size=32).astype(np.float32)
    let_through = set()
    for name, attack in attacks():
        folder = Path(shutil.copytree(sound / FOLDER, tmp_path / "case" / FOLDER)).parent
        attack(folder / FOLDER)
        found, error = outcome(lambda folder=folder: TrainedSimilarity.at(folder).distances(X, query))
        check_one_line(error)
        assert error or (np.isfinite(found).all() and found.min() >= 0 and found.max() <= 1), name
        let_through |= {name} if not error else set()
        shutil.rmtree(folder)
    assert let_through - {LARGE} == SOUND


@pytest.mark.slow
def test_a_similarity_is_judged_before_anything_is_computed_with_it(tiny_bert: Path, tmp_path: Path) -> None:
    """Try what `doctor` and the sensor call, and what encodes: every fifth attack, as a checkpoint."""
    sound = save_similarity(Path(shutil.copytree(tiny_bert, tmp_path / "sound")))
    for name, attack in [*list(attacks())[::5], ("nothing", lambda _: None)]:
        folder = Path(shutil.copytree(sound, paths.checkpoints() / "case"))
        attack(folder / FOLDER)
        _, error = outcome(lambda folder=folder: checkpoints.check(folder))
        found, failed = outcome(lambda: load_model("case").encode(["the cat", "soup"]))
        check_one_line(error)
        check_one_line(failed)
        assert bool(error) != (name in (*SOUND, LARGE, "nothing")), name
        assert failed or found.shape == (2, 32)
        shutil.rmtree(folder)
