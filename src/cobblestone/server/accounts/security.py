"""Account security: password, address, second factor, keys; and the deletion of an account.

Each change is one transaction, and the owner is told by mail in the same transaction.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote, urlencode

from cryptography.fernet import Fernet, InvalidToken

from cobblestone.domain.errors import StoreError
from cobblestone.domain.people import User
from cobblestone.domain.values import DAY, UserId
from cobblestone.server.accounts.service import Accounts
from cobblestone.server.core.context import ServerContext
from cobblestone.service.account_links import AccountLinks
from cobblestone.service.mail import Letter
from cobblestone.service.passwords import DIGITS, STEP_SECONDS, matching_step
from cobblestone.service.rate_limits import limit_key, refuse_after
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.people import account_changes, credentials, users
from cobblestone.store.people.credentials import Purpose
from cobblestone.wire.project.account import passwd_hash, weak_authenticator

LOG_IN_SECONDS = 15 * 60.0
CHANGE_SECONDS = 24 * 3600.0
ATTACH_SECONDS = 24 * 3600.0
RECOVERY_CODES = 10
TOTP_BYTES = 20


@dataclass(frozen=True, slots=True)
class NewFactor:
    """A second factor that is being set up."""

    secret: str  #: base 32, as authenticator programs take it
    address: str  #: ``otpauth:`` URI


class AccountSecurity(AccountLinks[User]):
    """Changes passwords, addresses, second factors and keys."""

    def __init__(self, ctx: ServerContext, accounts: Accounts) -> None:
        super().__init__(ctx, accounts.passwords, name=ctx.settings.project.name)
        self._ctx = ctx
        key = hmac.digest(ctx.secret, b"cobblestone.web.second_factor", "sha256")
        self._seal = Fernet(base64.urlsafe_b64encode(key))
        self._setup_key = hmac.digest(ctx.secret, b"cobblestone.web.second_factor.setup", "sha256")

    # -- password -----------------------------------------------------------------------------------

    async def password_is_right(self, user: User, password: str, *, address: str) -> bool:
        """Return whether the password is the account's.

        Raises:
            TooManyAttempts: there were too many wrong ones.
        """
        limits, key, now = self._ctx.limits, limit_key(address), self._ctx.clock()
        refuse_after(limits.try_password(key, user.email_addr, now=now))
        found = await self._ctx.store.aread(lambda db: account_changes.secrets_of(db, user.id))
        right = found is not None and await self.passwords.verify(
            found.passwd_hash, passwd_hash(password, user.email_addr)
        )
        if right:
            limits.password_was_right(key, user.email_addr, now=now)
        return right

    def _by_email(self, db: Database, email_addr: str) -> User | None:
        found = users.user_by_email(db, email_addr)
        return found and found[0]

    def _by_id(self, db: Database, id_: UserId) -> User | None:
        return users.user_by_id(db, id_)

    def _set_password(self, tx: Transaction, account: User, hashed: str) -> None:
        account_changes.set_password(tx, account.id, hashed)

    def _set_verified(self, tx: Transaction, id_: UserId, now: float) -> None:
        account_changes.set_email_verified(tx, id_, now=now)

    def send_reset_link(self, tx: Transaction, user: User, *, by_operator: bool = False) -> None:
        """Send a link for a new password; earlier links become invalid."""
        self._mails.send_reset_link(tx, user, now=self._ctx.clock(), by_operator=by_operator)

    async def log_out_everywhere(self, user: User) -> User:
        """End all sessions of an account."""
        return await self._changed(user, partial(account_changes.end_sessions, user_id=user.id))

    async def renew_keys(self, user: User) -> User:
        """Give an account new keys: computers that used the old ones must be attached again."""
        strong = secrets.token_hex(16)
        weak = weak_authenticator(user.id, strong, secrets.token_hex(16))
        change = partial(
            account_changes.set_keys, user_id=user.id, authenticator=strong, weak_authenticator=weak
        )
        return await self._changed(user, change, Letter.KEYS_CHANGED)

    # -- log-in by mail -----------------------------------------------------------------------------

    async def ask_for_log_in_link(self, email_addr: str, *, address: str) -> None:
        """Send a log-in link if the account exists; the reply does not reveal whether it does.

        Raises:
            TooManyAttempts: too many mails were asked for.
        """
        self._count_mail(email_addr, address)
        now, code = self._ctx.clock(), secrets.token_urlsafe(32)

        def ask(tx: Transaction) -> None:
            found = users.user_by_email(tx, email_addr)
            if found is None:
                return
            user, end = found[0], now + LOG_IN_SECONDS
            credentials.add_codes(tx, user.id, Purpose.LOG_IN, [code], now=now, expire_time=end)
            self._mails.send(tx, user, Letter.LOG_IN, url=self._ctx.url(f"login_link.php?code={code}"))

        await self._ctx.store.awrite(ask)

    async def log_in_link_owner(self, code: str) -> User | None:
        """Return the user of a log-in link, or None if it is no longer valid.  The link is not used up."""
        return await self._owner(Purpose.LOG_IN, code)

    async def use_log_in_link(self, code: str) -> User | None:
        """Use a log-in link; return None if it is no longer valid.  This confirms the address that it was sent to."""
        now = self._ctx.clock()

        def use(tx: Transaction) -> User | None:
            taken = credentials.use_code(tx, Purpose.LOG_IN, code, now=now)
            if taken is None:
                return None
            account_changes.set_email_verified(tx, taken.user_id, now=now)
            return users.user_by_id(tx, taken.user_id)

        return await self._ctx.store.awrite(use)

    async def attach_token(self, user: User) -> str:
        """Create the token with which clients attach automatically to an account for a day; the previous one ends."""
        now, token = self._ctx.clock(), secrets.token_hex(16)
        await self._ctx.store.awrite(
            lambda tx: credentials.add_codes(
                tx, user.id, Purpose.ATTACH, [token], now=now, expire_time=now + ATTACH_SECONDS
            )
        )
        return token

    # -- address ------------------------------------------------------------------------------------

    async def ask_for_new_address(self, user: User, email_addr: str, password: str, *, address: str) -> None:
        """Send a link to a new address; the account gets it when the link is used.

        The password must be given, because its hash depends on the address.

        Raises:
            TooManyAttempts: too many mails were asked for.
        """
        self._count_mail(user.email_addr, address)
        now = self._ctx.clock()
        code = secrets.token_urlsafe(32)
        stored = await self.passwords.hash(passwd_hash(password, email_addr))

        def ask(tx: Transaction) -> None:
            credentials.add_codes(
                tx,
                user.id,
                Purpose.CHANGE_EMAIL,
                [code],
                now=now,
                expire_time=now + CHANGE_SECONDS,
                payload=f"{email_addr} {stored}",
            )
            if users.user_by_email(tx, email_addr) is None:  # else: do not reveal that it is taken
                url = self._ctx.url(f"email_new.php?code={code}")
                self._mails.send(tx, user, Letter.NEW_ADDRESS, recipient=email_addr, url=url)

        await self._ctx.store.awrite(ask)

    async def use_new_address(self, user: User, code: str) -> User | None:
        """Use the link sent to a new address; return None if it is no longer valid, or not this user's.

        Raises:
            Conflict: another account has the address by now.
        """
        now = self._ctx.clock()

        def change(tx: Transaction) -> User | None:
            found = credentials.find_code(tx, Purpose.CHANGE_EMAIL, code, now=now)
            if found is None or found.user_id != user.id:
                return None
            credentials.use_code(tx, Purpose.CHANGE_EMAIL, code, now=now)
            email_addr, _space, stored = found.payload.partition(" ")
            account_changes.set_email(tx, user.id, email_addr=email_addr, passwd_hash=stored, now=now)
            self._mails.send(tx, user, Letter.ADDRESS_CHANGED)  # to the old address
            return self._again(tx, user)

        return await self._ctx.store.awrite(change)

    # -- second factor ------------------------------------------------------------------------------

    def new_factor(self, user: User) -> NewFactor:
        """Return the secret that the user can set up now; it stays the same until confirmed or password or keys change."""
        seed = f"{user.id} {user.authenticator} {user.session_epoch}".encode()
        raw = hmac.digest(self._setup_key, seed, hashlib.sha256)[:TOTP_BYTES]
        secret = base64.b32encode(raw).decode()
        issuer = self._ctx.settings.project.name
        label = quote(f"{issuer}:{user.email_addr}")
        query = urlencode(
            {"secret": secret, "issuer": issuer, "digits": DIGITS, "period": STEP_SECONDS}, quote_via=quote
        )
        return NewFactor(secret=secret, address=f"otpauth://totp/{label}?{query}")

    async def confirm_factor(self, user: User, password: str) -> tuple[User, list[str]] | None:
        """Turn on the second factor if the one-time password is right; return the user and recovery codes."""
        now = self._ctx.clock()
        secret = self.new_factor(user).secret
        step = matching_step(base64.b32decode(secret), password, now=now, last_step=0)
        if step is None:
            return None
        codes = [_recovery_code() for _place in range(RECOVERY_CODES)]
        sealed = self._seal.encrypt(secret.encode()).decode()

        def turn_on(tx: Transaction) -> None:
            account_changes.set_second_factor(tx, user.id, sealed, step=step)
            credentials.add_codes(tx, user.id, Purpose.RECOVERY, [_bare(code) for code in codes], now=now)
            account_changes.end_sessions(tx, user.id)

        return await self._changed(user, turn_on, Letter.FACTOR_ON), codes

    async def drop_factor(self, user: User) -> User:
        """Turn off the second factor."""

        def turn_off(tx: Transaction) -> None:
            account_changes.set_second_factor(tx, user.id, "", step=0)
            credentials.drop_codes(tx, user.id, Purpose.RECOVERY)
            account_changes.end_sessions(tx, user.id)

        return await self._changed(user, turn_off, Letter.FACTOR_OFF)

    async def second_factor_is_right(self, user: User, given: str, *, address: str) -> bool:
        """Return whether a one-time password or recovery code is right, and use it up.

        Raises:
            TooManyAttempts: there were too many wrong ones.
        """
        limits, key, now = self._ctx.limits, limit_key(address), self._ctx.clock()
        refuse_after(limits.try_password(key, user.email_addr, now=now))
        bare = _bare(given)

        def use(tx: Transaction) -> bool:
            found = account_changes.secrets_of(tx, user.id)
            if found is None or not found.totp_secret:
                return False
            if len(bare) != DIGITS:
                code = credentials.find_code(tx, Purpose.RECOVERY, bare, now=now)
                if code is None or code.user_id != user.id:
                    return False
                credentials.use_code(tx, Purpose.RECOVERY, bare, now=now)
                self._mails.send(tx, user, Letter.RECOVERY_USED)
                return True
            step = matching_step(self._open(found.totp_secret), bare, now=now, last_step=found.totp_step)
            return step is not None and account_changes.use_step(tx, user.id, step)

        right = await self._ctx.store.awrite(use)
        if right:
            limits.password_was_right(key, user.email_addr, now=now)
        return right

    async def recovery_codes_left(self, user: User) -> int:
        """Return how many recovery codes an account still has."""
        return await self._ctx.store.aread(lambda db: credentials.count_codes(db, user.id, Purpose.RECOVERY))

    def _open(self, sealed: str) -> bytes:
        try:
            return base64.b32decode(self._seal.decrypt(sealed.encode()))
        except InvalidToken as error:
            text = "A second factor cannot be read: keys/secret is not the project's own."
            raise StoreError(text) from error

    # -- the end ------------------------------------------------------------------------------------

    async def ask_to_erase(self, user: User) -> float:
        """Mark an account for deletion; return when it will be deleted (Unix seconds)."""
        days = self._ctx.settings.accounts.erase_after_days
        when = self._ctx.clock() + days * DAY

        def mark(tx: Transaction) -> None:
            account_changes.ask_to_erase(tx, user.id, when)
            self._mails.send(tx, user, Letter.ERASE_ASKED, days=days)

        await self._ctx.store.awrite(mark)
        return when

    async def keep_account(self, user: User) -> None:
        """Cancel the deletion of an account."""
        await self._ctx.store.awrite(lambda tx: account_changes.ask_to_erase(tx, user.id, None))


_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that look alike


def _recovery_code() -> str:
    letters = "".join(secrets.choice(_LETTERS) for _place in range(18))
    return f"{letters[:6]}-{letters[6:12]}-{letters[12:]}"


def _bare(code: str) -> str:
    return "".join(code.split()).replace("-", "").lower()[:100]
