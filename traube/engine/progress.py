"""Who is told of work as it is done; see `traube.foundation.progress`."""

from traube.foundation.progress import SILENT, Progress

__all__ = ["SILENT", "Progress"]
