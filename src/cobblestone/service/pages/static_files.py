"""The files that pages are made of in the browser: style sheet, script, pictures."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from functools import cache
from importlib.resources import files as package_files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from cobblestone.service.pages.headers import SECURITY_HEADERS

WORKERS = "_worker.js"
"""What names of scripts end with that run in a thread of their own."""
WORKER_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'",
    "Cross-Origin-Embedder-Policy": "require-corp",
}
"""Such a script has a policy of its own: it may compile WebAssembly, which no page may, and ask nobody, not even the project."""


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
    """Answers for these files, under one base address."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._files = _files()

    def address(self, name: str) -> str:
        """Return where a file is; it changes with its content, so that browsers may keep it."""
        return f"{self._base}static/{name}?v={self._files[name][3]}"

    def answer(self, request: Request) -> Response:
        """Answer with the file that a request asks for."""
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
