"""Account and configuration RPCs of clients and account managers."""

from __future__ import annotations

import asyncio
import secrets
from functools import partial

import argon2
from starlette.requests import Request
from starlette.responses import Response

from cobblestone import __version__
from cobblestone.domain.errors import Conflict
from cobblestone.domain.people import User
from cobblestone.server.context import ServerContext
from cobblestone.store import apps, people
from cobblestone.wire import account
from cobblestone.wire.account import WebRpcError
from cobblestone.wire.identity import external_cpid, passwd_hash, weak_authenticator

MAX_NAME = 60
MAX_EMAIL = 254


class AccountProblem(Exception):
    """A request that is answered with the family's error number."""

    def __init__(self, error: WebRpcError, text: str) -> None:
        super().__init__(text)
        self.error = error
        self.text = text


class Accounts:
    """Creates and looks up accounts; used by the RPCs and by the pages."""

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx
        self._hasher = argon2.PasswordHasher()

    async def create(
        self,
        *,
        email_addr: str,
        password_md5: str,
        user_name: str,
        invite_code: str = "",
        team_name: str = "",
    ) -> User:
        """Create an account, or return the existing one if the password is right.

        Raises:
            AccountProblem: something about it is wrong.
        """
        settings = self._ctx.settings.accounts
        email_addr = email_addr.strip().lower()
        if settings.creation == "closed":
            raise AccountProblem(WebRpcError.ACCT_CREATION_DISABLED, "Account creation is disabled.")
        if settings.creation == "invitation" and not secrets.compare_digest(
            invite_code.encode(), settings.invitation_code.encode()
        ):
            raise AccountProblem(WebRpcError.GENERIC, "The invitation code is missing or wrong.")
        check_email(email_addr)
        check_user_name(user_name)
        _check_password_md5(password_md5)
        if await self._ctx.store.aread(lambda db: people.user_by_email(db, email_addr)) is not None:
            try:
                return await self.look_up(email_addr=email_addr, password_md5=password_md5)
            except AccountProblem:
                raise AccountProblem(
                    WebRpcError.NOT_UNIQUE, "There is already an account for this e-mail address."
                ) from None
        stored = await asyncio.to_thread(self._hasher.hash, password_md5.lower())
        authenticator = secrets.token_hex(16)
        new = people.NewUser(
            name=user_name.strip(),
            email_addr=email_addr,
            passwd_hash=stored,
            authenticator=authenticator,
            cross_project_id=secrets.token_hex(16),
            team_name=team_name,
        )
        weak = partial(weak_authenticator, authenticator=authenticator, passwd_hash=stored)
        try:
            return await self._ctx.store.awrite(
                lambda tx: people.create_user(tx, new, weak_authenticator_of=weak, now=self._ctx.clock())
            )
        except Conflict:
            raise AccountProblem(
                WebRpcError.NOT_UNIQUE, "There is already an account for this e-mail address."
            ) from None

    async def look_up(self, *, email_addr: str, password_md5: str) -> User:
        """The account of an address and password.

        Raises:
            AccountProblem: there is none, or the password is wrong.
        """
        found = await self._ctx.store.aread(lambda db: people.user_by_email(db, email_addr.strip()))
        if found is None:
            raise AccountProblem(WebRpcError.NOT_FOUND, "There is no account for this e-mail address.")
        user, stored = found
        if not await asyncio.to_thread(self._verify, stored, password_md5.lower()):
            raise AccountProblem(WebRpcError.BAD_PASSWD, "The password is wrong.")
        return user

    async def log_in(self, *, email_addr: str, password: str) -> User:
        """The account of somebody who typed a password.

        Raises:
            AccountProblem: see :meth:`look_up`.
        """
        return await self.look_up(
            email_addr=email_addr, password_md5=passwd_hash(password, email_addr.strip().lower())
        )

    def _verify(self, stored: str, password_md5: str) -> bool:
        try:
            return self._hasher.verify(stored, password_md5)
        except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
            return False


def check_email(address: str) -> None:
    """Raises AccountProblem for what cannot be an e-mail address."""
    local, at, domain = address.partition("@")
    if (
        not (local and at and "." in domain.strip("."))
        or len(address) > MAX_EMAIL
        or any(character.isspace() or not character.isprintable() for character in address)
        or any(character in address for character in "<>\"'&;,")
    ):
        raise AccountProblem(WebRpcError.BAD_EMAIL_ADDR, "This is not a valid e-mail address.")


def check_user_name(name: str) -> None:
    """Raises AccountProblem for names that pages or clients could not show."""
    stripped = name.strip()
    if not stripped or len(stripped) > MAX_NAME:
        raise AccountProblem(
            WebRpcError.BAD_USER_NAME, f"A user name has 1 to {MAX_NAME} characters, and not only spaces."
        )
    if not stripped.isprintable() or "<" in stripped or ">" in stripped:
        raise AccountProblem(WebRpcError.BAD_USER_NAME, "The user name has a character that is not allowed.")


def _check_password_md5(value: str) -> None:
    if len(value) != 32 or any(character not in "0123456789abcdefABCDEF" for character in value):
        raise AccountProblem(
            WebRpcError.BAD_PASSWD,
            "passwd_hash must be the MD5 of password and e-mail address, 32 hex digits.",
        )


class AccountRpc:
    """The HTTP side."""

    def __init__(self, ctx: ServerContext, accounts: Accounts) -> None:
        self._ctx = ctx
        self._accounts = accounts

    async def get_project_config(self, request: Request) -> Response:
        """``get_project_config.php``: what a client must know before it attaches."""
        settings = self._ctx.settings
        versions = await self._ctx.store.aread(apps.list_versions)
        platforms = sorted({version.platform for version in versions})
        return _xml(
            account.write_project_config(
                name=settings.project.name,
                master_url=settings.project.url,
                min_passwd_length=settings.accounts.min_password_length,
                account_creation_disabled=settings.accounts.creation == "closed",
                invite_code_required=settings.accounts.creation == "invitation",
                server_version=__version__,
                platforms=platforms,
            )
        )

    async def create_account(self, request: Request) -> Response:
        """``create_account.php``."""
        query = request.query_params
        try:
            user = await self._accounts.create(
                email_addr=query.get("email_addr", ""),
                password_md5=query.get("passwd_hash", ""),
                user_name=query.get("user_name", ""),
                invite_code=query.get("invite_code", ""),
                team_name=query.get("team_name", ""),
            )
        except AccountProblem as problem:
            return _xml(account.write_error(problem.error, problem.text))
        return _xml(account.write_account_out(user.authenticator))

    async def lookup_account(self, request: Request) -> Response:
        """``lookup_account.php``; without a password only whether the account exists."""
        query = request.query_params
        email_addr = query.get("email_addr", "")
        try:
            if "passwd_hash" not in query:
                if await self._ctx.store.aread(lambda db: people.user_by_email(db, email_addr)) is None:
                    raise AccountProblem(
                        WebRpcError.NOT_FOUND, "There is no account for this e-mail address."
                    )
                return _xml(account.write_account_exists())
            user = await self._accounts.look_up(
                email_addr=email_addr, password_md5=query.get("passwd_hash", "")
            )
        except AccountProblem as problem:
            return _xml(account.write_error(problem.error, problem.text))
        return _xml(account.write_account_out(user.authenticator))

    async def am_get_info(self, request: Request) -> Response:
        """``am_get_info.php``: what an account manager asks about an account, by its key."""
        key = request.query_params.get("account_key", "")
        found = await self._ctx.store.aread(lambda db: people.user_by_authenticator(db, key))
        if found is None or found[1]:
            return _xml(account.write_error(WebRpcError.NOT_FOUND, "There is no account with this key."))
        user = found[0]
        return _xml(
            account.write_am_info(user, external_cpid=external_cpid(user.cross_project_id, user.email_addr))
        )


def _xml(body: bytes) -> Response:
    return Response(body, media_type="text/xml")
