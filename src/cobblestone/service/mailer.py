"""Sending mails: by SMTP, or into the folder ``outbox/`` of the service."""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from email.message import EmailMessage
from email.utils import formatdate
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from cobblestone.ops.durable_files import write_private
from cobblestone.ops.settings import MailSection
from cobblestone.service.context import ServiceContext
from cobblestone.store.people import mails
from cobblestone.store.people.mails import Mail

log = structlog.get_logger(__name__)

FIRST_PAUSE_SECONDS = 60.0
LONGEST_PAUSE_SECONDS = 6 * 3600.0


class Mailer:
    """The daemon that empties the queue of mails."""

    name = "mailer"

    def __init__(self, ctx: ServiceContext, settings: MailSection, root: Path) -> None:
        """``root``: the folder of the service, in which ``outbox/`` lies."""
        self._ctx = ctx
        self._settings = settings
        self._root = root

    async def step(self) -> int:
        """Send the mails that are due; how many were tried."""
        ctx = self._ctx
        due = await ctx.store.aread(partial(mails.waiting, now=ctx.clock()))
        for mail in due:
            try:
                await asyncio.to_thread(self._send, mail)
            except (OSError, smtplib.SMTPException, ValueError) as error:
                pause = min(FIRST_PAUSE_SECONDS * 2**mail.attempts, LONGEST_PAUSE_SECONDS)
                log.warning("mail_failed", mail=mail.id, attempt=mail.attempts + 1, error=str(error))
                await ctx.store.awrite(
                    partial(
                        mails.set_failed, mail_id=mail.id, error=str(error), next_time=ctx.clock() + pause
                    )
                )
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
    """Where mails lie when there is no mail server."""
    return root / "outbox"


def message_of(mail: Mail, settings: MailSection, master_url: str) -> EmailMessage:
    """Return a mail with its headers; raise ValueError for what no header may hold."""
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
    """Hand a mail to the mail server."""
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
