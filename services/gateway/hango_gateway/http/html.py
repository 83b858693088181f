"""Pages for people: plain, and without a request to anywhere."""

import base64
import hashlib
import html

from fastapi import Response

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "code{font-family:ui-monospace,monospace}td,th{text-align:left;padding:.2rem 1rem .2rem 0;"
    "vertical-align:top}"
)
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


def page(title: str, body: str) -> Response:
    """A page with this title (text) and this body (HTML)."""
    heading = html.escape(title)
    document = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{heading} - hango</title><style>{_STYLE}</style></head>"
        f"<body><h1>{heading}</h1>{body}</body></html>"
    )
    return Response(document, headers={"Content-Security-Policy": _POLICY}, media_type="text/html")
