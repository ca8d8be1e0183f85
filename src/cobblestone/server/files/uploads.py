"""The upload handler: size queries, uploads with resume, and their checks.

Small files go into the database together with other writes; large ones are written at their offset into a partial file, and
moved to their place when they are complete and their checksum is right.  A slow sender takes no place from others: only
what follows when the bytes are here is shared fairly among addresses.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
from collections.abc import AsyncIterator
from functools import partial
from io import BufferedRandom
from pathlib import Path

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from cobblestone.domain.errors import CobblestoneError, RemoteProtocolError, StoreError, UnreadableRow
from cobblestone.ops.files import sync_folder
from cobblestone.server.core.context import ServerContext, disk_is_full
from cobblestone.service.http.fair_queue import FairQueue, ServerBehind
from cobblestone.service.http.requests import BodyStream, answer
from cobblestone.service.rate_limits import client_address, limit_key
from cobblestone.store.catalog.files import place_of
from cobblestone.store.engine.database import Asks, Transaction
from cobblestone.store.work import uploads as stored
from cobblestone.wire.project import upload as wire
from cobblestone.wire.project.signatures import verify_upload_signature

log = structlog.get_logger(__name__)

#: A sender that is silent for so long has gone; it comes back and goes on where it stopped.
STALL_SECONDS = 60.0


#: Files that are noted at once; as many share a commit.
PLACES = 16
MAX_WAITING = 512


class UploadRefused(CobblestoneError):
    """The upload cannot be accepted; the client must give up."""


class UploadDeferred(CobblestoneError):
    """The upload cannot be accepted now; the client must try again."""


class UploadHandler:
    """Takes output files from clients."""

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx
        self._active: dict[str, asyncio.Task[None]] = {}  # files being written at this moment
        self._queue: FairQueue[str, None] = FairQueue(
            places=PLACES, max_waiting=MAX_WAITING, max_waiting_promises=2 * MAX_WAITING
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer over HTTP; every outcome is a reply of the protocol."""
        try:
            body = await self._serve(BodyStream(receive), sender=limit_key(client_address(scope)))
        except UploadRefused as error:
            log.info("upload_refused", reason=str(error))
            body = wire.write_upload_reply(wire.UploadStatus.PERMANENT_ERROR, str(error))
        except (UploadDeferred, StoreError, UnreadableRow, ServerBehind) as error:
            log.info("upload_put_off", reason=str(error))
            body = wire.write_upload_reply(wire.UploadStatus.TRANSIENT_ERROR, str(error))
        except RemoteProtocolError as error:
            body = wire.write_upload_reply(wire.UploadStatus.PERMANENT_ERROR, error.reply_hint)
        except ClientDisconnect:
            body = b""
        except OSError as error:
            log.error("upload_failed", error=str(error))
            body = wire.write_upload_reply(
                wire.UploadStatus.TRANSIENT_ERROR, "The server could not store the file."
            )
        await answer(send, body, "text/plain; charset=utf-8")

    async def _serve(self, stream: BodyStream, *, sender: str) -> bytes:
        parser = wire.UploadHeaderParser()
        message: wire.FileSizeQuery | wire.FileUpload | None = None
        async for chunk in stream:
            message = parser.receive_data(chunk)
            if message is not None:
                break
        message = message or parser.end_of_body()
        if not wire.legal_file_name(message.name):
            raise UploadRefused("The file name is not allowed.")
        if isinstance(message, wire.FileSizeQuery):
            async with self._queue.place(sender, None, promise=False):
                return wire.write_upload_reply(wire.UploadStatus.OK, file_size=await self._size(message.name))
        self._check(message)
        await self._take_over(message.name)
        content = _bytes_from(parser.leftover, stream)
        if message.nbytes <= self._ctx.settings.server.small_upload_bytes and message.offset == 0:
            await self._store_small(message, content, sender)
        else:
            await self._store_large(message, content, sender)
        return wire.write_upload_reply(wire.UploadStatus.OK)

    async def _take_over(self, name: str) -> None:
        """End an open upload of this file: its client has come back, so that connection is dead."""
        older = self._active.get(name)
        if older is not None:
            older.cancel()
            await asyncio.wait({older})

    # ------------------------------------------------------------------ questions

    async def _size(self, name: str) -> int:
        """Return how many bytes of a file have arrived.

        Questions are not signed, so it must not touch an upload that is still open; the upload that follows takes it over.
        """
        self._check_disk()
        expected = await self._ctx.store.aread(lambda db: stored.expected_upload(db, name))
        if expected is not None and expected.stored_nbytes is not None:
            return expected.stored_nbytes
        with contextlib.suppress(OSError):
            # One byte less than there is: a client that hears the full size believes that the file is done, but
            # it is done only when it was checked and recorded.
            return max(0, self._partial(name).stat().st_size - 1)
        return 0

    def _check(self, upload: wire.FileUpload) -> None:
        """Refuse uploads that are not allowed."""
        ctx = self._ctx
        if not verify_upload_signature(ctx.secret, upload.name, upload.max_nbytes, upload.xml_signature):
            raise UploadRefused("The upload is not signed by this project.")
        limit = min(upload.max_nbytes, ctx.settings.server.max_upload_bytes)
        if upload.nbytes > limit:
            raise UploadRefused(f"The file has {upload.nbytes} bytes; at most {limit} are allowed.")
        self._check_disk()

    def _check_disk(self) -> None:
        if disk_is_full(self._ctx):
            raise UploadDeferred("The server's disk is nearly full. The file will be accepted later.")

    # ------------------------------------------------------------------ bytes

    async def _store_small(self, upload: wire.FileUpload, chunks: AsyncIterator[bytes], sender: str) -> None:
        """Store a small file atomically: looked up and recorded in one write, together with other writes."""
        data = bytearray()
        async for chunk in chunks:
            data += chunk
            if len(data) > upload.nbytes:
                raise UploadRefused("More bytes came than the file has.")
        if len(data) < upload.nbytes:
            raise UploadDeferred("The file did not come completely.")
        async with self._queue.place(sender, None, promise=True):
            md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
            self._check_sum(upload, md5)
            await self._record(upload, md5=md5, data=bytes(data), head=bytes(data[:2]))

    async def _store_large(self, upload: wire.FileUpload, chunks: AsyncIterator[bytes], sender: str) -> None:
        """Store a large file, or the rest of one."""
        expected = await self._ctx.store.aread(lambda db: stored.expected_upload(db, upload.name))
        if refusal := _refusal(expected, upload):
            raise UploadRefused(refusal)
        if expected is None or expected.stored_nbytes is not None:
            return  # it is here already: a repetition
        if upload.offset >= upload.nbytes and upload.nbytes > 0:
            raise UploadDeferred("Send the whole file again.")
        receiving = asyncio.create_task(self._receive(upload, chunks, sender))
        self._active[upload.name] = receiving
        try:
            await asyncio.wait({receiving})
        finally:
            receiving.cancel()  # only when we are cancelled ourselves is it still running
            if self._active.get(upload.name) is receiving:
                del self._active[upload.name]
        if receiving.cancelled():
            raise UploadDeferred("The client came back on another connection.")
        receiving.result()

    async def _receive(self, upload: wire.FileUpload, chunks: AsyncIterator[bytes], sender: str) -> None:
        path = self._partial(upload.name)
        handle = await asyncio.to_thread(_open_at, path, upload.offset)
        try:
            position = upload.offset
            async for chunk in chunks:
                position += len(chunk)
                if position > upload.nbytes:
                    raise UploadRefused("More bytes came than the file has.")
                await asyncio.to_thread(handle.write, chunk)
            if position < upload.nbytes:
                raise UploadDeferred("The file did not come completely.")
            async with self._queue.place(sender, None, promise=True):
                md5, head = await self._finish(upload, path, handle)
        finally:
            await asyncio.to_thread(handle.close)
        await self._record(upload, md5=md5, data=None, head=head)

    async def _finish(self, upload: wire.FileUpload, path: Path, handle: BufferedRandom) -> tuple[str, bytes]:
        """Check a complete file and move it to its place; return its MD5 and first bytes."""
        md5, head = await asyncio.to_thread(_flush, handle)
        try:
            self._check_sum(upload, md5)
        except UploadDeferred:
            await asyncio.to_thread(path.unlink, missing_ok=True)  # resuming it would never help
            raise
        expected = await self._ctx.store.aread(lambda db: stored.expected_upload(db, upload.name))
        if expected is not None and expected.stored_nbytes is None:
            place = place_of(self._ctx.folder.upload, upload.name)
            await self._ctx.storage.keep(place, path)
            await asyncio.to_thread(_move, path, place)
        else:  # it came to another process meanwhile, or its task has gone
            await asyncio.to_thread(path.unlink, missing_ok=True)
        return md5, head

    def _check_sum(self, upload: wire.FileUpload, md5: str) -> None:
        if upload.md5_cksum and upload.md5_cksum.lower() != md5:
            raise UploadDeferred("The checksum does not match: the file was damaged on its way.")

    async def _record(self, upload: wire.FileUpload, *, md5: str, data: bytes | None, head: bytes) -> None:
        """Record a complete file, whose first bytes are ``head``, if that is allowed."""
        refusal = await self._ctx.store.awrite(
            partial(_record, upload=upload, md5=md5, data=data, head=head, now=self._ctx.clock()),
            asks=Asks(partial(stored.expected_upload, name=upload.name), frozenset[object]((upload.name,))),
        )
        if refusal:
            raise UploadRefused(refusal)

    def _partial(self, name: str) -> Path:
        return stored.partial_folder(self._ctx.folder.upload) / name


def _refusal(expected: stored.ExpectedUpload | None, upload: wire.FileUpload) -> str:
    """Return why a file is refused; empty if it is allowed, or already there."""
    if expected is None:
        return "This task is not known any more."
    if expected.stored_nbytes is None:
        return ""
    same = expected.stored_nbytes == upload.nbytes and upload.md5_cksum in ("", expected.stored_md5)
    return "" if same else "Another file of this name was uploaded before."


def _record(
    tx: Transaction, *, upload: wire.FileUpload, md5: str, data: bytes | None, head: bytes, now: float
) -> str:
    """Record a complete file once; return why not, if it is refused."""
    expected = stored.expected_upload(tx, upload.name)
    if expected is not None and expected.stored_nbytes is None:
        stored.record_upload(
            tx,
            name=upload.name,
            result_id=expected.result_id,
            nbytes=upload.nbytes,
            md5=md5,
            data=data,
            gzipped=expected.spec.gzip and head == stored.GZIP_MAGIC,
            now=now,
        )
    return _refusal(expected, upload)


async def _bytes_from(first: bytes, stream: BodyStream) -> AsyncIterator[bytes]:
    if first:
        yield first
    while not stream.ended:
        try:
            async with asyncio.timeout(STALL_SECONDS):
                chunk = await anext(stream, None)
        except TimeoutError as error:
            raise UploadDeferred(f"Nothing came for {STALL_SECONDS:g} seconds.") from error
        if chunk:
            yield chunk


def _open_at(path: Path, offset: int) -> BufferedRandom:
    """Open a partial file for writing at ``offset``, truncating the rest.

    It stays locked until it is closed: the client may have come back to another process while its first connection, which it
    gave up, is still open here.  (On NFS the lock holds between machines.)
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        opened = os.fstat(handle.fileno())
        if not opened.st_nlink or not path.exists() or not os.path.samestat(opened, path.stat()):
            raise UploadDeferred("Another connection has just brought the whole file.")
        if opened.st_size < offset:
            raise UploadDeferred(f"Only {opened.st_size} bytes of the file are here.")
        handle.truncate(offset)
        handle.seek(offset)
    except BlockingIOError as error:
        handle.close()
        raise UploadDeferred("Another connection is still bringing this file.") from error
    except BaseException:
        handle.close()
        raise
    return handle


def _flush(handle: BufferedRandom) -> tuple[str, bytes]:
    """Flush a complete file to disk; return its MD5 and first two bytes."""
    handle.flush()
    os.fsync(handle.fileno())
    handle.seek(0)
    head = handle.read(2)
    handle.seek(0)
    digest = hashlib.file_digest(handle, lambda: hashlib.md5(usedforsecurity=False))
    return digest.hexdigest(), head


def _move(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    path.replace(target)
    sync_folder(target.parent)
