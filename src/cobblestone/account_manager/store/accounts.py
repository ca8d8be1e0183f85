"""Accounts, their accounts at projects, and tokens for the operator's programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from cobblestone.account_manager.model import AccountChoices, ManagerAccount, ProjectAccount
from cobblestone.domain.errors import Conflict, StoreError
from cobblestone.domain.statistics import RecentAverage
from cobblestone.policy.credit.rac import update_average
from cobblestone.service.languages import N_
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import Column, RowMapper
from cobblestone.store.people.credentials import IssuedToken, hash_of

ACCOUNT = RowMapper(ManagerAccount)
PROJECT_ACCOUNT = RowMapper(ProjectAccount)
OWN_ACCOUNT = N_("You created this account yourself: choose there what statistics sites may show.")
_CREDIT = PROJECT_ACCOUNT.writer(without=("weak_key", "problem", "told_time", "told_problem"))
_NEW = RowMapper(ManagerAccount).writer(without=("id", "weak_authenticator"))
_CHOICES = ACCOUNT.writer(only=("choices",))


def create_account(
    tx: Transaction, new: ManagerAccount, passwd_hash: str, *, weak_suffix: str
) -> ManagerAccount:
    """Add an account; ``new.id`` and its weak key are assigned here: the number, ``_`` and the suffix.

    Raises:
        Conflict: the address has an account.
    """
    if tx.one("SELECT 1 FROM account WHERE email_addr = ?", (new.email_addr,)):
        raise Conflict(f"{new.email_addr} already has an account.")
    first = tx.one("SELECT 1 FROM account LIMIT 1") is None
    id_ = tx.insert(
        _NEW.insert("account", "passwd_hash", "weak_authenticator"),
        (*_NEW.values(new), passwd_hash, f"new_{weak_suffix}"),
    )
    # The first one is the operator's: the person who sets up an account manager joins first.
    tx.change(
        "account", id_, weak_authenticator=f"{id_}_{weak_suffix}", is_operator=int(first or new.is_operator)
    )
    made = account_by_id(tx, id_)
    if made is None:
        raise StoreError("A row vanished inside its own transaction.")
    return made


def account_by_id(db: Database, account_id: int) -> ManagerAccount | None:
    """Return an account, or None."""
    return db.first(ACCOUNT, "account WHERE id = ?", (account_id,))


def account_of_session(db: Database, account_id: int, session_key: str) -> ManagerAccount | None:
    """Return the account of a session; None if there is none, or the session was logged out."""
    ended = db.one("SELECT 1 FROM ended_session WHERE session_hash = ?", (session_key,))
    return None if ended else account_by_id(db, account_id)


def operators(db: Database) -> list[ManagerAccount]:
    """Return the accounts of operators."""
    return db.load(ACCOUNT, "account WHERE is_operator = 1 ORDER BY id")


def set_email_verified(tx: Transaction, account_id: int, *, now: float) -> None:
    """Record that a mail to an account's address arrived."""
    tx.execute(
        "UPDATE account SET email_verified_time = ? WHERE id = ? AND email_verified_time IS NULL",
        (now, account_id),
    )


def account_by_key(db: Database, key: str) -> ManagerAccount | None:
    """Return the account of a strong or weak key."""
    if not key:
        return None
    column = "weak_authenticator" if "_" in key else "authenticator"
    return db.first(ACCOUNT, f"account WHERE {column} = ?", (key,))


def account_by_email(db: Database, email_addr: str) -> tuple[ManagerAccount, str] | None:
    """Return the account of an address, with the stored hash of its password."""
    row = db.one(f"SELECT {ACCOUNT.columns}, passwd_hash FROM account WHERE email_addr = ?", (email_addr,))
    return None if row is None else (ACCOUNT.load(row), str(row[-1]))


def change_choices(
    tx: Transaction, account_id: int, change: Callable[[AccountChoices], AccountChoices]
) -> None:
    """Change an account's choices from what they are now: another page may have stored some meanwhile."""
    tx.lock("account", [account_id])
    account = account_by_id(tx, account_id)
    if account is not None:
        changed = replace(account, choices=change(account.choices))
        tx.execute(_CHOICES.update("account"), (*_CHOICES.values(changed), account_id))


def set_password(tx: Transaction, account_id: int, passwd_hash: str, *, authenticator: str) -> None:
    """Set a password; all sessions end, computers continue."""
    tx.execute(
        "UPDATE account SET passwd_hash = ?, authenticator = ?, session_epoch = session_epoch + 1 WHERE id = ?",
        (passwd_hash, authenticator, account_id),
    )


def erase_account(tx: Transaction, account_id: int) -> None:
    """Delete an account with all data about its computers; sums of projects stay."""
    tx.lock("account", [account_id])
    tx.execute(
        "DELETE FROM host_project WHERE host_id IN (SELECT id FROM host WHERE account_id = ?)", (account_id,)
    )
    tx.execute("DELETE FROM host WHERE account_id = ?", (account_id,))
    for table in ("project_account", "granted_account", "figure", "listed_job"):
        tx.execute(f"DELETE FROM {table} WHERE account_id = ?", (account_id,))
    tx.execute("DELETE FROM one_time_code WHERE user_id = ?", (account_id,))
    tx.execute("DELETE FROM daily WHERE owner = 'account' AND owner_id = ?", (account_id,))
    # Without the person an entry still says what a project got on a day.
    tx.execute("UPDATE ledger SET account_id = 0 WHERE account_id = ?", (account_id,))
    tx.execute("DELETE FROM account WHERE id = ?", (account_id,))


# -- at projects ----------------------------------------------------------------------------------------


def project_accounts(db: Database, account_id: int) -> dict[int, ProjectAccount]:
    """Return an account's accounts at projects."""
    found = db.load(PROJECT_ACCOUNT, "project_account WHERE account_id = ?", (account_id,))
    return {each.project_id: each for each in found}


def want_project_accounts(tx: Transaction, *, account_id: int, now: float) -> None:
    """Request accounts at all projects where the person has none yet, except where all share one."""
    tx.execute(
        "INSERT INTO project_account (account_id, project_id, next_try)"
        " SELECT ?, id, ? FROM project WHERE shared_key = '' AND stopped = 0"
        " ON CONFLICT (account_id, project_id) DO NOTHING",
        (account_id, now),
    )
    tx.wake("project_accounts")


def want_accounts_at(tx: Transaction, project_id: int, *, now: float) -> None:
    """Request accounts for all people at a new project."""
    tx.execute(
        "INSERT INTO project_account (account_id, project_id, next_try) SELECT id, ?, ? FROM account WHERE 0 = 0"
        " ON CONFLICT (account_id, project_id) DO NOTHING",
        (project_id, now),
    )
    tx.wake("project_accounts")


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedAccount:
    """An account to be created at a project."""

    account: ManagerAccount
    project_id: int
    failures: int
    weak_key: str  #: if there is one already: the project only needs to be told again
    since: float  #: what it is wanted by, so that a wish of meanwhile is not lost


_WANTED = RowMapper(
    WantedAccount,
    {
        "account": ACCOUNT.embedded("a"),
        **{name: f"p.{name}" for name in ("project_id", "failures", "weak_key")},
        "since": "p.next_try",
    },
)


def wanted_accounts(
    db: Database, *, now: float, limit: int, confirmed: bool = False, not_at: Iterable[int] = ()
) -> list[WantedAccount]:
    """Return accounts to be created now, but none at some projects; ``confirmed``: only for people with a confirmed address."""
    only = " AND (a.email_verified_time IS NOT NULL OR p.weak_key <> '')" if confirmed else ""
    only += "".join(f" AND p.project_id <> {int(id_)}" for id_ in not_at)
    return db.load(
        _WANTED,
        "project_account p"
        f" JOIN account a ON a.id = p.account_id WHERE p.next_try <= ?{only} ORDER BY p.next_try LIMIT ?",
        (now, limit),
    )


def want_told(tx: Transaction, account_id: int, *, now: float) -> None:
    """Have the projects told again about a person's choices for the accounts there."""
    tx.execute(
        "UPDATE project_account SET next_try = ? WHERE account_id = ? AND weak_key <> ''", (now, account_id)
    )
    tx.wake("project_accounts")


def set_own(tx: Transaction, account_id: int, project_id: int, weak_key: str) -> None:
    """Store the key of an account that the person made; only the person can change its settings there."""
    tx.execute(
        "UPDATE project_account SET weak_key = ?, failures = 0, next_try = NULL, problem = '', told_time = NULL,"
        " told_problem = ? WHERE account_id = ? AND project_id = ?",
        (weak_key, OWN_ACCOUNT, account_id, project_id),
    )


def set_made(tx: Transaction, wanted: WantedAccount, weak_key: str) -> None:
    """Store the key of an account created at a project."""
    tx.execute(
        "UPDATE project_account SET weak_key = ?, problem = '' WHERE account_id = ? AND project_id = ?",
        (weak_key, wanted.account.id, wanted.project_id),
    )


def set_told(tx: Transaction, wanted: WantedAccount, problem: str, *, now: float | None) -> None:
    """Record that a project was told, and what it did not accept; ``now`` None: it accepted nothing."""
    tx.execute(
        "UPDATE project_account SET failures = 0, told_time = ?, told_problem = ?,"
        " next_try = CASE WHEN next_try = ? THEN NULL ELSE next_try END WHERE account_id = ? AND project_id = ?",
        (now, problem[:500], wanted.since, wanted.account.id, wanted.project_id),
    )


def set_not_made(tx: Transaction, wanted: WantedAccount, problem: str, *, next_try: float | None) -> None:
    """Record why an account could not be created, or told; ``next_try`` None: the person must act."""
    column = "told_problem" if wanted.weak_key else "problem"
    tx.execute(
        f"UPDATE project_account SET failures = failures + 1, next_try = ?, {column} = ?"
        " WHERE account_id = ? AND project_id = ?",
        (next_try, problem[:500], wanted.account.id, wanted.project_id),
    )


def with_credit(known: ProjectAccount, credit: float, *, now: float) -> ProjectAccount:
    """Return an account at a project with more estimated credit in its sum and recent average."""
    before = RecentAverage(known.recent, known.recent_time or now)
    after = update_average(before, credit=credit, work_start=before.time, now=max(now, before.time))
    return replace(known, total=known.total + credit, recent=after.value, recent_time=after.time)


def put_credit(tx: Transaction, account_id: int, changed: Iterable[ProjectAccount]) -> None:
    """Store the sums and averages of a person's accounts at projects."""
    tx.execute_many(
        _CREDIT.upsert("project_account", "account_id", "project_id"),
        [(*_CREDIT.values(each), account_id) for each in changed],
    )


#: The last use of a token is noted once in so many seconds: not every question is to write.
USE_SECONDS = 60.0


class OperatorScope(StrEnum):
    """The permissions of a token."""

    READ = "read"  #: figures, projects, daemons, news
    OPERATE = "operate"  #: pause and resume projects, publish and withdraw news


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorToken(IssuedToken):
    """A token of an account manager."""

    scopes: frozenset[OperatorScope]
    used_time: float | None = None  #: Unix seconds; None: never


_TOKENS = RowMapper(
    OperatorToken,
    {"scopes": Column(decode=lambda text: frozenset(OperatorScope(word) for word in text.split()))},
)


def create_token(
    tx: Transaction,
    secret: str,
    *,
    name: str,
    scopes: Iterable[OperatorScope],
    now: float,
    expire_time: float | None,
) -> OperatorToken:
    """Store a token whose text is ``secret``, which cannot be read back."""
    token_id = tx.insert(
        "INSERT INTO api_token (name, token_hash, scopes, create_time, expire_time) VALUES (?, ?, ?, ?, ?)",
        (name, hash_of(secret), " ".join(sorted(scopes)), now, expire_time),
    )
    return _token(tx, token_id)


def token_by_secret(db: Database, secret: str) -> OperatorToken | None:
    """Return the token of a text, usable or not; None if it is unknown."""
    return db.first(_TOKENS, "api_token WHERE token_hash = ?", (hash_of(secret),))


def list_tokens(db: Database) -> list[OperatorToken]:
    """Return all tokens, newest first."""
    return db.load(_TOKENS, "api_token ORDER BY id DESC")


def revoke_token(tx: Transaction, token_id: int, *, now: float) -> OperatorToken:
    """Revoke a token; repeating it changes nothing.  Raises NotFound."""
    tx.execute("UPDATE api_token SET revoke_time = ? WHERE id = ? AND revoke_time IS NULL", (now, token_id))
    return _token(tx, token_id)


def note_use(tx: Transaction, token_id: int, *, now: float) -> None:
    """Record that a token was used."""
    tx.change("api_token", token_id, used_time=now)


def _token(db: Database, token_id: int) -> OperatorToken:
    missing = f"There is no token {token_id}. See: cobblestone manager token list DIR"
    return db.needed(_TOKENS, "api_token WHERE id = ?", (token_id,), missing)
