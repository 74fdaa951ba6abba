"""The webhook that alerts are posted to. Its address is a secret: whoever knows it may post there."""

import json
from http.client import HTTPException
from ipaddress import ip_address
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from traube.core.inert import visible

SECONDS = 10
NOT_POSTED = "the alert was not posted"


def post(url: str, message: dict[str, Any]) -> str:
    """Post a message as JSON, and return the reason if it was not posted, else nothing.

    The address is https, or http of this machine. The reason is one line that names at most scheme and host.
    Redirects are not followed: they may lead to http, or to another host.
    """
    address = _parse_allowed(url)
    if address is None:
        return f"the address is neither https nor http to this machine; {NOT_POSTED}"
    where = visible(f"{address.scheme}://{address.hostname}")
    direct = [ProxyHandler({})] if address.scheme == "http" else []  # a proxy is not this machine
    try:
        request = Request(url, json.dumps(message).encode(), {"Content-Type": "application/json"})  # noqa: S310 (checked)
        with build_opener(_NoRedirects, *direct).open(request, timeout=SECONDS):
            return ""
    except HTTPError as error:
        error.close()
        return f"{where} answered with status {error.code}; {NOT_POSTED}"
    except (OSError, HTTPException, ValueError) as error:  # whose own words may hold the address
        reason = error.reason if isinstance(error, URLError) else error
        return f"{where} could not be reached ({type(reason).__name__}); {NOT_POSTED}"


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Refuse to follow a redirect: the redirect is the answer, and counts as a failure."""


def _parse_allowed(url: str) -> SplitResult | None:
    """Return the parsed address; None if it is malformed, or neither https nor http to this machine."""
    try:
        address = urlsplit(url)
        _ = address.port  # reading it checks it
        host = address.hostname or ""
        is_local = address.scheme == "http" and (host == "localhost" or ip_address(host).is_loopback)
    except ValueError:  # also of a host that is a name
        return None
    return address if host and (address.scheme == "https" or is_local) else None
