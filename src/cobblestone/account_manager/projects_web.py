"""What an account manager asks of projects: what they are, and accounts for people."""

from __future__ import annotations

import asyncio

import httpx

from cobblestone import __version__
from cobblestone.account_manager.model import ManagerAccount
from cobblestone.domain.errors import CobblestoneError
from cobblestone.policy.account_manager.selection import Version
from cobblestone.wire.identity import passwd_hash
from cobblestone.wire.project_pages import ProjectConfig
from cobblestone.wire.web_rpc_client import (
    MAX_PAGE,
    account_info_url,
    create_account_url,
    parse_account_out,
    parse_project_config,
    parse_weak_key,
    project_config_url,
)

TIMEOUT_SECONDS = 30.0
MAX_VERSIONS = 500


class ProjectUnreachable(CobblestoneError):
    """A project does not answer, or not as a project does."""


def new_client() -> httpx.AsyncClient:
    """Return the connections to projects."""
    return httpx.AsyncClient(
        headers={"User-Agent": f"cobblestone/{__version__} account manager"},
        timeout=TIMEOUT_SECONDS,
        follow_redirects=True,
        max_redirects=3,
        limits=httpx.Limits(max_connections=16, max_keepalive_connections=0),
    )


async def fetch(client: httpx.AsyncClient, url: str) -> bytes:
    """Return the body at an address.  Raises ProjectUnreachable: no answer in time, too large, or none with status 200."""
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS), client.stream("GET", url) as answer:
            if answer.status_code != 200:
                raise ProjectUnreachable(f"It answers with HTTP status {answer.status_code}.")
            body = bytearray()
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > MAX_PAGE:
                    raise ProjectUnreachable(f"It answers with more than {MAX_PAGE} bytes.")
            return bytes(body)
    except TimeoutError:
        raise ProjectUnreachable(f"It does not answer within {TIMEOUT_SECONDS:g} s.") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ProjectUnreachable(f"It cannot be reached: {str(error) or type(error).__name__}.") from error


async def fetch_config(client: httpx.AsyncClient, url: str) -> ProjectConfig:
    """Return what a project says of itself.  Raises ProjectUnreachable or RemoteProtocolError."""
    return parse_project_config(await fetch(client, project_config_url(url)))


async def make_account(client: httpx.AsyncClient, url: str, account: ManagerAccount) -> str:
    """Make an account at a project, or find the one that was made; returns its weak key.

    The password is derived from a secret of the account, so that the person's own is known to nobody else.

    Raises:
        WebRpcRefused: the project says no.
        ProjectUnreachable, RemoteProtocolError: it does not answer as a project.
    """
    hashed = passwd_hash(account.project_secret, account.email_addr)
    wish = create_account_url(url, account.email_addr, hashed, account.name, consent=False)
    key = parse_account_out(await fetch(client, wish))
    return parse_weak_key(await fetch(client, account_info_url(url, key)))


def versions_of(config: ProjectConfig) -> frozenset[Version]:
    """Return what a project can run, from the platforms and plan classes that it states."""
    return frozenset(
        Version(
            platform=entry.platform_name,
            device=device_of_plan_class(entry.plan_class),
            virtualbox="vbox" in entry.plan_class.lower(),
        )
        for entry in config.platforms[:MAX_VERSIONS]
    )


def device_of_plan_class(name: str) -> str:
    """Return the device that a plan class is for, by the words that the family's names of plan classes hold."""
    words = name.lower()
    for device, marks in (
        ("NVIDIA", ("cuda", "nvidia")),
        ("ATI", ("ati", "amd", "cal", "radeon")),
        ("intel_gpu", ("intel_gpu",)),
        ("apple_gpu", ("apple_gpu", "metal")),
    ):
        if any(mark in words for mark in marks):
            return device
    return "CPU"
