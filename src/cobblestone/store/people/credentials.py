"""Credentials: tokens of the HTTP API, and one-time codes.

Tokens of the HTTP API.

Only their SHA-256 is stored.  A token has 256 random bits, so no slow hash is needed.  It is found by that hash and compared with
nothing else: how long that takes says something of hashes, and nothing of texts.

Codes that work once: links that log in, confirm an address, or lead to a new password or address, and codes in place of the
second factor; and those that attach computers for a day.

Only their SHA-256 is stored.  A code has at least 80 random bits and is looked at under a rate limit, so no slow hash is needed.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from cobblestone.domain.people import Scope, SubmitRights
from cobblestone.domain.values import HostId, UserId
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import Column, RowMapper
from cobblestone.store.people import mails

PREFIX = "cob_"
ALL_RIGHTS = SubmitRights()


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedToken:
    """A token of any service, without its text."""

    id: int
    name: str
    scopes: frozenset[str]
    create_time: float  #: Unix seconds
    expire_time: float | None = None  #: Unix seconds; None: never
    revoke_time: float | None = None

    def usable(self, now: float) -> bool:
        """Return whether it is accepted at ``now`` (Unix seconds)."""
        return self.revoke_time is None and (self.expire_time is None or now < self.expire_time)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiToken(IssuedToken):
    """A token of a project."""

    scopes: frozenset[Scope]
    user_id: UserId | None = None  #: whose own data it opens; None: a token of the project
    host_id: HostId | None = None  #: the browser that it belongs to
    rights: SubmitRights = ALL_RIGHTS


TOKENS = RowMapper(
    ApiToken,
    {
        "scopes": Column(
            decode=lambda text: frozenset(Scope(word) for word in text.split()),
            encode=lambda scopes: " ".join(sorted(scopes)),
        ),
        "rights": RowMapper(SubmitRights),
    },
)
RIGHTS = RowMapper(SubmitRights).writer()
_STORED = TOKENS.writer(without=("id",))
#: Tokens of the project (0) or of a user, without the one that an account submits with.
_MADE = "api_token WHERE coalesce(user_id, 0) = ? AND substr(token_hash, 1, 5) <> 'user '"


def hash_of(secret: str) -> str:
    """Return the stored hash of a token."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def new_secret() -> str:
    """Return a new token text."""
    return PREFIX + secrets.token_urlsafe(32)


def create_token(
    tx: Transaction,
    secret: str,
    *,
    name: str,
    scopes: Iterable[Scope],
    now: float,
    expire_time: float | None = None,
    user_id: UserId | None = None,
    host_id: HostId | None = None,
    rights: SubmitRights = ALL_RIGHTS,
) -> ApiToken:
    """Store a token made by :func:`new_secret`; the text itself cannot be read back."""
    token = ApiToken(
        id=0,
        name=name,
        scopes=frozenset(scopes),
        create_time=now,
        expire_time=expire_time,
        user_id=user_id,
        host_id=host_id,
        rights=rights,
    )
    values = (*_STORED.values(token), hash_of(secret))
    return replace(token, id=tx.insert(_STORED.insert("api_token", "token_hash"), values))


def token_by_secret(db: Database, secret: str) -> ApiToken | None:
    """Return the token of a text, usable or not; None if unknown."""
    return db.first(TOKENS, "api_token WHERE token_hash = ?", (hash_of(secret),))


def list_tokens(db: Database, *, user_id: UserId | None = None) -> list[ApiToken]:
    """Return all tokens of the project, or those of a user; newest first."""
    return db.load(TOKENS, f"{_MADE} AND host_id IS NULL ORDER BY id DESC", (user_id or 0,))


def revoke_token(tx: Transaction, token_id: int, *, now: float, user_id: UserId | None = None) -> ApiToken:
    """Revoke a token of the project, or of a user; repeating it changes nothing.

    Raises:
        NotFound: there is no such token.
    """
    found = _token(tx, token_id, user_id)
    tx.execute("UPDATE api_token SET revoke_time = ? WHERE id = ? AND revoke_time IS NULL", (now, token_id))
    return replace(found, revoke_time=found.revoke_time or now)


def _token(db: Database, token_id: int, user_id: UserId | None) -> ApiToken:
    missing = f"There is no token {token_id}. See: cobblestone token list"
    return db.needed(TOKENS, f"{_MADE} AND id = ?", (user_id or 0, token_id), missing)


class Purpose(StrEnum):
    """The purpose of a code."""

    RESET_PASSWORD = "reset_password"  # noqa: S105  # a name, not a password
    LOG_IN = "log_in"
    CONFIRM_EMAIL = "confirm_email"  #: that mails to the account's address arrive
    CHANGE_EMAIL = "change_email"
    ATTACH = "attach"  #: for clients that attach by themselves: any number of them, as long as it is good
    RECOVERY = "recovery"  #: in place of the second factor
    #: issuer and subject of a log-in elsewhere, which opens the account as often as it comes
    INSTITUTE = "institute"


@dataclass(frozen=True, slots=True)
class OneTimeCode:
    """A code that can be used now."""

    id: int
    user_id: UserId
    payload: str


_CODES = RowMapper(OneTimeCode)


def _hash(purpose: Purpose, code: str) -> str:
    return hashlib.sha256(f"{purpose} {code}".encode("utf-8", "surrogatepass")).hexdigest()


def add_codes(
    tx: Transaction,
    user_id: UserId,
    purpose: Purpose,
    codes: Sequence[str],
    *,
    now: float,
    expire_time: float | None = None,
    payload: str = "",
) -> None:
    """Store new codes; the user's earlier ones for this purpose become invalid."""
    drop_codes(tx, user_id, purpose)
    tx.execute_many(
        "INSERT INTO one_time_code (user_id, purpose, code_hash, payload, create_time, expire_time) VALUES (?, ?, ?, ?, ?, ?)",
        [(user_id, purpose, _hash(purpose, code), payload, now, expire_time) for code in codes],
    )


def find_code(db: Database, purpose: Purpose, code: str, *, now: float) -> OneTimeCode | None:
    """Return a code that is still valid, or None."""
    valid = (
        "one_time_code WHERE code_hash = ? AND used_time IS NULL AND (expire_time IS NULL OR expire_time > ?)"
    )
    return db.first(_CODES, valid, (_hash(purpose, code), now))


def use_code(tx: Transaction, purpose: Purpose, code: str, *, now: float) -> OneTimeCode | None:
    """Use up a code; return None if it is invalid or was used before."""
    found = find_code(tx, purpose, code, now=now)
    if found is None:
        return None
    taken = tx.execute(
        "UPDATE one_time_code SET used_time = ? WHERE id = ? AND used_time IS NULL", (now, found.id)
    )
    return found if taken else None  # another process was faster


def count_codes(db: Database, user_id: UserId, purpose: Purpose) -> int:
    """Return how many unused codes a user has."""
    return db.number(
        "SELECT count(*) FROM one_time_code WHERE user_id = ? AND purpose = ? AND used_time IS NULL",
        (user_id, purpose),
    )


def drop_codes(tx: Transaction, user_id: UserId, *purposes: Purpose) -> None:
    """Forget a user's codes."""
    for purpose in purposes:
        tx.execute("DELETE FROM one_time_code WHERE user_id = ? AND purpose = ?", (user_id, purpose))


#: By table: its key, and rows that no one needs any more, by the time now: also mails sent or given up long ago, and sessions
#: that were logged out and could not be used any more without that.
_EXPIRED = {
    "one_time_code": ("id", "expire_time < ?"),
    "mail": (
        "id",
        f"create_time < ? - {mails.KEPT_SECONDS} AND (sent_time IS NOT NULL OR attempts >= {mails.MAX_ATTEMPTS})",
    ),
    "ended_session": ("session_hash", "expire_time < ?"),
}


def forget_expired(tx: Transaction, *, now: float, limit: int = 1000) -> int:
    """Delete codes, mails and ended sessions that have expired, so many of each; return how many."""
    return sum(
        tx.execute(
            f"DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {table} WHERE {expired} LIMIT ?)",
            (now, limit),
        )
        for table, (key, expired) in _EXPIRED.items()
    )
