"""Reading a small document from an address that may be hostile: bounded in size and time, without redirects."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from cobblestone import __version__
from cobblestone.domain.errors import CobblestoneError, ConfigError
from cobblestone.wire.scales import MAX_BYTES

TIMEOUT_SECONDS = 30.0
"""For the whole exchange: a server that sends a byte a minute does not hold us up."""
_HEADERS = {"User-Agent": f"cobblestone/{__version__} scales", "Accept-Encoding": "identity"}


class FetchFailed(CobblestoneError):
    """A document could not be read from its address."""


def new_client(timeout_seconds: float = TIMEOUT_SECONDS) -> httpx.AsyncClient:
    """Return a client for `fetch`."""
    return httpx.AsyncClient(
        headers=_HEADERS,
        timeout=timeout_seconds,
        follow_redirects=False,
        limits=httpx.Limits(max_connections=32, max_keepalive_connections=0),
    )


def checked_url(text: str) -> str:
    """Return an address of http or https; that of a project (ending in a slash) becomes that of its export.

    Raises ConfigError for anything else.
    """
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        usable = False
    if not usable or any(character.isspace() for character in text):
        raise ConfigError(f"{text[:200]!r} is not an address; give one such as https://example.org/project/")
    return text + "scales.json" if text.endswith("/") else text


async def fetch(
    client: httpx.AsyncClient,
    url: str,
    *,
    max_bytes: int = MAX_BYTES,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> bytes:
    """Return the body at an address.  Raises FetchFailed: unreachable, too slow, too large, or not answered with 200."""
    try:
        async with asyncio.timeout(timeout_seconds), client.stream("GET", url) as answer:
            if answer.is_redirect:
                target = answer.headers.get("location", "")[:200]
                raise FetchFailed(f"{url} has moved to {target!r}; write that address into the list")
            if answer.status_code != 200:
                raise FetchFailed(f"{url} answered with status {answer.status_code}")
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise FetchFailed(f"{url} answered with a compressed body that nobody asked for")
            body = bytearray()
            async for piece in answer.aiter_raw():
                body += piece
                if len(body) > max_bytes:
                    raise FetchFailed(f"{url} sends more than {max_bytes} bytes")
            return bytes(body)
    except TimeoutError as error:
        raise FetchFailed(f"{url} did not answer within {timeout_seconds:g} s") from error
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        raise FetchFailed(f"{url} cannot be read: {error or type(error).__name__}") from error


async def _fetch_once(url: str, timeout_seconds: float) -> bytes:
    async with new_client(timeout_seconds) as client:
        return await fetch(client, url, timeout_seconds=timeout_seconds)


def read_document(place: str, *, timeout_seconds: float = TIMEOUT_SECONDS) -> bytes:
    """Return the document at an address or in a file.  Raises FetchFailed, ConfigError."""
    if "://" in place:
        return asyncio.run(_fetch_once(checked_url(place), timeout_seconds))
    try:
        with Path(place).open("rb") as handle:
            return handle.read(MAX_BYTES + 1)
    except OSError as error:
        raise FetchFailed(f"{place} cannot be read: {error.strerror}") from error
