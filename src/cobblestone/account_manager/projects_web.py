"""What an account manager asks of projects: what they are, and accounts for people."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import httpx

from cobblestone import __version__
from cobblestone.account_manager.model import ManagerAccount
from cobblestone.domain.errors import CobblestoneError
from cobblestone.policy.account_manager.selection import Version
from cobblestone.wire.identity import passwd_hash
from cobblestone.wire.project_pages import ProjectConfig
from cobblestone.wire.web_rpc_client import (
    MAX_PAGE,
    WebRpcRefused,
    account_info_url,
    create_account_url,
    lookup_account_hash_url,
    parse_account_out,
    parse_account_set,
    parse_project_config,
    parse_weak_key,
    project_config_url,
    set_account_url,
)

TIMEOUT_SECONDS = 30.0
MAX_VERSIONS = 500


class ProjectUnreachable(CobblestoneError):
    """A project does not answer, or not as a project does."""


class NoSuchPage(ProjectUnreachable):
    """A project answers that it does not have this."""


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
            if answer.status_code in (404, 410):
                raise NoSuchPage(f"It answers with HTTP status {answer.status_code}.")
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


@dataclass(frozen=True, slots=True)
class Keys:
    """What opens an account at a project."""

    strong: str  #: used at once and not kept
    weak: str


async def open_account(
    client: httpx.AsyncClient, url: str, account: ManagerAccount, *, make: bool = True
) -> Keys:
    """Make an account at a project, or find the one that was made; returns its keys.

    The password is derived from a secret of the account, so that the person's own is known to nobody else.
    ``make`` False: only one that is there.

    Raises:
        WebRpcRefused: the project says no.
        ProjectUnreachable, RemoteProtocolError: it does not answer as a project.
    """
    email, hashed = account.email_addr, passwd_hash(account.project_secret, account.email_addr)
    if make:
        team = account.choices.team_name
        wish = create_account_url(url, email, hashed, account.name, team, consent=False)
    else:
        wish = lookup_account_hash_url(url, email, hashed)
    key = parse_account_out(await fetch(client, wish))
    return Keys(strong=key, weak=parse_weak_key(await fetch(client, account_info_url(url, key))))


async def tell_of_account(client: httpx.AsyncClient, url: str, key: str, account: ManagerAccount) -> str:
    """Tell a project who is behind an account, and what the person says to statistics; returns what it did not take.

    Raises:
        WebRpcRefused, NoSuchPage: it takes nothing: nothing in the family's protocol says this.
        ProjectUnreachable, RemoteProtocolError: it does not answer as a project.
    """
    said = {"cross_project_id": account.cross_project_id}
    if account.choices.statistics is not None:
        said["statistics"] = str(int(account.choices.statistics))
    parse_account_set(await fetch(client, set_account_url(url, key, said)))
    if account.choices.team_name:
        team = {"team_name": account.choices.team_name}
        try:
            parse_account_set(await fetch(client, set_account_url(url, key, team)))
        except WebRpcRefused as error:
            return f"Your team: {error}."
    return ""


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
