"""POST requests with JSON, by https or to this machine."""

import json
from collections.abc import Mapping
from http.client import HTTPException
from ipaddress import ip_address
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from traube._core.errors import TraubeError
from traube._core.escaping import escape_controls


class NotPosted(TraubeError):
    """A message that no server took. The error names scheme and host at most, since the address may be a secret."""

    def __init__(self, message: str, status: int | None = None, cause: object = None) -> None:
        super().__init__(message)
        self.status = status
        self.cause = cause


def post_json(
    url: str, value: Any, headers: Mapping[str, str] | None = None, *, seconds: float, most: int = 0
) -> bytes:
    """Post a value as JSON.

    Redirects are not followed: they may lead to http, or to another host.

    Parameters
    ----------
    url : str
        An address of https, or http of this machine.
    value : Any
        What JSON can write.
    headers : mapping of str to str, optional
        Further headers.
    seconds : float
        The longest wait for a connection, and for each part of the answer.
    most : int, default=0
        How many bytes of the answer are read.

    Returns
    -------
    bytes
        The answer.

    Raises
    ------
    NotPosted
        If the address is of another kind, or the server cannot be reached or answers with an error.
    """
    address = parse_address(url)
    if address is None:
        raise NotPosted("the address is neither https nor http to this machine")
    where = escape_controls(f"{address.scheme}://{address.hostname}")
    direct = [ProxyHandler({})] if address.scheme == "http" else []  # a proxy is not this machine
    try:
        sent = {"Content-Type": "application/json", **(headers or {})}
        request = Request(url, json.dumps(value).encode(), sent)  # noqa: S310 (checked)
        with build_opener(_StaysHere, *direct).open(request, timeout=seconds) as answer:
            return bytes(answer.read(most))
    except HTTPError as error:
        error.close()
        raise NotPosted(f"{where} answered with status {error.code}", status=error.code) from None
    except (OSError, HTTPException, ValueError) as error:  # whose own words may hold the address, or a header
        cause = error.reason if isinstance(error, URLError) else error
        raise NotPosted(f"{where} could not be reached ({type(cause).__name__})", cause=cause) from None


class _StaysHere(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Refuse to follow a redirect: the redirect is the answer, and counts as a failure."""


def parse_address(url: str) -> SplitResult | None:
    """Return the parts of an address; None if it is malformed, or neither https nor http to this machine."""
    try:
        address = urlsplit(url)
        _ = address.port  # checked when it is read
        host = address.hostname or ""
        is_local = address.scheme == "http" and (host == "localhost" or ip_address(host).is_loopback)
    except ValueError:  # also of a host that is a name
        return None
    return address if host and (address.scheme == "https" or is_local) else None
