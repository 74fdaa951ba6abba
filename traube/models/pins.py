"""Pins: documents of the catalog for what the registry serves, which `traube clean` never deletes.

The weights of pins are blobs, so that every node of a storage can serve them; `weights/` in the data directory holds a
copy.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from traube._core import paths, settings
from traube._core.files import locked
from traube._core.inputs import resolve_path
from traube._storage import Document, open_storage
from traube.models._model_files import ModelFile
from traube.models.card import ModelCard
from traube.models.checkpoint_exchange import write_folder
from traube.models.similarity import CONFIG, FOLDER, WEIGHTS
from traube.models.vetting import VettedFolder
from traube.models.weights import is_folder


class Pin(Document):
    """A served model: its cells, and its weights if they are of a folder."""

    kind: ClassVar[str] = "pin"
    fingerprint: str  # the model's, by itself


def pin(key: str, card: ModelCard, fingerprint: str, cells: Sequence[str]) -> ModelCard:
    """Pin cells that are served and, of a folder of this node, its weights; return the card with the pinned weights.

    Any other card is returned as it is.

    `key` identifies what is served; the fingerprint is the model's, by itself.
    """
    files = dict[str, bytes | Path]()
    if card.model is not None and is_folder(card.model):
        source = resolve_path(paths.cards(), card.model)
        names = [path.relative_to(source).as_posix() for path in VettedFolder.at(source).files]
        names += [f"{FOLDER}/{name}" for name in (CONFIG, WEIGHTS) if card.kind == "pairwise"]
        files = {name: ModelFile(source, name).locate() for name in names}
    open_storage(paths.home()).save_document(Pin(key=key, cells=tuple(cells), fingerprint=fingerprint), files)
    return locate_pinned(card, fingerprint) if files else card


def unpin(key: str) -> None:
    """Remove a pin: `traube clean` may delete its cells, and weights that no other pin holds."""
    storage = open_storage(paths.home())
    for pinned in storage.read_documents(Pin, key):
        storage.remove_document(pinned)


def locate_pinned(card: ModelCard, fingerprint: str) -> ModelCard:
    """Return a card with the weights that are pinned under a fingerprint, as files of this node.

    Without a pin, the card is returned as it is.
    """
    if not (settings.database() or paths.home().is_dir()):  # to open it would make it
        return card
    storage, target = open_storage(paths.home()), paths.home() / "weights" / fingerprint
    pins = (pinned for pinned in storage.read_documents(Pin) if pinned.fingerprint == fingerprint)
    if (files := next((pinned.files for pinned in pins if pinned.files), None)) is None:
        return card
    with locked(target):
        if not target.exists():
            write_folder(storage, files, target, is_fixed=True)
        for name, blob in files.items():
            storage.blobs.link(blob, target / name)
    return card.model_copy(update={"model": str(target)})


def link_copy(fingerprint: str, folder: Path) -> None:
    """Make a copy of pinned weights take no room besides their blobs, where the disk has links."""
    storage = open_storage(paths.home())
    for pinned in storage.read_documents(Pin):
        if pinned.fingerprint == fingerprint:
            for name, blob in pinned.files.items():
                storage.blobs.link(blob, folder / name)
