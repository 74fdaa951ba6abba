"""A model's folder: its place, its safety, its content, and its download.

`traube.models.vetting` decides which files of it may be opened, and what they may say.
"""

import os
from functools import lru_cache
from pathlib import Path

from traube._core import inputs, paths
from traube._core.disk import read_kept_json
from traube._core.errors import Corrupt, Malformed, TraubeError, Unavailable, first_line
from traube._core.files import write_json
from traube._core.hashing import file_sha256, is_revision
from traube._core.inputs import parse_json, resolve_path
from traube.models._allowed import DOWNLOADED, NOT_DOWNLOADED, WEIGHTS
from traube.models._model_files import Stamp, get_stamp
from traube.models.card import ModelCard
from traube.models.packaged import check_packed, locate_package, unpack
from traube.models.vetting import VettedFolder, cache_by_stamps

FILTER = {"allow_patterns": list(DOWNLOADED), "ignore_patterns": list(NOT_DOWNLOADED)}  # of huggingface_hub


def locate(card: ModelCard) -> Path:
    """Return the local folder of a model, without downloading; one that a package carries in 4 bits is unpacked.

    Parameters
    ----------
    card : ModelCard
        The model's card.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    Unavailable
        If it is not on this machine.
    TraubeError
        If a package's file has a wrong checksum.
    """
    if card.kind == "packaged":
        if card.file:
            return unpack(card)
        weights = locate_package(card) / "model" / WEIGHTS
        return Path(os.path.realpath(weights)).parent  # uv can install a package as links to its cache
    assert card.model is not None
    if is_folder(card.model):
        folder = resolve_path(paths.cards(), card.model)
        if not inputs.is_folder(folder):
            raise Unavailable(f"model '{card.name}': there is no folder {folder}")
        return folder
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(card.model, revision=_revision(card), **FILTER, local_files_only=True))
    except (OSError, ValueError):
        raise Unavailable(
            f"model '{card.name}': the weights of {card.model} are not on this machine; `traube run --model {card.name}` downloads them"
        ) from None


def is_folder(model: str) -> bool:
    """Return whether a card's `model` is a folder (relative to cards/), not a Hugging Face id."""
    return is_path(model) or inputs.is_folder(paths.cards() / model)


def is_path(model: str) -> bool:
    """Return whether a model is named by a path: names and Hugging Face ids begin otherwise."""
    return model.startswith((".", "/", "~"))


def find_folder(model: str) -> Path | None:
    """Return the folder, whether it exists or not, that a person names; None for a name or a Hugging Face id."""
    if not (is_path(model) or "/" in model):
        return None
    folder = resolve_path(Path.cwd(), model)
    return folder if is_path(model) or inputs.is_folder(folder) else None


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
        snapshot_download(card.model, revision=revision, **FILTER)
    except Exception as error:  # the hub's client raises many kinds; all mean: not available now
        raise Unavailable(f"model '{card.name}': {card.model} cannot be downloaded ({first_line(error)})") from error
    if card.revision is None:
        write_json(paths.own_home() / "revisions.json", {**_revisions(), card.model: revision})


def _revisions() -> dict[str, str]:
    kept = read_kept_json(paths.own_home() / "revisions.json", "models without a revision are looked up again")
    return {model: revision for model, revision in kept.items() if is_revision(revision)}


def _revision(card: ModelCard) -> str | None:
    return card.revision or _revisions().get(card.model or "")


def check_folder(folder: Path, card: ModelCard) -> VettedFolder:
    """Refuse a folder that cannot be loaded safely; return it as it was looked at."""
    where = f"model '{card.name}'"
    try:
        vetted = VettedFolder.at(folder)
        _check(vetted)
    except TraubeError as error:
        raise type(error)(f"{where}: {error}") from None
    weights = folder / vetted.weights[0]
    if card.sha256 and not card.file and file_hash(weights, get_stamp(weights)) != card.sha256:
        raise Corrupt(f"{where}: {folder}: {weights.name} has a wrong checksum; reinstall it")
    return vetted


def check_present(card: ModelCard) -> None:
    """Refuse a model that is not on this machine, or cannot be loaded safely; nothing is downloaded or unpacked."""
    if card.file:
        check_packed(card)
    else:
        check_folder(locate(card), card)


@cache_by_stamps(64)  # it reads whole vocabularies
def _check(vetted: VettedFolder) -> None:
    """Refuse an unsafe folder, whoever names it."""
    package = vetted.contents.get("config_sentence_transformers.json", b"{}")
    assert isinstance(package, bytes)
    if (kind := parse_json(package).get("model_type", "SentenceTransformer")) != "SentenceTransformer":
        fault = f"it is a {kind}; only models that give each text one dense vector can be evaluated"
        raise Malformed(f"{vetted.folder}: {fault}")


@lru_cache(maxsize=512)
def file_hash(path: Path, _stamp: Stamp) -> str:
    """Return the SHA-256 of a file, computed once for each stamp of the file."""
    return file_sha256(path)
