"""What guards an account: password, address, second factor, keys; and the end of an account.

Each change is one transaction, and whoever could be surprised by it is told by mail in the same transaction.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from cryptography.fernet import Fernet, InvalidToken

from cobblestone.domain.errors import StoreError
from cobblestone.domain.people import User
from cobblestone.server.accounts.service import Accounts, refuse_after
from cobblestone.server.core.context import ServerContext
from cobblestone.service.http.rate_limits import limit_key
from cobblestone.service.languages import chosen, ngettext, use_language
from cobblestone.service.languages import gettext as _
from cobblestone.service.one_time_password import DIGITS, STEP_SECONDS, matching_step
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import account_changes, mails, one_time_codes, users
from cobblestone.store.people.one_time_codes import Purpose
from cobblestone.wire.identity import passwd_hash, weak_authenticator

RESET_SECONDS = 2 * 3600.0
CHANGE_SECONDS = 24 * 3600.0
RECOVERY_CODES = 10
TOTP_BYTES = 20
DAY = 86400.0


@dataclass(frozen=True, slots=True)
class NewFactor:
    """A second factor that is being set up."""

    secret: str  #: base 32, as authenticator programs take it
    address: str  #: ``otpauth:`` URI


class AccountSecurity:
    """Changes what guards accounts."""

    def __init__(self, ctx: ServerContext, accounts: Accounts) -> None:
        self._ctx = ctx
        self._accounts = accounts
        key = hmac.digest(ctx.secret, b"cobblestone.web.second_factor", "sha256")
        self._seal = Fernet(base64.urlsafe_b64encode(key))
        self._setup_key = hmac.digest(ctx.secret, b"cobblestone.web.second_factor.setup", "sha256")

    # -- password -----------------------------------------------------------------------------------

    async def password_is_right(self, user: User, password: str, *, address: str) -> bool:
        """Whether it is the account's password.

        Raises:
            TooManyAttempts: there were too many wrong ones.
        """
        limits, key, now = self._ctx.limits, limit_key(address), self._ctx.clock()
        refuse_after(limits.try_password(key, user.email_addr, now=now))
        found = await self._ctx.store.aread(lambda db: account_changes.secrets_of(db, user.id))
        right = found is not None and await self._accounts.verify(
            found.passwd_hash, passwd_hash(password, user.email_addr)
        )
        if right:
            limits.password_was_right(key, user.email_addr, now=now)
        return right

    async def change_password(self, user: User, password: str) -> User:
        """Store a new password; all sessions end.  The account keys stay, so computers go on."""
        stored = await self._accounts.hash(passwd_hash(password, user.email_addr))

        def change(tx: Transaction) -> User:
            account_changes.set_password(tx, user.id, stored)
            self._tell(tx, user, _PASSWORD_CHANGED)
            return _again(tx, user)

        return await self._ctx.store.awrite(change)

    async def ask_for_reset(self, email_addr: str, *, address: str) -> None:
        """Send a link for a new password, if there is such an account; nobody learns whether there is.

        Raises:
            TooManyAttempts: too many mails were asked for.
        """
        limits, key, now = self._ctx.limits, limit_key(address), self._ctx.clock()
        refuse_after(limits.mails_wait(key, email_addr, now=now))
        limits.mailed(key, email_addr, now=now)

        def ask(tx: Transaction) -> None:
            found = users.user_by_email(tx, email_addr)
            if found is None:
                return
            self.send_reset_link(tx, found[0])

        await self._ctx.store.awrite(ask)

    def send_reset_link(self, tx: Transaction, user: User, *, by_operator: bool = False) -> None:
        """Send somebody a link for a new password; the links before it are not good any more."""
        now, code = self._ctx.clock(), secrets.token_urlsafe(32)
        one_time_codes.add_codes(
            tx, user.id, Purpose.RESET_PASSWORD, [code], now=now, expire_time=now + RESET_SECONDS
        )
        kind = _RESET_BY_OPERATOR if by_operator else _RESET
        self._tell(tx, user, kind, url=self._ctx.url(f"password_new.php?code={code}"))

    async def reset_is_good(self, code: str) -> bool:
        """Whether a link for a new password may still be used."""
        now = self._ctx.clock()
        found = await self._ctx.store.aread(
            lambda db: one_time_codes.find_code(db, Purpose.RESET_PASSWORD, code, now=now)
        )
        return found is not None

    async def reset_password(self, code: str, password: str) -> User | None:
        """Use a link for a new password; None: it is not good any more."""
        now = self._ctx.clock()

        def owner(tx: Transaction) -> User | None:
            found = one_time_codes.find_code(tx, Purpose.RESET_PASSWORD, code, now=now)
            return None if found is None else users.user_by_id(tx, found.user_id)

        user = await self._ctx.store.awrite(owner)
        if user is None:
            return None
        stored = await self._accounts.hash(passwd_hash(password, user.email_addr))

        def change(tx: Transaction) -> User | None:
            if one_time_codes.use_code(tx, Purpose.RESET_PASSWORD, code, now=now) is None:
                return None  # somebody was quicker
            account_changes.set_password(tx, user.id, stored)
            self._tell(tx, user, _PASSWORD_CHANGED)
            return _again(tx, user)

        return await self._ctx.store.awrite(change)

    async def log_out_everywhere(self, user: User) -> User:
        """End all sessions of an account."""

        def end(tx: Transaction) -> User:
            account_changes.end_sessions(tx, user.id)
            return _again(tx, user)

        return await self._ctx.store.awrite(end)

    async def renew_keys(self, user: User) -> User:
        """Give an account new keys: computers that used the old ones must be attached again."""
        strong = secrets.token_hex(16)
        weak = weak_authenticator(user.id, strong, secrets.token_hex(16))

        def renew(tx: Transaction) -> User:
            account_changes.set_keys(tx, user.id, authenticator=strong, weak_authenticator=weak)
            self._tell(tx, user, _KEYS_CHANGED)
            return _again(tx, user)

        return await self._ctx.store.awrite(renew)

    # -- address ------------------------------------------------------------------------------------

    async def ask_for_new_address(self, user: User, email_addr: str, password: str, *, address: str) -> None:
        """Send a link to a new address; the account gets it when the link is used.

        The password must be given, because its hash depends on the address.

        Raises:
            TooManyAttempts: too many mails were asked for.
        """
        limits, key, now = self._ctx.limits, limit_key(address), self._ctx.clock()
        refuse_after(limits.mails_wait(key, user.email_addr, now=now))
        limits.mailed(key, user.email_addr, now=now)
        code = secrets.token_urlsafe(32)
        stored = await self._accounts.hash(passwd_hash(password, email_addr))

        def ask(tx: Transaction) -> None:
            one_time_codes.add_codes(
                tx,
                user.id,
                Purpose.CHANGE_EMAIL,
                [code],
                now=now,
                expire_time=now + CHANGE_SECONDS,
                payload=f"{email_addr} {stored}",
            )
            if users.user_by_email(tx, email_addr) is None:  # else: nobody learns that it is taken
                url = self._ctx.url(f"email_new.php?code={code}")
                self._tell(tx, user, _NEW_ADDRESS, recipient=email_addr, url=url)

        await self._ctx.store.awrite(ask)

    async def use_new_address(self, user: User, code: str) -> User | None:
        """Use the link that was sent to a new address; None: it is not good any more, or not this user's.

        Raises:
            Conflict: another account has the address by now.
        """
        now = self._ctx.clock()

        def change(tx: Transaction) -> User | None:
            found = one_time_codes.find_code(tx, Purpose.CHANGE_EMAIL, code, now=now)
            if found is None or found.user_id != user.id:
                return None
            one_time_codes.use_code(tx, Purpose.CHANGE_EMAIL, code, now=now)
            email_addr, _space, stored = found.payload.partition(" ")
            account_changes.set_email(tx, user.id, email_addr=email_addr, passwd_hash=stored)
            self._tell(tx, user, _ADDRESS_CHANGED)  # to the old address
            return _again(tx, user)

        return await self._ctx.store.awrite(change)

    # -- second factor ------------------------------------------------------------------------------

    def new_factor(self, user: User) -> NewFactor:
        """The secret that the user may set up now.  It stays the same until it is confirmed or the password or keys change."""
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
        """Turn the second factor on, if the one-time password is right: the user, and codes for when the device is lost."""
        now = self._ctx.clock()
        secret = self.new_factor(user).secret
        step = matching_step(base64.b32decode(secret), password, now=now, last_step=0)
        if step is None:
            return None
        codes = [_recovery_code() for _place in range(RECOVERY_CODES)]
        sealed = self._seal.encrypt(secret.encode()).decode()

        def turn_on(tx: Transaction) -> User:
            account_changes.set_second_factor(tx, user.id, sealed, step=step)
            one_time_codes.add_codes(tx, user.id, Purpose.RECOVERY, [_bare(code) for code in codes], now=now)
            account_changes.end_sessions(tx, user.id)
            self._tell(tx, user, _FACTOR_ON)
            return _again(tx, user)

        return await self._ctx.store.awrite(turn_on), codes

    async def drop_factor(self, user: User) -> User:
        """Turn the second factor off."""

        def turn_off(tx: Transaction) -> User:
            account_changes.set_second_factor(tx, user.id, "", step=0)
            one_time_codes.drop_codes(tx, user.id, Purpose.RECOVERY)
            account_changes.end_sessions(tx, user.id)
            self._tell(tx, user, _FACTOR_OFF)
            return _again(tx, user)

        return await self._ctx.store.awrite(turn_off)

    async def second_factor_is_right(self, user: User, given: str, *, address: str) -> bool:
        """Whether a one-time password or recovery code is right; it is used up then.

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
                code = one_time_codes.find_code(tx, Purpose.RECOVERY, bare, now=now)
                if code is None or code.user_id != user.id:
                    return False
                one_time_codes.use_code(tx, Purpose.RECOVERY, bare, now=now)
                self._tell(tx, user, _RECOVERY_USED)
                return True
            step = matching_step(self._open(found.totp_secret), bare, now=now, last_step=found.totp_step)
            return step is not None and account_changes.use_step(tx, user.id, step)

        right = await self._ctx.store.awrite(use)
        if right:
            limits.password_was_right(key, user.email_addr, now=now)
        return right

    async def recovery_codes_left(self, user: User) -> int:
        """How many recovery codes an account still has."""
        return await self._ctx.store.aread(
            lambda db: one_time_codes.count_codes(db, user.id, Purpose.RECOVERY)
        )

    def _open(self, sealed: str) -> bytes:
        try:
            return base64.b32decode(self._seal.decrypt(sealed.encode()))
        except InvalidToken as error:
            raise StoreError(
                "A second factor cannot be read: keys/secret is not the project's own."
            ) from error

    # -- the end ------------------------------------------------------------------------------------

    async def ask_to_erase(self, user: User) -> float:
        """Mark an account for deletion; when it will be deleted (Unix seconds)."""
        days = self._ctx.settings.accounts.erase_after_days
        when = self._ctx.clock() + days * DAY

        def mark(tx: Transaction) -> None:
            account_changes.ask_to_erase(tx, user.id, when)
            self._tell(tx, user, _ERASE_ASKED, days=days)

        await self._ctx.store.awrite(mark)
        return when

    async def keep_account(self, user: User) -> None:
        """Take the wish to delete an account back."""
        await self._ctx.store.awrite(lambda tx: account_changes.ask_to_erase(tx, user.id, None))

    # -- mails --------------------------------------------------------------------------------------

    def _tell(
        self, tx: Transaction, user: User, kind: str, *, recipient: str = "", url: str = "", days: float = 0
    ) -> None:
        with use_language(chosen(user.language)):
            subject, text = _mail(kind, url=url, days=days)
            project = self._ctx.settings.project
            body = (
                _("Hello %(name)s,") % {"name": user.name} + f"\n\n{text}\n\n{project.name}\n{project.url}\n"
            )
            mails.post(
                tx,
                recipient=recipient or user.email_addr,
                subject=f"{project.name}: {subject}",
                body=body,
                now=self._ctx.clock(),
            )


(
    _PASSWORD_CHANGED, _RESET, _RESET_BY_OPERATOR, _KEYS_CHANGED, _NEW_ADDRESS, _ADDRESS_CHANGED, _FACTOR_ON,
    _FACTOR_OFF, _RECOVERY_USED, _ERASE_ASKED,
) = (
    "password", "reset", "reset_by_operator", "keys", "new_address", "address", "factor_on",
    "factor_off", "recovery", "erase",
)  # fmt: skip


def _mail(kind: str, *, url: str, days: float) -> tuple[str, str]:
    """Subject and text of a mail."""
    not_you = _("If this was not you, set a new password at once: somebody else can get into your account.")
    match kind:
        case "password":
            return _("new password"), _(
                "Your account has a new password, and all sessions were ended."
            ) + "\n" + not_you
        case "reset":
            return _("set a new password"), "\n\n".join(
                (
                    _(
                        "Somebody asked for a new password for your account. This address leads to it, once, within two hours:"
                    ),
                    url,
                    _("If this was not you, do nothing: your password stays as it is."),
                )
            )
        case "reset_by_operator":
            text = _(
                "Those who run the project send you this address: it leads to a new password, once, within two hours."
            )
            return _("set a new password"), "\n\n".join(
                (text, url, _("If you did not ask them for it, do nothing: your password stays as it is."))
            )
        case "keys":
            text = _("Your account has new keys. Computers that used the old ones must be attached again.")
            return _("new account keys"), f"{text}\n{not_you}"
        case "new_address":
            return _("confirm your address"), "\n\n".join(
                (
                    _(
                        "This address shall become that of your account. To confirm it, log in and open, within a day:"
                    ),
                    url,
                    _("If this was not you, do nothing."),
                )
            )
        case "address":
            text = _("Your account has another e-mail address now; this is the last mail to this one.")
            return _("new e-mail address"), f"{text}\n{not_you}"
        case "factor_on":
            return _("second factor on"), _(
                "From now on your account asks for a one-time password at log-in. Keep the recovery codes in a safe place."
            )
        case "factor_off":
            return _("second factor off"), _(
                "Your account does not ask for a one-time password any more."
            ) + "\n" + not_you
        case "recovery":
            return _("recovery code used"), _(
                "Somebody logged in to your account with a recovery code."
            ) + "\n" + not_you
        case _:
            text = ngettext(
                "Your account will be deleted in %(days)d day. Until then you can log in and cancel that.",
                "Your account will be deleted in %(days)d days. Until then you can log in and cancel that.",
                round(days),
            ) % {"days": round(days)}
            return _("your account will be deleted"), f"{text}\n{not_you}"


def _again(tx: Transaction, user: User) -> User:
    found = users.user_by_id(tx, user.id)
    if found is None:  # it was there a statement ago
        raise StoreError("An account vanished inside a transaction.")
    return found


_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that look alike


def _recovery_code() -> str:
    letters = "".join(secrets.choice(_LETTERS) for _place in range(18))
    return f"{letters[:6]}-{letters[6:12]}-{letters[12:]}"


def _bare(code: str) -> str:
    return "".join(code.split()).replace("-", "").lower()[:100]
