"""Creating accounts, and logging in."""

from __future__ import annotations

import secrets

from cobblestone.account_manager.core.context import ManagerContext
from cobblestone.account_manager.model import ManagerAccount
from cobblestone.account_manager.store import accounts
from cobblestone.domain.errors import Conflict
from cobblestone.domain.values import UserId
from cobblestone.service.account_links import AccountLinks
from cobblestone.service.passwords import Passwords
from cobblestone.service.rate_limits import limit_key, refuse_after
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.wire.project.account import WebRpcError, WebRpcFailure, passwd_hash


class Members(AccountLinks[ManagerAccount]):
    """Creates accounts and finds them."""

    def __init__(self, ctx: ManagerContext) -> None:
        super().__init__(ctx, Passwords(), name=ctx.settings.manager.name)
        self._ctx = ctx

    def _by_email(self, db: Database, email_addr: str) -> ManagerAccount | None:
        found = accounts.account_by_email(db, email_addr)
        return found and found[0]

    def _by_id(self, db: Database, id_: UserId) -> ManagerAccount | None:
        return accounts.account_by_id(db, id_)

    def _set_password(self, tx: Transaction, account: ManagerAccount, hashed: str) -> None:
        accounts.set_password(tx, account.id, hashed, authenticator=secrets.token_hex(16))

    def _set_verified(self, tx: Transaction, id_: UserId, now: float) -> None:
        accounts.set_email_verified(tx, id_, now=now)
        tx.wake("project_accounts")

    async def join(
        self, *, email: str, name: str, password: str, invitation: str, address: str
    ) -> ManagerAccount:
        """Create an account; accounts at projects follow in the background.

        Raises:
            WebRpcFailure: the address is taken, the invitation is wrong, or there were too many attempts.
        """
        ctx, key, now = self._ctx, limit_key(address), self._ctx.clock()
        settings = ctx.settings.accounts
        if settings.creation == "closed":
            raise WebRpcFailure(WebRpcError.ACCOUNT_CREATION_DISABLED)
        code = settings.invitation_code if settings.creation == "invitation" else None
        ctx.limits.try_to_join(key, invitation, invitation=code, now=now)
        new = ManagerAccount(
            id=0,
            email_addr=email,
            name=name,
            authenticator=secrets.token_hex(16),
            weak_authenticator="",
            project_secret=secrets.token_hex(16),
            create_time=now,
        )
        hashed = await self.passwords.hash(passwd_hash(password, email))
        suffix = secrets.token_hex(16)
        mailed = settings.confirmed_email != "off" and not ctx.limits.try_mail(key, email, now=now)

        def make(tx: Transaction) -> ManagerAccount:
            made = accounts.create_account(tx, new, hashed, weak_suffix=suffix)
            accounts.want_project_accounts(tx, account_id=made.id, now=now)
            if mailed:
                self._mails.send_confirmation(tx, made, now=now)
            return made

        try:
            return await ctx.store.awrite(make)
        except Conflict:
            raise WebRpcFailure(WebRpcError.NOT_UNIQUE) from None

    async def log_in(self, email: str, password: str, address: str) -> ManagerAccount:
        """Return the account for an address and a password.  Raises WebRpcFailure: see `look_up`."""
        return await self.look_up(email, passwd_hash(password, email), key=limit_key(address))

    async def look_up(self, email: str, hashed: str, *, key: str) -> ManagerAccount:
        """Return the account for an address and the family's hash of its password.

        ``key``: stands for the network address in limits.

        Raises:
            WebRpcFailure: there is none, or there were too many wrong attempts.
        """
        limits, now = self._ctx.limits, self._ctx.clock()
        refuse_after(limits.try_password(key, email, now=now))
        found = await self._ctx.store.aread(lambda db: accounts.account_by_email(db, email))
        right = await self.passwords.verify(found[1] if found else None, hashed)
        if found is None or not right:
            text = "There is no account with this address and password."
            raise WebRpcFailure(WebRpcError.BAD_PASSWD, text)
        limits.password_was_right(key, email, now=now)
        return found[0]
