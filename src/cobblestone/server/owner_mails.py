"""Mails to owners of computers that fail, for those who want them."""

from __future__ import annotations

from collections.abc import Sequence

from cobblestone.domain.hosts import Host
from cobblestone.domain.people import User
from cobblestone.domain.reasons import Reason
from cobblestone.server.context import ServerContext
from cobblestone.store import mails
from cobblestone.store.database import Transaction

QUIET_SECONDS = 7 * 86400.0
"""One mail about a computer is enough for a week; the client's notices come all the time."""


def tell_owner(
    tx: Transaction, ctx: ServerContext, user: User, host: Host, problems: Sequence[Reason], *, now: float
) -> None:
    """Write to a computer's owner what is wrong with it, unless that was done lately or is not wanted."""
    if not problems or not user.send_email:
        return
    project = ctx.settings.project
    subject = f"{project.name}: your computer {host.id} fails"
    if mails.written_since(tx, recipient=user.email_addr, subject=subject, since=now - QUIET_SECONDS):
        return
    texts = "\n\n".join(problem.text() for problem in problems)
    page = f"{ctx.master_url}show_host_detail.php?hostid={host.id}"
    body = (
        f"Hello {user.name},\n\n{texts}\n\nThe computer and its tasks: {page}\n"
        f"If you do not want such mails: {ctx.master_url}home.php\n\n{project.name}\n"
    )
    mails.post(tx, recipient=user.email_addr, subject=subject, body=body, now=now)
