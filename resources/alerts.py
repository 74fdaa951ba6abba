"""Alerts for people: a line of `alerts.jsonl` in the data directory, and a message to a webhook."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from logging import Logger
from typing import Any

from resources.webhook import post
from traube._core import paths
from traube._core.files import locked

FILE = "alerts.jsonl"
WEBHOOK = "TRAUBE_WEBHOOK"
SILENT = ("traube/alert", "no")  # tag of a run that raises no alert


def read_alerts() -> list[dict[str, Any]]:
    """Return the alerts that were raised, the first one first, without lines that a crash tore."""
    alerts = []
    with suppress(FileNotFoundError):
        for line in (paths.home() / FILE).read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError):
                alerts.append(json.loads(line))
    return alerts


def send_alert(log: Logger, key: str, summary: str, details: Sequence[str], advice: str, **facts: Any) -> None:
    """Raise an alert, once for a key. If it cannot be posted, the log gets the reason."""
    path = paths.home() / FILE
    alert = {"key": key, "summary": summary, "details": [*details], "advice": advice, **facts}
    alert["time"] = datetime.now(UTC).isoformat(timespec="seconds")
    begins = json.dumps({"key": key}, ensure_ascii=False).removesuffix("}")
    with locked(path), path.open("a+", encoding="utf-8", errors="replace") as file:
        file.seek(0)
        lines = file.read().splitlines(keepends=True)
        if any(line.startswith(f"{begins},") for line in lines):
            return
        torn = bool(lines) and not lines[-1].endswith("\n")  # by a crash
        file.write("\n" * torn + json.dumps(alert, ensure_ascii=False) + "\n")
    if url := os.environ.get(WEBHOOK):
        text = "\n".join([summary, *details, advice])
        if error := post(url, {"text": text, **alert}):  # `text` is what chat services show
            log.error(f"${WEBHOOK}: {error}")
