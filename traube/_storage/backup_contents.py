"""The list of what a backup may hold: names, and the largest size where the archive itself sets no limit.

Whoever made an archive decides the numbers in it and nothing else. So nothing is restored that is not on this list: no settings,
no code, no page, and no queue of what to run next.
"""

import re
from enum import Enum

from traube._core.paths import is_plain

ABOUT = "traube-backup.json"  # the first file of an archive
DATA, CHECKPOINTS = "data", "checkpoints"  # its folders
MLFLOW, MLARTIFACTS = "mlflow.db", "mlartifacts"
CARD = 256 * 2**10  # bytes of a card, or of a small file of Traube's; no more is read of a card
LINES = 64 * 2**20  # bytes of a file to which lines are added


class Fate(Enum):
    """The fate of a file in a backup."""

    KEPT = "kept"
    MADE_AGAIN = "made again"


_HEX, _NAME = "[0-9a-f]", r"[a-z0-9][a-z0-9_.-]*"
_RUN = rf"{DATA}/{MLARTIFACTS}/{_HEX}{{32}}/artifacts"
_SERVED = rf"{DATA}/{MLARTIFACTS}/models/m-{_HEX}{{32}}/artifacts"
# Where a pattern says `plain`, any names may stand that lead below that folder and to nothing hidden
_KEPT: dict[str, int | None] = {
    rf"{DATA}/blobs/identity\.json": CARD,
    rf"{DATA}/(?:blobs|pending)/(?P<begin>{_HEX}{{2}})/(?P=begin){_HEX}{{62}}": None,
    rf"{DATA}/{re.escape(MLFLOW)}": None,
    rf"{_RUN}/(?P<plain>.+\.(?:csv|json|parquet|png))": None,
    # of served models the numbers alone: their code is that of this installation
    rf"{_SERVED}/artifacts/served/(?:served\.json|[a-z]+\.np[yz])": None,
    rf"{_SERVED}/artifacts/weights/(?P<plain>.+\.(?:codes|json|model|safetensors|txt))": None,
    rf"{DATA}/generated_cards/{_NAME}\.ya?ml": CARD,
    rf"{DATA}/studies/{_NAME}\.log": LINES,
    rf"{DATA}/trainings/(?P<plain>.+)": None,
    rf"{DATA}/names/{_HEX}+\.json": CARD,
    rf"{DATA}/(?:attempts|precision)\.json": CARD,
    rf"{DATA}/(?:alerts|gpu_day/rows)\.jsonl": LINES,
    # any file of a checkpoint, which is vetted when it is loaded, and the state of a training that was stopped
    rf"{CHECKPOINTS}/(?P<plain>[^/]+/.+)": None,
    rf"{CHECKPOINTS}/\.{_NAME}\.{_HEX}{{16}}/(?P<plain>.+)": None,
}
_MADE_AGAIN = (
    rf"{DATA}/(?:catalog\.db|(?:hashes|tokenizers)\.jsonl|dev\.json|dev\.stopped)",
    rf"{DATA}/(?:compiled|embeddings|papers|quality|report|tables|weights)/.+",
    # languages are detected again; which commits of the hub are meant: another one would change later numbers
    rf"{DATA}/(?:datasets|languages|revisions)\.json",
    # Dagster's history is a queue: it says what to run next, and with which settings
    rf"{DATA}/dagster/(?:(?:history|schedules)/.+\.db|(?:storage|\.\w+)/.+)",
    rf"(?:{_SERVED}/.+|{_RUN}/.+\.html)",  # code and requirements of served models, and pages of studies
    rf"{CHECKPOINTS}/\.exchanged\.json",
)
_KEPT_PATTERNS = [(re.compile(pattern), most) for pattern, most in _KEPT.items()]


def find_fate(name: str) -> Fate | None:
    """Return what becomes of a file of that name in an archive; None if the name is on no list."""
    if _find(name) is not None:
        return Fate.KEPT
    is_known = any(re.fullmatch(pattern, name) for pattern in _MADE_AGAIN)
    return Fate.MADE_AGAIN if is_known and name.isprintable() and ".." not in name.split("/") else None


def find_largest(name: str) -> int | None:
    """Return the most bytes that a kept file may have; None where the archive's own size limits it."""
    entry = _find(name)
    return None if entry is None else entry[1]


def _find(name: str) -> tuple[re.Pattern[str], int | None] | None:
    for pattern, most in _KEPT_PATTERNS:
        if (match := pattern.fullmatch(name)) and is_plain(match.groupdict().get("plain", "x")):
            return pattern, most
    return None
