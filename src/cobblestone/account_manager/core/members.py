"""Creating accounts, and logging in."""

from __future__ import annotations

import secrets

from cobblestone.account_manager.core.context import ManagerContext
from cobblestone.account_manager.model import ManagerAccount
from cobblestone.account_manager.store import accounts
from cobblestone.domain.errors import Conflict
from cobblestone.service.http.rate_limits import limit_key, refuse_after
from cobblestone.service.mail import AccountMails, Letter
from cobblestone.service.passwords import Passwords
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.people import credentials
from cobblestone.store.people.credentials import Purpose
from cobblestone.wire.project.account import WebRpcError, WebRpcFailure, passwd_hash


class Members:
    """Creates accounts and finds them."""

    def __init__(self, ctx: ManagerContext) -> None:
        self._ctx = ctx
        self._mails = AccountMails(ctx, ctx.settings.manager.name)
        self.passwords = Passwords()

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
        refuse_after(ctx.limits.failures_by_address.wait(key, now=now))
        if settings.creation == "invitation" and not secrets.compare_digest(
            invitation.encode(), settings.invitation_code.encode()
        ):
            ctx.limits.failures_by_address.take(key, now=now)
            raise WebRpcFailure(WebRpcError.GENERIC)
        refuse_after(ctx.limits.creations.wait(key, now=now))
        ctx.limits.creations.take(key, now=now)
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
        mailed = settings.confirmed_email != "off" and ctx.limits.mails_wait(key, email, now=now) <= 0
        if mailed:
            ctx.limits.mailed(key, email, now=now)

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

    async def log_in(self, email: str, password: str, *, address: str) -> ManagerAccount:
        """Return the account for an address and a password.

        Raises:
            WebRpcFailure: there is none, or there were too many wrong attempts.
        """
        limits, key, now = self._ctx.limits, limit_key(address), self._ctx.clock()
        refuse_after(limits.try_password(key, email, now=now))
        found = await self._ctx.store.aread(lambda db: accounts.account_by_email(db, email))
        right = await self.passwords.verify(found[1] if found else None, passwd_hash(password, email))
        if found is None or not right:
            raise WebRpcFailure(WebRpcError.BAD_PASSWD)
        limits.password_was_right(key, email, now=now)
        return found[0]

    async def change_password(self, account: ManagerAccount, new: str) -> None:
        """Set a password; all sessions end, computers continue."""
        hashed = await self.passwords.hash(passwd_hash(new, account.email_addr))
        await self._ctx.store.awrite(lambda tx: self._set_password(tx, account, hashed))

    def _set_password(self, tx: Transaction, account: ManagerAccount, hashed: str) -> None:
        accounts.set_password(tx, account.id, hashed, authenticator=secrets.token_hex(16))
        self._mails.send(tx, account, Letter.PASSWORD_CHANGED)

    # -- links in mails -----------------------------------------------------------------------------

    async def ask_for_reset(self, email_addr: str, *, address: str) -> None:
        """Send a link for a new password if the account exists; the reply does not reveal whether it does.

        Raises:
            TooManyAttempts: too many mails were asked for.
        """
        self._count_mail(email_addr, address)
        now = self._ctx.clock()

        def ask(tx: Transaction) -> None:
            found = accounts.account_by_email(tx, email_addr)
            if found is not None:
                self._mails.send_reset_link(tx, found[0], now=now)

        await self._ctx.store.awrite(ask)

    async def reset_is_good(self, code: str) -> bool:
        """Return whether a link for a new password is still valid."""
        return await self._owner(Purpose.RESET_PASSWORD, code) is not None

    async def reset_password(self, code: str, password: str) -> ManagerAccount | None:
        """Use a link for a new password sent to the account's address; return None if it is no longer valid."""
        account, now = await self._owner(Purpose.RESET_PASSWORD, code), self._ctx.clock()
        if account is None:
            return None
        hashed = await self.passwords.hash(passwd_hash(password, account.email_addr))

        def change(tx: Transaction) -> ManagerAccount | None:
            if credentials.use_code(tx, Purpose.RESET_PASSWORD, code, now=now) is None:
                return None  # somebody was quicker
            self._set_password(tx, account, hashed)
            accounts.set_email_verified(tx, account.id, now=now)
            return account

        return await self._ctx.store.awrite(change)

    async def ask_for_confirmation(self, account: ManagerAccount, *, address: str) -> None:
        """Send a link that confirms the account's address.

        Raises:
            TooManyAttempts: too many mails were asked for.
        """
        self._count_mail(account.email_addr, address)
        now = self._ctx.clock()
        await self._ctx.store.awrite(lambda tx: self._mails.send_confirmation(tx, account, now=now))

    async def confirmation_is_good(self, code: str) -> bool:
        """Return whether a link that confirms an address is still valid."""
        return await self._owner(Purpose.CONFIRM_EMAIL, code) is not None

    async def confirm_address(self, code: str) -> bool:
        """Use a link that confirms the address it was sent to; return False if it is no longer valid."""
        now = self._ctx.clock()

        def use(tx: Transaction) -> bool:
            taken = credentials.use_code(tx, Purpose.CONFIRM_EMAIL, code, now=now)
            if taken is not None:
                accounts.set_email_verified(tx, taken.user_id, now=now)
                tx.wake("project_accounts")
            return taken is not None

        return await self._ctx.store.awrite(use)

    async def _owner(self, purpose: Purpose, code: str) -> ManagerAccount | None:
        def read(db: Database) -> ManagerAccount | None:
            found = credentials.find_code(db, purpose, code, now=self._ctx.clock())
            return None if found is None else accounts.account_by_id(db, found.user_id)

        return await self._ctx.store.aread(read)

    def _count_mail(self, email_addr: str, address: str) -> None:
        """Count a requested mail.  Raises TooManyAttempts."""
        limits, key, now = self._ctx.limits, limit_key(address), self._ctx.clock()
        refuse_after(limits.mails_wait(key, email_addr, now=now))
        limits.mailed(key, email_addr, now=now)
