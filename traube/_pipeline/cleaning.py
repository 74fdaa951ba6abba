"""Removal from a data directory: of all that nothing benchmarked, served or pinned uses."""

from traube._core import paths
from traube._pipeline.current import list_outdated_cells
from traube._pipeline.embed import list_owners
from traube._pipeline.forgotten import drop_forgotten, list_spent
from traube._pipeline.params import load_params
from traube._storage import Storage
from traube._storage.unused import Unused, find_unused
from traube.models.pins import Pin


def find_removable(storage: Storage, outdated: bool = False) -> list[Unused]:
    """Return what no result uses and is older than a day.

    That includes cells of models that were forgotten; with `outdated` all cells that no longer count.
    """
    protocols, stored = load_params().protocols, storage.read_cells()
    forgotten = stored[stored["model"].isin(list_spent(storage))]
    spent = {*forgotten["cell_id"]} - {*drop_forgotten(forgotten, storage)["cell_id"]}
    cells = list_outdated_cells(storage, protocols) if outdated else spent
    owners = list_owners(storage, [protocol.precision for protocol in protocols.values()])
    pinned = {pin.fingerprint for pin in storage.read_documents(Pin)}
    return find_unused(storage, paths.checkpoints(), owners, pinned, cells)
