"""Downloads: files of the download hierarchy, whole or from an offset."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response

from cobblestone.server.core.context import ServerContext
from cobblestone.store.work.files import fan_out, place_of
from cobblestone.wire.upload import legal_file_name

_HEADERS = {"Cache-Control": "public, max-age=31536000, immutable"}
"""A name never changes its content, so caches may keep it for ever."""
_MEDIA_TYPE = "application/octet-stream"


class DownloadHandler:
    """Serves files that clients need."""

    def __init__(self, ctx: ServerContext) -> None:
        self._root = ctx.folder.download
        self._storage = ctx.storage
        self._accel = ctx.settings.storage.accel

    async def endpoint(self, request: Request) -> Response:
        """``download/<fan-out>/<name>``; ``name.gz`` is the packed twin, sent as it is (clients unpack it themselves)."""
        name = request.path_params["name"]
        base = name.removesuffix(".gz")
        if legal_file_name(name) and request.path_params["fanout"] in (fan_out(name), fan_out(base)):
            for path in (place_of(self._root, name), place_of(self._root, base).with_name(name)):
                if await asyncio.to_thread(path.is_file):
                    return self._file(path)
            if link := self._storage.link(place_of(self._root, name)):
                return RedirectResponse(link, 302, headers={"Cache-Control": "no-store"})
        raise HTTPException(404, "There is no such file.")

    def _file(self, path: Path) -> Response:
        if self._accel:  # the proxy sends it, from its own disk or the shared one
            place = quote(path.relative_to(self._root).as_posix())
            headers = {**_HEADERS, "X-Accel-Redirect": f"{self._accel}{place}"}
            return Response(media_type=_MEDIA_TYPE, headers=headers)
        return FileResponse(path, media_type=_MEDIA_TYPE, headers=_HEADERS)
