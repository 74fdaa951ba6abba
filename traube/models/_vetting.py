"""Vetting of a model's folder that somebody else made: no library reads it.

Its JSON files are checked against the lists of `traube.models._allowed` and rewritten; libraries load a copy that holds
nothing else: no pickle, no module.
"""

import json
import os
import pickle
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import TypeAdapter, ValidationError

from traube._core.config import SHOWN, Strict, parse
from traube._core.errors import Conflict, Failed, Malformed, Missing, TooLarge, TraubeError, Unsafe
from traube._core.hashing import get_sha256
from traube.models import _allowed as allowed
from traube.models._model_files import LARGEST_FILE, ModelFile, Stamp, get_stamp
from traube.models._tokenizer_steps import MOST_SQUARES, MOST_WORDS, find_fault, measure_words
from traube.models._tokenizers import TOKENIZER, try_tokenizer

T = TypeVar("T")
LARGEST_FOLDER = 2 * LARGEST_FILE
PREFIX = "traube-model-"
COPY = re.compile(rf"\S*{PREFIX}\w+")  # the path of a copy in error messages
DEEPEST_ROUTER = 3  # a router in a router
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt", ".dat")
# Arguments for every loader of a library. No folder can overrule them: settings that could are on no list.
LOCAL = {"local_files_only": True, "trust_remote_code": False}
SAFE = {**LOCAL, "use_safetensors": True, "weights_only": True}

Reader = Callable[[ModelFile], Any]  # what a file of the copy holds, bytes or of JSON, or the path that it is a link to
WITH_WEIGHTS = ("Dense", "LayerNorm", "WeightedLayerPooling")  # modules that have weights besides networks
ENCODER = [("", "Transformer")]  # the modules of a folder without modules.json


def list_modules(folder: Path) -> list[tuple[str, str]]:
    """Return the folder and the name of each module, those behind a router in its place."""
    return [(place, name) for place, name in _modules(folder) if name != "Router"]


def _modules(folder: Path) -> list[tuple[str, str]]:
    if not _is_there(folder, "modules.json"):
        return ENCODER
    entries = _module_entries(ModelFile(folder, "modules.json"))
    return [
        module for entry in entries for module in _with_routes(folder, entry["path"], entry["type"], DEEPEST_ROUTER)
    ]


def _with_routes(folder: Path, place: str, class_path: str, deepest: int) -> Iterator[tuple[str, str]]:
    inside = folder
    for part in filter(None, place.split("/")):
        inside /= part
        if inside.is_symlink():
            link = inside.relative_to(folder)
            raise Unsafe(f"{folder}: {link} is a link to a folder; put the folder itself there")
    name = allowed.CLASS_PATHS[class_path]
    yield place, name
    if name != "Router":
        return
    if not deepest:
        raise Unsafe(f"{folder}: {place}: routers are nested too deep")
    settings = _below(place, "router_config.json")
    if not _is_there(folder, settings):
        raise Missing(f"{folder}: no {settings}")
    for child, kind in _route_settings(ModelFile(folder, settings))["types"].items():
        yield from _with_routes(folder, _below(place, child), kind, deepest - 1)


@dataclass(frozen=True, eq=False)
class VettedFolder:
    """A model's folder, looked at once: the files that may be opened, and what a copy of them holds.

    These files are what libraries load, and what is checked, hashed, pinned and served.
    """

    folder: Path
    readers: Mapping[str, Reader]  # of each of these files, by its path below the folder
    stamps: Mapping[Path, Stamp]  # of each, sorted; another one when the file is written

    @classmethod
    def at(cls, folder: Path, *, plain: bool = False) -> Self:
        """Look at a folder. With `plain`, its files are those of a network in the folder itself, as for a language model."""
        package: dict[str, Reader] = {
            "modules.json": _module_entries,
            "config_sentence_transformers.json": _settings(allowed.Package),
        }
        readers = {} if plain else {name: read for name, read in package.items() if _is_there(folder, name)}
        for place, name in ENCODER if plain else _modules(folder):
            module_readers = _of_module(folder, place, name)
            if (
                both := readers.keys() & module_readers.keys()
            ):  # two modules would read one file, and each has its own list
                raise Conflict(f"{folder}: modules.json: two modules lie where {min(both)} does")
            readers.update(module_readers)
        for name in readers:
            ModelFile(folder, name).locate()
        return cls(folder, readers, {path: get_stamp(path) for path in sorted(folder / name for name in readers)})

    @property
    def files(self) -> list[Path]:
        """The files that may be opened, of which the model's fingerprint is made."""
        return list(self.stamps)

    @property
    def weights(self) -> list[str]:
        """The paths of the weights below the folder."""
        return [name for name in self.readers if name.endswith(".safetensors")]

    @cached_property
    def contents(self) -> dict[str, bytes | Path]:
        """The contents of a copy, by path below the folder: bytes, or the path of a file that the copy links to."""
        held: dict[str, bytes | Path] = {}
        left = LARGEST_FOLDER
        for name, read in self.readers.items():
            content = read(ModelFile(self.folder, name))
            if not isinstance(content, bytes | Path):  # rebinds the name: two of these trees would not fit the memory
                content = json.dumps(content).encode()
            held[name] = content
            left -= len(content) if isinstance(content, bytes) else 0
            if left < 0:
                most = LARGEST_FOLDER >> 20
                raise TooLarge(f"{self.folder}: its settings and vocabularies are more than {most} MiB")
        return held

    def hash_files(self) -> dict[Path, str]:
        """Return the SHA-256 of each of these files.

        Different hashes mean that a file was written; different stamps may only mean that it was linked, as uv links a
        model's package into another environment.
        """
        return {path: get_sha256(path, stamp) for path, stamp in self.stamps.items()}

    @contextmanager
    def copy(self) -> Iterator[Path]:
        """Make a copy for libraries to load, without all that is on no list. Its tokenizers have been tried.

        While it exists, nothing can be unpickled in the thread that made it, nor in those begun since.
        """
        contents = self.contents
        with tempfile.TemporaryDirectory(prefix=PREFIX) as made:
            for name, content in contents.items():
                path = Path(made) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                if isinstance(content, Path):
                    path.symlink_to(content)
                else:
                    path.write_bytes(content)
            for name in contents:
                if Path(name).name == TOKENIZER and (fault := try_tokenizer(Path(made) / name)):
                    raise Unsafe(f"{self.folder / name}: {fault}")
            with no_pickles():
                yield Path(made)


def cache_by_stamps(most: int) -> Callable[[Callable[[VettedFolder], T]], Callable[[VettedFolder], T]]:
    """Keep the newest results of a function of a folder, and not its contents, for as long as the files stay the same."""

    def decorate(function: Callable[[VettedFolder], T]) -> Callable[[VettedFolder], T]:
        kept: dict[tuple[Path, tuple[tuple[Path, Stamp], ...]], T] = {}

        @wraps(function)
        def call(vetted: VettedFolder) -> T:
            key = vetted.folder, tuple(vetted.stamps.items())
            if key not in kept:
                result = function(vetted)
                for oldest in list(kept)[: len(kept) + 1 - most]:
                    kept.pop(oldest, None)
                kept[key] = result
                return result
            return kept[key]

        return call

    return decorate


def _of_module(folder: Path, place: str, name: str) -> dict[str, Reader]:
    if name == "Router":
        return {_below(place, "router_config.json"): _route_settings}
    if name == "StaticEmbedding":
        return {_below(place, "tokenizer.json"): _tokenizer, **_weights(folder, place)}
    if name != "Transformer":
        path = _below(place, "config.json")
        readers = (
            {} if name == "Normalize" and not _is_there(folder, path) else {path: _settings(allowed.SETTINGS[name])}
        )
        return {**readers, **(_weights(folder, place) if name in WITH_WEIGHTS else {})}

    if _is_there(folder, _below(place, "adapter_config.json")):
        raise Malformed(f"{folder}: adapter_config.json: an adapter is no whole model; merge it into its base model")
    weights = _weights(folder, place)
    if not _is_there(folder, _below(place, "config.json")):
        raise Missing(f"{folder}: no {_below(place, 'config.json')}")
    if not any(_is_there(folder, _below(place, vocabulary)) for vocabulary in allowed.VOCABULARIES):
        raise Missing(f"{folder}: no vocabulary; expected {_below(place, 'tokenizer.json')}")
    known: dict[str, Reader] = {
        "config.json": _network,
        "tokenizer_config.json": _settings(allowed.SETTINGS["TokenizerSettings"]),
        "special_tokens_map.json": _settings(allowed.SETTINGS["SpecialTokens"]),
        "generation_config.json": _settings(allowed.SETTINGS["GenerationSettings"]),
        **dict.fromkeys(allowed.TRANSFORMER_SETTINGS, _settings(allowed.SETTINGS["TransformerSettings"])),
        **dict.fromkeys((*allowed.VOCABULARIES, *allowed.VOCABULARY_PARTS), ModelFile.read),
        **dict.fromkeys(("vocab.json", "added_tokens.json"), _words),
        "tokenizer.json": _tokenizer,
    }
    here = {path: read for file, read in known.items() if _is_there(folder, path := _below(place, file))}
    return {**here, **weights}


def _below(place: str, name: str) -> str:
    return f"{place}/{name}" if place else name


def _is_there(folder: Path, name: str) -> bool:
    """Return whether anything but a folder has that name; a link that leads nowhere counts."""
    path = folder / name
    return os.path.lexists(path) and not path.is_dir()


def _weights(folder: Path, place: str) -> dict[str, Reader]:
    """Return the safetensors of a module: one file, or those that an index names."""
    whole, index = _below(place, allowed.WEIGHTS), _below(place, allowed.INDEX)
    shards = []
    if _is_there(folder, index):
        shards = sorted({_below(place, name) for name in _weight_map(ModelFile(folder, index)).values()})
        for shard in shards:
            if not _is_there(folder, shard):
                raise Missing(f"{folder}: {index}: names {shard[:SHOWN]}, which is not there")
    if _is_there(folder, whole):
        return {whole: ModelFile.locate}  # libraries take it before the files of an index
    if shards:
        read_index: dict[str, Reader] = {index: lambda file: {"metadata": {}, "weight_map": _weight_map(file)}}
        return {**read_index, **dict.fromkeys(shards, ModelFile.locate)}
    if pickles := sorted(path.name for path in (folder / place).glob("*") if path.suffix in PICKLES):
        which = ", ".join(_below(place, name) for name in pickles[:3])
        fix = "which can run code when loaded; convert them to safetensors"
        raise Unsafe(f"{folder}: only pickled weights ({which}), {fix}")
    raise Missing(f"{folder}: no weights; expected {whole}")


def _object(file: ModelFile) -> dict[str, Any]:
    """Return the object in a JSON file, without keys that are known and not handed on."""
    value = file.parse()
    if not isinstance(value, dict):
        raise Malformed(f"{file.path}: expected an object of settings")
    left_out = allowed.LEFT_OUT.get(file.path.name, frozenset())
    empty = allowed.NULLABLE | (value.keys() - allowed.NETWORK_KEYS if file.path.name == "config.json" else set())
    return {k: held for k, held in value.items() if k not in left_out and (held is not None or k not in empty)}


def _settings(model: type[Strict]) -> Reader:
    def read(file: ModelFile) -> dict[str, Any]:
        entry = _object(file)
        parse(model, entry, file.path, {})
        return entry

    return read


def _module_entries(file: ModelFile) -> list[dict[str, Any]]:
    """Return the entries of modules.json, each class by the path at which it is today."""
    entries = file.parse()
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise Malformed(f"{file.path}: expected a list of modules")
    for entry in entries:
        _check_class(file, entry.get("type"))
        parse(allowed.Module, entry, file.path, {})
    return [{**e, "path": "" if e["path"] == "." else e["path"], "type": _class_today(e["type"])} for e in entries]


def _route_settings(file: ModelFile) -> dict[str, Any]:
    settings = _object(file)
    types = settings.get("types")
    for kind in types.values() if isinstance(types, dict) else ():
        _check_class(file, kind)
    parse(allowed.Router, settings, file.path, {})
    return {**settings, "types": {child: _class_today(kind) for child, kind in settings["types"].items()}}


def _check_class(file: ModelFile, kind: Any) -> None:
    if kind is not None and (not isinstance(kind, str) or kind not in allowed.CLASS_PATHS):
        known = f"the modules that are loaded are {', '.join(allowed.MODULES)}"
        raise Unsafe(f"{file.path}: asks for the code of '{str(kind)[:SHOWN]}'; {known}")


def _class_today(class_path: str) -> str:
    name = allowed.CLASS_PATHS[class_path]
    return f"sentence_transformers.{allowed.MODULES[name]}.{name}"


def _network(file: ModelFile) -> dict[str, Any]:
    config = _object(file)
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in allowed.ARCHITECTURES:
        raise Unsafe(f"{file.path}: model_type: '{str(kind)[:SHOWN]}' is no architecture for texts that Traube loads")
    for key, value in config.items():
        if key not in allowed.NETWORK_KEYS:
            raise Unsafe(f"{file.path}: {key[:SHOWN]}: no setting that Traube knows; take it out if it is not needed")
        try:
            _NETWORK_VALUES.get(key, _ANY_VALUE).validate_python(value)
        except ValidationError:
            text = json.dumps(value)
            text = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
            raise Unsafe(f"{file.path}: {key}: {text} is not allowed") from None
    return config


_ANY_VALUE: TypeAdapter[Any] = TypeAdapter(allowed.Values)
_NETWORK_VALUES: dict[str, TypeAdapter[Any]] = {k: TypeAdapter(values) for k, values in allowed.NETWORK_VALUES.items()}


def _tokenizer(file: ModelFile) -> dict[str, Any]:
    """Return a tokenizer as the library tokenizers writes it: kinds of steps and their settings, and words."""
    held = file.parse()
    if not isinstance(held, dict):
        raise Malformed(f"{file.path}: expected an object of settings")
    if fault := find_fault(held):
        raise Unsafe(f"{file.path}: {fault}")
    return held


def _words(file: ModelFile) -> dict[str, Any]:
    held = file.parse()
    if not isinstance(held, dict) or not all(type(number) is int for number in held.values()):
        raise Malformed(f"{file.path}: expected a number for each word")
    if len(held) > MOST_WORDS or measure_words(held) > MOST_SQUARES:
        raise TooLarge(f"{file.path}: its words are too many, or too long")
    return held


def _weight_map(file: ModelFile) -> dict[str, str]:
    """Return which file holds each tensor: safetensors beside the index. Libraries open whatever file the index names."""
    mapped = _object(file).get("weight_map")
    if not isinstance(mapped, dict) or not mapped:
        raise Malformed(f"{file.path}: expected a weight_map of tensors and files")
    for name in mapped.values():
        if not isinstance(name, str) or not re.fullmatch(allowed.SHARD, name):
            raise Unsafe(f"{file.path}: names {str(name)[:SHOWN]!r}; only safetensors beside it are opened")
    return mapped


@contextmanager
def library_errors(where: str, let: type[BaseException] = TraubeError) -> Iterator[None]:
    """Turn whatever a library raises for a foreign folder into one line, but for errors of the kind `let`."""
    try:
        yield
    except (let, TraubeError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # panics of Rust are no `Exception`
        reason = COPY.sub("the folder", " ".join(str(error).split())) or type(error).__name__
        raise Failed(f"{where} ({reason if len(reason) <= 300 else f'{reason[:300]}...'})") from error


_LOCK = threading.Lock()
_TRUSTED: dict[object, set[threading.Thread]] = {}  # the threads that were there before each load, but for its own
_ORIGINAL: dict[tuple[Any, str], Any] = {}  # the original unpicklers, while they are replaced


@contextmanager
def no_pickles() -> Iterator[None]:
    """Let nothing be unpickled while a foreign folder is loaded.

    `torch.load`, `pickle.load`, `pickle.loads` and `pickle.Unpickler` raise in this thread and in
    those that begin meanwhile. Older threads, such as those that read from worker processes, go on.
    """
    import torch

    load = object()
    with _LOCK:
        _TRUSTED[load] = set(threading.enumerate()) - {threading.current_thread()}
        if not _ORIGINAL:
            for module, name in ((torch, "load"), (pickle, "load"), (pickle, "loads"), (pickle, "Unpickler")):
                _ORIGINAL[module, name] = getattr(module, name)
                setattr(module, name, _guard(_ORIGINAL[module, name]))
    try:
        yield
    finally:
        with _LOCK:
            del _TRUSTED[load]
            if not _TRUSTED:
                for (module, name), original in _ORIGINAL.items():
                    setattr(module, name, original)
                _ORIGINAL.clear()


def _guard(original: Any) -> Any:
    """Return an unpickler, a function or a class, that refuses to work in threads that are not trusted."""
    if isinstance(original, type):
        return type(original.__name__, (original,), {"__init__": _guard(original.__init__)})  # type: ignore[misc]

    def guarded(*args: Any, **kwargs: Any) -> Any:
        if any(threading.current_thread() not in trusted for trusted in list(_TRUSTED.values())):
            raise Unsafe("a model's folder was about to be unpickled, which can run code; nothing was run")
        return original(*args, **kwargs)

    return guarded
