"""Account and configuration RPCs of clients and account managers."""

from __future__ import annotations

import asyncio
import secrets
from functools import cache, partial

import argon2
from starlette.requests import Request
from starlette.responses import Response

from cobblestone import __version__
from cobblestone.domain.apps import ANY_PLATFORM
from cobblestone.domain.errors import Conflict
from cobblestone.domain.people import User
from cobblestone.server.context import ServerContext
from cobblestone.server.rate_limits import client_address, limit_key, minutes
from cobblestone.store import apps, people
from cobblestone.store.database import Database
from cobblestone.wire.account import (
    AccountCreation,
    AccountInfo,
    WebRpcError,
    WebRpcFailure,
    parse_am_get_info,
    parse_create_account,
    parse_lookup_account,
    write_account_exists,
    write_account_out,
    write_am_get_info_reply,
    write_web_rpc_error,
)
from cobblestone.wire.identity import external_cpid, weak_authenticator
from cobblestone.wire.project_pages import PlatformEntry, ProjectConfig, write_project_config

COMMON_PLATFORMS = (
    "x86_64-pc-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "windows_x86_64",
    "x86_64-apple-darwin",
    "arm64-apple-darwin",
)
"""Where versions for any platform are offered: they need a Python interpreter, which these usually have."""


MAX_HASHING = 2
"""Passwords hashed at a time: each takes 64 MiB of memory and a CPU for a while."""


def refuse_after(wait: float) -> None:
    """Raise WebRpcFailure when one has to wait (seconds)."""
    if wait > 0:
        raise TooManyAttempts(minutes(wait))


@cache
def _nobodys_hash() -> str:
    return argon2.PasswordHasher().hash(secrets.token_hex(16))


class TooManyAttempts(WebRpcFailure):
    """Somebody tried too often."""

    def __init__(self, wait_minutes: int) -> None:
        super().__init__(
            WebRpcError.GENERIC, f"There were too many attempts. Try again in {wait_minutes} minutes."
        )
        self.wait_minutes = wait_minutes


class Accounts:
    """Creates and looks up accounts; used by the RPCs, the pages and the API."""

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx
        self._hasher = argon2.PasswordHasher()
        self._hashing = asyncio.Semaphore(MAX_HASHING)

    async def create(self, wish: AccountCreation, *, address: str = "", by_operator: bool = False) -> User:
        """Create an account, or return the existing one if the password is right.

        ``address``: where the wish comes from, for the rate limit.  An operator may create accounts while the project is closed.

        Raises:
            WebRpcFailure: the project does not want it, the address is taken, or there were too many wishes.
        """
        if not by_operator:
            self._check_wanted(wish, address)
        if await self._exists(wish.email_addr):
            try:
                return await self.look_up(wish.email_addr, wish.passwd_hash, address=address)
            except WebRpcFailure as failure:
                if failure.error is not WebRpcError.BAD_PASSWD:
                    raise
                raise WebRpcFailure(WebRpcError.NOT_UNIQUE) from None
        new = people.NewUser(
            name=wish.user_name,
            email_addr=wish.email_addr,
            # The family's MD5 is what clients send; only its slow salted hash is kept.
            passwd_hash=await self.hash(wish.passwd_hash),
            authenticator=secrets.token_hex(16),
            cross_project_id=secrets.token_hex(16),
            team_name=wish.team_name,
        )
        weak = partial(weak_authenticator, authenticator=new.authenticator, secret=secrets.token_hex(16))
        try:
            return await self._ctx.store.awrite(
                lambda tx: people.create_user(tx, new, weak_authenticator_of=weak, now=self._ctx.clock())
            )
        except Conflict:
            raise WebRpcFailure(WebRpcError.NOT_UNIQUE) from None

    def _check_wanted(self, wish: AccountCreation, address: str) -> None:
        settings, creations, now = self._ctx.settings.accounts, self._ctx.limits.creations, self._ctx.clock()
        if settings.creation == "closed":
            raise WebRpcFailure(WebRpcError.ACCOUNT_CREATION_DISABLED)
        key = limit_key(address)
        refuse_after(self._ctx.limits.failures_by_address.wait(key, now=now))
        if settings.creation == "invitation" and not secrets.compare_digest(
            wish.invite_code.encode(), settings.invitation_code.encode()
        ):
            self._ctx.limits.failures_by_address.take(key, now=now)
            raise WebRpcFailure(WebRpcError.GENERIC, "The invitation code is missing or wrong.")
        refuse_after(creations.wait(key, now=now))
        creations.take(key, now=now)

    async def look_up(self, email_addr: str, passwd_hash: str, *, address: str = "") -> User:
        """The account of an address and the family's hash of its password.

        Raises:
            WebRpcFailure: there is none, the password is wrong, or there were too many wrong ones.
        """
        limits, key, now = self._ctx.limits, limit_key(address), self._ctx.clock()
        refuse_after(limits.failures_wait(key, email_addr, now=now))
        found = await self._ctx.store.aread(lambda db: people.user_by_email(db, email_addr))
        # An unknown address costs as much time as a wrong password, so that the time tells nothing.
        stored = found[1] if found else _nobodys_hash()
        right = await self.verify(stored, passwd_hash)
        if found is None or not right:
            limits.failed(key, email_addr, now=now)
            raise WebRpcFailure(WebRpcError.NOT_FOUND if found is None else WebRpcError.BAD_PASSWD)
        return found[0]

    async def hash(self, passwd_hash: str) -> str:
        """The slow salted hash that is stored."""
        async with self._hashing:
            return await asyncio.to_thread(self._hasher.hash, passwd_hash)

    async def verify(self, stored: str, passwd_hash: str) -> bool:
        """Whether a stored hash belongs to the family's hash of a password."""
        async with self._hashing:
            return await asyncio.to_thread(self._verify, stored, passwd_hash)

    async def _exists(self, email_addr: str) -> bool:
        return await self._ctx.store.aread(lambda db: people.user_by_email(db, email_addr)) is not None

    def _verify(self, stored: str, passwd_hash: str) -> bool:
        try:
            return self._hasher.verify(stored, passwd_hash)
        except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
            return False


class AccountRpc:
    """The HTTP side."""

    def __init__(self, ctx: ServerContext, accounts: Accounts) -> None:
        self._ctx = ctx
        self._accounts = accounts

    def _address(self, request: Request) -> str:
        return client_address(request.scope)

    async def get_project_config(self, request: Request) -> Response:
        """``get_project_config.php``: what a client must know before it attaches."""
        settings = self._ctx.settings
        platforms = await self._ctx.store.aread(_platforms)
        return _xml(
            write_project_config(
                ProjectConfig(
                    name=settings.project.name,
                    master_url=settings.project.url,
                    server_version=__version__,
                    min_passwd_length=settings.accounts.min_password_length,
                    account_creation_disabled=settings.accounts.creation == "closed",
                    invite_code_required=settings.accounts.creation == "invitation",
                    platforms=tuple(PlatformEntry(platform_name=name) for name in platforms),
                )
            )
        )

    async def create_account(self, request: Request) -> Response:
        """``create_account.php``."""
        try:
            user = await self._accounts.create(
                parse_create_account(request.url.query), address=self._address(request)
            )
        except WebRpcFailure as failure:
            return _xml(write_web_rpc_error(failure.error, str(failure)))
        return _xml(write_account_out(_key_for_password(user)))

    async def lookup_account(self, request: Request) -> Response:
        """``lookup_account.php``; without a password only whether the account exists."""
        try:
            wanted = parse_lookup_account(request.url.query)
            key, now = limit_key(self._address(request)), self._ctx.clock()
            refuse_after(self._ctx.limits.lookups.wait(key, now=now))
            self._ctx.limits.lookups.take(key, now=now)
            if wanted.passwd_hash is None:
                found = await self._ctx.store.aread(lambda db: people.user_by_email(db, wanted.email_addr))
                if found is None:
                    raise WebRpcFailure(WebRpcError.NOT_FOUND)
                return _xml(write_account_exists())
            user = await self._accounts.look_up(
                wanted.email_addr, wanted.passwd_hash, address=self._address(request)
            )
        except WebRpcFailure as failure:
            return _xml(write_web_rpc_error(failure.error, str(failure)))
        return _xml(write_account_out(_key_for_password(user)))

    async def am_get_info(self, request: Request) -> Response:
        """``am_get_info.php``: what an account manager asks about an account, by its key."""
        try:
            address, now = limit_key(self._address(request)), self._ctx.clock()
            refuse_after(self._ctx.limits.lookups.wait(address, now=now))
            self._ctx.limits.lookups.take(address, now=now)
            key = parse_am_get_info(request.url.query).account_key
            found = await self._ctx.store.aread(lambda db: people.user_by_authenticator(db, key))
            if found is None or found[1]:
                raise WebRpcFailure(WebRpcError.NOT_FOUND)
        except WebRpcFailure as failure:
            return _xml(write_web_rpc_error(failure.error, str(failure)))
        user = found[0]
        return _xml(
            write_am_get_info_reply(
                AccountInfo(
                    id=user.id,
                    name=user.name,
                    country=user.country,
                    weak_auth=user.weak_authenticator,
                    cpid=external_cpid(user.cross_project_id, user.email_addr),
                    create_time=user.create_time,
                    global_prefs=user.global_prefs,
                    project_prefs=user.project_prefs,
                    url=user.url,
                    send_email=user.send_email,
                    show_hosts=user.show_hosts,
                    teamid=user.team_id or 0,
                    venue=user.venue,
                )
            )
        )


def _key_for_password(user: User) -> str:
    """What a client gets for address and password: of an account with a second factor only the key that attaches computers."""
    return user.weak_authenticator if user.second_factor else user.authenticator


def _platforms(db: Database) -> list[str]:
    """Platforms that the project has versions for."""
    found = {version.platform for version in apps.list_versions(db)}
    if ANY_PLATFORM in found:
        found = (found - {ANY_PLATFORM}) | set(COMMON_PLATFORMS)
    return sorted(found)


def _xml(body: bytes) -> Response:
    return Response(
        body,
        media_type="text/xml",
        headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
    )
