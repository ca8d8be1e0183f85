"""Who may submit which jobs, and how many: tokens, and accounts of the web site.

An account that may submit has one token of its own, which no text opens: `submitter_of`.  Its batches belong to that token, so
share, limits and ownership are those of any other token.
"""

from __future__ import annotations

from cobblestone.domain.errors import Conflict, NotAllowed, NotFound
from cobblestone.domain.people import Scope, SubmitRights, User
from cobblestone.domain.reasons import phrase
from cobblestone.domain.values import UserId
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.people import users
from cobblestone.store.people.credentials import RIGHTS, TOKENS, ApiToken
from cobblestone.store.work import batches, steps
from cobblestone.store.work.batches import BatchRow

_ALLOW = (
    "INSERT INTO api_token (name, token_hash, scopes, create_time, user_id) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (token_hash) DO UPDATE SET revoke_time = NULL"
)
_ALLOWED = "api_token WHERE token_hash = ? AND revoke_time IS NULL"
_IN_GOOD_STANDING = (
    " AND EXISTS (SELECT 1 FROM user_account u WHERE u.id = api_token.user_id"
    " AND u.blocked_reason = '' AND u.erase_time IS NULL AND u.erased_time IS NULL)"
)


def _hash(user_id: UserId) -> str:
    return f"user {user_id}"  # no hash of a text looks like that


def submitter_of(db: Database, user_id: UserId) -> ApiToken | None:
    """Return the token that an account submits with; None: it may not submit (any more), or is blocked or being deleted.

    Ask in the transaction that uses the answer.  Batches that are made with its id as ``token_id`` are the account's own, and
    `own_batch` finds no other; `check_rights` says whether more jobs may be submitted with it.
    """
    return db.first(TOKENS, _ALLOWED + _IN_GOOD_STANDING, (_hash(user_id),))


def token_of(db: Database, user_id: UserId) -> ApiToken | None:
    """Return the same, also while the account is blocked: for operators, who look at it and change it."""
    return db.first(TOKENS, _ALLOWED, (_hash(user_id),))


def allow(tx: Transaction, user_id: UserId, rights: SubmitRights, *, now: float) -> None:
    """Let an account submit jobs, or change what it may submit.  It keeps its earlier batches.

    Raises:
        NotFound: there is no such app.
    """
    check_apps(tx, rights)
    scopes = f"{Scope.READ} {Scope.SUBMIT}"
    tx.execute(_ALLOW, (f"user {user_id}", _hash(user_id), scopes, now, user_id))
    tx.execute(RIGHTS.update("api_token", key="token_hash"), (*RIGHTS.values(rights), _hash(user_id)))


def withdraw(tx: Transaction, user_id: UserId, *, now: float) -> None:
    """Take the right to submit from an account; jobs that it has submitted go on."""
    tx.execute(
        "UPDATE api_token SET revoke_time = ? WHERE token_hash = ? AND revoke_time IS NULL",
        (now, _hash(user_id)),
    )


def check_apps(db: Database, rights: SubmitRights) -> None:
    """Check that the named apps exist.  Raises NotFound."""
    for name in rights.apps or ():
        if apps.app_by_name(db, name) is None:
            raise NotFound(f"There is no app {name[:60]!r}. See: cobblestone app list")


def jobs_in_progress(db: Database, token_id: int) -> int:
    """Return how many unfinished jobs a submitter has, in batches that are not cancelled."""
    return db.number(
        f"SELECT coalesce(sum(njobs - n_success - n_error), 0) FROM batch WHERE token_id = ? AND {steps.OPEN_BATCH}",
        (token_id,),
    )


def check_rights(tx: Transaction, submitter: ApiToken | None, app: str, n_jobs: int, *, now: float) -> None:
    """Check, in the transaction that stores them, that a submitter may submit so many more jobs of an app.

    Under a limit, one transaction at a time submits with a token.  ``submitter``: None has all rights.

    Raises:
        NotAllowed: the right was withdrawn meanwhile, or does not include the app.
        Conflict: it would have too many unfinished jobs.
    """
    if submitter is None:
        return
    if submitter.rights.max_jobs is not None:
        tx.lock("api_token", [submitter.id])
    found = (
        tx.first(TOKENS, "api_token WHERE id = ?", (submitter.id,))
        if submitter.user_id is None
        else submitter_of(tx, submitter.user_id)
    )
    if found is None or not found.usable(now):
        raise NotAllowed(phrase("You may not submit jobs any more. Ask the project's operator."))
    rights = found.rights
    if rights.apps is not None and app not in rights.apps:
        names = ", ".join(rights.apps)
        raise NotAllowed(phrase("You may submit jobs of {apps} only. Ask the operator.", apps=names))
    if rights.max_jobs is not None and n_jobs:
        left = rights.max_jobs - jobs_in_progress(tx, found.id)
        if n_jobs > left:
            text = phrase("You may submit {n} more {n:job|jobs} until some are finished.", n=max(left, 0))
            raise Conflict(text)


def own_batch(db: Database, submitter: ApiToken, batch_id: int) -> BatchRow:
    """Return a batch that a submitter may see: an account its own, a token of the project any.

    Raises:
        NotFound: there is none, or it is somebody else's (which is not told).
    """
    found = batches.batch_by_id(db, batch_id)
    if submitter.user_id is not None and found.token_id != submitter.id:
        raise NotFound(phrase("There is no batch {id}. See: cobblestone batch list", id=batch_id))
    return found


def owner_of(db: Database, batch: BatchRow) -> User | None:
    """Return the account that submitted a batch; None: a token of the project did."""
    user_id = db.value("SELECT user_id FROM api_token WHERE id = ?", (batch.token_id,))
    return None if user_id is None else users.user_by_id(db, user_id)
