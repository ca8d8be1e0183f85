"""Requests of an account manager to projects: their description, accounts for people, and granted credit."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec

from cobblestone import __version__
from cobblestone.account_manager.model import ManagerAccount
from cobblestone.api_schema import account_manager as schema
from cobblestone.api_schema import endpoints
from cobblestone.api_schema.endpoints import Endpoint
from cobblestone.api_schema.values import PREFIX, Body, Reply
from cobblestone.domain.errors import CobblestoneError, ConfigError, words_of
from cobblestone.domain.exports import MAX_BATCH
from cobblestone.ops.aside import read_aside
from cobblestone.policy.account_manager.selection import OfferedVersion
from cobblestone.wire.project import pages as wire
from cobblestone.wire.project.account import passwd_hash
from cobblestone.wire.project.signatures import HEADER, SignedExchange, reply_is_signed

TIMEOUT_SECONDS = 30.0
MAX_REDIRECTS = 3
MAX_VERSIONS = 500
#: Projects that one daemon is in contact with at a time.
AT_ONCE = 8


class ProjectUnreachable(CobblestoneError):
    """A project does not answer, or not as a project should."""


class NoSuchPage(ProjectUnreachable):
    """A project answers that it does not have this page."""


def new_client() -> httpx.AsyncClient:
    """Return the HTTP client for projects."""
    return httpx.AsyncClient(
        headers={"User-Agent": f"cobblestone/{__version__} account manager"},
        timeout=TIMEOUT_SECONDS,
        limits=httpx.Limits(max_keepalive_connections=0),  # who asks bounds how many
    )


async def fetch(client: httpx.AsyncClient, url: str) -> bytes:
    """Return the body at an address.  Raises ProjectUnreachable if it is late, too large, or has another status than 200."""
    async with reaching(), contextlib.aclosing(await _get(client, url)) as answer:
        if answer.status_code in (404, 410):
            raise NoSuchPage(f"It answers with HTTP status {answer.status_code}.")
        if answer.status_code != 200:
            raise ProjectUnreachable(f"It answers with HTTP status {answer.status_code}.")
        return await _body(answer, wire.MAX_PAGE)


@contextlib.asynccontextmanager
async def reaching(seconds: float = TIMEOUT_SECONDS) -> AsyncGenerator[None]:
    """Limit the time of an exchange with a project, and say as ProjectUnreachable what goes wrong on the way."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise ProjectUnreachable(f"It does not answer within {seconds:g} s.") from None
    except (httpx.HTTPError, httpx.InvalidURL, ExceptionGroup) as error:  # the last: of an impossible port
        raise ProjectUnreachable(f"It cannot be reached: {words_of(error)}.") from error


async def _body(answer: httpx.Response, most: int) -> bytes:
    body = bytearray()
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > most:
            raise ProjectUnreachable(f"It answers with more than {most} bytes.")
    return bytes(body)


async def _get(client: httpx.AsyncClient, url: str) -> httpx.Response:
    """Follow redirects, but not from https to http: the address may hold a key."""
    request = client.build_request("GET", url)
    for _ in range(MAX_REDIRECTS + 1):
        answer = await client.send(request, stream=True)
        if (moved := answer.next_request) is None:
            return answer
        await answer.aclose()
        if request.url.scheme == "https" and moved.url.scheme != "https":
            raise ProjectUnreachable("It redirects from https to http, where keys could be read on the way.")
        request = moved
    raise ProjectUnreachable(f"It redirects more than {MAX_REDIRECTS} times.")


async def fetch_config(client: httpx.AsyncClient, url: str) -> wire.ProjectConfig:
    """Return a project's description of itself.  Raises ProjectUnreachable or RemoteProtocolError."""
    return await read_aside(wire.parse_project_config, await fetch(client, wire.project_config_url(url)))


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of an account at a project."""

    strong: str  #: used at once and not kept
    weak: str


async def open_account(
    client: httpx.AsyncClient, url: str, account: ManagerAccount, *, make: bool = True
) -> Keys:
    """Create an account at a project, or find the existing one; return its keys.

    The password is derived from a secret of the account, so that nothing else knows the person's own.
    ``make`` False: only one that is there.

    Raises:
        WebRpcRefused: the project says no.
        ProjectUnreachable, RemoteProtocolError: it does not answer as a project.
    """
    email, hashed = account.email_addr, passwd_hash(account.project_secret, account.email_addr)
    if make:
        team = account.choices.team_name
        wish = wire.create_account_url(url, email, hashed, account.name, team, consent=False)
    else:
        wish = wire.lookup_account_hash_url(url, email, hashed)
    key = await read_aside(wire.parse_account_out, await fetch(client, wish))
    weak = await read_aside(wire.parse_weak_key, await fetch(client, wire.account_info_url(url, key)))
    return Keys(strong=key, weak=weak)


async def tell_of_account(client: httpx.AsyncClient, url: str, key: str, account: ManagerAccount) -> str:
    """Tell a project who owns an account, and the consent to statistics; return what it did not accept.

    Raises:
        WebRpcRefused, NoSuchPage: it takes nothing: nothing in the family's protocol says this.
        ProjectUnreachable, RemoteProtocolError: it does not answer as a project.
    """
    said = {"cross_project_id": account.cross_project_id}
    if account.choices.statistics is not None:
        said["statistics"] = str(int(account.choices.statistics))
    await read_aside(wire.parse_account_set, await fetch(client, wire.set_account_url(url, key, said)))
    if account.choices.team_name:
        team = {"team_name": account.choices.team_name}
        try:
            await read_aside(
                wire.parse_account_set, await fetch(client, wire.set_account_url(url, key, team))
            )
        except wire.WebRpcRefused as error:
            return f"Your team: {error}."
    return ""


def versions_of(config: wire.ProjectConfig) -> frozenset[OfferedVersion]:
    """Return what a project can run, from its platforms and plan classes."""
    return frozenset(
        OfferedVersion(
            platform=entry.platform_name,
            device=device_of_plan_class(entry.plan_class),
            virtualbox="vbox" in entry.plan_class.lower(),
        )
        for entry in config.platforms[:MAX_VERSIONS]
    )


def device_of_plan_class(name: str) -> str:
    """Return the device of a plan class, from words in BOINC's names of plan classes."""
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


#: A full answer has about 60 kB.
MAX_ANSWER = 1_000_000
_ON_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")

R = TypeVar("R", bound=Reply)
T = TypeVar("T")


def check_address(url: str) -> None:
    """Raise ConfigError if a token would be sent unencrypted, or the address is invalid."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ConfigError(f"{url} is not a valid address: {error}.") from error
    if parts.scheme != "https" and parts.hostname not in _ON_THIS_MACHINE:
        raise ConfigError(f"{url}: a token is only sent over https. Give the project an https address.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCredit:
    """Requests to one project.  Each raises ProjectUnreachable if there is no answer, or an invalid or unsigned one."""

    client: httpx.AsyncClient
    url: str
    token: str
    clock: Callable[[], float]

    async def enrol(self, keys: Sequence[str]) -> list[str]:
        """Send weak keys; return the names of their accounts, empty where there is none."""
        body = schema.EnrolledKeys(keys=list(keys))
        found = await self._ask(endpoints.ENROL_ACCOUNTS, body)
        return self._as_many(found.accounts, len(keys))

    async def jobs(self, jobs: Sequence[tuple[str, str]]) -> list[schema.JobGrant]:
        """Ask about jobs, given as (account, name)."""
        asked = [schema.JobQuestion(account=account, name=name) for account, name in jobs]
        found = await self._ask(endpoints.GET_JOB_GRANTS, schema.JobQuestions(jobs=asked))
        return self._as_many(found.jobs, len(asked))

    async def totals(self, accounts: Sequence[str]) -> list[float | None]:
        """Ask for the totals of accounts."""
        asked = [schema.TotalQuestion(account=account) for account in accounts]
        found = await self._ask(endpoints.GET_TOTALS, schema.TotalQuestions(totals=asked))
        return self._as_many(found.totals, len(asked))

    async def sums(self, day: int, after: str) -> schema.DaySums:
        """Ask for a page of the sums of a day."""
        found = await self._ask(endpoints.GET_DAY_SUMS, query=f"?day={day}&after={after}")
        if found.day != day or len(found.accounts) > MAX_BATCH or (found.next and found.next <= after):
            raise ProjectUnreachable("Its answer is for another question about credit.")
        return found

    def _as_many(self, found: list[T], n: int) -> list[T]:
        if len(found) != n:
            raise ProjectUnreachable(f"It was asked about {n} items and answered about {len(found)}.")
        return found

    async def _ask(self, endpoint: Endpoint[R], body: Body | None = None, *, query: str = "") -> R:
        method, target = endpoint.method, endpoint.path + query
        question = b"" if body is None else msgspec.json.encode(body)
        address = f"{self.url.rstrip('/')}{PREFIX}{target}"
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        async with (
            reaching(),
            self.client.stream(method, address, content=question, headers=headers) as answer,
        ):
            content = await _body(answer, MAX_ANSWER)
        if answer.next_request is not None:
            raise ProjectUnreachable(
                f"It has moved to {answer.next_request.url!s:.200}; a token is not sent there by itself."
            )
        if answer.status_code != 200:
            raise ProjectUnreachable(f"Asked about credit, it answers with HTTP status {answer.status_code}.")
        exchange = SignedExchange(method=method, target=target, question=question, answer=content)
        if not reply_is_signed(self.token, exchange, answer.headers.get(HEADER, ""), now=self.clock()):
            raise ProjectUnreachable("Its answer about credit is not signed with the token.")
        try:
            return msgspec.json.decode(content, type=endpoint.reply)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise ProjectUnreachable(f"Its answer about credit cannot be read: {error}.") from error
