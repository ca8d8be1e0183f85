"""What an account manager asks projects about credit: signed, bounded, one question at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec

from cobblestone.account_manager.projects_web import TIMEOUT_SECONDS, ProjectUnreachable
from cobblestone.api_schema import accounting as schema
from cobblestone.api_schema.values import Body, Reply
from cobblestone.domain.accounting import MAX_BATCH
from cobblestone.domain.errors import ConfigError
from cobblestone.wire.reply_signature import HEADER, SignedExchange, reply_is_signed

MAX_ANSWER = 1_000_000
"""A full answer has about 60 kB."""
_ON_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")

R = TypeVar("R", bound=Reply)
T = TypeVar("T")


def check_address(url: str) -> None:
    """Raise ConfigError where a token would be readable on its way, or nowhere."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ConfigError(f"{url} is no address: {error}.") from error
    if parts.scheme != "https" and parts.hostname not in _ON_THIS_MACHINE:
        raise ConfigError(f"{url}: a token is only sent over https. Give the project an https address.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCredit:
    """The questions to one project.  Each raises ProjectUnreachable: no answer, a wrong one, or one that is not signed."""

    client: httpx.AsyncClient
    url: str
    token: str
    clock: Callable[[], float]

    async def enrol(self, keys: Sequence[str]) -> list[str]:
        """Show weak keys; returns the names of their accounts, empty where there is none."""
        body = schema.EnrolledKeys(keys=list(keys))
        found = await self._post("/accounting/accounts", body, schema.EnrolledAccounts)
        return self._as_many(found.accounts, len(keys))

    async def jobs(self, jobs: Sequence[tuple[str, str]]) -> list[schema.JobGrant]:
        """Ask about jobs, given as (account, name)."""
        asked = [schema.JobQuestion(account=account, name=name) for account, name in jobs]
        found = await self._post("/accounting/jobs", schema.JobQuestions(jobs=asked), schema.JobGrants)
        return self._as_many(found.jobs, len(asked))

    async def totals(self, accounts: Sequence[str]) -> list[float | None]:
        """Ask for the totals of accounts."""
        asked = [schema.TotalQuestion(account=account) for account in accounts]
        found = await self._post("/accounting/totals", schema.TotalQuestions(totals=asked), schema.Totals)
        return self._as_many(found.totals, len(asked))

    async def sums(self, day: int, after: str) -> schema.DaySums:
        """Ask for a page of the sums of a day."""
        found = await self._ask("GET", f"/accounting/sums?day={day}&after={after}", b"", schema.DaySums)
        if found.day != day or len(found.accounts) > MAX_BATCH or (found.next and found.next <= after):
            raise ProjectUnreachable("It answered another question about credit than the one that was asked.")
        return found

    def _as_many(self, found: list[T], n: int) -> list[T]:
        if len(found) != n:
            raise ProjectUnreachable(f"It was asked about {n} and answered about {len(found)}.")
        return found

    async def _post(self, target: str, body: Body, kind: type[R]) -> R:
        return await self._ask("POST", target, msgspec.json.encode(body), kind)

    async def _ask(self, method: str, target: str, body: bytes, kind: type[R]) -> R:
        address = f"{self.url.rstrip('/')}/api/v1{target}"
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            async with (
                asyncio.timeout(TIMEOUT_SECONDS),
                self.client.stream(
                    method, address, content=body, headers=headers, follow_redirects=False
                ) as answer,
            ):
                content = bytearray()
                async for piece in answer.aiter_bytes():
                    content += piece
                    if len(content) > MAX_ANSWER:
                        raise ProjectUnreachable(f"It answers with more than {MAX_ANSWER} bytes.")
        except TimeoutError:
            raise ProjectUnreachable(f"It does not answer within {TIMEOUT_SECONDS:g} s.") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ProjectUnreachable(
                f"It cannot be reached: {str(error) or type(error).__name__}."
            ) from error
        if answer.status_code != 200:
            raise ProjectUnreachable(f"Asked about credit, it answers with HTTP status {answer.status_code}.")
        exchange = SignedExchange(method=method, target=target, question=body, answer=bytes(content))
        if not reply_is_signed(self.token, exchange, answer.headers.get(HEADER, ""), now=self.clock()):
            raise ProjectUnreachable("Its answer about credit is not signed with the token.")
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise ProjectUnreachable(f"Its answer about credit cannot be read: {error}.") from error
