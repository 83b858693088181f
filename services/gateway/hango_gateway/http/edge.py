"""What happens around every request: trace, security headers, HEAD, the last word on errors."""

import logging
from typing import Any

from hango_platform import errors
from hango_platform.telemetry import trace
from hango_platform.telemetry.metrics import Metrics
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hango_gateway.http.problems import problem

log = logging.getLogger(__name__)

HEAD = "hango.head"
"""In the scope of a request for the headers alone: it is routed as GET."""
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Edge:
    """The outermost layer."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._requests = metrics.http_requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens."""
        if scope["type"] != "http":
            return
        trace.continue_from(Headers(scope=scope).get("traceparent"))
        method, status = scope["method"], 0
        inner: dict[str, Any] = {**scope}
        if method == "HEAD":  # the server leaves the body out
            inner |= {"method": "GET", HEAD: True}

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._app(inner, receive, sending)
        except Exception:
            # The answer went out already; nobody above could do more than log it.
            log.exception("a request failed", extra={"method": method, "route": _route(inner)})
            if not status:
                await problem(errors.Internal())(inner, receive, sending)
        finally:
            self._requests.labels(method, _route(inner), str(status or "-")).inc()


def _route(scope: dict[str, Any]) -> str:
    """The route's pattern: the path itself would be a new series for each id."""
    return getattr(scope.get("route"), "path", "-")
