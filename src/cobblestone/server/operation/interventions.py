"""Actions of operators on a running project: shared by pages, API and command line, each recorded in the audit log."""

from __future__ import annotations

import secrets
from dataclasses import replace

from cobblestone.domain.errors import Conflict, NotAllowed
from cobblestone.domain.people import SubmitRights, User
from cobblestone.domain.reasons import phrase
from cobblestone.domain.values import UserId
from cobblestone.server.accounts.service import Accounts
from cobblestone.server.core.context import ServerContext
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Transaction
from cobblestone.store.operation import audit, interventions
from cobblestone.store.operation.audit import Actor
from cobblestone.store.operation.interventions import Blockable
from cobblestone.store.people import account_changes, users
from cobblestone.store.people.credentials import ApiToken
from cobblestone.store.work import batches, lifecycle, submitters
from cobblestone.store.work.batches import MAX_JOBS_PER_CALL, BatchRow
from cobblestone.wire.project.account import passwd_hash, weak_authenticator


async def cancel_batch(ctx: ServerContext, batch_id: int, actor: Actor) -> BatchRow:
    """Cancel the unfinished jobs; return the batch after that.

    Raises:
        NotFound: there is no such batch.
        Conflict: it is retired.
    """

    def begin(tx: Transaction) -> None:
        before = batches.batch_by_id(tx, batch_id)
        after = batches.abort_batch(tx, batch_id)
        old, new = {"state": before.state.name}, {"state": after.state.name}
        _note(tx, ctx, actor, "cancel batch", f"batch {batch_id}", old, new)

    await ctx.store.awrite(begin)
    after: int | None = 0
    while after is not None:
        after = await ctx.store.awrite(
            lambda tx, after=after: batches.cancel_jobs(tx, batch_id, after=after, now=ctx.clock())
        )
    return await ctx.store.aread(lambda db: batches.batch_by_id(db, batch_id))


async def retry_batch(
    ctx: ServerContext, batch_id: int, actor: Actor, *, submitter: ApiToken | None = None
) -> BatchRow:
    """Submit the failed or cancelled jobs of a batch again, as a new batch.  ``submitter``: who asks; None: an operator.

    Raises:
        NotFound: there is no such batch, or an input file is gone.
        NotAllowed: the submitter may not submit such jobs any more.
        Conflict: the batch has no such jobs, or more than the submitter may have unfinished.
    """

    def check(tx: Transaction, old: BatchRow, n_jobs: int) -> None:
        submitters.check_rights(tx, submitter, apps.app_by_id(tx, old.app_id).name, n_jobs, now=ctx.clock())

    def begin(tx: Transaction) -> tuple[BatchRow, list[int]]:
        old = batches.batch_by_id(tx, batch_id)
        ids = interventions.failed_workunits(tx, batch_id, after=0, limit=MAX_JOBS_PER_CALL)
        if not ids:
            raise Conflict(phrase("Batch {id} has no closed failed jobs.", id=batch_id))
        check(tx, old, old.n_error)
        new = _batch_like(tx, ctx, old, f"retry of {old.name}")
        new = interventions.copy_jobs(tx, new, ids, now=ctx.clock())
        _note(tx, ctx, actor, "retry batch", f"batch {batch_id}", None, {"new_batch": new.id})
        return new, ids

    new, ids = await ctx.store.awrite(begin)
    while len(ids) == MAX_JOBS_PER_CALL:

        def more(tx: Transaction, after: int = ids[-1]) -> list[int]:
            found = interventions.failed_workunits(tx, batch_id, after=after, limit=MAX_JOBS_PER_CALL)
            if found:
                check(tx, new, len(found))
                interventions.copy_jobs(tx, batches.batch_by_id(tx, new.id), found, now=ctx.clock())
            return found

        try:
            ids = await ctx.store.awrite(more)
        except (Conflict, NotAllowed):  # others were submitted meanwhile: all or nothing
            await cancel_batch(ctx, new.id, actor)
            raise
    return await ctx.store.awrite(lambda tx: batches.close_batch(tx, new.id, now=ctx.clock()))


def cancel_workunit(tx: Transaction, ctx: ServerContext, workunit_id: int, actor: Actor) -> None:
    """Cancel a workunit.  Raises NotFound, Conflict."""
    interventions.cancel_workunit(tx, workunit_id, now=ctx.clock())
    _note(tx, ctx, actor, "cancel workunit", f"workunit {workunit_id}", None, {"cancelled": True})


def retry_workunit(tx: Transaction, ctx: ServerContext, workunit_id: int, actor: Actor) -> BatchRow | None:
    """Retry a workunit: an unfinished one may fail as many times again; a failed one becomes a new batch, which is returned.

    Raises:
        NotFound: there is none, or an input file is gone.
        Conflict: it has an answer.
    """
    state = interventions.workunit_state(tx, workunit_id)
    target = f"workunit {workunit_id}"
    if lifecycle.try_again(tx, workunit_id):
        _note(tx, ctx, actor, "retry workunit", target, None, {"function_called_again": True})
        return None
    if not state.finished:
        allowed = interventions.give_another_chance(tx, workunit_id, now=ctx.clock())
        _note(tx, ctx, actor, "retry workunit", target, None, {"further_failures_allowed": allowed})
        return None
    if not state.workunit.error_mask or state.workunit.batch_id is None:
        raise Conflict(f"Workunit {workunit_id} has an answer; there is nothing to retry.")
    old = batches.batch_by_id(tx, state.workunit.batch_id)
    new = _batch_like(tx, ctx, old, f"retry of {state.workunit.name}")
    interventions.copy_jobs(tx, new, [workunit_id], now=ctx.clock())
    _note(tx, ctx, actor, "retry workunit", target, None, {"new_batch": new.id})
    return batches.close_batch(tx, new.id, now=ctx.clock())


def block(
    tx: Transaction, ctx: ServerContext, noun: Blockable, number: int, reason: str, actor: Actor
) -> None:
    """Send no more work to a host or to a user's hosts; with an empty reason, send work again.  Raises NotFound."""
    before = interventions.block(tx, noun, number, reason)
    action = f"{'block' if reason else 'unblock'} {noun}"
    _note(tx, ctx, actor, action, f"{noun} {number}", {"blocked": before}, {"blocked": reason})


def set_role(tx: Transaction, ctx: ServerContext, user_id: int, role: str, actor: Actor) -> User:
    """Make a user an operator, or a plain volunteer again.  Raises NotFound, Conflict."""
    before = interventions.set_role(tx, user_id, role)
    _note(tx, ctx, actor, "set role", f"user {user_id}", {"role": before}, {"role": role})
    return replace(interventions.user_or_missing(tx, user_id), role=role)


async def reset_password(ctx: ServerContext, user_id: int, actor: Actor) -> str:
    """Set a new random password and return it; sessions end, and clients must attach again.  Raises NotFound."""
    user = await ctx.store.aread(lambda db: interventions.user_or_missing(db, user_id))
    password = secrets.token_urlsafe(12)
    hashed = await Accounts(ctx).passwords.hash(passwd_hash(password, user.email_addr))
    authenticator = secrets.token_hex(16)

    def change(tx: Transaction) -> None:
        account_changes.set_password(tx, UserId(user_id), hashed)
        account_changes.set_keys(
            tx,
            UserId(user_id),
            authenticator=authenticator,
            weak_authenticator=weak_authenticator(
                user_id, authenticator=authenticator, secret=secrets.token_hex(16)
            ),
        )
        _note(tx, ctx, actor, "reset password", f"user {user_id}", None, None)

    await ctx.store.awrite(change)
    return password


def set_rights(
    tx: Transaction, ctx: ServerContext, user_id: int, rights: SubmitRights | None, actor: Actor
) -> None:
    """Let an account submit jobs, change what it may submit, or (None) take that right away.  Raises NotFound, Conflict."""
    user = interventions.user_or_missing(tx, user_id)
    held = submitters.token_of(tx, user.id)
    if rights is None:
        submitters.withdraw(tx, user.id, now=ctx.clock())
    elif user.erase_time is not None:
        raise Conflict(f"The account {user_id} is being deleted.")
    else:
        submitters.allow(tx, user.id, rights, now=ctx.clock())
    _note(tx, ctx, actor, "set rights to submit", f"user {user_id}", held and held.rights, rights)


def delete_user(tx: Transaction, ctx: ServerContext, user_id: int, actor: Actor) -> None:
    """Erase an account: personal data is deleted, credit stays with an unnamed user.  Raises NotFound."""
    account_changes.ask_to_erase(tx, interventions.user_or_missing(tx, user_id).id, ctx.clock())
    _note(tx, ctx, actor, "delete user", f"user {user_id}", None, {"erase": True})


def publish_news(tx: Transaction, ctx: ServerContext, title: str, text: str, actor: Actor) -> int:
    """Publish a news item, which clients show as a notice; return its id."""
    news_id = users.add_news(tx, title, text, now=ctx.clock())
    _note(tx, ctx, actor, "publish news", f"news {news_id}", None, {"title": title, "text": text})
    return news_id


def edit_news(tx: Transaction, ctx: ServerContext, news_id: int, title: str, text: str, actor: Actor) -> None:
    """Change a news item.  Clients that have shown it do not show it again.  Raises NotFound."""
    before = users.set_news(tx, news_id, title, text)
    old, new = {"title": before.title, "text": before.text}, {"title": title, "text": text}
    _note(tx, ctx, actor, "edit news", f"news {news_id}", old, new)


def withdraw_news(tx: Transaction, ctx: ServerContext, news_id: int, actor: Actor) -> None:
    """Remove a news item from the pages and the feed; a client that has shown it keeps it.  Raises NotFound."""
    before = users.withdraw_news(tx, news_id)
    old = {"title": before.title, "text": before.text}
    _note(tx, ctx, actor, "withdraw news", f"news {news_id}", old, None)


def _batch_like(tx: Transaction, ctx: ServerContext, old: BatchRow, name: str) -> BatchRow:
    return batches.create_batch(
        tx, name=name[:200], app_id=old.app_id, priority=old.priority, token_id=old.token_id, now=ctx.clock()
    )


def _note(
    tx: Transaction, ctx: ServerContext, actor: Actor, action: str, target: str, before: object, after: object
) -> None:
    audit.record(tx, actor, action, target, now=ctx.clock(), before=before, after=after)
