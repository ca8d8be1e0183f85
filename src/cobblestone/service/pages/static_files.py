"""Headers of all pages and files, and the files that pages load: style sheet, script, pictures."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from functools import cache
from importlib.resources import files as package_files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}


#: Sent when the project's own address is an https one: browsers then do not try without.
HTTPS_ONLY = {"Strict-Transport-Security": "max-age=31536000"}


#: What names of scripts end with that run in a thread of their own.
WORKERS = "_worker.js"
#: Such a script has a policy of its own: it may compile WebAssembly, which no page may, but send no requests.
WORKER_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'",
    "Cross-Origin-Embedder-Policy": "require-corp",
}


@cache
def _files() -> dict[str, tuple[bytes, bytes, str, str]]:
    """Return content, compressed content, media type and digest of each file, by name.  Few and small, so they stay in memory."""
    found: dict[str, tuple[bytes, bytes, str, str]] = {}
    for entry in package_files("cobblestone.service.pages").joinpath("static").iterdir():
        data = entry.read_bytes()
        kind = mimetypes.guess_type(entry.name)[0] or "text/plain"
        digest = hashlib.sha256(data).hexdigest()[:12]
        found[entry.name] = (data, gzip.compress(data, mtime=0), kind, digest)
    return found


class StaticFiles:
    """Static files, few and small, so they stay in memory."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._files = _files()

    def address(self, name: str) -> str:
        """Return the address of a file; it changes with its content, so that browsers may cache it."""
        return f"{self._base}static/{name}?v={self._files[name][3]}"

    def answer(self, request: Request) -> Response:
        """Answer with the requested file."""
        name = request.path_params["name"]
        found = self._files.get(name)
        if found is None:
            raise HTTPException(404)
        data, packed, kind, digest = found
        current = request.query_params.get("v") == digest
        headers = {
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": SECURITY_HEADERS["Content-Security-Policy"],
            "Cache-Control": "public, max-age=31536000, immutable" if current else "no-cache",
            "Vary": "Accept-Encoding",
        }
        if name.endswith(WORKERS):
            headers |= WORKER_HEADERS
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(packed, media_type=kind, headers={**headers, "Content-Encoding": "gzip"})
        return Response(data, media_type=kind, headers=headers)
