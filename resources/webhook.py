"""The webhook that alerts are posted to. Its address is a secret: whoever knows it may post there."""

from typing import Any

from traube._core.posting import NotPosted, post_json

SECONDS = 10


def post(url: str, message: dict[str, Any]) -> str:
    """Post a message as JSON, and return the reason if it was not posted, else nothing.

    The reason is one line that names at most scheme and host.
    """
    try:
        post_json(url, message, seconds=SECONDS)
    except NotPosted as error:
        return f"{error}; the alert was not posted"
    return ""
