"""Fetching a file from an address that may be hostile: only when it is new, from where it broke off, bounded in size and time."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import httpx

from cobblestone import __version__
from cobblestone.domain.errors import CobblestoneError
from cobblestone.ops.durable_files import write_durably
from cobblestone.statistics.settings import CollectSection
from cobblestone.statistics.state import FetchedFile

_HEADERS = {"User-Agent": f"cobblestone/{__version__} statistics", "Accept-Encoding": "identity"}
_MAX_HEADER = 200


class FetchFailed(CobblestoneError):
    """A file could not be fetched."""


class Missing(FetchFailed):
    """There is no such file at the project."""


def new_client(settings: CollectSection) -> httpx.AsyncClient:
    """Return a client for `fetch`."""
    return httpx.AsyncClient(headers=_HEADERS, timeout=settings.timeout_seconds, follow_redirects=False)


async def fetch(
    client: httpx.AsyncClient, url: str, target: Path, known: FetchedFile | None, settings: CollectSection
) -> FetchedFile | None:
    """Bring a file to ``target``, if it is another one than ``known``; None: it is the same.

    What came of it before a connection broke is kept beside, and continued if the server still has the same file.

    Raises:
        FetchFailed: unreachable, too slow, too large, moved, or not answered with the file.
        Missing: there is none.
    """
    part, tag = target.with_name(target.name + ".part"), target.with_name(target.name + ".part-of")
    headers, begun = _wishes(target, part, tag, known)
    try:
        async with (
            asyncio.timeout(settings.max_seconds_per_file),
            client.stream("GET", url, headers=headers) as answer,
        ):
            if answer.status_code == 304:
                return None
            resumed = _check(answer, url, begun)
            came = FetchedFile(
                etag=answer.headers.get("etag", "")[:_MAX_HEADER],
                last_modified=answer.headers.get("last-modified", "")[:_MAX_HEADER],
            )
            _note(tag, came)
            await _receive(answer, url, part, resumed=resumed, settings=settings)
    except TimeoutError as error:
        raise FetchFailed(f"{url} took longer than {settings.max_seconds_per_file:g} s") from error
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, OSError) as error:
        raise FetchFailed(f"{url} cannot be read: {error or type(error).__name__}") from error
    part.replace(target)
    tag.unlink(missing_ok=True)
    return came


def _wishes(target: Path, part: Path, tag: Path, known: FetchedFile | None) -> tuple[dict[str, str], int]:
    """Return what to ask for: another file than is known, or the rest of one; and how many bytes of that are here."""
    if known is not None and target.exists():
        wishes = {"If-None-Match": known.etag, "If-Modified-Since": known.last_modified}
        return {name: value for name, value in wishes.items() if value}, 0
    if part.exists() and tag.exists() and (begun := part.stat().st_size):
        return {"Range": f"bytes={begun}-", "If-Range": tag.read_text()}, begun
    return {}, 0


def _check(answer: httpx.Response, url: str, begun: int) -> bool:
    """Return whether the answer goes on where the last one broke off.  Raises FetchFailed."""
    if answer.status_code in (404, 410):
        raise Missing(f"{url} does not exist")
    if answer.is_redirect:
        raise FetchFailed(
            f"{url} has moved to {answer.headers.get('location', '')[:_MAX_HEADER]!r}; write that address into the list"
        )
    if answer.status_code not in (200, 206):
        raise FetchFailed(f"{url} answered with status {answer.status_code}")
    if answer.headers.get("content-encoding", "identity") not in ("identity", "gzip", "x-gzip"):
        raise FetchFailed(f"{url} answered with a packed body that nobody asked for")
    resumed = answer.status_code == 206
    if resumed and not answer.headers.get("content-range", "").startswith(f"bytes {begun}-"):
        raise FetchFailed(f"{url} answered with another part of the file than was asked for")
    return resumed


def _note(tag: Path, came: FetchedFile) -> None:
    """Note which file a part is of; without a name that is sure it is not continued."""
    strong = came.etag if came.etag and not came.etag.startswith("W/") else ""
    if name := strong or came.last_modified:
        write_durably(tag, name.encode())
    else:
        tag.unlink(missing_ok=True)


async def _receive(
    answer: httpx.Response, url: str, part: Path, *, resumed: bool, settings: CollectSection
) -> None:
    with part.open("ab" if resumed else "wb") as file:
        began, before = time.monotonic(), file.tell()
        size = before
        async for piece in answer.aiter_raw():
            size += len(piece)
            seconds = time.monotonic() - began
            if (
                seconds > settings.timeout_seconds
                and size - before < settings.least_bytes_per_second * seconds
            ):
                raise FetchFailed(
                    f"{url} comes slower than {settings.least_bytes_per_second} bytes a second: others wait for it"
                )
            if size > settings.max_file_bytes:
                file.truncate(0)
                raise FetchFailed(f"{url} sends more than {settings.max_file_bytes} bytes")
            file.write(piece)
