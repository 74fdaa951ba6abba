"""Alerts, which people are to see: a line of `alerts.jsonl` in the data directory, and a message to a webhook."""

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from resources.webhook import post
from traube.core import paths
from traube.core.files import append_line

FILE = "alerts.jsonl"
WEBHOOK = "TRAUBE_WEBHOOK"
SILENT = ("traube/alert", "no")  # tag of a run that raises no alert


def send(key: str, summary: str, details: Sequence[str], advice: str, **facts: Any) -> str:
    """Raise an alert, once for a key. Return why it was not posted, or nothing."""
    path = paths.home() / FILE
    if path.exists() and any(json.loads(line).get("key") == key for line in path.read_text("utf-8").splitlines()):
        return ""
    alert = {"key": key, "summary": summary, "details": [*details], "advice": advice, **facts}
    alert["time"] = datetime.now(UTC).isoformat(timespec="seconds")
    append_line(path, json.dumps(alert, ensure_ascii=False))
    if not (url := os.environ.get(WEBHOOK)):
        return ""
    error = post(url, {"text": "\n".join([summary, *details, advice]), **alert})  # `text` is what chat services show
    return f"${WEBHOOK}: {error}" if error else ""
