"""A model's folder: where it lies, what of it is read, whether it can be loaded safely, and how it
is downloaded.

Only safetensors weights count, and never code from a model's repository. What is made of a folder
does not belong here.
"""

import os
import re
import stat
from fnmatch import fnmatch, translate
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from traube.foundation import inputs, paths
from traube.foundation.errors import TraubeError, Unavailable
from traube.foundation.files import below, file_sha256, read_json, write_json
from traube.foundation.inputs import named, parse_json
from traube.models.base import ModelCard

# What of a model's folder is never read, as patterns of paths below it. Everything else is hashed,
# checked and downloaded.
_DOCUMENTS = ".md .rst .pdf .png .jpg .jpeg .gif .svg .html .csv .log .lock"
_OTHER_WEIGHTS = ".bin .pt .pth .pkl .ckpt .h5 .msgpack .ot .onnx .gguf .tflite .mlmodel"
UNREAD = (
    *(f"*{suffix}" for suffix in f"{_DOCUMENTS} {_OTHER_WEIGHTS}".split()),
    *("*.py", "*.ipynb", "*.xml", "*.bak"),
    *("onnx/*", "openvino/*", ".*", "*/.*", "*/onnx/*", "*/openvino/*"),
    "similarity/*",  # of a trained similarity: the encoder is the same with and without it
    *("LICENSE*", "NOTICE*", "data_config.json", "model_card.json", "checkpoint.json", "*/checkpoint.json"),
)
_UNREAD = re.compile("|".join(map(translate, UNREAD)))
# One of these in the folder of a network that reads words: without it, transformers makes up a
# tokenizer that knows no word.
VOCABULARIES = ("tokenizer.json", "vocab.*", "*.model", "*.vocab", "*.tiktoken", "spm.*", "bpe.codes")
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
WHOLE = {"path": "", "type": "sentence_transformers.models.Transformer"}  # what a plain encoder's folder is
# Settings of a folder by which other files than its own safetensors would be read.
ELSEWHERE = ("gguf_file", "variant", "subfolder", "adapter_kwargs", "from_tf", "from_flax", "tokenizer_name_or_path")

LARGEST_JSON = 256 * 2**20  # bytes; the largest vocabularies take forty million

# What changes when a file is written: size, times and place.
Stamp = tuple[int, int, int, int]


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
        folder = named(paths.cards(), card.model)
        if not inputs.is_folder(folder):
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
    """Whether a card's `model` is a folder (relative to cards/), not a Hugging Face id."""
    return model.startswith((".", "/", "~")) or inputs.is_folder(paths.cards() / model)


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
        known = parse_json(inputs.read_bytes(path)) if path.exists() else {}
    except (TraubeError, ValueError):
        known = None
    if not isinstance(known, dict):
        raise TraubeError(f"{path}: damaged; delete it, and models without a revision are looked up anew")
    return known


def _revision(card: ModelCard) -> str | None:
    return card.revision or _revisions().get(card.model or "")


def check_folder(folder: Path, card: ModelCard) -> None:
    """Refuse a folder that cannot be loaded safely.

    Raises
    ------
    TraubeError
        No config.json, no vocabulary, no safetensors weights, pickled weights only, modules that
        are not sentence-transformers' own, a model that gives no vectors, a wrong checksum; an
        adapter, an index of other files than safetensors, or anything that is no plain file.
    """
    where = f"model '{card.name}': {folder}"
    _check_kinds(where, folder)
    listed = modules(folder)
    weights = [path for path in files(folder) if path.suffix == ".safetensors"]
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
    for module in listed or [WHOLE]:
        _check_module(where, folder, module)
    if card.sha256 and file_hash(weights[0], stamp(weights[0])) != card.sha256:
        raise TraubeError(f"{where}: {weights[0].name} has a wrong checksum; reinstall it")


def _check_kinds(where: str, folder: Path) -> None:
    """Only plain files and folders: a pipe would be waited for, and what a linked folder holds is
    not hashed.
    """
    for entry in below(folder):
        name = _name_in(folder, entry)
        if _UNREAD.match(name):
            continue
        try:
            linked = entry.is_symlink()
            mode = entry.stat().st_mode
        except (OSError, RuntimeError):
            raise TraubeError(f"{where}: {name} is a link that leads nowhere") from None
        if stat.S_ISDIR(mode) and linked:
            raise TraubeError(f"{where}: {name} is a link to a folder; put the folder itself there")
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            raise TraubeError(f"{where}: {name} is a {inputs.kind_of(mode)}, not a file")


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
        here = [path.name for path in inside.glob("*") if path.is_file()]
        if not any(fnmatch(file, pattern) for file in here for pattern in VOCABULARIES):
            raise TraubeError(f"{where}: no vocabulary; expected tokenizer.json")
    _check_settings(where, inside)
    # a router's parts lie in folders of its own
    for place in [inside, *(p for p in inside.rglob("*") if name == "Router" and p.is_dir())]:
        _check_no_pickles(where, folder, place)


def _check_settings(where: str, folder: Path) -> None:
    if (folder / "adapter_config.json").is_file():
        raise TraubeError(f"{where}: adapter_config.json: an adapter is no whole model; merge it into its base model")
    for path in folder.glob("sentence_*_config.json"):
        about = read_json(path)
        given = {**about, **{key: 0 for inner in about.values() if isinstance(inner, dict) for key in inner}}
        if found := next((key for key in ELSEWHERE if given.get(key) is not None), None):
            raise TraubeError(
                f"{where}: {path.name}: {found}: only the folder's own safetensors are read; leave it out"
            )


def _check_no_pickles(where: str, folder: Path, place: Path) -> None:
    index = place / "model.safetensors.index.json"
    if index.is_file():
        _check_index(where, index)
    pickled = [p.name for p in place.glob("*") if p.suffix in PICKLES]
    # only under this name are safetensors loaded in place of a pickle that lies beside them
    if pickled and not any(path.is_file() for path in (place / "model.safetensors", index)):
        shown = place.relative_to(folder).as_posix()
        raise TraubeError(f"{where}: pickled weights in {shown} ({pickled[0]}); convert them to safetensors")


def _check_index(where: str, index: Path) -> None:
    """The files that an index names are safetensors beside it: transformers opens whatever it names."""
    mapped = read_json(index).get("weight_map")
    if not isinstance(mapped, dict) or not mapped:
        raise TraubeError(f"{where}: {index.name}: expected a weight_map of tensors and files")
    for name in dict.fromkeys(map(str, mapped.values())):
        if not name.endswith(".safetensors") or Path(name).name != name:
            raise TraubeError(f"{where}: {index.name} names {name[:60]!r}; only safetensors beside it are opened")
        if not inputs.is_file(index.with_name(name)):
            raise TraubeError(f"{where}: {index.name} names {name[:60]}, which is not there")


def modules(folder: Path) -> list[dict[str, str]]:
    """Path and class of each module that the folder lists; of a plain encoder's, none."""
    path = folder / "modules.json"
    if not path.is_file():
        return []
    try:
        listed = parse_json(inputs.read_bytes(path, LARGEST_JSON))
        return [{"path": str(m["path"]), "type": str(m["type"])} for m in listed]
    except (TraubeError, ValueError, KeyError, TypeError):
        raise TraubeError(f"{path}: broken json") from None


def stamp(path: Path) -> Stamp:
    """What changes when a file is written."""
    state = path.stat()
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino


def stamps(folder: Path) -> dict[Path, Stamp]:
    """The files that are read, by name, and what tells that one of them has been written since."""
    return {path: stamp(path) for path in files(folder)}


def files(folder: Path) -> list[Path]:
    """The files of a model's folder that are read when it is loaded."""
    return sorted(
        Path(entry) for entry in below(folder) if not _UNREAD.match(_name_in(folder, entry)) and entry.is_file()
    )


def _name_in(folder: Path, entry: "os.DirEntry[str]") -> str:
    return entry.path.removeprefix(f"{folder}{os.sep}").replace(os.sep, "/")


@lru_cache(maxsize=512)
def file_hash(path: Path, _stamp: Stamp) -> str:
    """SHA-256 of a file, computed once for each stamp of it."""
    return file_sha256(path)
