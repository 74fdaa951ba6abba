"""Files of a model's folder, which anybody may have made: plain files that lie in it.

Whatever opens a file of such a folder does so here. A link that leaves the folder would have a file of the machine
stored, served or shared with the model.
"""

import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traube._core.config import SHOWN
from traube._core.errors import Changed, Inaccessible, Malformed, Unsafe
from traube._core.inputs import check_file, too_large

LARGEST_FILE = 256 * 2**20  # bytes, but for weights; the largest vocabularies take forty million
# In the hub's cache the files of a snapshot are links: models--NAME/snapshots/REVISION/FILE to models--NAME/blobs/HASH.
REVISION = re.compile("[0-9a-f]{40}")
BLOB = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")

# What changes when a file is written: size, times and place.
Stamp = tuple[int, int, int, int]


def get_stamp(path: Path) -> Stamp:
    """Return size, times of change and number of a file."""
    state = path.stat()
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino


@dataclass(frozen=True)
class ModelFile:
    """A file of a model's folder, by its name below the folder.

    The folder may itself be a link, which is what a person names; what counts are the links in it.
    """

    folder: Path
    name: str

    @property
    def path(self) -> Path:
        """Path as people know it, for messages."""
        return self.folder / self.name

    def locate(self) -> Path:
        """Return the path that the file really has.

        Raises
        ------
        TraubeError
            If it is no plain file, or a link to something outside of the folder.
        """
        root, real = Path(os.path.realpath(self.folder)), Path(os.path.realpath(self.path))
        if not real.is_relative_to(root) and not _is_blob_of(root, real):
            raise Unsafe(f"{self.path}: a link that leads out of {root.name}/; put the file itself there")
        check_file(self.path)
        return real

    def read(self, most: int = LARGEST_FILE) -> bytes:
        """Return the contents, of at most so many bytes, of the very file that was located."""
        real = self.locate()
        try:
            # if another file or a pipe has come into its place, opening it neither follows nor waits
            descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                state = os.fstat(descriptor)
                if not stat.S_ISREG(state.st_mode):
                    raise Changed(f"{self.path}: changed while it was read; run again")
                content = file.read(min(state.st_size, most) + 1)
        except OSError as error:
            raise Inaccessible(f"{self.path}: cannot be read ({error.strerror})") from None
        if len(content) > most:
            raise too_large(self.path, most)
        return content

    def parse(self, most: int = LARGEST_FILE) -> Any:
        """Return what a JSON file holds; a key that stands twice is an error, since readers differ in which one they take."""
        try:
            return json.loads(self.read(most), object_pairs_hook=_refuse_twice)
        except RecursionError:
            raise Malformed(f"{self.path}: broken json (nested too deep)") from None
        except ValueError as error:
            raise Malformed(f"{self.path}: broken json ({error})") from None


def _is_blob_of(root: Path, real: Path) -> bool:
    """Return whether a folder is (in) a snapshot of the hub's cache, and a file a blob of the same repository there."""
    for snapshot in (root, *root.parents):
        repository = snapshot.parent.parent
        if REVISION.fullmatch(snapshot.name) and snapshot.parent == repository / "snapshots":
            is_blob = real.parent == repository / "blobs" and BLOB.fullmatch(real.name) is not None
            return repository.name.startswith("models--") and is_blob
    return False


def _refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise ValueError(f"the key {key[:SHOWN]!r} stands twice")
        made[key] = value
    return made
