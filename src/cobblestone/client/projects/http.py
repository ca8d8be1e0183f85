"""HTTP: connections through the volunteer's proxy, and one download or upload that resumes and is checked.

One transfer over HTTP: a download that resumes and is checked, or an upload that resumes.

An outcome is a value; only cancellation is raised.  Reading, hashing, unpacking and checking of files happens in threads, so
that the daemon goes on answering.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import ipaddress
import os
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cobblestone.client.records.identity import user_agent
from cobblestone.domain.computing import Proxy
from cobblestone.domain.errors import CobblestoneError, ConfigError, RemoteProtocolError
from cobblestone.wire.client.records import FileRecord
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

if TYPE_CHECKING:
    import httpx


CONNECT_SECONDS = 30.0
SILENCE_SECONDS = 300.0
MAX_REDIRECTS = 5
OLD_SECONDS = 120.0


class Connections:
    """The connections of one client.  Requests in progress when the proxy changes may end as they began."""

    def __init__(self) -> None:
        self._http: httpx.AsyncClient | None = (
            None  #: made when first wanted: to load what it takes costs 10 MB
        )
        self._proxy: Proxy | None = None
        self._silence = SILENCE_SECONDS
        self._old: list[tuple[float, httpx.AsyncClient]] = []  #: with the moment since when they are not used

    @property
    def http(self) -> httpx.AsyncClient:
        """Return the connections to use now."""
        if self._http is None:
            self._http = make_http(self._proxy)
            self._be_patient()
        return self._http

    def use(self, proxy: Proxy | None, silence: float) -> bool:
        """Use this proxy and this timeout in seconds; return whether the connections have changed.

        Raises:
            ConfigError: the proxy cannot be used; the one before stays.
        """
        changed = proxy != self._proxy
        if changed:
            fresh = _checked(proxy)
            if self._http is not None:
                self._old.append((asyncio.get_running_loop().time(), self._http))
            self._proxy, self._http = proxy, fresh
        self._silence = silence
        self._be_patient()
        return changed

    def _be_patient(self) -> None:
        if self._http is not None:
            import httpx

            self._http.timeout = httpx.Timeout(self._silence, connect=CONNECT_SECONDS)

    async def close_old(self, age: float = OLD_SECONDS) -> None:
        """Close connections not used for new requests for this many seconds."""
        before = asyncio.get_running_loop().time() - age
        gone = [each for each in self._old if each[0] <= before]
        for each in gone:
            self._old.remove(each)
            await each[1].aclose()

    async def close(self) -> None:
        """Close everything."""
        await self.close_old(0.0)
        if self._http is not None:
            await self._http.aclose()


def _checked(proxy: Proxy | None) -> httpx.AsyncClient:
    import httpx

    try:
        return make_http(proxy)
    except (ValueError, ImportError, httpx.InvalidURL) as error:
        raise ConfigError(f"The proxy {_name(proxy)} cannot be used: {error}.") from error


def make_http(proxy: Proxy | None) -> httpx.AsyncClient:
    """Return connections through a proxy; without one, as the environment says."""
    import httpx

    via = None
    if proxy is not None:
        login = (proxy.user, proxy.password) if proxy.user else None
        via = httpx.Proxy(f"{proxy.kind}://{proxy.host}:{proxy.port}", auth=login)
    return httpx.AsyncClient(
        headers={"User-Agent": user_agent(), "Accept": "*/*"},
        timeout=httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS),
        limits=httpx.Limits(max_connections=40, max_keepalive_connections=8, keepalive_expiry=30.0),
        follow_redirects=True,
        max_redirects=MAX_REDIRECTS,
        proxy=via,
        mounts={_pattern(name): None for name in proxy.direct} if proxy else None,
        trust_env=proxy is None,
    )


def _pattern(name: str) -> str:
    """Return a pattern for a host, or for a domain with all its hosts."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return f"all://*{name.lstrip('.')}"
    return f"all://{name}"


def _name(proxy: Proxy | None) -> str:
    return f"{proxy.kind}://{proxy.host}:{proxy.port}" if proxy else "of the environment"


PIECE = 64 * 1024
SMALL_UPLOAD = 8192
"""Smaller files are sent without asking first how much is there (bytes)."""
DROPPED_TAIL = 5000
"""Bytes at the end of a broken download that are fetched again: they may be a proxy's words."""
UNKNOWN_SIZE_LIMIT = 2**40

Throttle = Callable[[int], Awaitable[None]]


@dataclass(slots=True)
class TransferProgress:
    """The progress of a transfer, for display."""

    url: str
    offset: float = 0.0
    bytes: float = 0.0
    moved: int = 0  #: bytes over the network in this try
    started: float = 0.0


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
    url = info.gzipped_url if compressed else info.urls[file.url_index % len(info.urls)]
    progress.url = url
    growing = partial_path(path, compressed=compressed)
    expected = info.gzipped_nbytes if compressed else info.nbytes
    try:
        outcome = await _fetch(exchange, url, growing, expected, progress)
        if not outcome.ok:
            return outcome
        return await asyncio.to_thread(_finish, growing, path, info, code_key, compressed)
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, httpx.UnsupportedProtocol) as error:
        return TransferOutcome(False, f"{url} cannot be reached: {error}", server_down=True)
    except (httpx.InvalidURL, UnicodeError) as error:
        return TransferOutcome(
            False, f"{url:.200} is not a valid address: {error}", permanent=True, code=-224
        )
    except httpx.HTTPError as error:
        await asyncio.to_thread(_drop_tail, growing)
        return TransferOutcome(False, f"{type(error).__name__} while fetching {url}: {error}")
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
    async with exchange.connections.http.stream("GET", url, headers=headers) as response:
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
        if status == 200 or not _range_fits(response.headers.get("content-range", ""), offset):
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
    handle = await asyncio.to_thread(growing.open, "r+b" if offset else "wb")
    try:
        handle.truncate(offset)
        handle.seek(offset)
        async for piece in pieces:
            total += len(piece)
            if total > limit:
                break
            await asyncio.to_thread(handle.write, piece)
            progress.bytes = total
            progress.moved += len(piece)
            pace.moved(len(piece))
            await exchange.down(len(piece))
    finally:
        await asyncio.to_thread(handle.close)
    return total


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


def _range_fits(header: str, offset: int) -> bool:
    return header.replace(" ", "").lower().startswith(f"bytes{offset}-")


def _finish(growing: Path, path: Path, info: FileInfo, code_key: str, compressed: bool) -> TransferOutcome:
    """Decompress, check, flush to disk, and rename."""
    if compressed:
        unpacked = partial_path(path)
        try:
            _unpack(growing, unpacked, info.nbytes or UNKNOWN_SIZE_LIMIT)
        except (OSError, EOFError, zlib.error) as error:
            growing.unlink(missing_ok=True)
            unpacked.unlink(missing_ok=True)
            return TransferOutcome(False, f"the compressed form of {path.name} is damaged: {error}")
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
    urls = (target.upload_url, *target.other_upload_urls)
    url = progress.url = urls[file.url_index % len(urls)]
    size = int(file.nbytes)
    try:
        offset = 0
        if size >= SMALL_UPLOAD:
            query = write_file_size_query(FileSizeQuery(name=file.name, client_version=exchange.version))
            reply = await _post(exchange, url, query)
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
        async with contextlib.aclosing(_body(exchange, header, path, offset, size, progress)) as body:
            reply = await _post(exchange, url, body, {"Content-Length": length})
        return _refusal(reply, url) or TransferOutcome(True, nbytes=size)
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, httpx.UnsupportedProtocol) as error:
        return TransferOutcome(False, f"{url} cannot be reached: {error}", server_down=True)
    except (httpx.InvalidURL, UnicodeError) as error:
        return TransferOutcome(
            False, f"{url:.200} is not a valid address: {error}", permanent=True, code=-224
        )
    except (httpx.HTTPError, RemoteProtocolError) as error:
        return TransferOutcome(False, f"{url}: {error}")
    except OSError as error:
        return TransferOutcome(
            False, f"{path.name} cannot be read: {error.strerror or error}", permanent=True, code=-161
        )


async def _post(
    exchange: TransferContext,
    url: str,
    body: bytes | AsyncIterator[bytes],
    headers: dict[str, str] | None = None,
) -> UploadReply:
    response = await exchange.connections.http.post(
        url, content=body, headers={"Content-Type": "application/x-www-form-urlencoded", **(headers or {})}
    )
    if response.status_code != 200:
        raise RemoteProtocolError(f"answered with HTTP status {response.status_code}")
    return parse_upload_reply(response.content)


def _refusal(reply: UploadReply, url: str) -> TransferOutcome | None:
    if reply.status == UploadStatus.OK:
        return None
    permanent = reply.status == UploadStatus.PERMANENT_ERROR
    words = reply.message or ("the server refuses it" if permanent else "the server is busy")
    return TransferOutcome(False, f"{words} ({url})", permanent=permanent, code=-127)


async def _body(
    exchange: TransferContext, header: bytes, path: Path, offset: int, size: int, progress: TransferProgress
) -> AsyncGenerator[bytes, None]:
    yield header
    pace = _Pace(exchange)
    handle = await asyncio.to_thread(path.open, "rb")
    try:
        handle.seek(offset)
        left = size - offset
        while left > 0:
            piece = await asyncio.to_thread(handle.read, min(PIECE, left))
            if not piece:
                raise OSError(f"{path.name} became shorter while it was sent")
            left -= len(piece)
            await exchange.up(len(piece))
            yield piece
            progress.bytes += len(piece)
            progress.moved += len(piece)
            pace.moved(len(piece))
    finally:
        await asyncio.to_thread(handle.close)
