"""The guard in front of both UIs, which refuses requests of other web pages.

A browser sends requests for any page, and names that page truthfully in the request's headers.
"""

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from operations.dev import HOST


class Guard:
    """An ASGI app that passes requests from pages of this address, or from no page, on to `app` at `port`.

    Paths with a part that is `closed` are not passed on.
    """

    def __init__(self, app: ASGIApp, port: int, closed: str | None = None) -> None:
        self.app, self.closed = app, closed
        self.hosts = {f"{name}:{port}" for name in (HOST, "localhost")}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it with status 403."""
        reason = "" if scope["type"] == "lifespan" else self.refusal(scope)
        if not reason:
            return await self.app(scope, receive, send)
        if scope["type"] == "websocket":
            await receive()  # that somebody wants to connect
            return await send({"type": "websocket.close"})  # before it is accepted: the answer is 403
        return await PlainTextResponse(f"refused: {reason}\n", 403)(scope, receive, send)

    def refusal(self, scope: Scope) -> str:
        """Return why a request is not passed on; empty if it is."""
        headers = Headers(scope=scope)
        if "host" not in headers or _foreign(headers, "host", self.hosts):
            # a name of somebody else's that leads here makes his page one of this address
            return (
                f"this is {' or '.join(sorted(self.hosts))} and answers to no other name (a tunnel must keep the port)"
            )
        if _foreign(headers, "origin", self.origins):
            return "the request comes from another page"
        is_link = (  # that somebody follows in another page, which shows this one in a tab of its own
            scope["type"] == "http"
            and scope["method"] == "GET"
            and headers.get("sec-fetch-mode") == "navigate"
            and headers.get("sec-fetch-dest") == "document"
        )
        if _foreign(headers, "sec-fetch-site", {"same-origin", "none"}) and not is_link:
            return "the request comes from another page"
        if scope["type"] == "websocket":
            return ""
        if scope["method"] == "POST" and headers.get("content-type", "").split(";")[0].strip() != "application/json":
            return "a POST must bring JSON, which no page can send to another address unasked"
        if self.closed and self.closed in scope["path"]:
            return f"{self.closed} is switched off here"
        if scope["path"] == "/graphql" and scope["method"] == "GET" and scope["query_string"]:
            return "GraphQL takes POST only; a link changes nothing"
        return ""


def _foreign(headers: Headers, name: str, ours: set[str]) -> bool:
    """Return whether a header has a value that is not ours, or is there more than once."""
    values = headers.getlist(name)
    return len(values) > 1 or not ours.issuperset(values)
