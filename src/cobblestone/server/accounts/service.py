"""Accounts: creation, look-up and passwords, and the account for visitors whose browsers compute."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import partial

from itsdangerous import BadSignature, URLSafeTimedSerializer

from cobblestone.domain.errors import Conflict
from cobblestone.domain.people import ConsentKind, User
from cobblestone.domain.values import UserId
from cobblestone.server.core.context import ServerContext
from cobblestone.service.mail import AccountMails
from cobblestone.service.passwords import Passwords
from cobblestone.service.rate_limits import limit_key, refuse_after
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import consents, users
from cobblestone.wire.project.account import AccountCreation, WebRpcError, WebRpcFailure, weak_authenticator


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentChoices:
    """A new user's answers about being shown to others; None: not asked."""

    show_computers: bool | None = None  #: to others, with the tasks
    statistics: bool | None = None  #: whether statistics sites may get the account's name and credit


class Accounts:
    """Creates and looks up accounts; used by the RPCs, the pages and the API."""

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx
        self._mails = AccountMails(ctx, ctx.settings.project.name)
        self.passwords = Passwords()

    async def create(
        self,
        wish: AccountCreation,
        *,
        choices: ConsentChoices = ConsentChoices(),
        address: str = "",
        by_operator: bool = False,
    ) -> User:
        """Create an account, or return the existing one if the password is right.

        ``address``: where the wish comes from, for the rate limit.  An operator may create accounts while the project is closed.

        Raises:
            WebRpcFailure: the project does not want it, the address is taken, or there were too many wishes.
        """
        if not by_operator:
            self._check_wanted(wish, address)
        if await self._ctx.store.aread(lambda db: users.user_by_email(db, wish.email_addr)) is not None:
            try:
                return await self.look_up(wish.email_addr, wish.passwd_hash, address=address)
            except WebRpcFailure as failure:
                if failure.error is not WebRpcError.BAD_PASSWD:
                    raise
                raise WebRpcFailure(WebRpcError.NOT_UNIQUE) from None
        settings, now = self._ctx.settings.accounts, self._ctx.clock()
        new = users.NewUserRow(
            name=wish.user_name,
            email_addr=wish.email_addr,
            # The family's MD5 is what clients send; only its slow salted hash is kept.
            passwd_hash=await self.passwords.hash(wish.passwd_hash),
            authenticator=secrets.token_hex(16),
            cross_project_id=secrets.token_hex(16),
            team_name="" if settings.confirmed_email == "required" else wish.team_name,
            show_hosts=self._shows_computers(choices),
        )
        weak = partial(weak_authenticator, authenticator=new.authenticator, secret=secrets.token_hex(16))
        said = {ConsentKind.TERMS: wish.consent_flag, ConsentKind.STATISTICS: choices.statistics}

        mailed = not by_operator and settings.confirmed_email != "off" and self._may_mail(wish, address)

        def make(tx: Transaction) -> User:
            user = users.create_user(tx, new, weak_authenticator_of=weak, now=now)
            for kind, agreed in said.items():
                if agreed is not None:
                    consents.record(tx, user.id, kind, agreed, source=wish.source, now=now)
            if mailed:
                self._mails.send_confirmation(tx, user, now=now)
            return user

        try:
            return await self._ctx.store.awrite(make)
        except Conflict:
            raise WebRpcFailure(WebRpcError.NOT_UNIQUE) from None

    def _may_mail(self, wish: AccountCreation, address: str) -> bool:
        """Count a mail to the new address; return False if there were too many from there, so it must be requested later."""
        return not self._ctx.limits.try_mail(limit_key(address), wish.email_addr, now=self._ctx.clock())

    def _shows_computers(self, choices: ConsentChoices) -> bool:
        match self._ctx.settings.accounts.computers:
            case "shown":
                return True
            case "hidden":
                return False
            case "asked":
                return choices.show_computers is True

    def _check_wanted(self, wish: AccountCreation, address: str) -> None:
        needed = wish.consent_flag is None and self._ctx.settings.accounts.consent_by_clients
        if (wish.consent_flag is False or needed) and "terms" in self._ctx.texts.present():
            raise WebRpcFailure(WebRpcError.CONSENT_REQUIRED)
        settings, now = self._ctx.settings.accounts, self._ctx.clock()
        if settings.creation == "closed":
            raise WebRpcFailure(WebRpcError.ACCOUNT_CREATION_DISABLED)
        code = settings.invitation_code if settings.creation == "invitation" else None
        self._ctx.limits.try_to_join(limit_key(address), wish.invite_code, invitation=code, now=now)

    async def look_up(self, email_addr: str, passwd_hash: str, *, address: str = "") -> User:
        """Return the account for an address and BOINC's hash of its password.

        Raises:
            WebRpcFailure: there is none, the password is wrong, or there were too many wrong ones.
        """
        limits, key, now = self._ctx.limits, limit_key(address), self._ctx.clock()
        refuse_after(limits.try_password(key, email_addr, now=now))
        found = await self._ctx.store.aread(lambda db: users.user_by_email(db, email_addr))
        # An unknown address costs as much time as a wrong password, so that the time tells nothing.
        right = await self.passwords.verify(found[1] if found else None, passwd_hash)
        if found is None or not right:
            raise WebRpcFailure(WebRpcError.NOT_FOUND if found is None else WebRpcError.BAD_PASSWD)
        limits.password_was_right(key, email_addr, now=now)
        return found[0]


#: Of the account of all visitors; mails cannot be sent there, and no one can log in.
VISITORS_ADDRESS = "visitors@browsers.invalid"
_NO_PASSWORD = "!"  # noqa: S105  # no hash: no password fits
TICKET_SECONDS = 86400


def account_ticket(ctx: ServerContext, user: User) -> str:
    """Return a ticket that lets a browser compute for an account for a day, and nothing else."""
    return _tickets(ctx).dumps([user.id, user.session_epoch])


def user_of_ticket(tx: Transaction, ctx: ServerContext, ticket: str) -> User | None:
    """Return the user of a ticket; None if it is invalid or expired."""
    try:
        user_id, epoch = _tickets(ctx).loads(ticket, max_age=TICKET_SECONDS)
    except (BadSignature, ValueError, TypeError):
        return None
    user = users.user_by_id(tx, UserId(user_id))
    return None if user is None or user.erased or user.session_epoch != epoch else user


def visitors(tx: Transaction, *, now: float) -> User:
    """Return the account shared by all visitors; created for the first one."""
    found = users.user_by_email(tx, VISITORS_ADDRESS)
    if found is not None:
        return found[0]
    return account_without_password(tx, VISITORS_ADDRESS, "Visitors' browsers", show_hosts=False, now=now)


def account_without_password(
    tx: Transaction, email_addr: str, name: str, *, show_hosts: bool, now: float
) -> User:
    """Create an account that no password opens, until a link that is sent to its address sets one.

    Raises:
        Conflict: the address is taken.
    """
    new = users.NewUserRow(
        name=name,
        email_addr=email_addr,
        passwd_hash=_NO_PASSWORD,
        authenticator=secrets.token_hex(16),
        cross_project_id=secrets.token_hex(16),
        show_hosts=show_hosts,
    )
    weak = partial(weak_authenticator, authenticator=new.authenticator, secret=secrets.token_hex(16))
    return users.create_user(tx, new, weak_authenticator_of=weak, now=now)


def _tickets(ctx: ServerContext) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(ctx.secret, salt="browser")
