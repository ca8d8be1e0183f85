"""One transfer over HTTP: a download that resumes and is checked, or an upload that resumes.

An outcome is a value; only cancellation is raised.  Reading, hashing, unpacking and checking of files happens in threads, so
that the daemon goes on answering.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import os
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from cobblestone.client.projects.connections import Connections, read_body, send
from cobblestone.domain.errors import CobblestoneError, RemoteProtocolError, words_of
from cobblestone.wire.client.records import FileRecord, TransferProgress
from cobblestone.wire.project.upload import (
    FileSizeQuery,
    FileUpload,
    UploadReply,
    UploadStatus,
    parse_upload_reply,
    write_file_size_query,
    write_upload_header,
)
from cobblestone.wire.scheduler.job import FileInfo

MAX_UPLOAD_REPLY = 64 * 1024
PIECE = 64 * 1024
#: Smaller files are sent without asking first how much is there (bytes).
SMALL_UPLOAD = 8192
#: Bytes at the end of a broken download that are fetched again: they may be a proxy's words.
DROPPED_TAIL = 5000
UNKNOWN_SIZE_LIMIT = 2**40

Throttle = Callable[[int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class TransferOutcome:
    """The outcome of an attempt."""

    ok: bool
    error: str = ""
    permanent: bool = False
    server_down: bool = False  #: it could not even be reached
    nbytes: int = 0
    code: int = 0  #: the family's error number, if it is permanent


@dataclass(slots=True)
class TransferContext:
    """Shared state of all transfers."""

    connections: Connections
    version: int
    down: Throttle
    up: Throttle
    patience: float = 300.0  #: seconds ...
    slowest: float = 0.0  #: ... over which a transfer must move so many bytes a second; 0: any
    progress: dict[str, TransferProgress] = field(default_factory=dict[str, TransferProgress])


class _Pace:
    """Aborts a transfer that crawls: it holds a place that another could use."""

    def __init__(self, exchange: TransferContext) -> None:
        self._exchange = exchange
        self._since = asyncio.get_running_loop().time()
        self._moved = 0

    def moved(self, nbytes: int) -> None:
        """Record a received piece.  Raises httpx.ReadTimeout."""
        import httpx

        self._moved += nbytes
        now, patience = asyncio.get_running_loop().time(), self._exchange.patience
        if now - self._since < patience:
            return
        if self._moved < self._exchange.slowest * (now - self._since):
            raise httpx.ReadTimeout(f"only {self._moved} bytes were transferred in {now - self._since:.0f} s")
        self._since, self._moved = now, 0


def partial_path(path: Path, *, compressed: bool = False) -> Path:
    """Return the path of a partial download; no name from a server starts with a dot."""
    return path.with_name(f".{path.name}{'.gz' if compressed else ''}.part")


# -- downloads ------------------------------------------------------------------------------------------


async def download(
    exchange: TransferContext, file: FileRecord, path: Path, code_key: str, progress: TransferProgress
) -> TransferOutcome:
    """Download and check a file; it gets its name only when it is complete and correct."""
    import httpx

    info = file.download
    if info is None or not info.urls:
        return TransferOutcome(False, "the project gave no address for it", permanent=True, code=-224)
    compressed = bool(info.gzipped_url) and file.url_index == 0 and file.num_retries == 0
    url = progress.url = info.gzipped_url if compressed else file.url
    growing = partial_path(path, compressed=compressed)
    expected = info.gzipped_nbytes if compressed else info.nbytes
    try:
        outcome = await _fetch(exchange, url, growing, expected, progress)
        if not outcome.ok:
            return outcome
        return await asyncio.to_thread(_finish, growing, path, info, code_key, compressed)
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, httpx.UnsupportedProtocol) as error:
        return TransferOutcome(False, f"{url} cannot be reached: {words_of(error)}", server_down=True)
    except (httpx.InvalidURL, UnicodeError) as error:
        return TransferOutcome(
            False, f"{url:.200} is not a valid address: {error}", permanent=True, code=-224
        )
    except httpx.HTTPError as error:
        await asyncio.to_thread(_drop_tail, growing)
        return TransferOutcome(False, f"{url} could not be fetched: {words_of(error)}")
    except OSError as error:
        return TransferOutcome(False, f"{growing.parent} cannot be written: {error.strerror or error}")


async def _fetch(
    exchange: TransferContext, url: str, growing: Path, expected: int, progress: TransferProgress
) -> TransferOutcome:
    offset = await asyncio.to_thread(_prepare, growing, expected)
    if expected and offset == expected:
        return TransferOutcome(True, nbytes=offset)
    headers = {"Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    http = exchange.connections.http
    async with contextlib.aclosing(
        await send(http, http.build_request("GET", url, headers=headers), public=True)
    ) as response:
        status = response.status_code
        if status == 416:
            await asyncio.to_thread(growing.unlink, missing_ok=True)
            return TransferOutcome(
                False, f"{url} refused to continue at byte {offset}: it will be fetched from the start"
            )
        if status not in (200, 206):
            return TransferOutcome(
                False,
                f"{url} was answered with HTTP status {status}",
                permanent=400 <= status < 500,
                code=-224,
            )
        given = response.headers.get("content-range", "").replace(" ", "").lower()
        if status == 200 or not given.startswith(f"bytes{offset}-"):
            if status == 206:
                return TransferOutcome(False, f"{url} answered with another range than was asked for")
            offset = 0
        limit = expected or UNKNOWN_SIZE_LIMIT
        total = await _receive(exchange, response.aiter_bytes(PIECE), growing, offset, limit, progress)
    if total > limit:
        await asyncio.to_thread(growing.unlink, missing_ok=True)
        return TransferOutcome(False, f"{url} sent more than the {expected} bytes that were announced")
    if expected and total < expected:
        if total - offset < DROPPED_TAIL:  # a proxy's page rather than a part of the file
            await asyncio.to_thread(os.truncate, growing, offset)
        return TransferOutcome(False, f"{url} ended after {total} of {expected} bytes")
    return TransferOutcome(True, nbytes=total)


async def _receive(
    exchange: TransferContext,
    pieces: AsyncIterator[bytes],
    growing: Path,
    offset: int,
    limit: int,
    progress: TransferProgress,
) -> int:
    total = progress.offset = progress.bytes = offset
    pace = _Pace(exchange)
    with _continued(growing, offset) as handle:  # not in a thread: a cancelled transfer would leave it open
        async for piece in pieces:
            total += len(piece)
            if total > limit:
                break
            await asyncio.to_thread(handle.write, piece)
            progress.bytes = total
            progress.moved += len(piece)
            pace.moved(len(piece))
            await exchange.down(len(piece))
    return total


def _continued(growing: Path, offset: int) -> BinaryIO:
    handle = growing.open("r+b" if offset else "wb")
    handle.truncate(offset)
    handle.seek(offset)
    return handle


def _prepare(growing: Path, expected: int) -> int:
    """Return the size of the partial file; one larger than expected counts as nothing."""
    growing.parent.mkdir(parents=True, exist_ok=True)
    try:
        size = growing.stat().st_size
    except FileNotFoundError:
        return 0
    if expected and size > expected:
        growing.unlink()
        return 0
    return size


def _drop_tail(growing: Path) -> None:
    try:
        size = growing.stat().st_size
        os.truncate(growing, max(0, size - DROPPED_TAIL))
    except OSError:
        return


def _finish(growing: Path, path: Path, info: FileInfo, code_key: str, compressed: bool) -> TransferOutcome:
    """Decompress, check, flush to disk, and rename."""
    if compressed:
        unpacked = partial_path(path)
        try:
            _unpack(growing, unpacked, info.nbytes or UNKNOWN_SIZE_LIMIT)
        except (OSError, EOFError, zlib.error) as error:
            growing.unlink(missing_ok=True)
            unpacked.unlink(missing_ok=True)
            return TransferOutcome(False, f"the compressed form of {path.name} is damaged: {words_of(error)}")
        growing.unlink()
        growing = unpacked
    problem = check_file(growing, info, code_key)
    if problem:
        growing.unlink(missing_ok=True)
        return TransferOutcome(False, problem, permanent=True, code=-119)
    with growing.open("rb") as handle:
        os.fsync(handle.fileno())
    growing.chmod(0o755 if info.executable else 0o644)
    growing.replace(path)
    return TransferOutcome(True, nbytes=path.stat().st_size)


def _unpack(packed: Path, target: Path, limit: int) -> None:
    left = limit
    with gzip.open(packed, "rb") as source, target.open("wb") as sink:
        while piece := source.read(PIECE):
            left -= len(piece)
            if left < 0:
                raise zlib.error("it is larger than was announced")
            sink.write(piece)


def check_file(path: Path, info: FileInfo, code_key: str) -> str:
    """Return the error in a file's size, hash or signature; empty if there is none.  Blocks: call it in a thread."""
    try:
        size = path.stat().st_size
        md5 = file_md5(path)
    except OSError as error:
        return f"{info.name} cannot be read: {error.strerror}"
    if info.nbytes and size != info.nbytes:
        return f"{info.name} has {size} bytes instead of {info.nbytes}"
    if info.md5_cksum and md5 != info.md5_cksum:
        return f"{info.name} differs from what the project announced (MD5 {md5} instead of {info.md5_cksum})"
    if info.file_signature or info.executable:
        return _check_signature(info.name, md5, info, code_key)
    return ""


def _check_signature(name: str, md5: str, info: FileInfo, code_key: str) -> str:
    from cobblestone.wire.project.signatures import decode_public_key, verify_md5

    if not info.file_signature:
        return f"{name} is a program without a signature: it will not be run"
    try:
        right = verify_md5(decode_public_key(code_key), md5, info.file_signature)
    except CobblestoneError as error:
        return f"the signature of {name} cannot be checked: {error}"
    return "" if right else f"{name} is not signed with the project's key: it will not be run"


def file_md5(path: Path) -> str:
    """Return the MD5 of a file's content, in hex."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


# -- uploads --------------------------------------------------------------------------------------------


async def upload(
    exchange: TransferContext, file: FileRecord, path: Path, progress: TransferProgress
) -> TransferOutcome:
    """Upload a file, continuing where the server stopped."""
    import httpx

    target = file.upload
    if target is None:
        return TransferOutcome(False, "the project gave no address for it", permanent=True, code=-161)
    url = progress.url = file.url
    size = int(file.nbytes)
    try:
        offset = 0
        if size >= SMALL_UPLOAD:
            query = write_file_size_query(FileSizeQuery(name=file.name, client_version=exchange.version))
            reply, url = await _post(exchange, url, query)  # the bytes go at once to where it has moved
            refusal = _refusal(reply, url)
            if refusal:
                return refusal
            offset = reply.file_size or 0
            if offset >= size:
                return TransferOutcome(True, nbytes=size)
        header = write_upload_header(
            FileUpload(
                name=file.name,
                xml_signature=target.xml_signature,
                max_nbytes=target.max_nbytes,
                nbytes=size,
                md5_cksum=file.md5_cksum,
                offset=offset,
                client_version=exchange.version,
            )
        )
        progress.offset = progress.bytes = offset
        length = str(len(header) + size - offset)
        body = _UploadBody(exchange, header, path, offset, size, progress)
        reply, url = await _post(exchange, url, body, {"Content-Length": length})
        return _refusal(reply, url) or TransferOutcome(True, nbytes=size)
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, httpx.UnsupportedProtocol) as error:
        return TransferOutcome(False, f"{url} cannot be reached: {words_of(error)}", server_down=True)
    except (httpx.InvalidURL, UnicodeError) as error:
        return TransferOutcome(
            False, f"{url:.200} is not a valid address: {error}", permanent=True, code=-224
        )
    except (httpx.HTTPError, RemoteProtocolError) as error:
        return TransferOutcome(False, f"{url}: {words_of(error)}")
    except OSError as error:
        return TransferOutcome(
            False, f"{path.name} cannot be read: {error.strerror or error}", permanent=True, code=-161
        )


async def _post(
    exchange: TransferContext,
    url: str,
    body: bytes | AsyncIterable[bytes],
    headers: dict[str, str] | None = None,
) -> tuple[UploadReply, str]:
    """Return the answer, and the address that gave it."""
    http = exchange.connections.http
    request = http.build_request(
        "POST",
        url,
        content=body,
        headers={"Content-Type": "application/x-www-form-urlencoded", **(headers or {})},
    )
    async with contextlib.aclosing(await send(http, request)) as answer:
        if answer.status_code != 200:
            raise RemoteProtocolError(f"answered with HTTP status {answer.status_code}")
        return parse_upload_reply(await read_body(answer, MAX_UPLOAD_REPLY)), str(answer.url)


def _refusal(reply: UploadReply, url: str) -> TransferOutcome | None:
    if reply.status == UploadStatus.OK:
        return None
    permanent = reply.status == UploadStatus.PERMANENT_ERROR
    words = reply.message or ("the server refuses it" if permanent else "the server is busy")
    return TransferOutcome(False, f"{words} ({url})", permanent=permanent, code=-127)


@dataclass(frozen=True, slots=True)
class _UploadBody:
    """Header and bytes of an upload; they can be sent again after a redirect."""

    exchange: TransferContext
    header: bytes
    path: Path
    offset: int
    size: int
    progress: TransferProgress

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.header
        pace = _Pace(self.exchange)
        at = self.progress.bytes = self.offset
        while at < self.size:
            piece = await asyncio.to_thread(_read_piece, self.path, at, min(PIECE, self.size - at))
            await self.exchange.up(len(piece))
            yield piece
            at += len(piece)
            self.progress.bytes = at
            self.progress.moved += len(piece)
            pace.moved(len(piece))


def _read_piece(path: Path, offset: int, nbytes: int) -> bytes:
    with path.open("rb") as handle:
        handle.seek(offset)
        piece = handle.read(nbytes)
    if not piece:
        raise OSError(f"{path.name} became shorter while it was sent")
    return piece
