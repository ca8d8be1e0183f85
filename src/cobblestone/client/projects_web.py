"""What is asked of projects over HTTP outside of file transfers: front page, configuration, accounts, scheduler."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from cobblestone.domain.errors import CobblestoneError, RemoteProtocolError
from cobblestone.wire.project_pages import ProjectConfig
from cobblestone.wire.reply_reader import ReadReply, parse_scheduler_reply
from cobblestone.wire.tag_tree import MAX_BYTES
from cobblestone.wire.web_rpc_client import (
    canonical_master_url,
    parse_account_out,
    parse_project_config,
    project_config_url,
    scheduler_urls,
)

if TYPE_CHECKING:
    import httpx

PAGE_BYTES = 4 * 1024 * 1024


class Unreachable(CobblestoneError):
    """A project could not be reached, or its answer could not be read."""


async def read_bounded(http: httpx.AsyncClient, request: httpx.Request, limit: int) -> bytes:
    """Return the body of an answer with status 200.  Raises Unreachable."""
    import httpx

    try:
        response = await http.send(request, stream=True)
        try:
            if response.status_code != 200:
                raise Unreachable(f"{request.url} was answered with HTTP status {response.status_code}")
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > limit:
                    raise Unreachable(f"{request.url} answered with more than {limit} bytes")
            return bytes(body)
        finally:
            await response.aclose()
    except httpx.HTTPError as error:
        raise Unreachable(f"{request.url} cannot be reached: {str(error) or type(error).__name__}") from error
    except httpx.InvalidURL as error:
        raise Unreachable(f"{request.url} is no address: {error}") from error


async def fetch(http: httpx.AsyncClient, url: str, limit: int = PAGE_BYTES) -> bytes:
    """GET a page.  Raises Unreachable."""
    import httpx

    try:
        request = http.build_request("GET", url)
    except (httpx.InvalidURL, ValueError) as error:
        raise Unreachable(f"{url[:100]} is no address: {error}") from error
    return await read_bounded(http, request, limit)


async def fetch_config(http: httpx.AsyncClient, url: str) -> ProjectConfig:
    """Return what a project says of itself; its master URL is checked.  Raises Unreachable or RemoteProtocolError."""
    base = canonical_master_url(url)
    config = parse_project_config(await fetch(http, project_config_url(base)))
    if config.master_url:
        canonical_master_url(config.master_url)
    return config


async def fetch_schedulers(http: httpx.AsyncClient, master_url: str) -> tuple[str, ...]:
    """Addresses of a project's schedulers, from its front page.

    Raises:
        Unreachable: the page cannot be had, or names no scheduler.
    """
    urls = scheduler_urls(await fetch(http, master_url))
    if not urls:
        raise Unreachable(
            f"{master_url} is a page, but not of a project: it does not say where the scheduler is. Is the address right?"
        )
    return urls


async def account_request(http: httpx.AsyncClient, url: str) -> str:
    """Look up or create an account; its key.  Raises Unreachable or RemoteProtocolError."""
    return parse_account_out(await fetch(http, url))


async def contact_scheduler(
    http: httpx.AsyncClient, urls: tuple[str, ...], body: bytes, rng: random.Random
) -> tuple[ReadReply, bytes]:
    """Send a request to one of the schedulers, the next after a failure; the reply read, and as it came.

    Raises:
        Unreachable: none of them gave an answer that can be read.
    """
    last: CobblestoneError = Unreachable("the project names no scheduler")
    for url in rng.sample(urls, len(urls)):
        request = http.build_request(
            "POST", url, content=body, headers={"Content-Type": "application/x-www-form-urlencoded"}
        )
        try:
            answer = await read_bounded(http, request, MAX_BYTES)
            return parse_scheduler_reply(answer), answer
        except (Unreachable, RemoteProtocolError) as error:
            last = error
    raise Unreachable(str(last)) from last
