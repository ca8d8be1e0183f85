"""Downloads: files of the download hierarchy, whole or from an offset.

Every address has a fair share of the work; a file goes on to a slow reader without a place.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send

from cobblestone.server.core.context import ServerContext
from cobblestone.service.http.fair_queue import FairQueue, ServerBehind
from cobblestone.service.rate_limits import client_address, limit_key
from cobblestone.store.catalog.files import fan_out, place_of
from cobblestone.wire.project.upload import legal_file_name

#: Downloads that are looked up and begun at once.
PLACES = 16
MAX_WAITING = 512
#: After which a client that was sent away may come again; those of the family back off by themselves.
RETRY_SECONDS = 60
#: A name never changes its content, so caches may keep it for ever.
_HEADERS = {"Cache-Control": "public, max-age=31536000, immutable"}
_MEDIA_TYPE = "application/octet-stream"


class DownloadHandler:
    """Serves files that clients need."""

    def __init__(self, ctx: ServerContext) -> None:
        self._root = ctx.folder.download
        self._storage = ctx.storage
        self._accel = ctx.settings.storage.accel
        self._queue: FairQueue[str, None] = FairQueue(
            places=PLACES, max_waiting=MAX_WAITING, max_waiting_promises=MAX_WAITING
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer ``download/<fan-out>/<name>``; ``name.gz`` is the compressed twin, sent as it is (clients decompress it)."""
        async with AsyncExitStack() as held:

            async def first_part(message: Message) -> None:
                await send(message)
                if message["type"] == "http.response.body":
                    await held.aclose()  # what follows takes as long as its reader does

            try:
                sender = limit_key(client_address(scope))
                await held.enter_async_context(self._queue.place(sender, None, promise=False))
                response = await self._answer(**scope["path_params"])
            except ServerBehind:
                headers = {"Retry-After": str(RETRY_SECONDS)}
                response = PlainTextResponse("The server is busy.", 503, headers=headers)
            await response(scope, receive, first_part)

    async def _answer(self, *, fanout: str, name: str) -> Response:
        """Return the file, or a redirect to it.  Raises HTTPException."""
        base = name.removesuffix(".gz")
        if legal_file_name(name) and fanout in (fan_out(name), fan_out(base)):
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
