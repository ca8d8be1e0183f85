"""The page that the client serves to browsers: three fixed files.  Its figures come through the JSON interface, with a token."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from websockets.http11 import Response

PAGE = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
#: Nothing from elsewhere, no frame around it, and no address of ours (the token stands in it) for others.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
    "Connection": "close",
}


@cache
def page_part(path: str) -> Response:
    """Return the answer with one of the files of `PAGE`."""
    from websockets.datastructures import Headers
    from websockets.http11 import Response

    name, kind = PAGE[path]
    body = (Path(__file__).parent / "page" / name).read_bytes()
    own = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}
    return Response(HTTPStatus.OK, "OK", Headers({**HEADERS, **own}), body)
