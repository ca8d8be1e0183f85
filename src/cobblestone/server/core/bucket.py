"""Files of a project in an S3 bucket.

Storage is another company's machine: it hangs, answers with errors, sends half an object.  Every request has a time limit and two
further attempts; what comes is compared with size and MD5 before it gets its place; and requests run in threads of their own, so
that a storage that hangs holds up nothing but files.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from cobblestone.domain.errors import ConfigError, StoreError, words_of
from cobblestone.ops.settings import StorageSection
from cobblestone.store.catalog.file_storage import FileStorage

if TYPE_CHECKING:
    from obstore import ListStream, ObjectMeta
    from obstore.store import BackoffConfig, S3Config

T = TypeVar("T")

THREADS = 8
#: Bytes that are fetched with one request; the time limit holds for each.
PIECE = 8_000_000
CONNECT_SECONDS = 5
RETRIES = 2
_BACKOFF: BackoffConfig = {
    "init_backoff": timedelta(milliseconds=100),
    "max_backoff": timedelta(seconds=2),
    "base": 2,
}
#: A file that was not fetched for so long leaves the cache.
CACHE_SECONDS = 86400.0
TRIM_SECONDS = 3600.0
_CACHED = ("download", "upload")
_SHOWN = 300


class StorageBucket(FileStorage):
    """Files in a bucket; the project's folder is a cache."""

    in_bucket = True

    def __init__(self, root: Path, settings: StorageSection) -> None:
        """Prepare the bucket without any request.

        Raises:
            ConfigError: the settings are no bucket's.
        """
        self._root = root
        self._link_time = timedelta(seconds=settings.link_seconds)
        self._threads = ThreadPoolExecutor(THREADS, "storage")
        self._trimmed = time.monotonic()
        self._trimming = threading.Lock()
        limit = timedelta(seconds=settings.timeout)
        try:
            self._store = S3Store(
                settings.bucket,
                prefix=settings.prefix or None,
                config=_config(settings),
                client_options={
                    "timeout": limit,
                    "connect_timeout": min(limit, timedelta(seconds=CONNECT_SECONDS)),
                    "allow_http": settings.endpoint.startswith("http://"),
                },
                retry_config={"max_retries": RETRIES, "retry_timeout": limit, "backoff": _BACKOFF},
            )
        except (BaseError, ValueError) as error:
            raise ConfigError(f"[storage] is not a usable bucket: {_essence(error)}.") from error

    async def keep(self, place: Path, source: Path) -> None:
        """See `FileStorage.keep`."""
        await self._run(partial(self.keep_now, place, source))

    def listed(self, folder: Path) -> Mapping[str, int]:
        """See `FileStorage.listed`."""
        with self._told(f"list {folder.name}"):
            # What it gives in another form, which is not asked for, has no types.
            pieces: ListStream[Sequence[ObjectMeta]] = obstore.list(  # pyright: ignore[reportUnknownMemberType]
                self._store, f"{self._key(folder)}/", return_arrow=False
            )
            return {each["path"].rpartition("/")[2]: each["size"] for some in pieces for each in some}

    async def bring(self, place: Path, *, nbytes: int, md5: str) -> None:
        """See `FileStorage.bring`."""
        await self._run(partial(self.bring_now, place, nbytes=nbytes, md5=md5))

    def bring_now(self, place: Path, *, nbytes: int, md5: str) -> None:
        """See `FileStorage.bring_now`."""
        self._trim_now_and_then()
        with contextlib.suppress(FileNotFoundError):
            if place.stat().st_size == nbytes:
                place.touch()  # it is in use
                return
        place.parent.mkdir(parents=True, exist_ok=True)
        working = place.with_name(f".{secrets.token_hex(8)}")
        try:
            with contextlib.suppress(FileNotFoundError):
                self._fetch(place, working, nbytes=nbytes, md5=md5)
                working.replace(place)
        finally:
            working.unlink(missing_ok=True)

    def remove(self, places: Iterable[Path]) -> None:
        """See `FileStorage.remove`."""
        keys = [self._key(place) for place in places]
        if keys:
            with self._told("delete files"), contextlib.suppress(FileNotFoundError):
                obstore.delete(self._store, keys)

    def size(self, place: Path) -> int | None:
        """See `FileStorage.size`."""
        with self._told(f"look for {place.name}"):
            try:
                return obstore.head(self._store, self._key(place))["size"]
            except FileNotFoundError:
                return None

    def link(self, place: Path) -> str:
        """See `FileStorage.link`."""
        with self._told(f"sign an address for {place.name}"):
            return obstore.sign(self._store, "GET", self._key(place), self._link_time)

    def keep_now(self, place: Path, source: Path) -> None:
        """See `FileStorage.keep_now`."""
        with self._told(f"keep {place.name}"):
            obstore.put(self._store, self._key(place), source)

    def _fetch(self, place: Path, target: Path, *, nbytes: int, md5: str) -> None:
        """Download a file's content piece by piece.

        Raises:
            FileNotFoundError: it is not in the bucket.
            StoreError: it is not what was kept, or did not come.
        """
        found = hashlib.md5(usedforsecurity=False)
        n = 0
        with target.open("xb") as handle:
            while n < nbytes:
                with self._told(f"fetch {place.name}"):
                    piece = obstore.get_range(
                        self._store, self._key(place), start=n, length=min(PIECE, nbytes - n)
                    )
                if not piece:
                    break
                n += handle.write(piece)
                found.update(piece)
        if n != nbytes or found.hexdigest() != md5:
            raise StoreError(
                f"The file storage has not sent {place.name} as it was stored: {n} bytes of {nbytes}, or other ones."
            )

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _key(self, place: Path) -> str:
        return place.relative_to(self._root).as_posix()

    @contextmanager
    def _told(self, what: str) -> Generator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except (BaseError, OSError, ValueError) as error:
            raise StoreError(f"The file storage did not {what}: {_essence(error)}.") from error

    def _trim_now_and_then(self) -> None:
        """Remove files not used for long from this machine's folder, at intervals."""
        if time.monotonic() - self._trimmed < TRIM_SECONDS or not self._trimming.acquire(blocking=False):
            return
        try:
            self._trimmed = time.monotonic()
            trim_cache(self._root, before=time.time() - CACHE_SECONDS)
        finally:
            self._trimming.release()


def _config(settings: StorageSection) -> S3Config:
    config: S3Config = {"region": settings.region}
    if settings.endpoint:
        config["endpoint"] = settings.endpoint
    else:
        config["virtual_hosted_style_request"] = True
    if settings.access_key:
        config["access_key_id"] = settings.access_key
        config["secret_access_key"] = settings.secret_key
    return config


def trim_cache(root: Path, *, before: float) -> None:
    """Remove files not used since ``before`` (Unix seconds) from the hierarchies below a project's folder."""
    for hierarchy in _CACHED:
        for path in (root / hierarchy).glob("*/*"):
            with contextlib.suppress(OSError):
                if path.parent.name != "partial" and path.is_file() and path.stat().st_mtime < before:
                    path.unlink()


def _essence(error: BaseException) -> str:
    """Return the start of a library's long message."""
    return " ".join(words_of(error).split())[:_SHOWN].rstrip(".")
