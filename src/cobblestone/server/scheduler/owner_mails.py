"""Mails to owners of computers that fail, for those who want them."""

from __future__ import annotations

from collections.abc import Sequence

from cobblestone.domain.exit_statuses import exit_advice
from cobblestone.domain.hosts import Host
from cobblestone.domain.people import User
from cobblestone.domain.reasons import Reason
from cobblestone.server.core.context import ServerContext
from cobblestone.service.languages import chosen, translate_reason, use_language
from cobblestone.service.languages import gettext as _
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import mails
from cobblestone.store.work import job_results

QUIET_SECONDS = 7 * 86400.0
"""One mail about a computer is enough for a week; the client's notices come all the time."""


def tell_owner(
    tx: Transaction, ctx: ServerContext, user: User, host: Host, problems: Sequence[Reason], *, now: float
) -> None:
    """Write to a computer's owner what is wrong with it, unless that was done lately or is not wanted."""
    if not problems or not user.send_email:
        return
    status = job_results.last_exit_status(tx, host.id)
    said = (*problems, exit_advice(status)) if status else problems
    with use_language(chosen(user.language)):
        subject, body = _mail(ctx, user, host, said)
    if not mails.written_since(tx, recipient=user.email_addr, subject=subject, since=now - QUIET_SECONDS):
        mails.post(tx, recipient=user.email_addr, subject=subject, body=body, now=now)


def _mail(ctx: ServerContext, user: User, host: Host, problems: Sequence[Reason]) -> tuple[str, str]:
    """Subject and text, in the current language."""
    project = ctx.settings.project
    subject = _("your computer %(id)d fails") % {"id": host.id}
    paragraphs = [
        _("Hello %(name)s,") % {"name": user.name},
        *(translate_reason(problem) for problem in problems),
        _("The computer and its tasks: %(page)s")
        % {"page": ctx.url(f"show_host_detail.php?hostid={host.id}")},
        _("If you do not want such mails, say so here: %(page)s") % {"page": ctx.url("account.php")},
        project.name,
    ]
    return f"{project.name}: {subject}", "\n\n".join(paragraphs) + "\n"
