"""Account and configuration RPCs of clients and account managers."""

from __future__ import annotations

import asyncio
import secrets
from functools import partial

import argon2
from starlette.requests import Request
from starlette.responses import Response

from cobblestone import __version__
from cobblestone.domain.apps import ANY_PLATFORM
from cobblestone.domain.errors import Conflict
from cobblestone.domain.people import User
from cobblestone.server.context import ServerContext
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


class Accounts:
    """Creates and looks up accounts; used by the RPCs, the pages and the API."""

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx
        self._hasher = argon2.PasswordHasher()

    async def create(self, wish: AccountCreation) -> User:
        """Create an account, or return the existing one if the password is right.

        Raises:
            WebRpcFailure: the project does not want it, or the address is taken.
        """
        settings = self._ctx.settings.accounts
        if settings.creation == "closed":
            raise WebRpcFailure(WebRpcError.ACCOUNT_CREATION_DISABLED)
        if settings.creation == "invitation" and not secrets.compare_digest(
            wish.invite_code.encode(), settings.invitation_code.encode()
        ):
            raise WebRpcFailure(WebRpcError.GENERIC, "The invitation code is missing or wrong.")
        if await self._exists(wish.email_addr):
            try:
                return await self.look_up(wish.email_addr, wish.passwd_hash)
            except WebRpcFailure:
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

    async def look_up(self, email_addr: str, passwd_hash: str) -> User:
        """The account of an address and the family's hash of its password.

        Raises:
            WebRpcFailure: there is none, or the password is wrong.
        """
        found = await self._ctx.store.aread(lambda db: people.user_by_email(db, email_addr))
        if found is None:
            raise WebRpcFailure(WebRpcError.NOT_FOUND)
        user, stored = found
        if not await asyncio.to_thread(self._verify, stored, passwd_hash):
            raise WebRpcFailure(WebRpcError.BAD_PASSWD)
        return user

    async def hash(self, passwd_hash: str) -> str:
        """The slow salted hash that is stored."""
        return await asyncio.to_thread(self._hasher.hash, passwd_hash)

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
            user = await self._accounts.create(parse_create_account(request.url.query))
        except WebRpcFailure as failure:
            return _xml(write_web_rpc_error(failure.error, str(failure)))
        return _xml(write_account_out(user.authenticator))

    async def lookup_account(self, request: Request) -> Response:
        """``lookup_account.php``; without a password only whether the account exists."""
        try:
            wanted = parse_lookup_account(request.url.query)
            if wanted.passwd_hash is None:
                found = await self._ctx.store.aread(lambda db: people.user_by_email(db, wanted.email_addr))
                if found is None:
                    raise WebRpcFailure(WebRpcError.NOT_FOUND)
                return _xml(write_account_exists())
            user = await self._accounts.look_up(wanted.email_addr, wanted.passwd_hash)
        except WebRpcFailure as failure:
            return _xml(write_web_rpc_error(failure.error, str(failure)))
        return _xml(write_account_out(user.authenticator))

    async def am_get_info(self, request: Request) -> Response:
        """``am_get_info.php``: what an account manager asks about an account, by its key."""
        try:
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
                    show_hosts=user.show_hosts,
                    teamid=user.team_id or 0,
                    venue=user.venue,
                )
            )
        )


def _platforms(db: Database) -> list[str]:
    """Platforms that the project has versions for."""
    found = {version.platform for version in apps.list_versions(db)}
    if ANY_PLATFORM in found:
        found = (found - {ANY_PLATFORM}) | set(COMMON_PLATFORMS)
    return sorted(found)


def _xml(body: bytes) -> Response:
    return Response(body, media_type="text/xml")
