"""Mails of a service: delivery, and those that protect an account."""

from __future__ import annotations

import asyncio
import secrets
import smtplib
import ssl
from collections.abc import Callable
from email.message import EmailMessage
from email.utils import formatdate
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import structlog

from cobblestone.domain.values import UserId
from cobblestone.ops.files import write_private
from cobblestone.ops.settings import MailSection
from cobblestone.service.context import ServiceContext
from cobblestone.service.languages import N_, chosen, ngettext, use_language
from cobblestone.service.languages import gettext as _
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import credentials, mails
from cobblestone.store.people.credentials import Purpose
from cobblestone.store.people.mails import Mail

CONFIRM_SECONDS = 7 * 86400.0
RESET_SECONDS = 2 * 3600.0

_NOT_YOU = N_("If this was not you, set a new password at once: someone else can log in to your account.")
_IGNORE = N_("If this was not you, ignore this mail.")


class Letter(Enum):
    """A mail: its subject, its text, and what follows that, behind the address if the mail has one."""

    # fmt: off
    PASSWORD_CHANGED = (N_("new password"), N_("Your account has a new password, and all sessions were ended."), _NOT_YOU)
    RESET = (
        N_("set a new password"),
        N_("Someone asked for a new password for your account. Set it at this address, which works once, within two hours:"),
        N_("If this was not you, ignore this mail: your password stays the same."),
    )
    RESET_BY_OPERATOR = (
        N_("set a new password"),
        N_("The operators of the project sent you this address. Use it to set a new password. It works once, within two hours:"),
        N_("If you did not ask for this, ignore this mail: your password stays the same."),
    )
    LOG_IN = (
        N_("log in"),
        N_("This address logs you in once, within fifteen minutes:"),
        N_("If this was not you, ignore this mail: without the link nobody can log in."),
    )
    KEYS_CHANGED = (
        N_("new account keys"),
        N_("Your account has new keys. Computers that used the old ones must be attached again."),
        _NOT_YOU,
    )
    CONFIRM = (
        N_("confirm your address"),
        N_("Someone, most likely you, has created an account with this e-mail address. To confirm it, open within a week:"),
        _IGNORE,
    )
    NEW_ADDRESS = (
        N_("confirm your address"),
        N_("This address is to become that of your account. To confirm it, log in and open, within a day:"),
        _IGNORE,
    )
    ADDRESS_CHANGED = (
        N_("new e-mail address"),
        N_("Your account now has another e-mail address; this is the last mail to this one."),
        N_("If this was not you, tell the operators at once: someone else has taken over your account."),
    )
    FACTOR_ON = (
        N_("second factor on"),
        N_("From now on, log-in asks for a one-time password. Keep the recovery codes in a safe place."),
        "",
    )
    FACTOR_OFF = (N_("second factor off"), N_("Your account no longer asks for a one-time password."), _NOT_YOU)
    RECOVERY_USED = (N_("recovery code used"), N_("Someone logged in to your account with a recovery code."), _NOT_YOU)
    # fmt: on
    ERASE_ASKED = (N_("your account will be deleted"), "", _NOT_YOU)


class Addressee(Protocol):
    """The recipient of a mail."""

    @property
    def id(self) -> int:
        """Return the number of the account."""
        ...

    @property
    def name(self) -> str:
        """Return the name that the person chose."""
        ...

    @property
    def email_addr(self) -> str:
        """Return the account's address."""
        ...

    @property
    def language(self) -> str:
        """Return the language of the pages; empty: none was chosen."""
        ...


class AccountMails:
    """Writes mails about accounts; each is stored in the transaction of its cause."""

    def __init__(self, ctx: ServiceContext, name: str) -> None:
        """``name``: the service's public name."""
        self._ctx = ctx
        self._name = name

    def send(
        self,
        tx: Transaction,
        user: Addressee,
        letter: Letter,
        *,
        recipient: str = "",
        url: str = "",
        days: float = 0,
    ) -> None:
        """Queue a mail.  ``recipient``: if it is not the account's own address."""
        # An unconfirmed address may be a stranger's, and the name would carry a message to them.
        content, named = partial(_content, letter, url=url, days=days), letter is not Letter.CONFIRM
        self.send_text(tx, user, content, recipient=recipient, named=named)

    def send_text(
        self,
        tx: Transaction,
        user: Addressee,
        content: Callable[[], tuple[str, str]],
        *,
        recipient: str = "",
        named: bool = True,
    ) -> None:
        """Queue a mail whose subject and text are written by ``content`` in the language of the account."""
        with use_language(chosen(user.language)):
            subject, text = content()
            greeting = _("Hello %(name)s,") % {"name": user.name} if named else _("Hello,")
            mails.post(
                tx,
                recipient=recipient or user.email_addr,
                subject=f"{self._name}: {subject}",
                body=f"{greeting}\n\n{text}\n\n{self._name}\n{self._ctx.master_url}\n",
                now=self._ctx.clock(),
            )

    def send_reset_link(
        self, tx: Transaction, user: Addressee, *, now: float, by_operator: bool = False
    ) -> None:
        """Send a link for a new password; earlier links become invalid."""
        code, end = secrets.token_urlsafe(32), now + RESET_SECONDS
        credentials.add_codes(tx, UserId(user.id), Purpose.RESET_PASSWORD, [code], now=now, expire_time=end)
        letter = Letter.RESET_BY_OPERATOR if by_operator else Letter.RESET
        self.send(tx, user, letter, url=self._ctx.url(f"password_new.php?code={code}"))

    def send_confirmation(self, tx: Transaction, user: Addressee, *, now: float) -> None:
        """Send a link that confirms the account's address; earlier links become invalid."""
        code, end = secrets.token_urlsafe(32), now + CONFIRM_SECONDS
        credentials.add_codes(tx, UserId(user.id), Purpose.CONFIRM_EMAIL, [code], now=now, expire_time=end)
        self.send(tx, user, Letter.CONFIRM, url=self._ctx.url(f"email_confirm.php?code={code}"))


def _content(letter: Letter, *, url: str, days: float) -> tuple[str, str]:
    """Return subject and text of a mail."""
    subject, text, after = letter.value
    if letter is Letter.ERASE_ASKED:
        text = ngettext(
            "Your account will be deleted in %(days)d day. Until then you can log in and cancel that.",
            "Your account will be deleted in %(days)d days. Until then you can log in and cancel that.",
            round(days),
        ) % {"days": round(days)}
    parts = [_(text), *([url] if url else []), *([_(after)] if after else [])]
    return _(subject), ("\n\n" if url else "\n").join(parts)


log = structlog.get_logger(__name__)

FIRST_PAUSE_SECONDS = 60.0
LONGEST_PAUSE_SECONDS = 6 * 3600.0


class Mailer:
    """The daemon that sends queued mails."""

    name = "mailer"

    def __init__(self, ctx: ServiceContext, settings: MailSection, root: Path) -> None:
        """``root``: the service's folder, which contains ``outbox/``."""
        self._ctx = ctx
        self._settings = settings
        self._root = root

    async def step(self) -> int:
        """Send the mails that are due; return how many were tried."""
        ctx = self._ctx
        due = await ctx.store.aread(partial(mails.waiting, now=ctx.clock()))
        for mail in due:
            try:
                await asyncio.to_thread(self._send, mail)
            except (OSError, smtplib.SMTPException, ValueError) as error:
                again = ctx.clock() + min(FIRST_PAUSE_SECONDS * 2**mail.attempts, LONGEST_PAUSE_SECONDS)
                log.warning("mail_failed", mail=mail.id, attempt=mail.attempts + 1, error=str(error))
                failed = partial(mails.set_failed, mail_id=mail.id, error=str(error), next_time=again)
                await ctx.store.awrite(failed)
            else:
                await ctx.store.awrite(partial(mails.set_sent, mail_id=mail.id, now=ctx.clock()))
        return len(due)

    def _send(self, mail: Mail) -> None:
        message = message_of(mail, self._settings, self._ctx.master_url)
        if self._settings.host:
            send(message, self._settings)
        else:
            # The name comes from the number: a second attempt replaces the first.
            write_private(outbox(self._root) / f"{mail.id:08d}.eml", message.as_bytes())


def outbox(root: Path) -> Path:
    """Return the folder where mails are written if there is no mail server."""
    return root / "outbox"


def message_of(mail: Mail, settings: MailSection, master_url: str) -> EmailMessage:
    """Return a mail with its headers; raise ValueError for characters that headers cannot contain."""
    host = urlsplit(master_url).hostname or "localhost"
    message = EmailMessage()
    message["From"] = settings.sender or f"noreply@{host}"
    message["To"] = mail.recipient
    message["Subject"] = mail.subject
    message["Date"] = formatdate(mail.create_time)
    message["Message-ID"] = f"<{mail.id}.{int(mail.create_time)}@{host}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(mail.body)
    return message


def send(message: EmailMessage, mail: MailSection) -> None:
    """Send a mail through the mail server."""
    if mail.security == "tls":
        server: smtplib.SMTP = smtplib.SMTP_SSL(
            mail.host, mail.port, timeout=mail.timeout, context=ssl.create_default_context()
        )
    else:
        server = smtplib.SMTP(mail.host, mail.port, timeout=mail.timeout)
    with server:
        if mail.security == "starttls":
            server.starttls(context=ssl.create_default_context())
        if mail.user:
            server.login(mail.user, mail.password)
        server.send_message(message)
