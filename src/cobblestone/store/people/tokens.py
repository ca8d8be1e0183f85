"""Tokens of the HTTP API.

Only their SHA-256 is stored.  A token has 256 random bits, so no slow hash is needed.  It is found by that hash and compared with
nothing else: how long that takes says something of hashes, and nothing of texts.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from cobblestone.domain.errors import NotFound
from cobblestone.domain.ids import HostId, UserId
from cobblestone.domain.people import Scope
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import Column, RowMapper

PREFIX = "cob_"


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedToken:
    """A token of any service, without the token itself."""

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
    share: float = 1.0  #: of the computers, against other submitters: `cobblestone.policy.dispatch.fairness`


_TOKENS = RowMapper(
    ApiToken, {"scopes": Column(decode=lambda text: frozenset(Scope(word) for word in text.split()))}
)


def hash_of(secret: str) -> str:
    """Return what is stored of a token."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def new_secret() -> str:
    """Return a fresh token text."""
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
    share: float = 1.0,
) -> ApiToken:
    """Store a token made by :func:`new_secret`; the text itself cannot be read back."""
    granted = frozenset(scopes)
    token_id = tx.insert(
        "INSERT INTO api_token (name, token_hash, scopes, create_time, expire_time, user_id, host_id, share)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (name, hash_of(secret), " ".join(sorted(granted)), now, expire_time, user_id, host_id, share),
    )
    return ApiToken(
        id=token_id,
        name=name,
        scopes=granted,
        create_time=now,
        expire_time=expire_time,
        user_id=user_id,
        host_id=host_id,
        share=share,
    )


def token_by_secret(db: Database, secret: str) -> ApiToken | None:
    """Return the token of a text, usable or not; None: unknown."""
    row = db.one(f"SELECT {_TOKENS.columns} FROM api_token WHERE token_hash = ?", (hash_of(secret),))
    return None if row is None else _TOKENS.load(row)


def list_tokens(db: Database, *, user_id: UserId | None = None) -> list[ApiToken]:
    """Return all tokens of the project, or those of a user; the newest first."""
    rows = db.query(
        f"SELECT {_TOKENS.columns} FROM api_token WHERE coalesce(user_id, 0) = ? AND host_id IS NULL ORDER BY id DESC",
        (user_id or 0,),
    )
    return [_TOKENS.load(row) for row in rows]


def revoke_token(tx: Transaction, token_id: int, *, now: float, user_id: UserId | None = None) -> ApiToken:
    """Make a token of the project, or of a user, useless from now on; repeating it changes nothing.

    Raises:
        NotFound: there is no such token.
    """
    owned = tx.one(
        "SELECT 1 FROM api_token WHERE id = ? AND coalesce(user_id, 0) = ?", (token_id, user_id or 0)
    )
    if owned is None:
        raise NotFound(f"There is no token {token_id}. See: cobblestone token list")
    tx.execute("UPDATE api_token SET revoke_time = ? WHERE id = ? AND revoke_time IS NULL", (now, token_id))
    row = tx.one(f"SELECT {_TOKENS.columns} FROM api_token WHERE id = ?", (token_id,))
    if row is None:
        raise NotFound(f"There is no token {token_id}. See: cobblestone token list")
    return _TOKENS.load(row)
