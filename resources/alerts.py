"""Alerts for people: a line of `alerts.jsonl` in the data directory, and a message to a webhook."""

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from resources.webhook import post
from traube.core import paths
from traube.core.files import locked

FILE = "alerts.jsonl"
WEBHOOK = "TRAUBE_WEBHOOK"
SILENT = ("traube/alert", "no")  # tag of a run that raises no alert


def send(key: str, summary: str, details: Sequence[str], advice: str, **facts: Any) -> str:
    """Raise an alert, once for a key. Return why it was not posted, or nothing."""
    path = paths.home() / FILE
    alert = {"key": key, "summary": summary, "details": [*details], "advice": advice, **facts}
    alert["time"] = datetime.now(UTC).isoformat(timespec="seconds")
    begins = json.dumps({"key": key}, ensure_ascii=False).removesuffix("}")
    with locked(path), path.open("a+", encoding="utf-8", errors="replace") as file:
        file.seek(0)
        lines = file.read().splitlines(keepends=True)
        if any(line.startswith(f"{begins},") for line in lines):
            return ""
        torn = bool(lines) and not lines[-1].endswith("\n")  # by a crash
        file.write("\n" * torn + json.dumps(alert, ensure_ascii=False) + "\n")
    if not (url := os.environ.get(WEBHOOK)):
        return ""
    error = post(url, {"text": "\n".join([summary, *details, advice]), **alert})  # `text` is what chat services show
    return f"${WEBHOOK}: {error}" if error else ""
