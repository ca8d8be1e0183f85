"""Downloads: files of the download hierarchy, whole or from an offset."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from cobblestone.server.core.context import ServerContext
from cobblestone.store.work.files import fan_out, place_of
from cobblestone.wire.upload import legal_file_name


class DownloadHandler:
    """Serves files that clients need."""

    def __init__(self, ctx: ServerContext) -> None:
        self._root = ctx.folder.download

    async def endpoint(self, request: Request) -> Response:
        """``download/<fan-out>/<name>``; ``name.gz`` is the packed twin, sent as it is (clients unpack it themselves)."""
        name = request.path_params["name"]
        base = name.removesuffix(".gz")
        if legal_file_name(name) and request.path_params["fanout"] in (fan_out(name), fan_out(base)):
            for path in (place_of(self._root, name), place_of(self._root, base).with_name(name)):
                if await asyncio.to_thread(path.is_file):
                    # A name never changes its content, so caches may keep it for ever.
                    return FileResponse(
                        path,
                        media_type="application/octet-stream",
                        headers={"Cache-Control": "public, max-age=31536000, immutable"},
                    )
        raise HTTPException(404, "There is no such file.")
