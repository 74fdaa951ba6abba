"""What a training that was stopped goes on from: one file, written whole."""

import time
from pathlib import Path
from typing import Any

from traube.core.disk import replacing

FILE = "training.pt"


class Work:
    """The file of a training.

    Parameters
    ----------
    folder : it lies there
    identity : what the result follows from; a file of anything else is not gone on with
    seconds : between two writes, but for the last one
    """

    def __init__(self, folder: Path, identity: str, device: str, seconds: float) -> None:
        self.path, self.identity, self.device, self.seconds = folder / FILE, identity, device, seconds
        self.written = time.monotonic()

    def restore(self, fit: Any) -> list[dict[str, float]]:
        """Bring a training, a `Fit`, to where it was stopped; the history so far, empty if there is none.

        A file that is damaged, or of another training, counts as absent.
        """
        import torch

        try:
            kept = torch.load(self.path, map_location=self.device, weights_only=True)
        except Exception:  # absent, or whatever torch raises of a damaged one
            return []
        if not isinstance(kept, dict) or kept.get("identity") != self.identity:
            return []
        fit.modules.load_state_dict(kept["modules"])
        fit.optimizer.load_state_dict(kept["optimizer"])
        fit.memory = kept["memory"]
        return list(kept["history"])

    def save(self, fit: Any, history: list[dict[str, float]], last: bool) -> None:
        """Write how far a training is, if the last time was long ago."""
        import torch

        if not last and time.monotonic() - self.written < self.seconds:
            return
        state = {"modules": fit.modules.state_dict(), "optimizer": fit.optimizer.state_dict(), "memory": fit.memory}
        with replacing(self.path) as temporary:
            torch.save({**state, "identity": self.identity, "history": history}, temporary)
        self.written = time.monotonic()
