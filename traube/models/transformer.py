"""Sentence-transformers models: from the Hugging Face hub, a local folder, or a Python package that carries one.

Only safetensors weights are loaded, and never code from a model's repository.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from traube import paths
from traube.errors import TraubeError, Unavailable
from traube.files import digest, file_sha256, write_json
from traube.models.base import Dense, ModelCard

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

# Part of every fingerprint: raise it when the same weights would give other vectors.
ENCODER_VERSION = "2"
# Padded tokens a batch. Small batches stay in a CPU core's cache; a GPU wants them large and is given less when it runs out.
TOKENS_A_BATCH = {"cpu": 2_000, "cuda": 131_072, "mps": 16_384}
WEIGHTS = ("*.json", "*.txt", "*.model", "*.safetensors", "*/*.json", "*/*.safetensors")
TOKENIZERS = ("*token*.json", "vocab.*", "*.model")
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
PARITY = 1e-3  # largest 1 - cosine to fp32 at which `precision: auto` takes bf16


class Transformer:
    """A sentence-transformers model.

    Parameters
    ----------
    card : ModelCard of kind `packaged` or `transformer`
    device : `cuda`, `mps` or `cpu`; by default the best one there is
    """

    corpus_bound = False

    def __init__(self, card: ModelCard, device: str | None = None) -> None:
        self.card = card
        self.name = card.name
        self._device = device

    @cached_property
    def device(self) -> str:
        return self._device or best_device()

    @cached_property
    def folder(self) -> Path:
        """Where the weights lie. Does not download.

        Raises
        ------
        Unavailable
            If they are not on this machine.
        TraubeError
            If the folder holds no safetensors weights, or others than the card's checksum says.
        """
        folder = locate(self.card)
        check_folder(folder, self.card)
        return folder

    def fetch(self) -> None:
        """Make the weights available, from the Hugging Face hub if need be. Shows huggingface_hub's progress bars."""
        try:
            locate(self.card)
        except Unavailable:
            download(self.card)

    @cached_property
    def precision(self) -> str:
        return resolve_precision(self) if self.card.precision == "auto" else self.card.precision

    @cached_property
    def fingerprint(self) -> str:
        files = {str(p.relative_to(self.folder)): _hash(p, p.stat().st_mtime_ns) for p in _files(self.folder)}
        settings = [self.card.prompt, self.card.max_length, self.card.pooling, self.precision]
        return digest([ENCODER_VERSION, files, settings])

    def encode(self, texts: Sequence[str]) -> Dense:
        """Vectors, float32 [n, d]. Rows of equal texts are equal."""
        vectors: Dense | None = None
        for positions, block in self.encode_batches(texts):
            if vectors is None:
                vectors = np.empty((len(texts), block.shape[1]), dtype=np.float32)
            vectors[positions] = block
        if vectors is None:
            raise TraubeError(f"model '{self.name}': there are no texts to encode")
        return vectors

    def encode_batches(self, texts: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], Dense]]:
        """Vectors as they are computed, the longest texts first: positions [b] in `texts` and float32 [b, d].

        Texts of like token length share a batch, so that little is spent on padding. A batch that does not fit the
        GPU's memory is halved, and so are the batches after it.

        Raises
        ------
        TraubeError
            If a vector is not finite, or a single text does not fit the GPU's memory.
        """
        import torch

        lengths = self._lengths(texts)
        order = np.argsort(-lengths, kind="stable")
        budget = TOKENS_A_BATCH[torch.device(self.device).type]
        start = 0
        while start < len(order):
            size = max(1, budget // int(lengths[order[start]]))
            positions = order[start : start + size]
            try:
                block = self._forward([texts[i] for i in positions])
            except torch.OutOfMemoryError:
                if len(positions) == 1:
                    tokens = lengths[positions[0]]
                    raise TraubeError(
                        f"model '{self.name}': one text of {tokens} tokens does not fit the memory of {self.device}; set max_length"
                    ) from None
                budget = max(1, int(lengths[positions[0]]) * len(positions) // 2)
                torch.cuda.empty_cache()
                logger.warning(
                    "%s: out of memory on %s; going on with batches of %d tokens", self.name, self.device, budget
                )
                continue
            if not np.isfinite(block).all():
                bad = int(positions[int(np.flatnonzero(~np.isfinite(block).all(axis=1))[0])])
                raise TraubeError(
                    f"model '{self.name}': NaN or infinity in the vector of text {bad} ({texts[bad][:60]!r}); its weights are broken"
                )
            yield positions, block
            start += size

    def _lengths(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Tokens of each text as the model sees it, int64 [n]; at least 1."""
        tokenizer = self._network.tokenizer
        found: list[int] = []
        for start in range(0, len(texts), 4096):
            block = [self.card.prompt + t for t in texts[start : start + 4096]]
            found.extend(map(len, tokenizer(block, truncation=True)["input_ids"]))
        return np.maximum(np.array(found, dtype=np.int64), 1)

    def _forward(self, texts: list[str]) -> Dense:
        import torch
        from sentence_transformers.util import batch_to_device

        network = self._network
        features = network.preprocess([self.card.prompt + t for t in texts])
        with torch.inference_mode():
            vectors = network(batch_to_device(features, torch.device(self.device)))["sentence_embedding"]
        return vectors.float().cpu().numpy()

    @cached_property
    def _network(self) -> Any:
        try:
            return _load(self.card, self.folder, self.device, self.precision)
        except TraubeError:
            raise
        except Exception as error:  # whatever a damaged folder raises
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise TraubeError(f"model '{self.name}': {self.folder}: cannot be loaded ({reason})") from error

    def __getstate__(self) -> dict[str, Any]:
        return {"card": self.card, "name": self.name, "_device": self._device}


def best_device() -> str:
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def locate(card: ModelCard) -> Path:
    """The local folder of a model, without downloading.

    Raises
    ------
    Unavailable
        If it is not on this machine.
    """
    if card.kind == "packaged":
        spec = find_spec(card.package or "")
        if spec is None or not spec.submodule_search_locations:
            raise Unavailable(f"model '{card.name}': the package {card.package} is not installed; run `make setup`")
        return Path(next(iter(spec.submodule_search_locations))) / "model"
    assert card.model is not None
    if is_folder(card.model):
        folder = (paths.cards() / Path(card.model).expanduser()).resolve()
        if not folder.is_dir():
            raise Unavailable(f"model '{card.name}': there is no folder {folder}")
        return folder
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(card.model, revision=_revision(card), allow_patterns=list(WEIGHTS), local_files_only=True)
        )
    except (OSError, ValueError):
        raise Unavailable(
            f"model '{card.name}': the weights of {card.model} are not on this machine; `traube run --model {card.name}` downloads them"
        ) from None


def is_folder(model: str) -> bool:
    """Whether a card's `model` names a local folder (relative to cards/) instead of a Hugging Face id."""
    return model.startswith((".", "/", "~")) or (paths.cards() / model).is_dir()


def download(card: ModelCard) -> None:
    """Fetch a model's safetensors weights from the Hugging Face hub and record the revision.

    Raises
    ------
    Unavailable
        If the hub cannot be reached or has no such model.
    """
    from huggingface_hub import HfApi, snapshot_download

    assert card.model is not None
    try:
        revision = _revision(card) or HfApi().model_info(card.model).sha
        snapshot_download(card.model, revision=revision, allow_patterns=list(WEIGHTS))
    except Exception as error:  # the hub's client raises many kinds; all mean: not to be had now
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise Unavailable(f"model '{card.name}': {card.model} cannot be downloaded ({reason})") from error
    if card.revision is None:
        write_json(_revisions_file(), {**_revisions(), card.model: revision})


def _revisions_file() -> Path:
    return paths.home() / "revisions.json"


def _revisions() -> dict[str, str]:
    path = _revisions_file()
    try:
        return json.loads(path.read_text()) if path.exists() else {}
    except ValueError:
        raise TraubeError(f"{path}: damaged; delete it, and models without a revision are looked up anew") from None


def _revision(card: ModelCard) -> str | None:
    return card.revision or _revisions().get(card.model or "")


def check_folder(folder: Path, card: ModelCard) -> None:
    """Refuse a folder that cannot be loaded safely.

    Raises
    ------
    TraubeError
        No config.json, no tokenizer, no safetensors weights, pickled weights only, modules that are not
        sentence-transformers' own, or a wrong checksum.
    """
    where = f"model '{card.name}': {folder}"
    modules = _modules(folder)
    weights = sorted(folder.rglob("*.safetensors"))
    if not weights:
        pickles = sorted(p.name for p in folder.rglob("*") if p.suffix in PICKLES)
        if pickles:
            raise TraubeError(
                f"{where}: only pickled weights ({', '.join(pickles[:3])}), which can run code when loaded; convert them to safetensors"
            )
        raise TraubeError(f"{where}: no weights; expected model.safetensors")
    if not any((folder / m / "config.json").is_file() for m in ("", *(m["path"] for m in modules))):
        raise TraubeError(f"{where}: no config.json")
    # without one, transformers makes up a tokenizer that knows no word
    if not any(next(folder.rglob(pattern), None) for pattern in TOKENIZERS):
        raise TraubeError(f"{where}: no tokenizer; expected tokenizer.json")
    for module in modules:
        if not str(module["type"]).startswith("sentence_transformers."):
            raise TraubeError(
                f"{where}: modules.json asks for the code of '{module['type']}'; only sentence-transformers' own modules are loaded"
            )
        inside = folder / module["path"]
        pickled = [p.name for p in inside.glob("*") if p.suffix in PICKLES]
        # only under this name are safetensors loaded in place of a pickle that lies beside them
        if pickled and not any(
            (inside / name).is_file() for name in ("model.safetensors", "model.safetensors.index.json")
        ):
            raise TraubeError(
                f"{where}: pickled weights in {module['path'] or '.'} ({pickled[0]}); convert them to safetensors"
            )
    if card.sha256 and _hash(weights[0], weights[0].stat().st_mtime_ns) != card.sha256:
        raise TraubeError(f"{where}: {weights[0].name} has a wrong checksum; reinstall it")


def _modules(folder: Path) -> list[dict[str, str]]:
    path = folder / "modules.json"
    if not path.is_file():
        return []
    try:
        modules = json.loads(path.read_text(encoding="utf-8"))
        return [{"path": str(m["path"]), "type": str(m["type"])} for m in modules]
    except (ValueError, KeyError, TypeError):
        raise TraubeError(f"{path}: broken json") from None


def _files(folder: Path) -> list[Path]:
    ignored = {"README.md", "data_config.json", "model_card.json", "checkpoint.json", "sentence_bert_config.json.bak"}
    found = {p for pattern in WEIGHTS for p in folder.glob(pattern) if p.is_file() and p.name not in ignored}
    return sorted(found)


@lru_cache(maxsize=512)
def _hash(path: Path, _changed: int) -> str:
    return file_sha256(path)


def _load(card: ModelCard, folder: Path, device: str, precision: str) -> Any:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules.transformer import Transformer as Body
    from sentence_transformers.sentence_transformer.modules import Pooling
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    dtype = _dtype(precision)
    loading = {"use_safetensors": True, "dtype": dtype}
    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
    if _modules(folder):
        network = SentenceTransformer(
            str(folder), device=device, trust_remote_code=False, local_files_only=True, model_kwargs=loading
        )
    else:
        body = Body(str(folder), model_kwargs=loading)
        pooling = Pooling(body.get_embedding_dimension(), pooling_mode=card.pooling)
        network = SentenceTransformer(modules=[body, pooling], device=device)
    if card.max_length:
        positions = getattr(getattr(network[0], "config", None), "max_position_embeddings", None) or -1
        if 0 < positions < card.max_length:
            raise TraubeError(
                f"model '{card.name}': max_length {card.max_length} is more than its {positions} positions"
            )
        network.max_seq_length = card.max_length
    return network.to(dtype).eval()


def _dtype(precision: str) -> "torch.dtype":
    import torch

    return torch.bfloat16 if precision == "bf16" else torch.float32


def resolve_precision(model: Transformer) -> str:
    """What `precision: auto` means on this machine: bf16 if it is faster here and agrees with fp32, else fp32.

    The probe runs once a machine and model; its result is kept in TRAUBE_HOME/precision.json, since the precision is part of
    the fingerprint.
    """
    path = paths.home() / "precision.json"
    try:
        known = json.loads(path.read_text()) if path.exists() else {}
    except ValueError:
        known = {}  # damaged: measured again
    key = digest(
        [[_hash(p, p.stat().st_mtime_ns) for p in _files(model.folder)], model.device, _hardware(model.device)]
    )
    if key not in known:
        known[key] = _probe(model)
        write_json(path, known)
    return str(known[key])


def _hardware(device: str) -> str:
    import torch

    return torch.cuda.get_device_name() if device == "cuda" else torch.backends.cpu.get_cpu_capability()


def _probe(model: Transformer) -> str:
    import time

    texts = [f"{'clustering of short texts ' * (i % 8 + 1)}{i}" for i in range(64)]
    vectors, seconds = {}, {}
    for precision in ("fp32", "bf16"):
        probe = Transformer(model.card.model_copy(update={"precision": precision}), model.device)
        probe.encode(texts[:8])
        began = time.perf_counter()
        vectors[precision] = probe.encode(texts)
        seconds[precision] = time.perf_counter() - began
    a, b = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in vectors.values())
    deviation = float(1 - (a * b).sum(axis=1).min())
    faster = seconds["bf16"] < 0.8 * seconds["fp32"]
    logger.info(
        "%s: bf16 takes %.2f of fp32's time and deviates by %.1e",
        model.name,
        seconds["bf16"] / seconds["fp32"],
        deviation,
    )
    return "bf16" if faster and deviation <= PARITY else "fp32"
