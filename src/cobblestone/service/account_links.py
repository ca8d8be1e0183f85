"""What links in mails do for an account: a new password, and a confirmed address; the same in every service with accounts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from cobblestone.domain.errors import StoreError
from cobblestone.domain.values import UserId
from cobblestone.service.context import ServiceContext
from cobblestone.service.mail import AccountMails, Addressee, Letter
from cobblestone.service.passwords import Passwords
from cobblestone.service.rate_limits import limit_key, refuse_after
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.people import credentials
from cobblestone.store.people.credentials import Purpose
from cobblestone.wire.project.account import passwd_hash

A = TypeVar("A", bound=Addressee)


class AccountLinks(ABC, Generic[A]):
    """Sends such links and carries out what they are for; a service says how its accounts are stored."""

    def __init__(self, ctx: ServiceContext, passwords: Passwords, *, name: str) -> None:
        """``name``: the service's public name."""
        self._service = ctx
        self.passwords = passwords
        self._mails = AccountMails(ctx, name)

    @abstractmethod
    def _by_email(self, db: Database, email_addr: str) -> A | None:
        """Return the account with an address."""

    @abstractmethod
    def _by_id(self, db: Database, id_: UserId) -> A | None:
        """Return an account."""

    @abstractmethod
    def _set_password(self, tx: Transaction, account: A, hashed: str) -> None:
        """Store a password; all sessions end."""

    @abstractmethod
    def _set_verified(self, tx: Transaction, id_: UserId, now: float) -> None:
        """Note that the address is confirmed."""

    async def change_password(self, account: A, password: str) -> A:
        """Store a new password; all sessions end.  The account keys stay, so computers continue."""
        hashed = await self.passwords.hash(passwd_hash(password, account.email_addr))
        change = partial(self._set_password, account=account, hashed=hashed)
        return await self._changed(account, change, Letter.PASSWORD_CHANGED)

    async def ask_for_reset(self, email_addr: str, *, address: str) -> None:
        """Send a link for a new password if the account exists; the reply does not reveal whether it does.

        Raises:
            TooManyAttempts: too many mails were asked for.
        """
        self._count_mail(email_addr, address)

        def ask(tx: Transaction) -> None:
            if found := self._by_email(tx, email_addr):
                self._mails.send_reset_link(tx, found, now=self._service.clock())

        await self._service.store.awrite(ask)

    async def reset_is_good(self, code: str) -> bool:
        """Return whether a link for a new password is still valid."""
        return await self._owner(Purpose.RESET_PASSWORD, code) is not None

    async def reset_password(self, code: str, password: str) -> A | None:
        """Use a link for a new password, which was sent to the account's address; None if it is no longer valid."""
        account, now = await self._owner(Purpose.RESET_PASSWORD, code), self._service.clock()
        if account is None:
            return None
        hashed = await self.passwords.hash(passwd_hash(password, account.email_addr))

        def change(tx: Transaction) -> A | None:
            if credentials.use_code(tx, Purpose.RESET_PASSWORD, code, now=now) is None:
                return None  # it was used a moment ago
            self._set_password(tx, account, hashed)
            self._set_verified(tx, UserId(account.id), now)
            self._mails.send(tx, account, Letter.PASSWORD_CHANGED)
            return self._again(tx, account)

        return await self._service.store.awrite(change)

    async def ask_for_confirmation(self, account: A, *, address: str) -> None:
        """Send a link that confirms the account's address.

        Raises:
            TooManyAttempts: too many mails were asked for.
        """
        self._count_mail(account.email_addr, address)
        now = self._service.clock()
        await self._service.store.awrite(lambda tx: self._mails.send_confirmation(tx, account, now=now))

    async def confirmation_is_good(self, code: str) -> bool:
        """Return whether a link that confirms an address is still valid."""
        return await self._owner(Purpose.CONFIRM_EMAIL, code) is not None

    async def confirm_address(self, code: str) -> bool:
        """Use a link that confirms the address it was sent to; return False if it is no longer valid."""
        now = self._service.clock()

        def use(tx: Transaction) -> bool:
            taken = credentials.use_code(tx, Purpose.CONFIRM_EMAIL, code, now=now)
            if taken is not None:
                self._set_verified(tx, taken.user_id, now)
            return taken is not None

        return await self._service.store.awrite(use)

    async def _owner(self, purpose: Purpose, code: str) -> A | None:
        """Return the account that a code was made for; None if it is no longer valid."""
        now = self._service.clock()

        def read(db: Database) -> A | None:
            found = credentials.find_code(db, purpose, code, now=now)
            return None if found is None else self._by_id(db, found.user_id)

        return await self._service.store.aread(read)

    async def _changed(
        self, account: A, change: Callable[[Transaction], object], letter: Letter | None = None
    ) -> A:
        """Make a change, and tell the owner of it; return the account after that."""

        def carry_out(tx: Transaction) -> A:
            change(tx)
            if letter is not None:
                self._mails.send(tx, account, letter)
            return self._again(tx, account)

        return await self._service.store.awrite(carry_out)

    def _again(self, tx: Transaction, account: A) -> A:
        found = self._by_id(tx, UserId(account.id))
        if found is None:  # it was there a statement ago
            raise StoreError("An account vanished inside a transaction.")
        return found

    def _count_mail(self, email_addr: str, address: str) -> None:
        """Count a mail requested from ``address``.  Raises TooManyAttempts."""
        key, now = limit_key(address), self._service.clock()
        refuse_after(self._service.limits.try_mail(key, email_addr, now=now))
