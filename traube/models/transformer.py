"""Sentence-transformers models: from the Hugging Face hub, a local folder, or a Python package that carries one.

Only safetensors weights are loaded, and never code from a model's repository.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from traube.foundation import paths
from traube.foundation.errors import TraubeError, Unavailable
from traube.foundation.files import digest, file_sha256, read_json, write_json
from traube.foundation.versions import versions
from traube.models.base import Dense, ModelCard

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

# Part of every fingerprint. It stays: a fingerprint says which model it is, not which code ran it.
FINGERPRINT = "2"
# Raise when the same weights and settings would give other vectors: they are computed again, and what follows from them.
ENCODER_VERSION = "3"
LIBRARIES = ("torch", "transformers", "sentence-transformers", "tokenizers")
# Padded tokens a batch. Small batches stay in a CPU core's cache; a GPU wants them large and is given less when it runs out.
TOKENS_A_BATCH = {"cpu": 2_000, "cuda": 131_072, "mps": 16_384}
# What of a model's folder is never read, as patterns of paths below it. Everything else is hashed, checked and downloaded.
UNREAD = (
    *(
        f"*{suffix}"
        for suffix in (".md", ".rst", ".pdf", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".html", ".csv", ".log", ".lock")
    ),
    *(
        f"*{suffix}"
        for suffix in (
            ".bin",
            ".pt",
            ".pth",
            ".pkl",
            ".ckpt",
            ".h5",
            ".msgpack",
            ".ot",
            ".onnx",
            ".gguf",
            ".tflite",
            ".mlmodel",
        )
    ),
    *("*.py", "*.ipynb", "*.xml", "*.bak"),
    *("onnx/*", "openvino/*", ".*", "*/.*", "*/onnx/*", "*/openvino/*"),
    *("LICENSE*", "NOTICE*", "data_config.json", "model_card.json", "checkpoint.json", "*/checkpoint.json"),
)
# One of these in the folder of a network that reads words: without it, transformers makes up a tokenizer that knows no word.
VOCABULARIES = ("tokenizer.json", "vocab.*", "*.model", "*.vocab", "*.tiktoken", "spm.*", "bpe.codes")
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

    @property
    def numerics(self) -> dict[str, str]:
        """What computes the vectors, with versions."""
        return {"encoder": ENCODER_VERSION, **versions(LIBRARIES)}

    @cached_property
    def fingerprint(self) -> str:
        files = {path.relative_to(self.folder).as_posix(): _hash(path, stamp) for path, stamp in self._stamps.items()}
        card = self.card
        # what a card says is told from what it leaves to the folder: "" is no prompt, and none at all is the folder's own
        prompt = {None: "", "": None}.get(card.prompt, card.prompt)
        pooling = {None: "mean", "mean": "explicitly mean"}.get(card.pooling, card.pooling)
        return digest([FINGERPRINT, files, [prompt, card.max_length, pooling, self.precision]])

    @cached_property
    def _stamps(self) -> dict[Path, "Stamp"]:
        """The files that are read, and what tells that one of them has been written since."""
        return _stamps(self.folder)

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
        prompt = prompt_of(self.network)
        found: list[int] = []
        for start in range(0, len(texts), 4096):
            found.extend(_token_counts(self.network.tokenizer, [prompt + t for t in texts[start : start + 4096]]))
        return np.maximum(np.array(found, dtype=np.int64), 1)

    def _forward(self, texts: list[str]) -> Dense:
        """One batch, through sentence-transformers itself: prompts, pooling and dimensions are as the model's folder says."""
        return np.asarray(self.network.encode(texts, batch_size=len(texts), show_progress_bar=False), dtype=np.float32)

    def with_network(self, network: Any) -> "Transformer":
        """The same model with a network that is in memory, as a training has changed it, in place of its weights."""
        model = Transformer(self.card, self.device)
        model.__dict__["network"] = network
        return model

    @cached_property
    def network(self) -> Any:
        """The sentence-transformers network, loaded when it is first needed.

        Raises
        ------
        TraubeError
            If it cannot be loaded.
        """
        try:
            _ = self.fingerprint  # of the files as they are before they are read
            network = _load(self.card, self.folder, self.device, self.precision)
            changed = _stamps(self.folder) != self._stamps
        except TraubeError:
            raise
        except Exception as error:  # whatever a damaged folder raises
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise TraubeError(f"model '{self.name}': {self.folder}: cannot be loaded ({reason})") from error
        if changed:
            raise TraubeError(f"model '{self.name}': {self.folder}: its files changed while they were read; run again")
        return network

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
            snapshot_download(card.model, revision=_revision(card), ignore_patterns=list(UNREAD), local_files_only=True)
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
        snapshot_download(card.model, revision=revision, ignore_patterns=list(UNREAD))
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
        No config.json, no vocabulary, no safetensors weights, pickled weights only, modules that are not
        sentence-transformers' own, a model that gives no vectors, or a wrong checksum.
    """
    where = f"model '{card.name}': {folder}"
    modules = _modules(folder)
    weights = [path for path in _files(folder) if path.suffix == ".safetensors"]
    if not weights:
        pickles = sorted(p.name for p in folder.rglob("*") if p.suffix in PICKLES)
        if pickles:
            raise TraubeError(
                f"{where}: only pickled weights ({', '.join(pickles[:3])}), which can run code when loaded; convert them to safetensors"
            )
        raise TraubeError(f"{where}: no weights; expected model.safetensors")
    kind = read_json(folder / "config_sentence_transformers.json").get("model_type", "SentenceTransformer")
    if kind != "SentenceTransformer":
        raise TraubeError(f"{where}: it is a {kind}; only models that give each text one dense vector can be evaluated")
    for module in modules or [{"path": "", "type": PLAIN}]:
        _check_module(where, folder, module)
    if card.sha256 and _hash(weights[0], _stamp(weights[0])) != card.sha256:
        raise TraubeError(f"{where}: {weights[0].name} has a wrong checksum; reinstall it")


PLAIN = "sentence_transformers.models.Transformer"


def _check_module(where: str, folder: Path, module: dict[str, str]) -> None:
    kind, inside = str(module["type"]), folder / module["path"]
    if not kind.startswith("sentence_transformers."):
        raise TraubeError(
            f"{where}: modules.json asks for the code of '{kind}'; only sentence-transformers' own modules are loaded"
        )
    name = kind.rpartition(".")[2]
    if name == "Transformer" and not (inside / "config.json").is_file():
        raise TraubeError(f"{where}: no config.json")
    if name in ("Transformer", "StaticEmbedding"):
        here = [path.name for path in inside.glob("*")] if inside.is_dir() else []
        if not any(fnmatch(file, pattern) for file in here for pattern in VOCABULARIES):
            raise TraubeError(f"{where}: no vocabulary; expected tokenizer.json")
    pickled = [p.name for p in inside.glob("*") if p.suffix in PICKLES]
    # only under this name are safetensors loaded in place of a pickle that lies beside them
    if pickled and not any((inside / name).is_file() for name in ("model.safetensors", "model.safetensors.index.json")):
        raise TraubeError(
            f"{where}: pickled weights in {module['path'] or '.'} ({pickled[0]}); convert them to safetensors"
        )


def _modules(folder: Path) -> list[dict[str, str]]:
    path = folder / "modules.json"
    if not path.is_file():
        return []
    try:
        modules = json.loads(path.read_text(encoding="utf-8"))
        return [{"path": str(m["path"]), "type": str(m["type"])} for m in modules]
    except (ValueError, KeyError, TypeError):
        raise TraubeError(f"{path}: broken json") from None


Stamp = tuple[int, int, int, int]


def _stamp(path: Path) -> Stamp:
    """What changes when a file is written: size, times and place."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def _stamps(folder: Path) -> dict[Path, Stamp]:
    return {path: _stamp(path) for path in _files(folder)}


def _files(folder: Path) -> list[Path]:
    """The files of a model's folder that are read when it is loaded."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(fnmatch(path.relative_to(folder).as_posix(), pattern) for pattern in UNREAD)
    )


@lru_cache(maxsize=512)
def _hash(path: Path, _stamp: Stamp) -> str:
    return file_sha256(path)


def _load(card: ModelCard, folder: Path, device: str, precision: str) -> Any:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules.transformer import Transformer as Body
    from sentence_transformers.sentence_transformer.modules import Pooling
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    dtype = _dtype(precision)
    loading = {"use_safetensors": True, "dtype": dtype}
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)  # it warns of every default prompt
    if _modules(folder) or card.pooling is None:
        network = SentenceTransformer(
            str(folder), device=device, trust_remote_code=False, local_files_only=True, model_kwargs=loading
        )
    else:
        body = Body(str(folder), model_kwargs=loading)
        pooling = Pooling(body.get_embedding_dimension(), pooling_mode=card.pooling)
        network = SentenceTransformer(modules=[body, pooling], device=device)
    if _knows_no_word(network.tokenizer):
        raise TraubeError(f"model '{card.name}': {folder}: its vocabulary is empty: all texts would have one vector")
    if card.max_length:
        positions = getattr(getattr(network[0], "config", None), "max_position_embeddings", None) or -1
        if 0 < positions < card.max_length:
            raise TraubeError(
                f"model '{card.name}': max_length {card.max_length} is more than its {positions} positions"
            )
        network.max_seq_length = card.max_length
    if card.prompt is not None:  # where sentence-transformers looks, so that a training keeps it
        network.prompts = {**network.prompts, "traube": card.prompt}
        network.default_prompt_name = "traube"
    return network.to(dtype).eval()


def prompt_of(network: Any) -> str:
    """What is put in front of every text."""
    return network.prompts.get(network.default_prompt_name) or "" if network.default_prompt_name else ""


def _knows_no_word(tokenizer: Any) -> bool:
    special = getattr(tokenizer, "all_special_tokens", None)
    return special is not None and not set(tokenizer.get_vocab()) - set(special)


def _token_counts(tokenizer: Any, texts: list[str]) -> Iterable[int]:
    """Tokens of each text; of tokenizers that are not transformers', a number that grows with them."""
    if hasattr(tokenizer, "encode_batch"):
        return (len(encoding.ids) for encoding in tokenizer.encode_batch(texts))
    if not callable(tokenizer):
        return (len(text.split()) for text in texts)
    return map(len, tokenizer(texts, truncation=True)["input_ids"])


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
    key = digest([[_hash(path, stamp) for path, stamp in model._stamps.items()], model.device, _hardware(model.device)])
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
