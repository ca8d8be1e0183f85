"""Browsers of visitors: the account that has their credit, and what a page gives to those who are logged in."""

from __future__ import annotations

import secrets
from functools import partial

from itsdangerous import BadSignature, URLSafeTimedSerializer

from cobblestone.domain.ids import UserId
from cobblestone.domain.people import User
from cobblestone.server.core.context import ServerContext
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import users
from cobblestone.wire.identity import weak_authenticator

VISITORS_ADDRESS = "visitors@browsers.invalid"
"""Of the account of all visitors; mails cannot be sent there, and nobody can log in."""
_NO_PASSWORD = "!"  # noqa: S105  # no hash: no password fits
TICKET_SECONDS = 86400


def account_ticket(ctx: ServerContext, user: User) -> str:
    """Return what lets a browser compute for an account, for a day; it opens nothing else."""
    return _tickets(ctx).dumps([user.id, user.session_epoch])


def user_of_ticket(tx: Transaction, ctx: ServerContext, ticket: str) -> User | None:
    """Return whose ticket it is; None: nobody's, or one that has ended."""
    try:
        user_id, epoch = _tickets(ctx).loads(ticket, max_age=TICKET_SECONDS)
    except (BadSignature, ValueError, TypeError):
        return None
    user = users.user_by_id(tx, UserId(user_id))
    return None if user is None or user.erased or user.session_epoch != epoch else user


def visitors(tx: Transaction, *, now: float) -> User:
    """Return the account of all visitors, made when the first one comes."""
    found = users.user_by_email(tx, VISITORS_ADDRESS)
    if found is not None:
        return found[0]
    new = users.NewUser(
        name="Visitors' browsers",
        email_addr=VISITORS_ADDRESS,
        passwd_hash=_NO_PASSWORD,
        authenticator=secrets.token_hex(16),
        cross_project_id=secrets.token_hex(16),
        show_hosts=False,
    )
    weak = partial(weak_authenticator, authenticator=new.authenticator, secret=secrets.token_hex(16))
    return users.create_user(tx, new, weak_authenticator_of=weak, now=now)


def _tickets(ctx: ServerContext) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(ctx.secret, salt="browser")
